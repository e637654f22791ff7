"""What the cycle of v1.20 does differently. Source: release-1.20, pkg/scheduler/core/generic_scheduler.go,
pkg/scheduler/framework/runtime/framework.go."""

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.status import Code, Status, error, merged, unresolvable, unschedulable
from berth.plugins.registry import in_tree_registry
from berth_workbench.cases.decide import replay
from packages.scheduler.tests.plugins.volumes.world import meta
from packages.workbench.tests.cases.test_decide import case

REGISTRY = in_tree_registry()
TAINTED = "node(s) had taint {no: }, that the pod didn't tolerate"
BETA = {"apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "KubeSchedulerConfiguration"}


def decisions(nodes, *pods, objects=(), **more):
    given = case(nodes, pods, generation="v1.20", **more)
    given["objects"] = [*given["objects"], *objects]
    return replay(given, REGISTRY)


def node(name, cpu="1"):
    return make_node(name).capacity(cpu=cpu, memory="1Gi")


def policy(**fields):
    return {"apiVersion": "v1", "kind": "Policy", **fields}


@pytest.mark.parametrize(
    ("check_all", "message"),
    [
        (False, "0/2 nodes are available: 2 Insufficient cpu."),
        (
            True,
            "0/2 nodes are available: 1 node(s) had taint {no: }, that the pod didn't tolerate, 2 Insufficient cpu.",
        ),
    ],
)
def test_all_predicates_are_told_or_the_first(check_all, message):
    nodes = [node("a").taint("no"), node("b")]
    (only,) = decisions(
        nodes, make_pod("p").request(cpu="2"), policy=policy(alwaysCheckAllPredicates=check_all, priorities=[])
    )
    assert only["message"] == message


def test_beside_nominated_pods_all_predicates_are_told_too():
    nodes = [node("a").taint("no")]
    nominated = make_pod("first").request(cpu="1").priority(9).nominated("a")
    pod = make_pod("p").request(cpu="1").priority(1)
    given = policy(alwaysCheckAllPredicates=True, priorities=[])
    (only,) = decisions([*nodes, nominated], pod, policy=given)
    assert only["message"] == (f"0/1 nodes are available: 1 Insufficient cpu, 1 {TAINTED}.")


def test_merged_statuses():
    """PluginToStatus.Merge: an error wins, else unresolvable does; all reasons are kept."""
    assert merged([unschedulable("a"), unresolvable("b")]) == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("a", "b"))
    assert merged([unschedulable("a"), unschedulable("b")]) == unschedulable("a", "b")
    assert merged([unschedulable("a"), error("broken"), unresolvable("b")]) == error("broken")


def claim(**fields):
    metadata = meta("data", "default", **fields)
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {"accessModes": ["ReadWriteOnce"]}}


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([claim(deletionTimestamp="2020-01-01T00:00:00Z")], 'persistentvolumeclaim "data" is being deleted'),
    ],
)
def test_claims_are_checked_first_and_told_with_the_number_of_nodes(objects, reason):
    (only,) = decisions([node("a"), node("b")], make_pod("p").claim("data"), objects=objects)
    assert only["preFilter"] == {"code": "UnschedulableAndUnresolvable", "reasons": [reason]}
    assert only["message"] == f"0/2 nodes are available: 2 {reason}."


def test_without_nodes_and_with_nothing_to_score_by():
    assert decisions([], make_pod("p"))[0]["message"] == "no nodes available to schedule pods"
    (only,) = decisions([node("a"), node("b")], make_pod("p"), policy=policy(priorities=[]))
    assert only["total"] == {"a": 1, "b": 1}


class Breaks:
    """Errs on one node."""

    name = "Breaks"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        return error("lost") if node.name == "bad" else None


def events(cluster):
    return [effect.note for effect in cluster.effects if getattr(effect, "reason", "") == "FailedScheduling"]


def test_an_error_on_any_node_ends_the_attempt():
    config = {**BETA, "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Breaks"}]}}}]}
    found = VirtualCluster(node("good"), node("bad"), make_pod("p"), config=config, plugins={"Breaks": Breaks}).run()
    assert found.nodes_of() == {"p": ""}
    assert events(found) == ['running "Breaks" filter plugin for pod "p": lost']


def test_what_preemption_says_is_not_told():
    full = make_pod("full").request(cpu="1").priority(5).node("a")
    (only,) = decisions([node("a"), full], make_pod("p").request(cpu="1").priority(5))
    assert only["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert "postFilter" not in only


def test_the_nominated_node_is_not_tried_first():
    nodes = [node("empty", "8"), node("used", "8"), make_pod("there").request(cpu="4").node("used")]
    pod = make_pod("p").request(cpu="1", memory="1Mi").nominated("used")
    (old,) = decisions(nodes, pod)
    (today,) = replay(case(nodes, [pod]), REGISTRY)
    assert (old["chosen"], today["chosen"]) == ("empty", "used")


def test_a_share_of_the_nodes_is_searched_from_where_the_last_search_ended():
    """numFeasibleNodesToFind: of 200 nodes 60 percent."""
    nodes = [node(f"n{number:03}") for number in range(200)]
    pods = [make_pod(name) for name in ("p", "q", "r")]
    config = {**BETA, "percentageOfNodesToScore": 60}
    first, second, third = decisions(nodes, *pods, search="sampled", config=config)
    starts = [(step["startIndex"], step["nextStartIndex"]) for step in (first, second, third)]
    assert starts == [(0, 120), (120, 40), (40, 160)]
    assert len(first["feasibleInOrder"]) == 120
    assert second["feasibleInOrder"][0] == "n120"
