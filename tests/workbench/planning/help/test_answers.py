"""Questions with known answers: clusters of 200 nodes and more whose least change follows from how they are built.

Each row of `QUESTIONS` says in words why its answer must be the answer. The change that is offered first is compared
with it, and then every change that is offered is made, from its patch alone, on a cluster built anew, where the
scheduler must place the pod on one of the nodes that were named.
"""

from typing import NamedTuple

import pytest

from berth.core.builders import expression, make_node, make_pod
from berth.testing.invariants import check
from tests.workbench.planning.help.worlds import World

COUNT = 210
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def node(number, cpu="8", memory="32Gi"):
    return make_node(f"n{number:03}").capacity(cpu=cpu, memory=memory).zone("abc"[number % 3])


def nodes(**capacity):
    return [node(number, **capacity) for number in range(COUNT)]


def names(*numbers):
    return tuple(f"n{number:03}" for number in numbers)


def everywhere(number_of_all=COUNT):
    return names(*range(number_of_all))


def running(number, cpu="8", **labels):
    return make_pod(f"w{number:03}").request(cpu=cpu).labels(labels or {"app": "w"}).node(f"n{number:03}").priority(0)


def a_pod(cpu="1"):
    return make_pod("p").request(cpu=cpu)


# --- the clusters -----------------------------------------------------------------------------------------------------


def one_taint_or_two():
    return World(a_pod(), *[node(i).taint("team", "a") for i in range(COUNT - 1)],
                 node(COUNT - 1).taint("team", "b").taint("gpu"))  # fmt: skip


def nine_cpu_on_eight():
    return World(a_pod("9"), *nodes(cpu="8"))


def nine_cpu_where_most_is_five():
    """All nodes have 8 CPU and give away 4, but for one, which gives away 3."""
    return World(a_pod("6"), *nodes(), *[running(i, "3" if i == 77 else "4") for i in range(COUNT)])


def both_resources_are_short():
    """Nodes have 8 CPU and 32Gi. They hold all of one or the other, and one holds 2 CPU and 8Gi more than it may."""
    holds = [({"cpu": "8"} if i % 2 else {"memory": "32Gi"}) for i in range(COUNT)]
    holds[100] = {"cpu": "4", "memory": "16Gi"}
    pods = [make_pod(f"w{i}").request(amounts).node(f"n{i:03}") for i, amounts in enumerate(holds)]
    return World(make_pod("p").request(cpu="6", memory="24Gi"), *nodes(), *pods)


def one_zone_is_full():
    """Zones b and c run 5 and 7 pods of the app, a none; a has no room. In b the skew would be 6, in c 8."""
    full = [running(i) for i in range(COUNT) if i % 3 == 0]
    app = [make_pod(f"app{i}").label("app", "x").node(f"n{i:03}") for i in (*range(1, 16, 3), *range(2, 23, 3))]
    return World(a_pod().label("app", "x").spread(ZONE, {"app": "x"}, max_skew=2), *nodes(), *full, *app)


def every_node_runs_one_already():
    return World(a_pod().label("app", "w").pod_anti_affinity(HOST, {"app": "w"}), *nodes(),
                 *[running(i, "1") for i in range(COUNT)])  # fmt: skip


def volume_in_another_zone():
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default", "uid": "claim", "annotations":
                     {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                 "storageClassName": "fast", "volumeName": "pv"},
        "status": {"phase": "Bound"},
    }  # fmt: skip
    in_b = [{"matchExpressions": [expression(ZONE, "In", "b")]}]
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "pv", "uid": "pv"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                 "nodeAffinity": {"required": {"nodeSelectorTerms": in_b}},
                 "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data",
                              "uid": "claim"}},
        "status": {"phase": "Bound"},
    }  # fmt: skip
    return World(a_pod().claim("data").node_selector({ZONE: "a"}), *nodes(), claim, volume)


def host_port_taken_everywhere():
    takers = [make_pod(f"w{i}").host_port(8080).node(f"n{i:03}").priority(i + 1) for i in range(COUNT)]
    return World(make_pod("p").request(cpu="1").host_port(8080), *nodes(), *takers)


def cordoned_pool():
    """150 nodes are full, 60 are free but cordoned."""
    return World(a_pod(), *[node(i).unschedulable() if i >= 150 else node(i) for i in range(COUNT)],
                 *[running(i) for i in range(150)])  # fmt: skip


def label_is_missing():
    """The nodes with the label are full; one without it has room."""
    labelled = [node(i).label("disk", "ssd") for i in range(COUNT - 1)]
    return World(a_pod().node_selector({"disk": "ssd"}), *labelled, node(COUNT - 1),
                 *[running(i) for i in range(COUNT - 1)])  # fmt: skip


def budget_forbids_all_but_one():
    """Every node is full with one pod, and all but that on n137 are under a budget that allows no disruption."""
    pods = [running(i, app="free" if i == 137 else "db") for i in range(COUNT)]
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db", "namespace": "default", "uid": "db"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    # The least request of CPU is a thousandth, so there is nothing to lower it to.
    return World(a_pod("1m"), *nodes(), *pods, budget)


def another_architecture():
    arm = {"kubernetes.io/arch": "arm64"}
    return World(a_pod().node_selector(arm), *[node(i).label("kubernetes.io/arch", "amd64") for i in range(COUNT)])


def two_terms_of_affinity():
    """The first term asks for two labels that no node has, the second for one that all lack and one that n005 has."""
    return World(
        a_pod()
        .require_node(expression("a", "Exists"), expression("b", "In", "1"))
        .require_node(expression("c", "In", "1"), expression("d", "In", "2")),
        *[node(i).label("d", "2") if i == 5 else node(i) for i in range(COUNT)],
    )


def gated():
    return World(a_pod().gate("quota", "billing"), *nodes())


def nobody_schedules_it():
    return World(a_pod().scheduler("mine"), *nodes())


def all_devices_are_taken():
    """Each node has one device, and a pod of its own holds it; only that on n042 is of a lower priority."""
    device = {"name": "d0", "attributes": {}, "capacity": {}}
    described = []
    for i in range(COUNT):
        name = f"n{i:03}"
        results = [{"request": "r", "driver": "gpu.test", "pool": name, "device": "d0"}]
        described += [
            {"kind": "ResourceSlice", "metadata": {"name": f"s{i}", "uid": f"s{i}"},
             "spec": {"driver": "gpu.test", "nodeName": name, "devices": [device],
                      "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}},
            _device_claim(f"c{i}", {
                "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [
                    {"matchFields": [expression("metadata.name", "In", name)]}]}},
                "reservedFor": [{"resource": "pods", "name": f"w{i:03}", "uid": f"default/w{i:03}"}]}),
        ]  # fmt: skip
    users = [running(i, "1").resource_claim("gpu", f"c{i}").priority(0 if i == 42 else 10) for i in range(COUNT)]
    classes = {"kind": "DeviceClass", "metadata": {"name": "gpu", "uid": "gpu"}, "spec": {}}
    return World(
        a_pod().resource_claim("gpu", "mine"), *nodes(), classes, *described, _device_claim("mine", {}), *users
    )


def _device_claim(name, status):
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    return {"kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}"},
            "spec": {"devices": {"requests": [request]}}, "status": status}  # fmt: skip


def gang_of_two_that_wants_three():
    group = {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "default", "uid": "g"},
             "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}  # fmt: skip
    gates = {"GenericWorkload": True, "GangScheduling": True}
    return World(a_pod().group("g"), *nodes(), group, make_pod("q").request(cpu="1").group("g"), gates=gates)


def only_high_priority_is_heard():
    """All nodes are full. A pod of the class `high` would evict that of n199, which is more important."""
    classes = [{"kind": "PriorityClass", "metadata": {"name": name, "uid": name}, "value": number}
               for name, number in (("low", 50), ("high", 150), ("highest", 9000))]  # fmt: skip
    return World(a_pod("1m").priority(0), *nodes(), *classes,
                 *[running(i).priority(100 if i == 199 else 200) for i in range(COUNT)])  # fmt: skip


def claim_is_missing():
    claimed = {"kind": "StorageClass", "metadata": {"name": "fast", "uid": "fast"}, "provisioner": "disks.test",
               "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip
    return World(a_pod().claim("data"), *nodes(), claimed, *[running(i, "1") for i in range(COUNT)])


class Known(NamedTuple):
    """An answer that follows from the construction."""

    on: str
    kind: str
    patch: object
    fits_on: tuple[str, ...] | None
    """None for a group, of which it is told where its pods went: any nodes may do."""
    never: bool
    others: frozenset[str]
    """The kinds of the other changes that must be offered."""


QUESTIONS = {
    # 209 nodes have one taint each to tolerate, the last has two.
    one_taint_or_two: Known(
        "pod", "toleration",
        {"spec": {"tolerations": [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]}},
        everywhere(COUNT - 1), True, frozenset({"taint", "node"}),
    ),
    # An empty node has 8 CPU: that much may be requested, and nobody's leaving helps.
    nine_cpu_on_eight: Known(
        "pod", "requests", {"spec": {"containers": [{"name": "c0", "resources": {"requests": {"cpu": "8"}}}]}},
        everywhere(), True, frozenset({"node"}),
    ),
    nine_cpu_where_most_is_five: Known(
        "pod", "requests", {"spec": {"containers": [{"name": "c0", "resources": {"requests": {"cpu": "5"}}}]}},
        names(77), False, frozenset({"podsGone", "node"}),
    ),
    # On n100 two thirds of either are free; everywhere else nothing of one is.
    both_resources_are_short: Known(
        "pod", "requests",
        {"spec": {"containers": [{"name": "c0", "resources": {"requests": {"cpu": "4", "memory": "16Gi"}}}]}},
        names(100), False, frozenset({"podsGone", "node"}),
    ),
    # The emptiest zone has none, so in b the new pod makes a skew of 6.
    one_zone_is_full: Known(
        "pod", "maxSkew", {"spec": {"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 6}]}},
        names(*range(1, COUNT, 3)), False, frozenset({"spread", "podsGone", "node"}),
    ),
    every_node_runs_one_already: Known(
        "pod", "podAntiAffinity",
        {"spec": {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
                "topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "w"}}}}]}}}},
        everywhere(), False, frozenset({"podsGone", "node"}),
    ),
    # The volume can only be used in zone b, so the wish for zone a has to go.
    volume_in_another_zone: Known(
        "pod", "nodeSelector", {"spec": {"nodeSelector": {ZONE: None}}},
        names(*range(1, COUNT, 3)), True, frozenset({"volume"}),
    ),
    host_port_taken_everywhere: Known(
        "pod", "hostPort",
        {"spec": {"containers": [{"name": "c1", "ports": [{"containerPort": 8080, "hostPort": None}]}]}},
        everywhere(), False, frozenset({"podsGone", "node"}),
    ),
    # The pod itself asks for nothing unusual: one node of the pool has to be uncordoned.
    cordoned_pool: Known("node", "uncordon", {"spec": {"unschedulable": False}}, names(150), False,
                         frozenset({"podsGone", "node"})),
    # Dropping the label is one edit; labelling the one node with room is another.
    label_is_missing: Known(
        "pod", "nodeSelector", {"spec": {"nodeSelector": {"disk": None}}}, names(COUNT - 1), False,
        frozenset({"label", "podsGone", "node"}),
    ),
    # Only the pod on n137 may go.
    budget_forbids_all_but_one: Known(
        "cluster", "podsGone", {"pods": ["default/w137"]}, names(137), False, frozenset({"node"}),
    ),
    # Nobody should write another architecture on a node, so only the pod can change.
    another_architecture: Known(
        "pod", "nodeSelector", {"spec": {"nodeSelector": {"kubernetes.io/arch": None}}}, everywhere(), True,
        frozenset(),
    ),
    # Of the second term one expression has to go, for the one node that meets the other.
    two_terms_of_affinity: Known(
        "pod", "nodeAffinity",
        {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "Exists"},
                                      {"key": "b", "operator": "In", "values": ["1"]}]},
                {"matchExpressions": [{"key": "d", "operator": "In", "values": ["2"]}]},
            ]}}}}},
        names(5), True, frozenset({"label"}),
    ),
    # All nodes have room: nothing but the gates is in the way.
    gated: Known(
        "pod", "schedulingGate",
        {"spec": {"schedulingGates": [{"name": "quota", "$patch": "delete"}, {"name": "billing", "$patch": "delete"}]}},
        everywhere(), False, frozenset(),
    ),
    nobody_schedules_it: Known(
        "pod", "schedulerName", {"spec": {"schedulerName": "default-scheduler"}}, everywhere(), False, frozenset(),
    ),
    # The pod that holds the one device of a node has to go; that on n042 is the least important.
    all_devices_are_taken: Known(
        "cluster", "podsGone", {"pods": ["default/w042"]}, names(42), False, frozenset({"resourceClaim", "node"}),
    ),
    # The two that are there fit: the group is one too few.
    gang_of_two_that_wants_three: Known(
        "cluster", "minCount", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}, None, False,
        frozenset(),
    ),
    # The pod on n199 is the only one below the class `high`, and there is no cheaper class above it.
    only_high_priority_is_heard: Known(
        "cluster", "podsGone", {"pods": ["default/w199"]}, names(199), False, frozenset({"node"}),
    ),
    claim_is_missing: Known(
        "cluster", "missing", {"manifests": [{
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                     "storageClassName": "fast"}}]},
        everywhere(), True, frozenset({"volume"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
def test_the_least_change_is_found_and_every_change_helps(question):
    world, known = question(), QUESTIONS[question]
    cluster = world.cluster()
    found = world.help(cluster)
    check(cluster.core)
    first = found.changes[0]
    assert (first.on, first.kind, first.patch) == known[:3]
    assert first.fits_on == known.fits_on if known.fits_on is not None else len(first.fits_on) == found.replicas
    assert (found.state, found.never, found.is_complete) == ("pending", known.never, True)
    assert {change.kind for change in found.changes[1:]} >= known.others
    assert world.placed() == "", "the pod needs no help"
    for change in found.changes:
        node = world.after(change).placed()
        assert node in change.fits_on if known.fits_on is not None else node, change.what
