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


def explanation(node=None, best=(), rejected=(), message="", why=""):
    return Explanation(
        pod="default/web",
        uid="u",
        profile="default-scheduler",
        outcome="scheduled" if node else "unschedulable",
        node=node,
        summary=f"default/web goes to {node}: {why}",
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
            explanation("n1", [("n1", None, {})], [("too full", 2), ("tainted", 1)], why="the only one"),
            "the only one; not 2: too full; not 1: tainted",
        ),
        (
            explanation("n2", [(f"n{i}", 5, {"P": 5}) for i in range(4)], why="one of 4"),
            "one of 4",
        ),
        (
            explanation("n3", [("n3", 30, {"Spread": 20, "P": 10}), ("n1", 10, {"Spread": 0, "P": 10})], [("x", 2)]),
            "; not 2: x; Spread +10 over the average",
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
