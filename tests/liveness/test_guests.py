"""Nobody waits in vain for what the guests go by, without the flush by age: groups, costs, limits, orders and loads.

Random things happen to a small cluster and to the objects of one guest. Whenever everything has come to rest, no pod
lies among the unschedulable that fits a node, or that a scheduler would place which sees the cluster for the first
time; and what is remembered is what would be worked out.
"""

import math
import random

import pytest
from msgspec.structs import replace

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.testing import make_object
from berth.testing.invariants import decide
from tests.guests import registry_with_guests
from tests.liveness.checks import shown, waits_in_vain

HOST, ZONE, REGION = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
NODES, ZONES, APPS = ("n1", "n2", "n3", "n4"), ("z1", "z2", "z3"), ("web", "db", "cache")
GANG, APP_GROUP, MOST = "scheduling.x-k8s.io/pod-group", "appgroup.diktyo.x-k8s.io", "example.com/max"
TOLERATION = "preemption-toleration.scheduling.x-k8s.io"
SECCOMP = "security-profiles-operator.x-k8s.io/v1beta1"
LIMITS = [{"topologyKey": HOST, "max": 2, "annotation": MOST}, {"topologyKey": ZONE, "max": 3, "labelKeys": ["app"]}]
POOLS = [{"name": zone, "selector": {"matchLabels": {ZONE: zone}}} for zone in ZONES]
WATCHER = {"watcherAddress": "http://watcher:2020"}
MODELS = {"WatcherAddress": "http://watcher:2020", "NodePowerModel": {name: {"k1": 1, "k2": 0.05} for name in NODES}}
TYPICAL = {"resources": [{"name": "cpu"}], "typicalPods": [{"requests": {"cpu": "3"}}]}
ARGS = {
    "Coscheduling": {"permitWaitingTimeSeconds": 5},
    "FairShares": None,
    "GpuFragmentation": TYPICAL,
    "LoadVariationRiskBalancing": WATCHER,
    "LowRiskOverCommitment": WATCHER,
    "NetworkOverhead": None,
    "Peaks": MODELS,
    "PoolsInOrder": {"pools": POOLS},
    "PreemptionToleration": None,
    "SySched": None,
    "TargetLoadPacking": WATCHER,
    "WorkloadLimit": {"limits": LIMITS},
}
SORTS = {"Coscheduling", "FairShares"}
PLACED_TOGETHER = {"Coscheduling", "PreemptionToleration"}
"""Whether a pod may run is more than whether it fits a node: it takes others that fit as well, or that leave."""


REJECTING = {"NetworkOverhead", "WorkloadLimit"}


def options(guest):
    enabled = [guest, "NodeResourcesFit", "DefaultBinder", *([] if guest in SORTS else ["PrioritySort"])]
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in enabled], "disabled": [{"name": "*"}]}}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    if ARGS[guest] is not None:
        profile["pluginConfig"] = [{"name": guest, "args": ARGS[guest]}]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = {**kind, "profiles": [profile]}
    return {"registry": registry_with_guests(), "config": config, "unschedulable_age_s": math.inf}


class Life:
    """The nodes, and what happens to them, to the pods, and to the objects of the guest."""

    def __init__(self, seed, guest):
        self.rng = random.Random(seed)
        self.guest = guest
        self.cluster = VirtualCluster(seed=seed, **options(guest))
        self.resources = self.cluster.core.resources
        self.number = 0
        self.objects = {
            "Coscheduling": self.put_group, "NetworkOverhead": self.put_network, "SySched": self.put_profile,
        }.get(guest, self.put_load if self.resources.polled else None)  # fmt: skip
        for name in NODES[:3]:
            self.put_node(name)

    def happen(self):
        acts = {self.add_pod: 12, self.end_pod: 5, self.relabel: 5, self.change_node: 3, self.refuse: 1, self.wait: 4}
        acts |= {self.objects: 6} if self.objects is not None else {}
        self.rng.choices(list(acts), list(acts.values()))[0]()
        if self.rng.random() < 0.7:
            self.cluster.step()

    # -- pods and nodes --

    def put_node(self, name):
        labels = {HOST: name, REGION: "r1"} | ({ZONE: self.rng.choice(ZONES)} if self.rng.random() < 0.8 else {})
        # Where one pod is enough, it is the guest that most pods wait for, and not room.
        cpus = (4, 8) if self.guest not in REJECTING else (8, 64)
        node = make_node(name).capacity(cpu=str(self.rng.choice(cpus)), memory="64Gi", pods=20)
        for key, value in labels.items():
            node.label(key, value)
        self.cluster.put(node)

    def change_node(self):
        name = self.rng.choice(NODES)
        if self.rng.random() < 0.3 and ("Node", name) in self.cluster.objects:
            if not any(pod.spec.node_name == name for pod in self.pods()):
                self.cluster.delete("Node", name)
        else:
            self.put_node(name)

    def labels(self):
        app = self.rng.choice(APPS)
        return {"app": app, GANG: self.rng.choice(("g1", "g2")), APP_GROUP: "shop", f"{APP_GROUP}.workload": app}

    def add_pod(self):
        self.number += 1
        rng, name = self.rng, f"p{self.number}"
        pod = make_pod(name, rng.choice(("default", "other")) if self.guest == "FairShares" else "default")
        pod.request(cpu=str(rng.choice((1, 2, 3)))).priority(rng.choice((0, 0, 5)))
        pod.owned_by("ReplicaSet", "owner", uid="owner")
        pod.metadata["ownerReferences"][0]["controller"] = True
        for key, value in self.labels().items():
            pod.label(key, value)
        if rng.random() < 0.3:
            pod.annotation(MOST, str(rng.choice((1, 3))))
        if self.guest == "PreemptionToleration":
            pod.spec["priorityClassName"] = rng.choice(("spared", "free"))
        path = f"operator/default/{rng.choice(('s1', 's2'))}.json"
        pod.spec["securityContext"] = {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}
        self.cluster.put(pod)

    def pods(self):
        return [self.cluster.objects[key] for key in sorted(self.cluster.objects) if key[0] == "Pod"]

    def end_pod(self):
        if pods := self.pods():
            self.cluster.delete("Pod", self.rng.choice(pods).key)

    def relabel(self):
        """A pod gets other labels, and another annotation; once it is bound its gang stays."""
        if not (pods := self.pods()):
            return
        pod = self.rng.choice(pods)
        labels = self.labels()
        if pod.spec.node_name:
            labels[GANG] = pod.metadata.labels[GANG]
        annotations = self.rng.choice(({}, {MOST: "1"}, {MOST: "4"}))
        self.number += 1
        metadata = replace(pod.metadata, labels=labels, annotations=annotations, resource_version=f"c{self.number}")
        self.cluster.put(replace(pod, metadata=metadata))

    def refuse(self):
        self.cluster.refuse("the server is busy")

    def wait(self):
        self.cluster.advance(self.rng.choice((0.5, 5.0, 30.0)))

    # -- what the guests go by --

    def put_custom(self, kind, api_version, name, **fields):
        """Put an object, or now and then delete it."""
        self.number += 1
        metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(self.number)}
        document = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        resource = self.resources.of_manifest(document)
        key = f"default/{name}"
        if self.rng.random() < 0.15 and (resource.name, key) in self.cluster.objects:
            self.cluster.delete(resource.name, key)
        else:
            self.cluster.put(resource.read(document))

    def put_group(self):
        spec = {"minMember": self.rng.choice((1, 2, 3))}
        if self.rng.random() < 0.3:
            spec["minResources"] = {"cpu": str(self.rng.choice((4, 12)))}
        self.put_custom("PodGroup", "scheduling.x-k8s.io/v1alpha1", self.rng.choice(("g1", "g2")), spec=spec)

    def put_network(self):
        if self.rng.random() < 0.5:
            dependencies = {app: self.rng.sample(APPS, 2) for app in APPS}
            workloads = [
                {"workload": {"selector": app}, "dependencies": [
                    {"workload": {"selector": other}, "maxNetworkCost": self.rng.choice((2, 10, 30))}
                    for other in others]}
                for app, others in dependencies.items()
            ]  # fmt: skip
            self.put_custom("AppGroup", f"{APP_GROUP}/v1alpha1", "shop", spec={"workloads": workloads})
            return
        pairs = [(one, other) for one in ZONES for other in ZONES if one != other]
        costs = {pair: self.rng.choice((1, 5, 20, 40)) for pair in pairs}
        origins = [
            {"origin": one, "costList": [
                {"destination": other, "networkCost": cost} for (own, other), cost in costs.items() if own == one]}
            for one in ZONES
        ]  # fmt: skip
        weights = [{"name": "UserDefined", "topologyList": [{"topologyKey": ZONE, "originList": origins}]}]
        self.put_custom(
            "NetworkTopology", "networktopology.diktyo.x-k8s.io/v1alpha1", "nt-default", spec={"weights": weights}
        )

    def put_profile(self):
        calls = self.rng.sample(("read", "write", "open", "fork"), self.rng.randrange(4))
        spec = {"syscalls": [{"action": "SCMP_ACT_ALLOW", "names": calls}]}
        self.put_custom("SeccompProfile", SECCOMP, self.rng.choice(("s1", "s2")), spec=spec)

    def put_class(self):
        """Classes do not change: as upstream, nothing wakes a pod when they do."""
        forever = {f"{TOLERATION}/minimum-preemptable-priority": "100", f"{TOLERATION}/toleration-seconds": "-1"}
        for name, annotations in (("spared", forever), ("free", {})):
            metadata = {"name": name, "uid": name, "annotations": annotations}
            self.cluster.put(make_object({"kind": "PriorityClass", "metadata": metadata, "value": 1}))

    def put_load(self):
        (resource,) = self.resources.polled
        metrics = {
            name: {"metrics": [
                {"type": kind, "operator": operator, "value": float(self.rng.randrange(60))}
                for kind in ("CPU", "Memory") for operator in ("AVG", "STD")]}
            for name in self.rng.sample(NODES, 3)
        }  # fmt: skip
        self.cluster.put(resource.read({"window": {"end": 1}, "data": {"NodeMetricsMap": metrics}}))

    # -- what must be true --

    def waiting_in_vain(self):
        """Return who waits although it could run."""
        core = self.cluster.core
        if self.guest not in PLACED_TOGETHER:
            return waits_in_vain(core)
        waiting = {queued.pod.key for queued in core.queue.unschedulable.values()}
        objects = list(self.cluster.objects.values())
        fresh = VirtualCluster(*objects, **options(self.guest)).advance(60.0)
        placed = {key for (kind, key), obj in fresh.objects.items() if kind == "Pod" and obj.spec.node_name}
        return sorted(waiting & placed)

    def remembers_right(self):
        """What is remembered of some pods equals what is worked out."""
        core = self.cluster.core
        if core.is_cycle_open:
            return
        for queued in self.rng.sample(list(core.queue), min(2, len(core.queue))):
            kept, afresh = (shown(core, decide(core, queued.pod, memos=memos)) for memos in (True, False))
            assert kept == afresh


@pytest.mark.parametrize(
    "guest", [pytest.param(name, marks=[pytest.mark.long] if name in PLACED_TOGETHER else []) for name in ARGS]
)
def test_nobody_waits_in_vain_for_what_a_guest_goes_by(guest):
    waited = 0
    for seed in range(8 if guest in REJECTING else 3):
        life = Life(seed, guest)
        if guest == "PreemptionToleration":
            life.put_class()
        for number in range(120):
            life.happen()
            if number % 5 == 0:
                life.remembers_right()
            if number % (4 if guest in REJECTING else 10) == 3:
                life.cluster.advance(700.0)
                assert not life.waiting_in_vain(), f"seed {seed}, step {number}"
                waited += len(life.cluster.core.queue.unschedulable)
    assert waited > 10
