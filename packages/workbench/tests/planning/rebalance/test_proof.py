"""Plans that the scheduler follows: cordons where it would choose others, refusals where cordons do not help."""

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth_workbench.planning.rebalance.commands import commands_of
from berth_workbench.planning.rebalance.plan import PlacedPod, PlanStep, in_groups
from berth_workbench.planning.rebalance.rebalance import TRIES
from berth_workbench.planning.rebalance.request import RebalanceRequest
from packages.workbench.tests.asking import rebalance
from packages.workbench.tests.planning.rebalance.test_movability import documents

KEPT = ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")


def running(name, cpu, node, app="web"):
    pod = make_pod(name).label("app", app).request(cpu=cpu, memory="64Mi").node(node).owned_by("ReplicaSet", app)
    return pod.phase("Running")


def node(name, cpu="4", memory="8Gi"):
    return make_node(name).capacity(cpu=cpu, memory=memory)


def plan_for(goal, *objects, **more):
    return rebalance(documents(*objects), RebalanceRequest(goal, **more))


def actions(plan):
    return [(step.action, step.pod.removeprefix("default/") or step.node, step.to) for step in plan.steps]


def test_nodes_that_the_scheduler_likes_better_are_cordoned_and_opened_again():
    """Packing goes against the scheduler, which likes empty nodes best: the unused one has to be closed for it."""
    plan = plan_for("empty-nodes", node("a"), node("b"), node("unused"), running("x", "1", "a"), running("y", "2", "b"))
    assert actions(plan) == [
        ("cordon", "a", ""),
        ("cordon", "unused", ""),
        ("evict", "x", "b"),
        ("uncordon", "unused", ""),
    ]
    assert plan.emptied == ("a",)


def test_without_cordons_there_is_no_such_plan():
    plan = plan_for(
        "empty-nodes",
        node("a"),
        node("b"),
        node("unused"),
        running("x", "1", "a"),
        running("y", "2", "b"),
        max_cordons=0,
    )
    assert (plan.moves, plan.steps) == (0, ())


def test_cordons_that_a_move_needed_are_taken_back_where_the_next_one_needs_others():
    """Each pod has a node of its kind that the scheduler likes better; beside those to be emptied two may be closed."""
    objects = []
    for kind in ("1", "2", "3"):
        objects += [node(f"{name}{kind}").label("kind", kind) for name in ("from", "to", "rival")]
        objects += [running(f"x{kind}", "1", f"from{kind}").node_selector({"kind": kind})]
        objects += [running(f"y{kind}", "2", f"to{kind}", "other").annotation(*KEPT)]
    plan = plan_for("empty-nodes", *objects, max_cordons=2)
    assert (plan.moves, plan.emptied) == (3, ("from1", "from2", "from3"))


def test_a_pod_that_goes_onto_cordoned_nodes_is_moved_only_where_the_scheduler_puts_it():
    everywhere = running("x", "1", "a").tolerate(operator="Exists")
    large = running("y", "5", "b")
    assert plan_for("empty-nodes", node("a"), node("b", "8"), node("unused"), everywhere, large).moves == 0
    plan = plan_for("even-out", node("a"), node("b"), everywhere, running("z", "2", "a").annotation(*KEPT))
    assert [(step.pod, step.to) for step in plan.evictions] == [("default/x", "b")]


def test_pods_that_change_places_go_by_a_third_node_which_is_an_eviction_more():
    """The newcomers leave each of the two nodes room for the other one's pod only, and the third node for none."""
    large = node("large", "3").label("disk", "ssd")
    nodes = [large, node("small", "3"), node("spare", "1").label("disk", "none")]
    pods = [running("much", "3", "large", "much"), running("little", "1", "small", "little")]
    fast = make_pod("fast").request(cpu="2", memory="64Mi").node_selector({"disk": "ssd"})
    diskless = make_pod("diskless").request(cpu="1", memory="64Mi").node_selector({"disk": "none"})
    newcomers = (fast.build(), diskless.build())
    plan = plan_for("free-shape", *nodes, *pods, pods=newcomers)
    assert [(step.pod, step.node, step.to, step.again) for step in plan.evictions] == [
        ("default/little", "small", "spare", False),
        ("default/much", "large", "small", False),
        ("default/little", "spare", "large", True),
    ]
    assert {each.pod: each.node for each in plan.shapes} == {"default/fast": "large", "default/diskless": "spare"}
    assert plan.proven_best
    script = "\n".join(commands_of(plan))
    assert "--field-selector spec.nodeName=spare -o name | grep '^pod/little-'" in script
    assert '--raw /api/v1/namespaces/default/pods/"$POD"/eviction' in script
    two = plan_for("free-shape", *nodes, *pods, pods=newcomers, max_moves=2)
    assert sum(each.node is None for each in two.shapes) == 1


def test_a_pending_pod_goes_where_room_was_made_when_that_node_is_opened():
    objects = [node("a"), node("b"), running("x", "1", "a"), running("y", "1", "b"), running("z", "1", "a")]
    plan = plan_for("free-shape", *objects, make_pod("waiting").request(cpu="3500m"))
    assert [(each.pod, each.node) for each in plan.shapes] == [("default/waiting", "b")]
    assert actions(plan) == [("cordon", "b", ""), ("evict", "y", "a"), ("uncordon", "b", "")]
    assert [(each.pod, each.node) for each in plan.steps[-1].placed] == [("default/waiting", "b")]
    assert (plan.before.pending, plan.after.pending) == (1, 0)


def test_a_pending_pod_that_takes_the_room_of_a_move_is_told_with_it():
    """What leaves a full node lets in what waits there, whatever the plan is about."""
    full = [running(f"p{i}", "1", "a") for i in range(4)]
    waits = make_pod("waits").request(cpu="1").node_selector({"kubernetes.io/hostname": "a"})
    plan = plan_for("even-out", node("a"), node("b"), *full, waits)
    assert [each.pod for step in plan.steps for each in step.placed] == ["default/waits"]
    assert plan.after.pending == 0


def test_commands_say_everything_and_names_cannot_break_out():
    replicas = {
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "r"},
        "spec": {"replicas": 2},
    }
    plan = plan_for("empty-nodes", node("a"), node("b"), running("x", "1", "a"), running("y", "2", "b"), replicas)
    lines = commands_of(plan)
    assert lines[0] == "set -e"
    assert "kubectl cordon a" in lines
    evicts = next(line for line in lines if "eviction" in line)
    assert evicts.startswith("""echo '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"x",""")
    assert evicts.endswith("kubectl create -f - --raw /api/v1/namespaces/default/pods/x/eviction")
    assert any("readyReplicas" in line and "=2 replicaset/web" in line for line in lines)
    evil = running("x", "1", "a").document
    evil["metadata"]["name"] = "x'; rm -rf /\n$(reboot)"
    spoiled = plan_for("empty-nodes", node("a"), node("b"), evil, running("y", "2", "b"))
    assert spoiled.moves == 1
    import shlex

    for line in commands_of(spoiled):
        if not line.startswith("#"):
            assert not {"rm", "$(reboot)", "-rf"} & set(shlex.split(line))
        assert line.startswith("#") is False or "\n" not in line


def test_a_plan_reads_as_its_moves():
    """Eight nodes that the scheduler likes equally: for each move all but one are closed, which is one thing to do."""
    nodes = [node(f"n{i:02}", cpu="8") for i in range(8)]
    pods = [running(f"w{i}", "1", "n00") for i in range(8)]
    spread = [running(f"o{i:02}", "2", f"n{i:02}", "other") for i in range(1, 8)]
    plan = plan_for("even-out", *nodes, *pods, *spread, max_moves=3)
    assert plan.moves == 3
    groups = in_groups(plan.steps)
    assert [step for group in groups for step in group] == list(plan.steps)
    assert len(groups) <= 3 * plan.moves + 1  # a target is opened, others are closed, and the pod is evicted
    for group in groups:
        assert len({(step.action, step.reason) for step in group}) == 1
        assert len(group) == 1 or group[0].action in ("cordon", "uncordon")
    typed = [line for line in commands_of(plan) if line.startswith(("kubectl cordon", "kubectl uncordon"))]
    assert len(typed) == len(groups) - plan.moves
    assert sorted(" ".join(typed).split()) == sorted(
        word for group in groups if group[0].action != "evict" for word in
        ("kubectl", group[0].action, *(step.node for step in group))
    )  # fmt: skip


def test_steps_that_are_waited_for_stand_alone():
    steps = (
        PlanStep("cordon", "a", reason="one"),
        PlanStep("cordon", "b", reason="another"),
        PlanStep("uncordon", "b", reason="done", placed=(PlacedPod("default/p", "b"),)),
        PlanStep("uncordon", "a", reason="done"),
        PlanStep("uncordon", "c", reason="done"),
        PlanStep("evict", "a", "default/x", to="b", reason="why"),
        PlanStep("evict", "a", "default/y", to="b", reason="why"),
    )
    assert [len(group) for group in in_groups(steps)] == [1, 1, 1, 2, 1, 1]


def test_what_free_cpu_is_of_use_for_is_the_same_before_and_after():
    """Of four pods, one asks for 4 CPUs: nothing of the 3 + 3 before and nothing of the 0 + 2 after is of use to it.

    The three that ask for 1 can use all of it. That the large one runs in the end changes nothing about what is asked.
    """
    pods = [running(f"w{i}", "1", on) for i, on in enumerate("abb")]
    large = make_pod("large").request(cpu="4")
    plan = plan_for("free-shape", node("a", "4"), node("b", "5"), *pods, pods=(large.build(),))
    assert plan.moves == 1 and plan.shapes[0].node
    assert (plan.before.fragmentation, plan.after.fragmentation) == (1 / 4, 1 / 4)
    waiting = plan_for("free-shape", node("a", "4"), node("b", "5"), *pods, large)
    assert (waiting.before.fragmentation, waiting.after.fragmentation) == (1 / 4, 1 / 4)


def test_of_nodes_that_serve_equally_the_scheduler_chooses():
    """Six replicas in one zone, and six nodes in the other that differ in nothing but how much runs there."""
    crowded = [running(f"w{i}", "500m", "a0").spread("topology.kubernetes.io/zone", {"app": "web"}) for i in range(6)]
    nodes = [node("a0", cpu="8").zone("a"), *(node(f"b{i}").zone("b") for i in range(6))]
    others = [running(f"o{i}", f"{1500 + 300 * i}m", f"b{i}", f"other{i}") for i in range(6)]
    plan = plan_for("repair-spread", *nodes, *crowded, *others)
    assert (plan.before.violations, plan.after.violations, plan.moves) == (6, 0, 3)
    assert len([step for step in plan.steps if step.action == "cordon"]) <= 1


def test_no_plan_makes_a_pod_that_stays_break_its_rules():
    """The pod in zone b has no rules of its own; but once it has left, the one in zone a is not spread any more."""
    strict = running("strict", "1", "a").spread("topology.kubernetes.io/zone", {"app": "web"}).annotation(*KEPT)
    plain = running("plain", "500m", "b")
    for method in ("greedy", "cp-sat"):
        plan = plan_for("empty-nodes", node("a").zone("a"), node("b").zone("b"), strict, plain, method=method)
        assert (plan.moves, plan.after.violations) == (0, 0)
    loose = running("strict", "1", "a").annotation(*KEPT)
    assert plan_for("empty-nodes", node("a").zone("a"), node("b").zone("b"), loose, plain).moves == 1


def test_no_plan_takes_a_pod_away_from_one_that_wants_it_beside_it():
    """The pod that is moved says nothing of the other: only the other's own term tells that they belong together."""
    nodes = [node("a").zone("1"), node("b").zone("1"), node("c").zone("2")]
    database, busy = running("db", "500m", "b", "db"), running("busy", "1", "c", "busy").annotation(*KEPT)
    stays = running("web", "3800m", "a").annotation(*KEPT)
    assert plan_for("empty-nodes", *nodes, database, busy, stays).emptied == ("b",)
    stays.pod_affinity("topology.kubernetes.io/zone", {"app": "db"})
    plan = plan_for("empty-nodes", *nodes, database, busy, stays)
    assert (plan.moves, plan.after.violations) == (0, 0)


def test_a_move_whose_place_somebody_takes_in_between_is_refused():
    """While the pod is on its way, one that keeps away from it and has waited for this comes first."""
    first = make_pod("first").request(cpu="1").priority(10, "Never")
    first.pod_anti_affinity("topology.kubernetes.io/zone", {"app": "web"})
    nodes = [node("a").zone("z"), node("b").zone("z")]
    pods = [running("x", "1", "a"), running("y", "2", "b", "other").annotation(*KEPT)]
    assert plan_for("empty-nodes", *nodes, *pods).moves == 1
    plan = plan_for("empty-nodes", *nodes, *pods, first)
    assert (plan.moves, plan.steps) == (0, ())
    assert "1 move that the scheduler would not follow" in plan.notes[0]


def test_where_every_move_is_refused_nothing_is_cordoned_for_them():
    """So many nodes would do that the search gives up before it has banned them all."""
    first = make_pod("first").request(cpu="1").priority(10, "Never")
    first.pod_anti_affinity("topology.kubernetes.io/zone", {"app": "web"})
    others = [running(f"y{i}", "2", f"b{i}", "other").annotation(*KEPT) for i in range(TRIES + 1)]
    nodes = [node("a").zone("z"), *(node(f"b{i}").zone("z") for i in range(TRIES + 1))]
    plan = plan_for("empty-nodes", *nodes, running("x", "1", "a"), *others, first, method="greedy")
    assert (plan.moves, plan.steps) == (0, ())


@pytest.mark.parametrize(
    "evil", ["", "--all", "-x", "a b", "x'; rm -rf /\n$(reboot)", "x\x1b]0;owned\x07", "UPPER", "a..b", "a" * 254]
)
def test_names_that_no_object_can_have_are_in_no_command(evil):
    steps = (
        PlanStep("cordon", node=evil),
        PlanStep("evict", pod=f"default/{evil}", node="a", to="b", workload="ReplicaSet/web", replicas=1),
        PlanStep("evict", pod="default/x", node="a", to="b", workload=f"ReplicaSet/{evil}", replicas=1, again=True),
        PlanStep("evict", pod=f"{evil}/x", node="a", to="b", workload="ReplicaSet/web"),
        PlanStep("uncordon", node="good.example.com"),
    )
    plan = plan_for("empty-nodes", node("a"), node("b"), running("x", "1", "a"))
    lines = commands_of(msgspec.structs.replace(plan, steps=steps))
    assert [line for line in lines if not line.startswith("#")] == ["set -e", "kubectl uncordon good.example.com"]
    assert sum("is not a valid name" in line for line in lines) == 4
    assert all(line.isprintable() for line in lines)


def test_a_dot_in_an_owners_name_is_a_dot():
    step = PlanStep("evict", "a", "default/x", to="b", workload="ReplicaSet/we.b", again=True)
    plan = plan_for("empty-nodes", node("a"), node("b"), running("x", "1", "a"))
    script = "\n".join(commands_of(msgspec.structs.replace(plan, steps=(step,))))
    assert "grep '^pod/we[.]b-'" in script
