"""What is made of the scheduler's answers for people: rates, shares, the decision matrix."""

from berth.decisions.explanation import Explanation, Rejected, ScoredNode
from berth.decisions.node_columns import NodeColumns, NodeGroups, ResourceAmounts
from berth_workbench.sources.model import (
    QueueHistory,
    QueueSample,
    decision_matrix,
    node_lines,
    node_scores,
    queue_sample,
    totals,
)

# -- the queue over time ----------------------------------------------------------------------------------------------

METRICS = """# TYPE scheduler_pending_pods gauge
scheduler_pending_pods{queue="active"} 3
scheduler_pending_pods{queue="unschedulable"} 4
# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{profile="a",result="scheduled"} 10
scheduler_schedule_attempts_total{profile="b",result="scheduled"} 5
scheduler_schedule_attempts_total{profile="a",result="error"} 1
# TYPE other gauge
other{broken
"""


def test_a_sample_is_read_off_the_metrics_and_profiles_are_added_up():
    sample = queue_sample(METRICS, 7.0)
    assert sample.pending == {"active": 3, "backoff": 0, "unschedulable": 4, "gated": 0}
    assert sample.attempts == {"scheduled": 15.0, "unschedulable": 0.0, "error": 1.0}


def test_rates_are_per_second_and_unknown_after_a_restart():
    history = QueueHistory()
    for at_s, count in ((0, 10), (2, 30), (4, 5), (4, 6), (5, 8)):
        history.add(QueueSample(float(at_s), {}, {"scheduled": float(count)}))
    assert history.rates("scheduled") == [None, 10.0, None, None, 2.0]
    assert QueueHistory().rates("scheduled") == []


def test_the_history_is_bounded():
    history = QueueHistory(max_samples=3)
    for at_s in range(10):
        history.add(QueueSample(float(at_s), {}, {}))
    assert [sample.at_s for sample in history.samples] == [7.0, 8.0, 9.0]
    assert len(history.rates("scheduled")) == 3


# -- nodes ------------------------------------------------------------------------------------------------------------

COLUMNS = NodeColumns(
    names=["a", "b"],
    pools=NodeGroups(("", "fast"), [1, 0]),
    zones=NodeGroups(("z",), [0, 0]),
    resources=(ResourceAmounts("cpu", [4000, 0], [1000, 0]),),
    pods=[2, 0],
    allowed_pods=[10, 110],
    unschedulable=[False, True],
    tainted=[False, True],
    total=2,
)


def test_each_node_is_told_with_its_shares():
    first, second = node_lines(COLUMNS)
    assert (first.name, first.pool, first.zone, first.shares) == ("a", "fast", "z", {"cpu": 0.25, "pods": 0.2})
    assert (second.pool, second.shares, second.is_unschedulable) == ("", {"cpu": None, "pods": 0.0}, True)


def test_the_cluster_in_a_few_numbers():
    sums = totals(COLUMNS)
    assert (sums.nodes, sums.pods, sums.unschedulable, sums.shares) == (2, 2, 1, {"cpu": 0.25})


# -- one decision -----------------------------------------------------------------------------------------------------


def explanation(best, rejected=(), node="a"):
    return Explanation(
        "default/p", "uid", "default-scheduler", "scheduled", node, "", "", 1, 5, len(best),
        {"Fit": 1, "Image": 2, "Spread": 2}, tuple(best), tuple(rejected),
    )  # fmt: skip


def test_the_matrix_tells_how_far_each_node_is_behind_and_who_made_the_difference():
    best = [
        ScoredNode("a", 150, {"Fit": 90, "Image": 0, "Spread": 60}),
        ScoredNode("b", 120, {"Fit": 95, "Image": 0, "Spread": 25}),
        ScoredNode("c", 100, {"Fit": 80, "Image": 0, "Spread": 20}),
    ]
    matrix = decision_matrix(explanation(best))
    assert set(matrix.plugins[:2]) == {"Fit", "Spread"} and matrix.plugins[2] == "Image"
    assert matrix.margin == 30 and matrix.decisive == ("Spread",)
    of = {plugin: index for index, plugin in enumerate(matrix.plugins)}
    assert [row.is_chosen for row in matrix.rows] == [True, False, False]
    assert matrix.rows[1].behind[of["Fit"]] == -5 and matrix.rows[1].behind[of["Spread"]] == 35
    assert matrix.weights[of["Image"]] == 2


def test_a_matrix_of_one_node_has_no_margin():
    matrix = decision_matrix(explanation([ScoredNode("a", None, {})]))
    assert matrix.margin is None and matrix.decisive == () and len(matrix.rows) == 1
    assert decision_matrix(explanation([], node=None)).rows == ()


def test_scores_of_all_nodes_colour_the_map():
    best = [ScoredNode("a", 150, {"Fit": 90}), ScoredNode("b", 120, {"Fit": 95})]
    rejected = [Rejected("Taints", "Unschedulable", ("tainted",), 2, ("c", "d"))]
    scores = node_scores(explanation(best, rejected))
    assert scores.totals == {"a": 150, "b": 120} and scores.by_plugin["Fit"] == {"a": 90, "b": 95}
    assert scores.rejected == {"c": "Taints: tainted", "d": "Taints: tainted"}
    assert scores.chosen == "a"
