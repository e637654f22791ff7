"""Which failures a cluster survives: small clusters whose answers can be counted on one's fingers."""

import msgspec
import pytest

from berth.config.feature_gates import feature_gates
from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth_workbench.planning import survival as survival_module
from berth_workbench.planning.survival import survival
from berth_workbench.simulation import processes
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import WatchUntil, survival_of

ZONE = "topology.kubernetes.io/zone"


def node(name, zone="a", cpu="4", pool="std"):
    labels = {ZONE: zone, "kubernetes.io/hostname": name, "pool": pool}
    return make_node(name).capacity(cpu=cpu, memory="16Gi", pods="110").labels(labels)


def pod(name, on="", cpu="1", owner="web", **labels):
    made = make_pod(name).labels({"app": owner or "alone", **labels}).request(cpu=cpu)
    if owner:
        made.owned_by("ReplicaSet", owner)
    return made.node(on) if on else made


def budget(least):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}},
    }


def snapshot_of(objects):
    made = [each if isinstance(each, dict) else each.document for each in objects]
    return Snapshot([Document(each["kind"], msgspec.json.encode(each), "test") for each in made])


def asked(objects, **options):
    """What is survived, on a cluster that must be the same afterwards."""
    snapshot = snapshot_of(objects)
    cluster = SimulatedCluster(snapshot.structs(), config=options.pop("config", None))
    site = Site(cluster, snapshot.documents)
    site.settle()
    before = {name: obj for name, obj in cluster.objects.items() if name[0] != "PodDisruptionBudget"}
    found = survival(site, **options)
    after = {name: obj for name, obj in cluster.objects.items() if name[0] != "PodDisruptionBudget"}
    assert before == after
    return found


def one(found, *names):
    (failure,) = [each for each in found.failures if each.names == names]
    return failure


def test_everybody_finds_another_place_by_proof_without_a_simulation():
    objects = [node("n1"), node("n2"), node("n3"), pod("w1", "n1"), pod("w2", "n2")]
    found = asked(objects, kinds=("node",), simulated_at_most=0)
    assert {each.names[0]: (each.pods, each.unplaced, each.answered) for each in found.failures} == {
        "n1": (1, 0, "proven"),
        "n2": (1, 0, "proven"),
        "n3": (0, 0, "proven"),
    }
    assert all(each.survives for each in found.failures)
    assert [(each.failures, each.survived, each.unknown) for each in found.kinds] == [(3, 3, 0)]
    assert found.any_nodes == 2  # any two: 2 pods of 1 CPU on the third


def test_who_is_lost_and_what_it_takes():
    objects = [node("n1"), node("n2")]
    objects += [pod(f"w{i}", "n1") for i in range(3)] + [pod(f"v{i}", "n2", owner="db") for i in range(3)]
    found = one(asked(objects, kinds=("node",), prices=Prices(default=2.5)), "n1")
    assert (found.pods, found.unplaced, found.gone, found.answered) == (3, 2, 0, "simulated")
    assert [(each.workload, each.pods) for each in found.lost] == [("ReplicaSet default/web", 2)]
    assert "Insufficient cpu" in found.lost[0].message
    assert [(each.like, each.count, each.price) for each in found.more.nodes] == [("n2", 1, 2.5)]
    assert (found.more.at_least, found.more.placed, found.more.left) == (1, 2, 0)


def test_the_bound_holds_where_nothing_is_simulated():
    objects = [node("n1"), node("n2")]
    objects += [pod(f"w{i}", "n1") for i in range(3)] + [pod(f"v{i}", "n2", owner="db") for i in range(3)]
    found = asked(objects, kinds=("node",), simulated_at_most=0)
    assert [(each.unplaced, each.answered, each.is_exact) for each in found.failures] == [(3, "bound", False)] * 2
    assert [(each.survived, each.unknown) for each in found.kinds] == [(0, 2)]


def test_a_bound_counts_those_who_could_have_to_make_way():
    objects = [node("n1"), node("n2"), pod("w1", "n1", "4"), pod("v1", "n2", "2"), pod("v2", "n2", "2")]
    objects[2].priority(10)
    bound = one(asked(objects, kinds=("node",), simulated_at_most=0), "n1")
    assert bound.unplaced == 3  # itself, and the two that it could preempt
    simulated = one(asked(objects, kinds=("node",)), "n1")
    assert (simulated.unplaced, simulated.preempted) == (2, 2)


def test_nodes_with_the_same_pods_share_one_answer():
    objects = [node(f"n{i}") for i in range(4)]
    objects += [pod(f"w{i}-{k}", f"n{i}", "2") for i in range(4) for k in range(2)]
    found = asked(objects, kinds=("node",))
    assert sorted(each.answered for each in found.failures) == ["alike", "alike", "alike", "simulated"]
    assert [each.unplaced for each in found.failures] == [2] * 4
    assert {each.alike for each in found.failures} - {""} == {
        each.names[0] for each in found.failures if each.answered == "simulated"
    }


def test_zones_pools_and_pairs():
    objects = [node(f"n{i}", zone="abc"[i % 3], pool="pq"[i % 2]) for i in range(6)]
    objects += [pod(f"w{i}", f"n{i}", "2") for i in range(6)]
    found = asked(objects, pairs=True)
    kinds = {(each.kind, each.at_once): (each.failures, each.survived) for each in found.kinds}
    # 12 CPUs of 24 are taken, in halves of nodes: any three nodes can be lost, and no fourth.
    assert kinds == {
        ("node", 1): (6, 6),
        ("zone", 1): (3, 3),
        ("pool", 1): (2, 2),
        ("node", 2): (15, 15),
        ("zone", 2): (3, 0),
        ("pool", 2): (0, 0),  # all there is
    }
    assert one(found, "a", "b").unplaced == 2
    assert all(each.survives for each in found.failures if each.kind == "pool")


@pytest.mark.parametrize("pairs", [False, True])
def test_pods_that_are_bound_to_a_node_which_is_gone_are_lost_with_nothing(pairs):
    """As each cluster has them for a while after a node was deleted: that node cannot be lost any more."""
    objects = [
        node("n0"),
        node("n1"),
        node("n2", zone="b"),
        pod("a", "n0"),
        pod("b", "gone"),
        pod("c", "gone", owner=""),
    ]
    found = asked(objects, pairs=pairs)
    assert {name for each in found.failures for name in each.names} == {"n0", "n1", "n2", "a", "b"}
    assert one(found, "n0").pods == 1 and not any(each.gone for each in found.failures)


def test_pods_without_a_controller_are_gone():
    objects = [node("n1"), node("n2"), pod("alone", "n1", owner="")]
    found = one(asked(objects, kinds=("node",)), "n1")
    assert (found.pods, found.unplaced, found.gone, found.survives) == (0, 0, 1, False)
    assert [(each.workload, each.pods) for each in found.lost] == [("Pod default/alone", 1)]


def test_budgets_are_short_at_once_and_for_good():
    objects = [node("n1"), node("n2"), *(pod(f"w{i}", "n1") for i in range(2)), pod("w2", "n2"), budget(2)]
    found = one(asked(objects, kinds=("node",)), "n1")
    assert [(each.healthy, each.demanded, each.is_lasting) for each in found.budgets] == [(1, 2, False)]
    assert found.survives
    full = [*objects, pod("v", "n2", "3", owner="db")]
    found = one(asked(full, kinds=("node",)), "n1")
    assert [(each.healthy, each.demanded, each.is_lasting) for each in found.budgets] == [(1, 2, True)]
    assert not found.survives


def test_what_was_pending_before_does_not_count_and_takes_no_room():
    objects = [node("n1"), node("n2"), pod("w1", "n1", "2"), pod("big", cpu="9", owner="big")]
    found = asked(objects, kinds=("node",))
    assert found.pending == 1
    assert all(each.survives for each in found.failures)


def test_a_pending_pod_that_gets_hope_takes_room():
    """A replica that its sibling kept out of the zone comes first, since it has waited longer."""
    objects = [node("n1", "a"), node("n2", "b"), node("n3", "b")]
    apart = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    objects += [pod("w1", "n1", "4"), pod("w2", "n2", "4"), pod("w3", "", "4"), pod("v", "n3", "1", owner="db")]
    for each in objects[3:6]:
        each.set_spec(affinity=affinity)
    found = one(asked(objects, kinds=("node",)), "n2")
    assert found.answered == "simulated" and found.unplaced == 1


def test_nodes_with_volumes_or_affinity_are_simulated_and_pinned_pods_are_lost():
    objects = [node("n1"), node("n2"), pod("w1", "n1"), pod("w2", "n2")]
    objects[2].set_spec(nodeSelector={"kubernetes.io/hostname": "n1"})
    found = one(asked(objects, kinds=("node",)), "n1")
    assert found.unplaced == 1 and found.more.nodes == () and found.more.left == 1


def test_changes_come_first():
    from berth_workbench.simulation.changes import parse_flag

    objects = [node("n1"), node("n2"), node("n3"), pod("w1", "n1", "4"), pod("w2", "n2", "4")]
    assert one(survival_of(snapshot_of(objects), kinds=("node",)), "n1").survives
    without = survival_of(snapshot_of(objects), [parse_flag("removeNodes", "n3")], kinds=("node",))
    assert one(without, "n1").unplaced == 1


@pytest.mark.parametrize("after", [0, 2])
def test_it_can_be_stopped(after):
    told = []

    def watch(steps):
        told.append(steps)
        return len(told) > after

    objects = [node(f"n{i}") for i in range(5)]
    snapshot = snapshot_of(objects)
    cluster = SimulatedCluster(snapshot.structs())
    found = survival(Site(cluster), kinds=("node",), watch=WatchUntil(watch))
    assert not found.is_complete and len(found.failures) == after + 1


def test_what_was_not_asked_before_the_end_is_unknown():
    objects = [node(f"n{i}", zone="abc"[i % 3]) for i in range(6)]
    found = survival(Site(SimulatedCluster(snapshot_of(objects).structs())), watch=WatchUntil(lambda _: True))
    assert len(found.failures) == 1 and found.failures[0].kind == "zone"
    counts = {each.kind: (each.failures, each.survived, each.unknown) for each in found.kinds}
    assert counts == {"zone": (3, 1, 2), "pool": (0, 0, 0), "node": (6, 0, 6)}


def test_it_stops_in_the_middle_of_a_failure_as_well():
    """Whoever watches is asked with every pod that is tried: here while the second failure is simulated."""
    objects = [node("n1"), node("n2"), node("n3")]
    objects += [pod(f"w{at}-{number}", f"n{at}", owner=f"w{at}") for at in (1, 2, 3) for number in range(3)]

    class StopsWithin(WorkWatch):
        """Asks for an end the third time that it is asked after the first failure was answered."""

        asked = 0

        @property
        def is_stopped(self):
            self.asked += self.done == 1
            return self.asked > 2

    site = Site(SimulatedCluster(snapshot_of(objects).structs()), watch=(watch := StopsWithin()))
    found = survival(site, kinds=("node",), watch=watch)
    assert not found.is_complete
    assert [(each.failures, each.unknown) for each in found.kinds] == [(3, 2)]


def test_a_failure_is_answered_the_same_whichever_was_asked_before():
    """`p` is pending, since `x` keeps it from the zone. Where both want the one place that is free, `x` comes first.

    That holds after another failure as well, when all that it moved was put back.
    """
    objects = [node("n1", cpu="2"), node("n2", cpu="1"), node("n3", cpu="2")]
    objects += [pod(name, on, owner=name) for name, on in (("a", "n1"), ("x", "n2"), ("b", "n3"), ("c", "n3"))]
    objects.append(pod("p", owner="p").pod_anti_affinity(ZONE, {"app": "x"}))
    found = asked(objects, kinds=("node",))
    assert {each.names[0]: each.unplaced for each in found.failures} == {"n1": 1, "n2": 0, "n3": 1}


def test_room_that_a_new_node_makes_usable_counts_when_it_is_said_how_many_are_needed():
    """w1 and w2 lose n1. A node in zone a takes one of them, and then the skew lets the other onto m3 of zone b."""
    objects = [node("n1", cpu="2"), node("n3", cpu="1"), *(node(f"m{at}", "b", "1") for at in (1, 2, 3))]
    for name, on in (("w1", "n1"), ("w2", "n1"), ("w3", "m1"), ("w4", "m2")):
        objects.append(pod(name, on).spread(ZONE, {"app": "web"}, max_skew=2))
    objects.append(pod("y", "n3", owner="y"))
    found = one(asked(objects, kinds=("node",)), "n1")
    assert (found.unplaced, found.more.at_least, found.more.placed, found.more.left) == (2, 1, 2, 0)


GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
LOOKS_AT_GROUPS = load_config(
    {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}, "test", feature_gates(GATES)
)


def gang(needed, topology=""):
    spec = {"schedulingPolicy": {"gang": {"minCount": needed}}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "default"}, "spec": spec}


def members(*names, owner="web"):
    return [pod(f"m{name}", name, cpu="3", owner=owner).group("g") for name in names]


def stopped(found):
    return {each.names[0]: [(gang.name, gang.placed, gang.holds) for gang in each.gangs] for each in found.failures}


def test_a_failure_that_leaves_a_gang_too_few_pods_stops_it():
    """Three nodes with a member of three cores each, and one to spare: losing one is survived where zones do not count.

    In zone a there is no room for a third member, and the two that still run there hold the others to it.
    """
    nodes = [node("n1"), node("n2"), node("n3", cpu="9"), node("spare", zone="b")]
    found = asked([*nodes, gang(3), *members("n1", "n2", "n3")], kinds=("node",), config=LOOKS_AT_GROUPS)
    assert not any(stopped(found).values())
    held = [*nodes[:2], node("n3"), nodes[3], gang(3, ZONE), *members("n1", "n2", "n3")]
    found = asked(held, kinds=("node",), config=LOOKS_AT_GROUPS)
    assert stopped(found) == {
        **{name: [("default/g", 2, {"cpu": "6"})] for name in ("n1", "n2", "n3")}, "spare": []}  # fmt: skip
    assert not any(each.survives for each in found.failures if each.names != ("spare",))


def test_a_gang_of_bare_pods_stops_with_one_of_them_unless_it_needs_fewer():
    nodes = [node(f"n{i}", cpu="9") for i in range(3)]
    bare = members("n0", "n1", "n2", owner="")
    found = asked([*nodes, gang(3), *bare], kinds=("node",), config=LOOKS_AT_GROUPS)
    assert all(each == [("default/g", 2, {"cpu": "6"})] for each in stopped(found).values())
    assert not any(stopped(asked([*nodes, gang(2), *bare], kinds=("node",), config=LOOKS_AT_GROUPS)).values())
    assert not any(stopped(asked([*nodes, gang(3), *bare], kinds=("node",))).values()), "nothing looks at groups"


@pytest.mark.parametrize("cpu", ["9", "1"])
def test_a_failure_that_has_a_process_of_its_own_has_the_same_answer(monkeypatch, cpu):
    # What waits for more than any node has is left out of the simulations until somebody is without a place.
    objects = [*(node(f"n{number}", zone=f"z{number % 2}") for number in range(4))]
    objects += [pod(f"w{number}", on=f"n{number % 4}") for number in range(11)] + [pod("late", cpu=cpu, owner="late")]
    expected = asked(objects, pairs=True)
    assert any(each.unplaced for each in expected.failures) and not all(each.unplaced for each in expected.failures)
    monkeypatch.setattr(survival_module, "PODS_ALONE", 1)
    monkeypatch.setattr(survival_module, "may_fork", lambda: True)
    monkeypatch.setattr(processes, "may_fork", lambda: True)
    assert asked(objects, pairs=True) == expected
    monkeypatch.setattr(survival_module, "may_fork", lambda: False)
    monkeypatch.setattr(processes, "may_fork", lambda: False)
    assert asked(objects, pairs=True) == expected
