"""What one hostile object costs grows with its size and no faster.

Each object comes in three sizes, each twice the one before. The work that the core does from when it first hears of the
object until it is idle is counted in bytecode instructions, which are the same on every machine. What grows with the
size costs twice as much more from the second size to the third as from the first to the second; what grows with the
square, four times as much.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from tests.effort import instructions

AT_MOST = 2.6
"""How much faster than by the size itself work may grow; what sorts grows a little faster."""
SMALL = 40


SCENARIOS: dict[str, Callable[[int], Iterator[Any]]] = {}
"""By name, what makes the objects of a size, in the order in which the core hears of them."""


def scenario(make: Callable[[int], Iterator[Any]]) -> Callable[[int], Iterator[Any]]:
    SCENARIOS[make.__name__] = make
    return make


def hostile(**spec):
    """The pod that is decided about, with these fields of its spec."""
    pod = make_pod("hostile").request(cpu="1").label("app", "x")
    pod.spec.update(spec)
    return pod


def nodes(**labels):
    for index in range(4):
        yield make_node(f"n{index}").capacity(cpu="8", pods=110).label("zone", f"z{index % 2}").labels(labels)


APP = {"matchLabels": {"app": "x"}}


def constraints(size, action, key="key-{}"):
    return [
        {"maxSkew": 1, "topologyKey": key.format(i), "whenUnsatisfiable": action, "labelSelector": APP}
        for i in range(size)
    ]


@scenario
def hard_spread_constraints_of_many_keys(size):
    yield from nodes()
    yield hostile(topologySpreadConstraints=constraints(size, "DoNotSchedule"))


@scenario
def hard_spread_constraints_that_all_nodes_can_meet(size):
    yield from nodes(**{f"key-{i}": "same" for i in range(size)})
    yield hostile(topologySpreadConstraints=constraints(size, "DoNotSchedule"))


@scenario
def soft_spread_constraints_of_many_keys(size):
    yield from nodes(**{f"key-{i}": "same" for i in range(size)})
    yield hostile(topologySpreadConstraints=constraints(size, "ScheduleAnyway"))


@scenario
def spread_constraints_of_one_key(size):
    yield from nodes()
    same = constraints(size, "DoNotSchedule", "zone")
    for index, constraint in enumerate(same):
        constraint["labelSelector"] = {"matchLabels": {"app": f"x{index}"}}
    yield hostile(topologySpreadConstraints=same)


@scenario
def spread_constraints_honoring_taints_and_as_many_tolerations(size):
    yield from nodes()
    honoring = [{**c, "nodeTaintsPolicy": "Honor"} for c in constraints(size, "DoNotSchedule")]
    yield hostile(topologySpreadConstraints=honoring, tolerations=tolerations(size))


@scenario
def spread_constraints_of_a_preemptor(size):
    yield from nodes(**{f"key-{i}": "same" for i in range(size)})
    for index in range(4):
        yield make_pod(f"running-{index}").request(cpu="8").node(f"n{index}").label("app", "x")
    yield hostile(topologySpreadConstraints=constraints(size, "DoNotSchedule"), priority=10)


@scenario
def match_label_keys_and_labels(size):
    yield from nodes()
    keys = [f"label-{i}" for i in range(size)]
    constraint = {**constraints(1, "DoNotSchedule", "zone")[0], "matchLabelKeys": keys}
    yield hostile(topologySpreadConstraints=[constraint]).labels(dict.fromkeys(keys, "v"))


def tolerations(size):
    return [{"key": f"taint-{i}", "operator": "Exists", "effect": "NoSchedule"} for i in range(size)]


@scenario
def many_tolerations(size):
    yield from nodes()
    yield make_node("tainted").capacity(cpu="8", pods=110).taint("other", "v")
    yield hostile(tolerations=tolerations(size))


@scenario
def many_taints(size):
    node = make_node("tainted").capacity(cpu="8", pods=110)
    for index in range(size):
        node.taint(f"taint-{index}", "v")
    yield node
    yield hostile(tolerations=tolerations(2))


def terms(size, **of):
    return [{"labelSelector": {"matchLabels": {"app": f"x{i}"}}, "topologyKey": "zone", **of} for i in range(size)]


@scenario
def required_affinity_terms(size):
    yield from nodes()
    yield hostile(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(size)}})


@scenario
def required_anti_affinity_terms(size):
    yield from nodes()
    yield hostile(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(size)}})


@scenario
def required_anti_affinity_terms_of_many_keys(size):
    yield from nodes(**{f"key-{i}": "same" for i in range(size)})
    many = [{**term, "topologyKey": f"key-{i}"} for i, term in enumerate(terms(size))]
    yield hostile(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": many}})


@scenario
def preferred_affinity_terms(size):
    yield from nodes()
    many = [{"weight": 1, "podAffinityTerm": term} for term in terms(size)]
    yield hostile(affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": many}})


@scenario
def preferred_anti_affinity_terms_of_many_keys(size):
    yield from nodes(**{f"key-{i}": "same" for i in range(size)})
    many = [{"weight": 1, "podAffinityTerm": {**term, "topologyKey": f"key-{i}"}} for i, term in enumerate(terms(size))]
    yield hostile(affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": many}})


@scenario
def anti_affinity_terms_of_a_running_pod(size):
    yield from nodes()
    many = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(size)}}
    running = make_pod("running").node("n0")
    running.spec["affinity"] = many
    yield running
    yield hostile().label("app", "x1")


@scenario
def affinity_namespaces(size):
    yield from nodes()
    term = {**terms(1)[0], "namespaces": [f"ns-{i}" for i in range(size)]}
    yield hostile(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


@scenario
def requirements_of_an_affinity_term(size):
    yield from nodes()
    selector = {"matchExpressions": [{"key": f"k{i}", "operator": "In", "values": ["v"]} for i in range(size)]}
    term = {"labelSelector": selector, "topologyKey": "zone"}
    yield make_pod("running").node("n0").labels({f"k{i}": "v" for i in range(size)})
    yield hostile(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def node_affinity(node_terms):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": node_terms}}}


@scenario
def node_selector_terms(size):
    yield from nodes()
    many = [{"matchExpressions": [{"key": f"k{i}", "operator": "In", "values": ["v"]}]} for i in range(size)]
    yield hostile(affinity=node_affinity(many))


@scenario
def node_selector_requirements(size):
    yield from nodes(**{f"k{i}": "v" for i in range(size)})
    many = [{"key": f"k{i}", "operator": "In", "values": ["v"]} for i in range(size)]
    yield hostile(affinity=node_affinity([{"matchExpressions": many}]))


@scenario
def node_selector_values(size):
    yield from nodes()
    values = [f"v{i}" for i in range(size)]
    yield hostile(affinity=node_affinity([{"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]}]))


@scenario
def node_selector_names(size):
    yield from nodes()
    by_name = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"m{i}"]}]} for i in range(size)]
    yield hostile(affinity=node_affinity(by_name))


@scenario
def node_selector_labels(size):
    yield from nodes(**{f"k{i}": "v" for i in range(size)})
    yield hostile(nodeSelector={f"k{i}": "v" for i in range(size)})


@scenario
def preferred_node_terms(size):
    yield from nodes()
    many = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]}} for i in range(size)
    ]
    yield hostile(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": many}})


def containers(size, **fields):
    return [{"name": f"c{i}", "image": f"image-{i}", **fields} for i in range(size)]


@scenario
def many_containers(size):
    yield from nodes()
    yield hostile(containers=containers(size, resources={"requests": {"cpu": "1m", "memory": "1Mi"}}))


@scenario
def many_init_containers(size):
    yield from nodes()
    yield hostile(initContainers=containers(size, resources={"requests": {"cpu": "1m"}}))


@scenario
def many_sidecars(size):
    yield from nodes()
    sidecars = containers(size, restartPolicy="Always", resources={"requests": {"cpu": "1m"}})
    yield hostile(initContainers=sidecars)


@scenario
def many_images_on_nodes(size):
    names = [{"names": [f"image-{i}"], "sizeBytes": 1 << 30} for i in range(size)]
    for node in nodes():
        node.status["images"] = names
        yield node
    yield hostile(containers=containers(size))


@scenario
def many_host_ports(size):
    yield from nodes()
    ports = [{"containerPort": i + 1, "hostPort": i + 1} for i in range(size)]
    yield make_pod("running").node("n0").request(cpu="1")
    yield hostile(containers=[{"name": "c", "ports": ports}])


@scenario
def host_ports_in_use(size):
    yield from nodes()
    ports = [{"containerPort": i + 1, "hostPort": i + 1} for i in range(size)]
    running = make_pod("running").node("n0")
    running.spec["containers"] = [{"name": "c", "ports": ports}]
    yield running
    yield hostile(
        containers=[{"name": "c", "ports": [{**port, "hostPort": port["hostPort"] + 10_000} for port in ports]}]
    )


@scenario
def many_resource_names(size):
    names = {f"example.com/r{i}": "1" for i in range(size)}
    for node in nodes():
        node.status["allocatable"] = {**node.status["allocatable"], **names}
        yield node
    yield hostile(containers=[{"name": "c", "resources": {"requests": {"cpu": "1", **names}}}])


@scenario
def resource_names_that_no_node_has(size):
    yield from nodes()
    names = {f"example.com/r{i}": "1" for i in range(size)}
    yield hostile(containers=[{"name": "c", "resources": {"requests": {"cpu": "1", **names}}}])


@scenario
def many_labels(size):
    yield from nodes()
    yield hostile().labels({f"label-{i}": "v" for i in range(size)})


@scenario
def many_node_labels(size):
    yield from nodes(**{f"label-{i}": "v" for i in range(size)})
    yield hostile()


@scenario
def many_owner_references(size):
    yield from nodes()
    pod = hostile()
    pod.metadata["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"r{i}", "uid": f"u{i}"} for i in range(size)
    ]
    yield pod


@scenario
def many_scheduling_gates(size):
    yield from nodes()
    yield hostile(schedulingGates=[{"name": f"gate-{i}"} for i in range(size)])


@scenario
def many_plain_volumes(size):
    yield from nodes()
    yield hostile(volumes=[{"name": f"v{i}", "configMap": {"name": "c"}} for i in range(size)])


@scenario
def many_inline_disks(size):
    yield from nodes()
    running = make_pod("running").node("n0")
    running.spec["volumes"] = [{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"d{i}"}} for i in range(size)]
    yield running
    yield hostile(volumes=[{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"e{i}"}} for i in range(size)])


def storage_class():
    return decode(
        "StorageClass", {"metadata": {"name": "s"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}
    )


def pvc(index, **spec):
    meta = {"name": f"c{index}", "namespace": "default", "uid": f"c{index}"}
    asked = {"storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    return decode("PersistentVolumeClaim", {"metadata": meta, "spec": {**asked, **spec}})


def uses_of_claims(size):
    return [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(size)]


@scenario
def many_claims_to_provision(size):
    yield from nodes()
    yield storage_class()
    for index in range(size):
        yield pvc(index)
    yield hostile(volumes=uses_of_claims(size))


@scenario
def many_bound_claims(size):
    yield from nodes()
    yield storage_class()
    for index in range(size):
        spec = {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s",
            "claimRef": {"name": f"c{index}", "namespace": "default", "uid": f"c{index}"},
        }  # fmt: skip
        yield decode(
            "PersistentVolume", {"metadata": {"name": f"pv{index}"}, "spec": spec, "status": {"phase": "Bound"}}
        )
        claim = pvc(index, volumeName=f"pv{index}")
        yield claim
    yield hostile(volumes=uses_of_claims(size))


@scenario
def volumes_to_choose_from(size):
    yield from nodes()
    yield storage_class()
    for index in range(size):
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s"}
        yield decode(
            "PersistentVolume", {"metadata": {"name": f"pv{index}"}, "spec": spec, "status": {"phase": "Available"}}
        )
    yield pvc(0)
    yield hostile(volumes=uses_of_claims(1))


def devices(size, **fields):
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    found = [{"name": f"d{i}", "attributes": {"number": {"int": i}}, **fields} for i in range(size)]
    spec = {"driver": "d", "nodeName": "n0", "pool": pool, "devices": found}
    yield decode("ResourceSlice", {"metadata": {"name": "s"}, "spec": spec})
    yield decode("DeviceClass", {"metadata": {"name": "gpu"}})


def resource_claim(requests, name="claim", **fields):
    meta = {"name": name, "namespace": "default", "uid": name}
    return decode("ResourceClaim", {"metadata": meta, "spec": {"devices": {"requests": requests, **fields}}})


def ask(name, *expressions, **fields):
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return {"name": name, "exactly": {"deviceClassName": "gpu", "count": 1, "selectors": selectors, **fields}}


WITH_CLAIM = {"resourceClaims": [{"name": "c", "resourceClaimName": "claim"}]}


@scenario
def many_devices(size):
    yield from nodes()
    yield from devices(size)
    yield resource_claim([ask("r", "device.attributes['d'].number < 0")])
    yield hostile(**WITH_CLAIM)


@scenario
def many_hopeless_requests(size):
    yield from nodes()
    yield from devices(32)
    requests = [ask(f"r{i}") for i in range(size // 8)]
    yield resource_claim([*requests, ask("never", "device.driver == 'other'")])
    yield hostile(**WITH_CLAIM)


@scenario
def many_selectors(size):
    yield from nodes()
    yield from devices(4)
    yield resource_claim([ask("r", *(f"device.attributes['d'].number < {i + 9}" for i in range(size)))])
    yield hostile(**WITH_CLAIM)


@scenario
def many_resource_claims(size):
    yield from nodes()
    yield from devices(4)
    for index in range(size // 4):
        yield resource_claim([ask("r", adminAccess=True)], f"claim-{index}")
    yield hostile(resourceClaims=[{"name": f"c{i}", "resourceClaimName": f"claim-{i}"} for i in range(size // 4)])


@scenario
def many_claim_constraints(size):
    yield from nodes()
    yield from devices(8)
    many = [{"requests": ["r"], "matchAttribute": "d/number"} for _ in range(size)]
    yield resource_claim([ask("r", count=1)], constraints=many)
    yield hostile(**WITH_CLAIM)


@scenario
def many_device_attributes(size):
    yield from nodes()
    yield from devices(2, attributes={f"a{i}": {"int": i} for i in range(size)})
    yield resource_claim([ask("r", "device.attributes['d'].a0 == 0")])
    yield hostile(**WITH_CLAIM)


@scenario
def many_counters(size):
    yield from nodes()
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 2}
    counters = {f"c{i}": {"value": "8"} for i in range(size)}
    sets = [{"name": "set", "counters": counters}]
    where = {"driver": "d", "nodeName": "n0", "pool": pool}
    yield decode("ResourceSlice", {"metadata": {"name": "counters"}, "spec": {**where, "sharedCounters": sets}})
    consumes = [{"counterSet": "set", "counters": {name: {"value": "4"} for name in counters}}]
    found = [{"name": f"d{i}", "consumesCounters": consumes} for i in range(3)]
    yield decode("ResourceSlice", {"metadata": {"name": "s"}, "spec": {**where, "devices": found}})
    yield decode("DeviceClass", {"metadata": {"name": "gpu"}})
    yield resource_claim([ask("r", count=2)])
    yield hostile(**WITH_CLAIM)


@scenario
def many_budgets_and_victims(size):
    yield make_node("n0").capacity(cpu="8", pods=1000)
    for index in range(8):
        yield make_pod(f"victim-{index}").node("n0").request(cpu="1").label("app", "x")
    for index in range(size):
        meta = {"name": f"b{index}", "namespace": "default"}
        spec = {"selector": {"matchLabels": {"app": f"x{index}"}}}
        yield decode("PodDisruptionBudget", {"metadata": meta, "spec": spec, "status": {"disruptionsAllowed": 1}})
    yield hostile(priority=10)


@scenario
def many_victims(size):
    yield make_node("n0").capacity(cpu=str(size), pods=1000)
    for index in range(size):
        yield make_pod(f"victim-{index}").node("n0").request(cpu="1")
    yield hostile(priority=10)


@scenario
def many_services(size):
    yield from nodes()
    for index in range(size):
        meta = {"name": f"s{index}", "namespace": "default"}
        yield decode("Service", {"metadata": meta, "spec": {"selector": {"app": "x", f"k{index}": "v"}}})
    yield hostile().labels({f"k{i}": "v" for i in range(size)})


@scenario
def many_conditions(size):
    yield from nodes()
    pod = hostile(nodeSelector={"no": "where"})
    pod.status["conditions"] = [{"type": f"t{i}", "status": "True"} for i in range(size)]
    yield pod


@scenario
def many_nodes_that_say_no(size):
    for index in range(size):
        yield make_node(f"n{index}").capacity(cpu="1", pods=10).taint(f"taint-{index}", "v")
    yield hostile()


def work_of(make: Callable[[int], Iterator[Any]], size: int) -> int:
    """Return the instructions it takes to take the objects in and to decide about the pod."""
    objects = [obj.build() if hasattr(obj, "build") else obj for obj in make(size)]
    cluster = VirtualCluster(check_promises=0)  # the check asks again

    def decide():
        for obj in objects:
            cluster.put(obj)
        cluster.run()

    return instructions(decide)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_work_of_one_attempt_grows_no_faster_than_its_objects(name):
    make = SCENARIOS[name]
    work_of(make, 2)  # what is worked out once for all, such as imports
    small, middle, large = (work_of(make, SMALL << shift) for shift in range(3))
    assert large - middle <= AT_MOST * max(middle - small, 200), (small, middle, large)
