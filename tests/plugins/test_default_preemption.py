"""DefaultPreemption: who may preempt, and what is said of nodes that nobody can be made to leave."""

import pytest

from berth.config.errors import ConfigError
from berth.config.plugin_args import decode_plugin_args
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.interface import PostFilterResult
from berth.framework.status import Code, error, unresolvable, unschedulable
from berth.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from berth.testing.builders import make_node, make_pod
from tests.plugins.support import diagnosed, handle_of, hint, registered

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_YET = "node(s) run pods of lower priority, but this release of Berth does not preempt yet"

FULL, AWAY = unschedulable("Insufficient cpu"), unresolvable("node(s) had untolerated taint(s)")


def victim(name, node, priority=0):
    return make_pod(name).node(node).priority(priority)


def cluster(*pods):
    nodes = [make_node(name).build() for name in ("a", "b", "c")]
    return handle_of(*nodes, *(pod.build() for pod in pods))


def outcome(pod, handle, diagnosis):
    return DefaultPreemption(DefaultPreemptionArgs(), handle).post_filter(CycleState(), pod.info(), diagnosis)


@pytest.mark.parametrize(
    ("pods", "statuses", "reasons"),
    [
        ([], {"a": AWAY, "b": AWAY, "c": AWAY}, f"3 {NOT_HELPFUL}"),
        ([], {"a": FULL, "b": FULL, "c": FULL}, f"3 {NO_VICTIMS}"),
        ([], {"a": FULL, "b": AWAY, "c": FULL}, f"1 {NOT_HELPFUL}, 2 {NO_VICTIMS}"),
        ([], {"a": error("broken"), "b": FULL, "c": AWAY}, f"1 {NO_VICTIMS}, 2 {NOT_HELPFUL}"),
        ([], {"a": FULL}, f"1 {NO_VICTIMS}, 2 {NOT_HELPFUL}"),
        ([victim("v", "a", 10)], {"a": FULL, "b": FULL, "c": FULL}, f"3 {NO_VICTIMS}"),
        ([victim("v", "a", 11)], {"a": FULL, "b": FULL, "c": FULL}, f"3 {NO_VICTIMS}"),
        ([victim("v", "a", 9)], {"a": FULL, "b": FULL, "c": FULL}, f"1 {NOT_YET}, 2 {NO_VICTIMS}"),
        (
            [victim("v", "a", 9), victim("w", "a", 99)],
            {"a": FULL, "b": AWAY, "c": AWAY},
            f"1 {NOT_YET}, 2 {NOT_HELPFUL}",
        ),
        ([victim("v", "b", 9)], {"a": FULL, "b": AWAY, "c": FULL}, f"1 {NOT_HELPFUL}, 2 {NO_VICTIMS}"),
    ],
)
def test_the_sentence_over_all_nodes(pods, statuses, reasons):
    handle = cluster(*pods)
    result, status = outcome(make_pod().priority(10), handle, diagnosed(handle, **statuses))
    assert result == PostFilterResult("")
    assert status.code is Code.UNSCHEDULABLE
    assert status.message == f"preemption: 0/3 nodes are available: {reasons}."


@pytest.mark.parametrize(
    ("attribute", "said", "reasons"),
    [
        ("pre_filter_status", AWAY, f"3 {NOT_HELPFUL}"),
        ("pre_filter_status", FULL, f"3 {NO_VICTIMS}"),
        ("absent_status", AWAY, f"3 {NOT_HELPFUL}"),
        ("absent_status", FULL, f"3 {NO_VICTIMS}"),
    ],
)
def test_what_holds_of_all_nodes_counts_for_each(attribute, said, reasons):
    handle = cluster()
    diagnosis = diagnosed(handle)
    setattr(diagnosis, attribute, said)
    _, status = outcome(make_pod(), handle, diagnosis)
    assert status.message == f"preemption: 0/3 nodes are available: {reasons}."


def test_victims_that_came_and_went_are_seen():
    handle = cluster(victim("v", "a"))
    plugin = DefaultPreemption(DefaultPreemptionArgs(), handle)
    diagnosis = diagnosed(handle, a=FULL)

    def message():
        return plugin.post_filter(CycleState(), make_pod().priority(1).info(), diagnosis)[1].message

    assert NOT_YET in message()
    handle.cache.remove_pod("default/v")
    assert NO_VICTIMS in message()
    handle.cache.add_pod(victim("w", "a").info())
    assert NOT_YET in message()
    for index in range(20):
        handle.cache.put_node(make_node(f"more-{index}").build())
    assert NOT_YET in message()


def test_without_nodes_there_is_nothing_to_free():
    handle = handle_of()
    assert outcome(make_pod(), handle, diagnosed(handle)) == (None, error("preemption: no nodes available"))


def preempted(pod):
    return pod.terminating().set_status(
        conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    )


def test_a_pod_that_never_preempts_keeps_its_nomination():
    handle = cluster(victim("v", "a"))
    refused = unschedulable("preemption: not eligible due to preemptionPolicy=Never.")
    assert outcome(make_pod().priority(10, "Never"), handle, diagnosed(handle, a=FULL)) == (None, refused)


WAITS = "preemption: not eligible due to a terminating pod on the nominated node."


@pytest.mark.parametrize(
    ("running", "nominated", "status", "waits"),
    [
        (preempted(victim("v", "a")), "a", FULL, True),
        (preempted(victim("v", "a")), "a", AWAY, False),
        (preempted(victim("v", "b")), "a", FULL, False),
        (preempted(victim("v", "a", 10)), "a", FULL, False),
        (victim("v", "a").terminating(), "a", FULL, False),
        (victim("v", "a"), "a", FULL, False),
        (preempted(victim("v", "a")), "gone", FULL, False),
        (preempted(victim("v", "a")), "", FULL, False),
    ],
)
def test_a_pod_waits_for_the_victims_on_its_nominated_node(running, nominated, status, waits):
    handle = cluster(running)
    pod = make_pod().priority(10).nominated(nominated)
    result, said = outcome(pod, handle, diagnosed(handle, a=status))
    assert (said.message == WAITS) is waits
    assert (result is None) is waits


@pytest.mark.parametrize(
    ("args", "errors"),
    [
        ({}, []),
        ({"minCandidateNodesPercentage": 0}, []),
        ({"minCandidateNodesAbsolute": 0}, []),
        ({"minCandidateNodesPercentage": 101}, ["not in valid range [0, 100]"]),
        ({"minCandidateNodesPercentage": -1}, ["not in valid range [0, 100]"]),
        ({"minCandidateNodesAbsolute": -1}, ["not in valid range [0, inf)"]),
        (
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            [
                "cannot be zero at the same time as minCandidateNodesAbsolute",
                "cannot be zero at the same time as minCandidateNodesPercentage",
            ],
        ),
    ],
)
def test_args(args, errors):
    found = []
    try:
        decoded = decode_plugin_args("DefaultPreemption", args, DefaultPreemptionArgs, "args")
        assert decoded.min_candidate_nodes_percentage == args.get("minCandidateNodesPercentage", 10)
        assert decoded.min_candidate_nodes_absolute == args.get("minCandidateNodesAbsolute", 100)
    except ConfigError as raised:
        found = list(raised.errors)
    assert [message.split(": ", 2)[2].partition(": ")[2] for message in found] == errors


def test_a_departure_is_for_other_plugins_to_judge():
    plugin = DefaultPreemption(DefaultPreemptionArgs(), cluster())
    assert registered(plugin) == {("Pod", Action.DELETE)}
    assert hint(plugin, "Pod")(make_pod().info(), make_pod("v").info(), None) is QueueingHint.SKIP
