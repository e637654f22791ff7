"""The words for where a pod went."""

import io

import pytest
from rich.console import Console

from berth.decisions.explanation import Explanation, Rejected, ScoredNode
from berth_cluster.cli.placement_table import placement_table, reason_of


def pod(node=""):
    spec = {"nodeName": node} if node else {}
    conditions = [{"type": "PodScheduled", "status": "False", "message": "told by the API"}]
    status = {"phase": "Running"} if node else {"phase": "Pending", "conditions": conditions}
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec, "status": status}


def explanation(node=None, best=(), rejected=(), message=""):
    return Explanation(
        pod="default/web",
        uid="u",
        profile="default-scheduler",
        outcome="scheduled" if node else "unschedulable",
        node=node,
        summary="",
        message=message,
        attempts=1,
        node_count=4,
        feasible_count=len(best),
        weights={},
        best=tuple(ScoredNode(name, total, scores) for name, total, scores in best),
        rejected=tuple(Rejected("P", "Unschedulable", (reason,), count, ()) for reason, count in rejected),
    )


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            explanation("n1", [("n1", None, {})], [("too full", 2), ("tainted", 1)]),
            "1 of 4 nodes fit (not 2: too full; 1: tainted); the only one",
        ),
        (
            explanation("n2", [(f"n{i}", 5, {"P": 5}) for i in range(4)]),
            "4 of 4 nodes fit; all score 5: one of them at random",
        ),
        (
            explanation("n3", [("n3", 30, {"Spread": 20, "P": 10}), ("n1", 10, {"Spread": 0, "P": 10})], [("x", 2)]),
            "2 of 4 nodes fit (not 2: x); score 30, lowest 10 (Spread +10 over the average)",
        ),
        (
            explanation("n0", [("n0", 7, {}), ("n1", 7, {}), ("n2", 3, {})], [("x", 1)]),
            "3 of 4 nodes fit (not 1: x); score 7, lowest 3, one of 2 best at random",
        ),
    ],
)
def test_why_a_pod_is_where_it_is(made, words):
    assert reason_of(pod(made.node), made) == words


def test_why_a_pod_is_nowhere():
    assert reason_of(pod(), explanation(message="0/4 nodes are available")) == "0/4 nodes are available"
    assert reason_of(pod(), None) == "told by the API"


def test_the_table_has_a_line_for_each_pod():
    written = io.StringIO()
    placement_table([pod("n1"), pod()], {}, {"n1": "zone-a"}).print(Console(width=120, file=written))
    text = written.getvalue()
    assert "zone-a" in text
    assert "told by the API" in text
