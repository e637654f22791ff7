"""Steps of the cycle that the pages describe, one by one, where no other test of the engine shows exactly that step.

Source: pkg/scheduler/core/generic_scheduler.go of v1.18, as docs/seeds.md quotes it.
"""

from collections import Counter

from berth.framework.status import unschedulable
from berth.testing.builders import make_node, make_pod
from tests.support import cluster, document, node, plugin, pod, with_profiles

V1_20 = "v1.20"


def test_a_cycle_from_pre_filter_to_select_host():
    said = []

    def note(what, answer=None):
        return lambda *_: said.append(what) or answer

    steps = plugin(
        "Steps",
        pre_filter=note("PreFilter"),
        filter=note("Filter"),
        pre_score=note("PreScore"),
        score=lambda state, pod, view: said.append("Score") or (100 if view.name == "n2" else 0),
        normalize_score=lambda state, pod, scores: said.append("NormalizeScore") or scores,
        reserve=note("Reserve"),
        unreserve=note("Unreserve"),
    )
    found = cluster(node(), node("n2"), plugins={"Steps": steps}, config=document("Steps"), generation=V1_20)
    found.put(pod("a", cpu="100m"))
    found.run()
    assert said == ["PreFilter", "Filter", "Filter", "PreScore", "Score", "Score", "NormalizeScore", "Reserve"]
    assert found.pod("a").spec.node_name == "n2"


def test_where_nothing_scores_every_node_gets_one():
    """ "If no priority configs are provided, then all nodes will have a score of one"."""
    config = with_profiles({"plugins": {"score": {"disabled": [{"name": "*"}]}, "multiPoint": {"enabled": []}}})
    found = cluster(node(), node("n2"), config=config, generation=V1_20)
    found.core.search.score_single_node = True
    found.put(pod("a", cpu="100m"))
    found.run()
    assert found.core.trace["default/a"].total.tolist() == [1, 1]


def test_scores_are_weighted_and_added_up():
    one = plugin("One", score=lambda *_: 7)
    two = plugin("Two", score=lambda state, pod, view: 5 if view.name == "n1" else 1)
    config = with_profiles(
        {"plugins": {"score": {"disabled": [{"name": "*"}],
                               "enabled": [{"name": "One", "weight": 3}, {"name": "Two", "weight": 10}]}}}
    )  # fmt: skip
    found = cluster(node(), node("n2"), plugins={"One": one, "Two": two}, config=config, generation=V1_20)
    found.put(pod("a", cpu="100m"))
    found.run()
    decision = found.core.trace["default/a"]
    totals = dict(zip([decision.names[row] for row in decision.feasible], decision.total.tolist(), strict=True))
    assert totals == {"n1": 3 * 7 + 10 * 5, "n2": 3 * 7 + 10 * 1}


def test_among_equals_each_is_as_likely():
    """Reservoir sampling replaces the candidate with probability 1/n, so that all n are as likely."""
    config = with_profiles({"plugins": {"score": {"disabled": [{"name": "*"}]}}})
    found = cluster(*(node(f"n{number}", cpu="64") for number in range(4)), config=config, generation=V1_20)
    for number in range(400):
        found.put(pod(f"p{number}", cpu="1m"))
    found.run()
    chosen = Counter(found.nodes_of().values())
    assert set(chosen) == {"n0", "n1", "n2", "n3"}
    assert min(chosen.values()) > 60, "100 each are expected; 60 is more than four standard deviations off"


def test_the_next_search_starts_where_this_one_ended():
    """nextStartNodeIndex = (nextStartNodeIndex + processedNodes) % allNodes."""
    nodes = [node(f"n{number:03}") for number in range(150)]
    found = cluster(*nodes, config=with_profiles({}, percentageOfNodesToScore=50), generation=V1_20)
    for number in range(2):
        found.put(pod(f"p{number}", cpu="1m"))
        found.run()
    first, second = (found.core.trace[f"default/p{number}"] for number in range(2))
    assert first.evaluated_count == second.evaluated_count == 100, "minFeasibleNodesToFind"
    assert found.core.search.start_index == (100 + 100) % 150
    assert set(second.feasible.tolist()) - set(first.feasible.tolist()), "other nodes are looked at the second time"


def test_nominated_pods_are_told_to_what_pre_filter_prepared():
    """Filters run twice: with the nominated pods of at least the same priority told to AddPod, and without."""
    told = []

    class Counting:
        name = "Counting"

        def __init__(self, args, handle):
            pass

        def pre_filter(self, state, pod):
            state.write("counted", 0)

        def add_pod(self, state, pod, added, view):
            told.append((added.name, view.name))
            state.write("counted", state.read("counted") + 1)

        def remove_pod(self, state, pod, removed, view):
            raise AssertionError("nobody leaves")

        def filter(self, state, pod, view):
            return unschedulable("promised to others") if state.read("counted") else None

    found = cluster(
        make_node("n1").capacity(cpu="1", memory="8Gi"),
        make_node("n2").capacity(cpu="1", memory="8Gi"),
        plugins={"Counting": Counting}, config=document("Counting"), generation=V1_20,
    )  # fmt: skip
    found.core.nominator.nominate(make_pod("rival").priority(5).info(), "n1")
    found.put(pod("a", cpu="100m").priority(5))
    found.run()
    assert told == [("rival", "n1")]
    assert found.pod("a").spec.node_name == "n2"
