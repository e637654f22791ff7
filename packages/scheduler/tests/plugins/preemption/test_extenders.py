"""Extenders in preemption: pkg/scheduler/framework/preemption, callExtenders, and TestPreempt with extenders."""

import pytest

from berth.core.builders import make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import EvictPod
from packages.scheduler.tests.extender.support import FAILS, FakeExtenders, configured, listed
from packages.scheduler.tests.plugins.preemption.support import nodes, running
from packages.scheduler.tests.support import requests_of

A, B = "http://a.test", "http://b.test"


def cluster(answers, *extenders):
    """Nodes a, b and c, each full of one pod; b's is the least important, and the one that would go."""
    victims = [running("on-a", "a", "4", 2), running("on-b", "b", "4", 1), running("on-c", "c", "4", 3)]
    found = VirtualCluster(*nodes("a", "b", "c"), *victims, config=configured(*extenders))
    found.answer_call = FakeExtenders(answers)
    return found, found.answer_call


def preempted(found):
    """Whom a pod of high priority makes leave."""
    found.evicts_at_once = False
    found.put(make_pod("vip").priority(100).request(cpu="1"))
    found.run()
    return [effect.pod.name for effect in requests_of(found, EvictPod)]


def only(*names):
    """Agrees to these nodes, with the victims that were proposed, by uid."""

    def answer(document):
        proposed = document["NodeNameToMetaVictims"]
        if proposed is None:
            whole = document["NodeNameToVictims"]
            proposed = {
                name: {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in found["Pods"]]}
                for name, found in whole.items()
            }
        return {"NodeNameToMetaVictims": {name: found for name, found in proposed.items() if name in names}}

    return answer


def test_without_a_preempting_extender_the_cheapest_node_is_freed():
    found, _ = cluster({}, listed(A, "bind"))
    assert preempted(found) == ["on-b"]


@pytest.mark.parametrize("by_name", [True, False])
def test_extenders_narrow_the_candidates_in_turn(by_name):
    entries = [listed(url, "preempt", nodeCacheCapable=by_name) for url in (A, B)]
    found, told = cluster({(0, "preempt"): only("a", "c"), (1, "preempt"): only("c", "b")}, *entries)
    assert preempted(found) == ["on-c"]
    key = "NodeNameToMetaVictims" if by_name else "NodeNameToVictims"
    assert [sorted(document[key]) for _, _, document in told.calls] == [["a", "b", "c"], ["a", "c"]]
    notes = [(call.extender, call.verb, call.note) for call in found.core.trace["default/vip"].asked]
    assert notes == [(A, "preempt", "2 of 3 candidates left"), (B, "preempt", "1 of 2 candidates left")]


def test_of_what_is_left_the_cheapest_counts_and_violations_are_as_the_extender_says():
    def answer(document):
        found = only("a", "b", "c")(document)["NodeNameToMetaVictims"]
        found["b"]["NumPDBViolations"] = 1
        return {"nodeNameToMetaVictims": found}

    found, _ = cluster({(0, "preempt"): answer}, listed(A, "preempt", nodeCacheCapable=True))
    assert preempted(found) == ["on-a"]


def test_an_extender_may_name_other_victims():
    found, told = cluster({}, listed(A, "preempt", nodeCacheCapable=True))
    found.put(running("small", "a", "0"))
    uids = [{"UID": "default/small"}, {"UID": "default/on-a"}]
    told.answers[0, "preempt"] = {"NodeNameToMetaVictims": {"a": {"Pods": uids, "NumPDBViolations": 0}}}
    assert preempted(found) == ["on-a", "small"]


def test_where_no_candidate_is_left_nobody_leaves():
    found, told = cluster({(0, "preempt"): only()}, listed(A, "preempt"), listed(B, "preempt"))
    assert preempted(found) == []
    assert told.verbs() == [(0, "preempt")]
    assert "preemption: no candidate node for preemption" in found.events("FailedScheduling")[0]


NO_VICTIMS = {"NodeNameToMetaVictims": {"a": {"Pods": []}}}
STRANGER = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "nobody"}]}}}
NO_NODE = {"NodeNameToMetaVictims": {"x": {"Pods": [{"UID": "default/on-a"}]}}}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (FAILS, FAILS.error),
        (STRANGER, "claims to preempt pod (UID: nobody) on node: a, but the pod is not found on that node"),
        (NO_NODE, "claims to preempt on node: x, but there is no such node"),
        (NO_VICTIMS, 'expected at least one victim pod on node "a"'),
    ],
    ids=["transport", "stranger", "no such node", "no victims"],
)
def test_an_extender_that_fails_stops_preemption(answer, problem):
    found, _ = cluster({(0, "preempt"): answer}, listed(A, "preempt"))
    assert preempted(found) == []
    assert f"preemption: {answer.error if answer is FAILS else ''}" in found.events("FailedScheduling")[0]
    assert problem in found.events("FailedScheduling")[0]
    (asked,) = found.core.trace["default/vip"].asked
    assert problem in asked.problem and not asked.is_ignored


@pytest.mark.parametrize("answer", [FAILS, STRANGER, NO_NODE], ids=["transport", "stranger", "no such node"])
def test_an_ignorable_extender_that_fails_is_skipped(answer):
    found, _ = cluster({(0, "preempt"): answer}, listed(A, "preempt", ignorable=True))
    assert preempted(found) == ["on-b"]
    assert found.core.trace["default/vip"].asked[0].is_ignored


def test_nodes_without_victims_of_an_ignorable_extender_are_left_out():
    def answer(document):
        found = only("a", "b")(document)["NodeNameToMetaVictims"]
        found["b"]["Pods"] = []
        return {"NodeNameToMetaVictims": found}

    found, _ = cluster({(0, "preempt"): answer}, listed(A, "preempt", ignorable=True, nodeCacheCapable=True))
    assert preempted(found) == ["on-a"]
