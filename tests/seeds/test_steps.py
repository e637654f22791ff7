"""Steps of the cycle that the pages describe, one by one, where no other test of the engine shows exactly that step.

Source: pkg/scheduler/core/generic_scheduler.go of v1.18, as tests/seeds/README.md quotes it.
"""

from collections import Counter
from itertools import pairwise, product

import pytest

from berth.core.builders import make_node, make_pod
from berth.framework.status import error, unresolvable, unschedulable
from packages.scheduler.tests.extender.support import FakeExtenders
from packages.scheduler.tests.support import cluster, document, node, plugin, pod, with_profiles

V1_20, TODAY = "v1.20", "v1.36"

NOT_HELPFUL = (
    "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
"""What today's PostFilter plugins, DynamicResources and DefaultPreemption, say where nothing can be freed."""


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
    found = cluster(node(), node("n2"), config=config, generation=V1_20, score_single_node=True)
    found.put(pod("a", cpu="100m"))
    found.run()
    assert found.core.trace["default/a"].total.tolist() == [1, 1]


def test_a_profile_without_score_plugins_adds_nothing_to_what_extenders_say():
    """Only where there are no extenders either has every node the score one."""
    extender = {"urlPrefix": "http://extender.test", "prioritizeVerb": "prioritize", "weight": 1, "enableHTTPS": False}
    config = with_profiles({"plugins": {"score": {"disabled": [{"name": "*"}]}}}, extenders=[extender])
    found = cluster(node(), node("n2"), config=config, generation=V1_20)
    found.answer_call = FakeExtenders({(0, "prioritize"): [{"Host": "n1", "Score": 3}, {"Host": "n2", "Score": 0}]})
    found.put(pod("a", cpu="100m"))
    found.run()
    assert found.core.trace["default/a"].total.tolist() == [3 * 100 // 10, 0]


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
    names = ["n0", "n1", "n2", "n3"]
    nodes = [make_node(name).capacity(cpu="64", memory="8Gi", pods="1000") for name in names]
    config = with_profiles({"plugins": {"score": {"disabled": [{"name": "*"}]}}})
    found = cluster(*nodes, config=config, generation=V1_20)
    for number in range(400):
        found.put(pod(f"p{number:03}", cpu="1m"))
        found.run()
    chosen = list(found.nodes_of().values())
    counts = Counter(chosen)
    assert set(counts) == set(names)
    assert 60 < min(counts.values()) <= max(counts.values()) < 140, "40 off 100 is more than four standard deviations"
    assert set(pairwise(chosen)) == set(product(names, repeat=2)), "the choice does not depend on the one before"


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


def test_each_node_is_one_piece_of_work():
    """ParallelizeUntil calls the function once for each piece, and a node is a piece."""
    asked = []
    counts = plugin("Counts", filter=lambda state, pod, view: asked.append(view.name))
    nodes = [node(f"n{number}") for number in range(40)]
    found = cluster(*nodes, plugins={"Counts": counts}, config=document("Counts"), generation=V1_20)
    found.delete("Node", "n7")
    found.put(pod("a", cpu="100m"))
    found.run()
    assert sorted(asked) == sorted(f"n{number}" for number in range(40) if number != 7)


def attempted(name, generation, **methods):
    """A pod that a plugin of these methods has been asked about, of two nodes."""
    made = plugin(name, **methods)
    found = cluster(node(), node("n2"), plugins={name: made}, config=document(name), generation=generation)
    found.put(pod("a", cpu="100m"))
    return found.run()


@pytest.mark.parametrize(("generation", "bound_to"), [(V1_20, ""), (TODAY, "n2")])
def test_an_error_on_one_node_ends_the_search(generation, bound_to):
    """The first error is sent to the error channel, which cancels the other workers; nothing that fits counts then."""
    found = attempted("Errs", generation, filter=lambda state, pod, view: error("lost") if view.name == "n1" else None)
    assert found.pod("a").spec.node_name == bound_to
    told = ['running "Errs" filter plugin for pod "a": lost'] if generation == V1_20 else []
    assert found.events("FailedScheduling") == told


@pytest.mark.parametrize(
    ("generation", "note"),
    [
        (V1_20, "0/2 nodes are available: 2 not today."),
        (TODAY, f"0/2 nodes are available: not today. {NOT_HELPFUL}"),
    ],
)
def test_a_rejection_by_pre_filter_is_every_nodes_and_preemption_is_silent(generation, note):
    found = attempted("Never", generation, pre_filter=lambda *_: unresolvable("not today"))
    assert found.events("FailedScheduling") == [note]


@pytest.mark.parametrize(("generation", "bound_to"), [(V1_20, "n2"), (TODAY, "n1")])
def test_no_node_is_looked_at_before_the_others(generation, bound_to):
    """The node that a pod is nominated to comes first in later releases, and in these not."""
    prefers = plugin("Prefers", score=lambda state, pod, view: 100 if view.name == "n2" else 0)
    config = with_profiles({"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "Prefers"}]}}})
    found = cluster(node(), node("n2"), plugins={"Prefers": prefers}, config=config, generation=generation)
    found.put(pod("a", cpu="100m").nominated("n1"))
    found.run()
    assert found.pod("a").spec.node_name == bound_to
