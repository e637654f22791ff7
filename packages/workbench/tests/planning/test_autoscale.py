"""The autoscaler's part: counted on one's fingers, and on small random clusters against an exhaustive search."""

import random
from itertools import product

import msgspec
import pytest

from berth_workbench.planning import more_nodes
from berth_workbench.planning.node_groups import NodeGroupError, groups_in, read_groups
from berth_workbench.questions.autoscale import told
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import autoscale_of
from packages.workbench.tests.planning import checker
from packages.workbench.tests.planning.mixed_worlds import looks_at_groups
from packages.workbench.tests.planning.test_survival import ZONE, budget, node, pod, snapshot_of
from tests.effort import examples

WORLDS = examples(60)
APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}


def planned(objects, groups, **options):
    return autoscale_of(snapshot_of(objects), read_groups({"groups": groups}), **options)


def added(plan):
    return {each.like: each.count for each in plan.more.nodes}


def test_the_cheapest_group_that_takes_the_backlog_is_added():
    objects = [node("s1", cpu="4"), node("b1", cpu="8", pool="big"), pod("full", "s1", "4"), pod("full2", "b1", "8")]
    objects += [pod(f"w{i}", cpu="2") for i in range(4)]
    found = planned(objects, [{"name": "std", "price": 1}, {"name": "big", "price": 3}])
    assert (found.backlog, added(found), found.more.nodes[0].price) == (4, {"std": 2}, 2)
    found = planned(objects, [{"name": "std", "price": 1}, {"name": "big", "price": 1.5}])
    assert added(found) == {"big": 1}
    assert found.cost == 2.5
    without = planned(objects, [{"name": "std"}, {"name": "big"}])
    assert added(without) == {"big": 1} and without.cost is None  # the fewest


def test_max_and_what_no_group_takes():
    objects = [node("s1"), pod("full", "s1", "4"), *(pod(f"w{i}", cpu="4") for i in range(3)), pod("huge", cpu="9")]
    found = planned(objects, [{"name": "std", "max": 3}])
    assert (found.backlog, added(found), found.more.placed, found.more.left) == (4, {"std": 2}, 2, 2)


def test_stopped_before_anything_was_tried_it_does_not_say_that_nothing_helps():
    """Nine pods of 2 CPUs each on nodes of 4: by their sums, fewer than five nodes cannot do."""
    objects = [node("s1"), pod("full", "s1", "4"), *(pod(f"w{i}", cpu="2") for i in range(9))]

    class StopsThere(WorkWatch):
        @property
        def is_stopped(self):
            return self.doing == "looking for what the backlog takes"

    found = planned(objects, [{"name": "std"}], watch=StopsThere())
    assert (found.is_complete, found.more.nodes, found.more.tried_with, found.more.at_least) == (False, (), 0, 5)
    verdict = next(iter(told(found)))
    assert verdict.text == "9 pods have no place: which nodes help was not found out yet; fewer than 5 cannot do."
    assert added(planned(objects, [{"name": "std"}])) == {"std": 5}


def test_groups_from_templates_like_nodes_and_prices_of_a_file():
    template = {
        "metadata": {"labels": {"disk": "nvme"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }
    objects = [node("s1"), pod("w", cpu="4")]
    objects[1].set_spec(nodeSelector={"disk": "nvme"})
    groups = [{"name": "new", "template": template}, {"name": "other", "like": "s1"}]
    found = planned(objects, groups, prices=Prices(default=7.0))
    assert added(found) == {"new": 1} and found.more.nodes[0].price == 7.0


TEMPLATE = {"metadata": {"labels": {"pool": "new"}}, "status": {"allocatable": {"cpu": "16", "pods": "110"}}}


@pytest.mark.parametrize(
    ("wants", "count"),
    [
        ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}}, 5),
        ({"topologySpreadConstraints": [{**APART, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}, 5),
        ({"nodeSelector": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}}, 1),
    ],
    ids=["anti-affinity", "spread", "os and arch"],
)
def test_nodes_of_a_template_have_the_labels_that_a_kubelet_gives_them(wants, count):
    """Five replicas that the template's nodes have room for; the architecture is that of most nodes that there are."""
    small = node("s1", cpu="100m").label("kubernetes.io/arch", "arm64")
    replicas = [pod(f"w{i}").set_spec(**wants) for i in range(5)]
    found = planned([small, *replicas], [{"name": "new", "template": TEMPLATE}])
    assert (added(found), found.more.placed) == ({"new": count}, 5)


def test_replicas_that_are_kept_apart_get_a_node_each_however_many_they_are():
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}}
    replicas = [pod(f"w{i}").set_spec(**apart) for i in range(100)]
    found = planned([node("s1", cpu="100m"), *replicas], [{"name": "new", "template": TEMPLATE}])
    assert (added(found), found.more.placed, found.more.left) == ({"new": 100}, 100, 0)


def test_nodes_that_nobody_needs_can_go_within_min_and_budgets():
    objects = [node(f"s{i}") for i in range(4)]
    objects += [pod("a", "s0", "2"), pod("b", "s1"), pod("c", "s2")]
    found = planned(objects, [{"name": "std", "price": 2}])
    # 4 CPUs in all: one node can have them.
    assert [each.node for each in found.removable] == ["s3", "s1", "s2"] and found.saves == 6
    assert found.removable[0].moved == 0 and sum(each.moved for each in found.removable) in (2, 3)
    assert len(planned(objects, [{"name": "std", "min": 3}]).removable) == 1
    assert [each.node for each in planned([*objects, budget(3)], [{"name": "std"}]).removable] == ["s3"]
    assert planned(objects, [{"name": "std"}], tried_at_most=0).removable == ()


def test_pods_that_would_be_lost_or_must_not_move_keep_their_nodes():
    stays = pod("stays", "s1")
    stays.document["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    objects = [node("s1"), node("s2"), node("s3"), stays, pod("alone", "s2", owner="")]
    assert [each.node for each in planned(objects, [{"name": "std"}]).removable] == ["s3"]


def test_a_spot_group_that_is_lost():
    objects = [node("s1"), node("c1", pool="cheap"), node("c2", pool="cheap")]
    objects += [pod(f"w{i}", f"c{i % 2 + 1}", "3") for i in range(2)]
    (lost,) = planned(objects, [{"name": "std"}, {"name": "cheap", "spot": True}]).spot
    assert (lost.names, lost.nodes, lost.pods, lost.unplaced) == (("cheap",), 2, 2, 1)


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ([], "1 to 200"),
        ([{"name": "a"}, {"name": "a"}], "no other group"),
        ([{"name": "a", "min": 3, "max": 2}], "min 3 and max 2"),
        ([{"name": "a", "price": -1}], "a number of 0 or more"),
        ([{"name": "a", "like": "x", "template": {}}], "not both"),
        ([{"name": "a", "cost": 1}], "cost"),
    ],
)
def test_groups_that_cannot_be_used(groups, problem):
    with pytest.raises(NodeGroupError, match=problem):
        read_groups({"groups": groups})


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ({"name": "none"}, "say with `like` or `template`"),
        ({"name": "a", "like": "x"}, "no node 'x'"),
        ({"name": "a", "template": {"metadata": {}}}, "allocatable is missing"),
    ],
)
def test_groups_of_which_nobody_knows_the_nodes(group, problem):
    with pytest.raises(NodeGroupError, match=problem):
        groups_in(read_groups({"groups": [group]}), [node("s1").build()])


SMALL, LARGE = (3,) * 6, (10,) * 4


def filled(*sizes):
    """One full node of 10 CPUs, and pending pods of these sizes in this order."""
    made = [node("s1", cpu="10"), pod("full", "s1", "10").priority(10)]
    return [*made, *(pod(f"w{i}", cpu=str(size)) for i, size in enumerate(sizes))]


def test_the_order_of_the_backlog_is_told_where_it_decides_how_many_nodes_it_takes():
    """Four pods fill a node each, and six others two nodes; but if those come first, they begin all six."""
    found = planned(filled(*SMALL, *LARGE), [{"name": "std", "price": 2}])
    assert (added(found), found.more.placed) == ({"std": 6}, 10)
    in_turn = found.more_in_turn
    assert in_turn is not None and in_turn.placed == 10
    assert [(each.like, each.count, each.price) for each in in_turn.nodes] == [("std", 10, 20)]


@pytest.mark.parametrize("part", [8, 41], ids=["guessed by a part", "counted in rounds"])
def test_a_large_backlog_takes_no_more_nodes_than_are_needed_at_once(part, monkeypatch):
    """200 pods of 3 CPUs and 40 of 7 on nodes of 10, which the scheduler fills evenly.

    In turn one of 7 finds room where there is one of 3 at most: on n nodes 2n - 200, which is 40 on 120. Counted in
    rounds, 88 nodes by the sums get two of 3 each, and the 40 take a node each; taking nodes away again leaves 120. The
    largest first, 40 nodes have one of either, and the others three of 3: 40 + 3 (n - 40), which is 200 on 94.
    """
    monkeypatch.setattr(more_nodes, "SAMPLED", 4)
    monkeypatch.setattr(more_nodes, "SAMPLED_NODES", 8)
    monkeypatch.setattr(more_nodes, "PART_AT_LEAST", part)
    found = planned(filled(*(3,) * 200, *(7,) * 40), [{"name": "std"}])
    assert found.more_in_turn is not None
    (in_turn,) = found.more_in_turn.nodes
    assert (added(found), in_turn.count) == ({"std": 94}, 120)
    assert (found.more.placed, found.more_in_turn.placed) == (240, 240)
    assert (found.more.tried_with, found.more_in_turn.tried_with) == (None, 24 if part == 8 else None)


@pytest.mark.parametrize("sizes", [(*LARGE, *SMALL), (5, 5, 5), ()])
def test_the_order_is_not_mentioned_where_it_makes_no_difference(sizes):
    assert planned(filled(*sizes), [{"name": "std", "price": 2}]).more_in_turn is None


def test_pods_of_higher_priority_stay_first_in_either_order():
    objects = filled(3, 7)
    high = [pod(f"h{i}", cpu="3").priority(9) for i in range(3)]
    found = planned([*objects, *high], [{"name": "std", "max": 2}])
    assert (added(found), found.more.placed, found.more.left) == ({"std": 1}, 3, 2)


def test_moving_pods_makes_room_within_budgets_and_for_those_that_may_be_moved():
    objects = [node("s1"), node("s2"), node("s3"), pod("a", "s1"), pod("b", "s2", "2"), pod("c", "s3", "3")]
    objects.append(pod("big", cpu="4"))
    found = planned(objects, [{"name": "std", "max": 3}])
    assert (added(found), found.more.left) == ({}, 1)
    assert found.moving is not None
    assert [(each.pod, each.before, each.after) for each in found.moving.moves] == [("default/a", "s1", "s2")]
    assert (found.moving.placed, found.moving.more.left) == (1, 0)
    assert planned([*objects, budget(3)], [{"name": "std"}]).moving is None
    stays = [each if each.document["metadata"]["name"] != "a" else pod("a", "s1", owner="") for each in objects]
    (move,) = planned(stays, [{"name": "std"}]).moving.moves
    assert (move.pod, move.before) == ("default/b", "s2")


def test_no_more_pods_move_than_have_to():
    """Two CPUs are missing on either node: the pod of two goes, and those of one stay."""
    objects = [node("s1"), node("s2"), pod("a", "s1"), pod("b", "s1", "2"), pod("c", "s2", "2"), pod("big", cpu="3")]
    (move,) = planned(objects, [{"name": "std"}]).moving.moves
    assert (move.pod, move.before, move.after) in [("default/b", "s1", "s2"), ("default/c", "s2", "s1")]


def test_nothing_is_moved_where_that_only_moves_the_problem():
    objects = [node("s1"), node("s2"), pod("a", "s1", "3"), pod("b", "s2", "3"), pod("big", cpu="3")]
    assert planned(objects, [{"name": "std"}]).moving is None
    cordoned = [node("s1").unschedulable(), node("s2"), pod("a", "s1"), pod("b", "s2", "3"), pod("big", cpu="4")]
    assert planned(cordoned, [{"name": "std"}]).moving is None


@pytest.mark.parametrize(("least", "told"), [(1, 0), (2, 1)])
def test_a_group_that_has_fewer_nodes_than_its_min_is_told(least, told):
    notes = planned([node("s1")], [{"name": "std", "min": least}]).notes
    assert sum("fewer than its min" in note for note in notes) == told


def test_no_move_has_others_preempted():
    """The pod that would make way is more important than the one that its other place would cost."""
    waiting = pod("big", cpu="4").priority(5, "Never")
    objects = [node("s1"), node("s2"), pod("a", "s1").priority(10), pod("low", "s2", "4"), waiting]
    assert planned(objects, [{"name": "std"}]).moving is None


# -- what is only of use together with new nodes ----------------------------------------------------------------------


def gang(count, cpu, name="g", **spec):
    """A gang and its pods."""
    policy = {"gang": {"minCount": count}}
    group = {"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"schedulingPolicy": policy}}
    group["metadata"] = {"name": name, "namespace": "default", "uid": name}
    pods = [pod(f"{name}{i}", cpu=cpu).set_spec(schedulingGroup={"podGroupName": name}, **spec) for i in range(count)]
    return [group, *pods]


@pytest.mark.parametrize(
    ("count", "nodes", "free", "told"), [(64, 7, 4, 5), (48, 6, 7, 1), (32, 7, 4, 1)], ids=["64-28", "48-42", "32-28"]
)
def test_room_that_is_there_counts_for_a_gang(count, nodes, free, told):
    """Pods of 1 CPU on nodes of 8: the gang takes what is free, and new nodes for the rest."""
    objects = [each for i in range(nodes) for each in (node(f"n{i}", cpu="8"), pod(f"x{i}", f"n{i}", str(8 - free)))]
    found = planned([*objects, *gang(count, "1")], [{"name": "std", "price": 1}], config=looks_at_groups())
    assert (added(found), found.more.placed, found.more.one_fewer_fails) == ({"std": told}, count, True)
    assert found.removable == ()  # all of them are needed, though nobody has a place on what is free yet


@pytest.mark.parametrize("there", [0, 2])
def test_a_gang_takes_whole_pods_and_not_their_sum(there):
    """Four pods of 5 take a node of 8 each, of which some are there; by the sums it would be three."""
    objects = [node("full", cpu="8"), pod("x", "full", "8"), *(node(f"n{i}", cpu="8") for i in range(there))]
    found = planned([*objects, *gang(4, "5")], [{"name": "std"}], config=looks_at_groups())
    assert (added(found), found.more.left, found.removable) == ({"std": 4 - there}, 0, ())


def test_a_gang_that_keeps_apart_gets_as_many_nodes_as_it_takes():
    """Where it is not the sums that decide, more and more nodes are tried until the whole gang has its places."""
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}}
    objects = [node("full"), pod("x", "full", "4", owner="x"), *gang(11, "100m", **apart)]
    for each in objects[3:]:
        each.labels({"app": "web"})
    found = planned(objects, [{"name": "std"}], config=looks_at_groups())
    assert (added(found), found.more.left, found.more.one_fewer_fails) == ({"std": 11}, 0, True)


def test_a_gang_of_two_kinds_of_pods_gets_nodes_of_both():
    """None of them has a place before all do, so that nodes of one kind alone look as if they were of no use."""
    objects = [node("s1"), node("b1", pool="big"), pod("x", "s1", "4"), pod("y", "b1", "4")]
    first, *others = gang(4, "3")
    for at, each in enumerate(others):
        each.set_spec(nodeSelector={"pool": "big" if at else "std"})
    found = planned([*objects, first, *others], [{"name": "std"}, {"name": "big"}], config=looks_at_groups())
    assert (added(found), found.more.left) == ({"std": 1, "big": 3}, 0)


def test_room_counts_that_spreading_opens_with_a_new_node():
    """Twelve pods at a skew of 1 over three zones at least, of which two are there: 4 on a node of 4, and 4 each."""
    spread = {"topologyKey": ZONE, "maxSkew": 1, "minDomains": 3, "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"app": "web"}}
    objects = [node("a1", "a", "20", "pa"), node("b1", "b", "20", "pa")]
    objects += [pod(f"w{i}").set_spec(topologySpreadConstraints=[spread]) for i in range(12)]
    labels = {ZONE: "c", "pool": "c"}
    template = {
        "metadata": {"labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "64Gi", "pods": "110"}},
    }
    found = planned(objects, [{"name": "c", "template": template, "price": 1}, {"name": "pa", "price": 1}])
    assert (found.backlog, added(found), found.more.left) == (10, {"c": 1}, 0)


def test_where_trying_fewer_nodes_takes_too_long_it_says_at_most(monkeypatch):
    objects = [node("full"), pod("x", "full", "4"), *(pod(f"w{i}", cpu="3") for i in range(4))]
    proven = planned(objects, [{"name": "std"}])
    monkeypatch.setattr(more_nodes, "PODS_AT_MOST", 3)
    found = planned(objects, [{"name": "std"}])
    assert (added(proven), added(found)) == ({"std": 4}, {"std": 4})
    assert (proven.more.one_fewer_fails, found.more.one_fewer_fails) == (True, False)
    said = [next(iter(told(each))).text for each in (proven, found)]
    assert said == ["4 pods have no place: 4 like std.", "4 pods have no place: at most 4 like std."]


def test_a_node_whose_removal_lets_pending_pods_take_the_room_keeps_the_others():
    """Without n3 spreading lets the pending pod onto n2, which has the room that the pod of n1 would need."""
    spread = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"app": "web"}}
    objects = [node("n1", cpu="2"), node("n2", cpu="3"), node("n3", cpu="2").unschedulable()]
    objects += [pod("a", "n1", "2", owner="a"), pod("w1", "n2").set_spec(topologySpreadConstraints=[spread])]
    objects += [pod("w2").set_spec(topologySpreadConstraints=[spread], nodeSelector={ZONE: "a"})]
    # w2 may not come to n2 beside w1 as long as n3, cordoned and empty, counts as a domain without any.
    found = planned(objects, [{"name": "std", "max": 3}], used_at_most=1.0)
    assert [each.node for each in found.removable] == ["n3"]


# -- against an exhaustive search ------------------------------------------------------------------------------------


def manifest(name, size, on="", owner=True, **spec):
    metadata = {"name": name, "labels": {"app": name}}
    if owner:
        owned = {"kind": "ReplicaSet", "name": f"r{size}", "uid": f"r{size}", "apiVersion": "v1", "controller": True}
        metadata["ownerReferences"] = [owned]
    container = {"name": "c", "resources": {"requests": {"cpu": str(size)}}}
    where = {"nodeName": on} if on else {}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **where, **spec}}


def machine(name, pool, cpu):
    labels = {"kubernetes.io/hostname": name, "pool": pool}
    room = {"cpu": str(cpu), "memory": "8Gi", "pods": "20"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": room}}


def fit_together(sizes, rooms):
    """Whether pods of these sizes fit into these rooms, in any way."""
    if not sizes:
        return True
    first, others = sizes[0], sizes[1:]
    seen = set()
    for at, room in enumerate(rooms):
        if room >= first and room not in seen:
            seen.add(room)
            if fit_together(others, [*rooms[:at], room - first, *rooms[at + 1 :]]):
                return True
    return False


def test_what_is_added_suffices_and_is_no_less_than_the_least():
    best = asked = 0
    for seed in range(WORLDS):
        rng = random.Random(seed)
        rooms = {"a": rng.randrange(3, 6), "b": rng.randrange(6, 10)}
        prices = {"a": rng.randrange(1, 5), "b": rng.randrange(1, 9)}
        sizes = sorted((rng.randrange(1, 5) for _ in range(rng.randrange(1, 7))), reverse=True)
        objects = [machine("a0", "a", rooms["a"]), machine("b0", "b", rooms["b"])]
        objects += [manifest("fa", rooms["a"], "a0"), manifest("fb", rooms["b"], "b0")]
        objects += [manifest(f"p{i}", size) for i, size in enumerate(sizes)]
        snapshot = Snapshot([Document(each["kind"], msgspec.json.encode(each), "w") for each in objects])
        specs = read_groups({"groups": [{"name": name, "price": prices[name]} for name in rooms]})
        found = autoscale_of(snapshot, specs)
        count = added(found)
        possible = [size for size in sizes if size <= max(rooms.values())]
        assert (found.backlog, found.more.left) == (len(sizes), len(sizes) - len(possible)), f"seed {seed}"
        given = [rooms[name] for name, number in count.items() for _ in range(number)]
        assert fit_together(possible, given), f"seed {seed}"
        ways = [
            (a * prices["a"] + b * prices["b"], a + b)
            for a, b in product(range(7), repeat=2)
            if fit_together(possible, [rooms["a"]] * a + [rooms["b"]] * b)
        ]
        cost = sum(prices[name] * number for name, number in count.items())
        assert min(ways)[0] <= cost <= 2 * min(ways)[0] + max(prices.values()), f"seed {seed}"
        assert found.more.at_least <= min(number for _, number in ways), f"seed {seed}"
        best += cost == min(ways)[0]
        asked += 1
    assert best > asked / 2


def test_what_can_go_leaves_a_place_for_everybody():
    removed = 0
    for seed in range(WORLDS):
        rng = random.Random(seed)
        nodes = [machine(f"n{i}", "a", rng.randrange(4, 9)) for i in range(rng.randrange(2, 6))]
        running = []
        for each in nodes:
            free = int(each["status"]["allocatable"]["cpu"])
            while free and rng.random() < 0.6:
                size = rng.randrange(1, min(free, 3) + 1)
                free -= size
                running.append((manifest(f"p{len(running)}", size, owner=rng.random() < 0.9), each["metadata"]["name"]))
        objects = [*nodes, *({**p, "spec": {**p["spec"], "nodeName": on}} for p, on in running)]
        snapshot = Snapshot([Document(each["kind"], msgspec.json.encode(each), "w") for each in objects])
        found = autoscale_of(snapshot, read_groups({"groups": [{"name": "a", "price": 1}]}), used_at_most=1.0)
        gone = {each.node for each in found.removable}
        removed += len(gone)
        left = [each for each in nodes if each["metadata"]["name"] not in gone]
        moving = [pod for pod, on in running if on in gone]
        assert all(pod["metadata"].get("ownerReferences") for pod in moving), f"seed {seed}"
        free = []
        for each in left:
            here = [pod for pod, on in running if on == each["metadata"]["name"]]
            free.append(each["status"]["allocatable"]["cpu"])
            free[-1] = int(free[-1]) - sum(checker.requests_of(pod)["cpu"] for pod in here) // 1000
        sizes = sorted((checker.requests_of(pod)["cpu"] // 1000 for pod in moving), reverse=True)
        assert fit_together(sizes, free), f"seed {seed}: {gone}"
        # None of those that are left could go alone, the others staying where the scheduler's plan leaves room for.
        assert found.saves == len(gone)
    assert removed > WORLDS / 3
