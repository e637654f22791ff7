"""Random objects of every kind that scheduling looks at: few names and values, so that they meet often."""

from berth.core.builders import expression, make_node, make_pod
from berth.framework.effects import WaitUntil
from berth.framework.status import error
from packages.scheduler.tests.plugins.dra import support as dra
from packages.scheduler.tests.plugins.volumes import world as storage

NODES = [f"n{index}" for index in range(5)]
PODS = [f"p{index}" for index in range(20)]
CLAIMS = [f"c{index}" for index in range(5)]
VOLUMES = [f"v{index}" for index in range(5)]
DEVICE_CLAIMS = [f"d{index}" for index in range(4)]
APPS = ("web", "db")
NAMESPACES = ("default", "prod")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
STRICT = "strict"
"""The profile whose default constraints reject pods."""

UNHURRIED = {"name": "DynamicResources", "args": {"filterTimeout": "0s"}}
"""The one clock that plugins read themselves: a slow machine must not change what is decided."""

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"schedulerName": "default-scheduler", "pluginConfig": [UNHURRIED]},
        {
            "schedulerName": STRICT,
            "pluginConfig": [
                UNHURRIED,
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
                        ],
                    },
                },
            ],
        },
    ],
}


class SlowPreBind:
    """A plugin whose PreBind takes so long for some pods that others have time to want their room."""

    name = "SlowPreBind"

    def __init__(self, args, handle):
        self._handle = handle
        self._tried = set()

    def events_to_register(self):
        """It rejects nobody."""
        return ()

    def pre_bind(self, state, pod, node_name):
        """Wait 30 seconds for two pods of three; half of these fail then, the first time."""
        number = int(pod.uid[1:])
        return self._steps(number) if number % 3 else None

    def _steps(self, number):
        yield WaitUntil(lambda: False, self._handle.now() + 30.0)
        fails = number % 2 and number not in self._tried
        self._tried.add(number)
        return error("it took too long") if fails else None


WITH_SLOW = {"plugins": {"preBind": {"enabled": [{"name": SlowPreBind.name}]}}}
CROWDED = {**CONFIG, "profiles": [{**profile, **WITH_SLOW} for profile in CONFIG["profiles"]]}
"""The same with `SlowPreBind`."""

BUILT_ON_DECLARED_FEATURES = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
"""The gates that must be off where NodeDeclaredFeatures is."""

GATES = {
    "DRAConsumableCapacity": False,
    "DRADeviceBindingConditions": False,
    "DRADeviceTaints": False,
    "DRAExtendedResource": False,
    "DRAPrioritizedList": False,
    "NodeDeclaredFeatures": False,
    "NominatedNodeNameForExpectation": False,
    "SchedulerAsyncPreemption": False,
    "SchedulerPopFromBackoffQ": False,
    "StorageCapacityScoring": True,
    "VolumeLimitScaling": True,
}
"""Gates that some lives have switched from their default."""


def random_node(rng, name):
    amounts = {"cpu": str(rng.choice((1, 2))), "memory": "8Gi", "pods": str(rng.choice((2, 110)))}
    if rng.random() < 0.2:
        amounts["example.com/gpu"] = "1"
    node = make_node(name).capacity(amounts).label("disk", rng.choice(("ssd", "hdd")))
    if rng.random() < 0.8:
        node.zone(rng.choice("ab"))
    if rng.random() < 0.2:
        node.taint("dedicated", rng.choice("xy"), rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule")))
    if rng.random() < 0.1:
        node.unschedulable()
    if rng.random() < 0.5:
        node.set_status(declaredFeatures=["GuaranteedQoSPodCPUResize", "UserNamespacesHostNetworkSupport"])
    return node


def random_pod(rng, name):
    app = rng.choice(APPS)
    pod = make_pod(name, rng.choice(NAMESPACES)).label("app", app)
    pod.container("app:1", requests={"cpu": rng.choice(("100m", "400m", "900m")), "memory": "128Mi"})
    pod.priority(rng.choice((0, 0, 0, 10, 20)), rng.choice((None, None, "Never")))
    for wish in rng.sample(WISHES, rng.choice((0, 1, 1, 2))):
        wish(rng, pod, app)
    if rng.random() < 0.1:
        pod.scheduler(STRICT)
    return pod


def _shun_own(rng, pod, app):
    pod.pod_anti_affinity(rng.choice((HOST, ZONE)), {"app": app})


def _shun_by_namespace(rng, pod, app):
    pod.pod_anti_affinity(ZONE, {"app": rng.choice(APPS)}, namespaceSelector={"matchLabels": {"env": "prod"}})


def _seek(rng, pod, app):
    pod.pod_affinity(rng.choice((HOST, ZONE)), {"app": rng.choice(APPS)})


def _seek_by_namespace(rng, pod, app):
    pod.pod_affinity(ZONE, {"app": rng.choice(APPS)}, namespaceSelector={"matchLabels": {"env": "prod"}})


def _spread(rng, pod, app):
    more = rng.choice(({}, {"minDomains": 2}, {"nodeTaintsPolicy": "Honor"}, {"nodeAffinityPolicy": "Ignore"}))
    pod.spread(rng.choice((HOST, ZONE)), {"app": app}, **more)


def _select(rng, pod, app):
    pod.node_selector({"disk": "ssd"})


def _require(rng, pod, app):
    pod.require_node(expression(ZONE, "In", "a"))


def _tolerate(rng, pod, app):
    pod.tolerate("dedicated", rng.choice(("", "x")))


def _port(rng, pod, app):
    pod.host_port(8080)


def _gate(rng, pod, app):
    pod.gate("hold")


def _nominate(rng, pod, app):
    pod.nominated(rng.choice(NODES))


def _volume(rng, pod, app):
    for name in rng.sample(CLAIMS, rng.choice((1, 1, 2))):
        pod.claim(name)


def _ephemeral(rng, pod, app):
    pod.volume("scratch", ephemeral={"volumeClaimTemplate": {"spec": {}}})


def _disk(rng, pod, app):
    pod.volume("disk", gcePersistentDisk={"pdName": rng.choice(("pd1", "pd2"))})


def _device(rng, pod, app):
    pod.resource_claim("dev", rng.choice(DEVICE_CLAIMS))


def _device_template(rng, pod, app):
    pod.set_spec(resourceClaims=[{"name": "made", "resourceClaimTemplateName": "template"}])


def _extended(rng, pod, app):
    pod.container("app:1", requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "1"})


def _feature(rng, pod, app):
    pod.set_spec(hostNetwork=True, hostUsers=False)


def _named_node(rng, pod, app):
    pod.require_node(fields=[expression("metadata.name", "In", rng.choice(NODES))])


WISHES = [
    _shun_own, _shun_by_namespace, _seek, _seek_by_namespace, _spread, _spread, _select, _require, _tolerate, _port,
    _gate, _nominate, _volume, _volume, _volume, _ephemeral, _disk, _device, _device, _device_template, _extended,
    _feature, _named_node,
]  # fmt: skip


def random_claim(rng, name, volumes=VOLUMES):
    """A claim on a volume: unbound, or as if the volume controller had bound it."""
    modes = (rng.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod")),)
    klass = rng.choice(("wait", "static", "now"))
    bound = rng.choice(volumes) if volumes and rng.random() < 0.3 else ""
    return storage.claim(name, rng.choice(("1Gi", "3Gi")), klass=klass, modes=modes, volume=bound)


def random_volume(rng, name):
    more = {"csi": {"driver": "d", "volumeHandle": f"h-{name}"}} if rng.random() < 0.7 else {}
    if rng.random() < 0.3:
        more["ref"] = rng.choice(CLAIMS)
    if rng.random() < 0.3:
        more["labels"] = {ZONE: rng.choice("ab")}
    affinity = storage.on(ZONE, rng.choice("ab")) if rng.random() < 0.5 else None
    size = rng.choice(("1Gi", "5Gi"))
    klass = rng.choice(("wait", "static", "static", "now"))
    modes = ("ReadWriteOnce", "ReadWriteOncePod")
    return storage.volume(name, size, klass=klass, affinity=affinity, modes=modes, **more)


def random_class(rng, name):
    modes = {"wait": "WaitForFirstConsumer", "static": "WaitForFirstConsumer", "now": "Immediate"}
    provisioner = "kubernetes.io/no-provisioner" if name == "static" else "d"
    zones = ("a",) if rng.random() < 0.3 else ()
    document = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": modes[name]}
    if zones:
        document["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]
    return storage.decode("StorageClass", document)


def random_csi_node(rng, name):
    return storage.csi_node(name, **rng.choice(({}, {"d": 1}, {"d": 2}, {"d": None})))


def random_driver(rng):
    spec = {"storageCapacity": rng.random() < 0.5, "preventPodSchedulingIfMissing": rng.random() < 0.3}
    return storage.decode("CSIDriver", {"metadata": {"name": "d"}, "spec": spec})


def random_capacity(rng, zone):
    return storage.capacity(f"cap-{zone}", rng.choice(("0", "2Gi", "10Gi")), zone=zone)


def random_attachment(rng, name):
    return storage.attachment(name, rng.choice(NODES), rng.choice(VOLUMES))


def random_slice(rng, node):
    devices = [dra.device(f"g{index}", {"model": rng.choice(("x", "y"))}) for index in range(rng.choice((0, 1, 2)))]
    if devices and rng.random() < 0.2:
        devices[0]["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
    if devices and rng.random() < 0.2:
        devices[0] |= {"bindsToNode": True, "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    if rng.random() < 0.3:
        devices.append(dra.device("shared", {"model": "x"}, {"mem": "10Gi"}, allowMultipleAllocations=True))
    return dra.resource_slice(f"slice-{node}", *devices, node=node, generation=1)


def random_part_of_a_pool(rng):
    """One of two slices of a pool that all nodes reach; the pool is whole when both have the same generation."""
    number, generation, count = rng.choice((0, 1)), rng.choice((1, 2)), rng.choice((1, 2))
    more = {"driver": "gpu.example.com", "pool": "network", "generation": generation, "count": count}
    return dra.resource_slice(
        f"network-{number}", dra.device(f"net{number}", {"model": "x"}), node=None, allNodes=True, **more
    )


def random_device_class(rng, name):
    more = {"extendedResourceName": "example.com/gpu"} if rng.random() < 0.4 else {}
    expressions = ['device.attributes["gpu.example.com"].model == "x"'] if rng.random() < 0.3 else []
    return dra.device_class(name, *expressions, **more)


def random_device_claim(rng, name, **more):
    requests = rng.choice(
        (
            [dra.request()],
            [dra.request(count=2)],
            [dra.request(allocationMode="All")],
            [dra.request(capacity={"requests": {"mem": "4Gi"}})],
            [dra.alternatives("r0", dra.request("one", count=2), dra.request("two"))],
        )
    )
    return dra.claim(name, *requests, **more)


def random_budget(rng, name):
    from berth.api.codec import decode

    meta = {"name": name, "namespace": rng.choice(NAMESPACES)}
    spec = {"selector": {"matchLabels": {"app": rng.choice(APPS)}}}
    status = {"disruptionsAllowed": rng.choice((0, 1))}
    return decode("PodDisruptionBudget", {"metadata": meta, "spec": spec, "status": status})
