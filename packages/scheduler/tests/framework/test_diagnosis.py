"""Why a pod fits nowhere, as people read it and as the queue does."""

import numpy as np
import pytest
from msgspec.structs import force_setattr

from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis, histogram
from berth.framework.events import Action, ClusterEvent
from berth.framework.status import Code, Status, error, unresolvable, unschedulable


def diagnosis(*groups, nodes=5):
    found, first = Diagnosis(nodes, lambda row: f"n{row}"), 0
    for status, count in groups:
        found.add(status, np.arange(first, first + count))
        first += count
    return found


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "0/5 nodes are available:"),
        ([(unschedulable("a"), 5)], "0/5 nodes are available: 5 a."),
        ([(unschedulable("b"), 2), (unresolvable("a"), 3)], "0/5 nodes are available: 2 b, 3 a."),
        ([(unschedulable("b"), 10), (unschedulable("a"), 2)], "0/5 nodes are available: 10 b, 2 a."),
        ([(unschedulable("a", "b"), 2), (unschedulable("a"), 3)], "0/5 nodes are available: 2 b, 5 a."),
    ],
)
def test_message(groups, message):
    assert diagnosis(*groups).message() == message


def test_message_of_a_pre_filter_rejection_and_of_post_filter():
    found = diagnosis()
    found.pre_filter_status = unresolvable("it never fits")
    found.post_filter_message = "nothing helps"
    assert found.message() == "0/5 nodes are available: it never fits. nothing helps"


def test_nodes_left_out_are_counted_with_what_holds_of_them():
    found = diagnosis((unschedulable("full"), 2))
    found.absent_status = unresolvable("left out")
    assert found.message() == "0/5 nodes are available: 2 full, 3 left out."


def on_each(nodes, **more):
    """A diagnosis of so many nodes, each of which was rejected with a reason that names it."""
    in_general = more.pop("in_general", ())
    groups = [(unschedulable(f"nobody to evict on n{row}", in_general=in_general), 1) for row in range(nodes)]
    return diagnosis(*groups, *more.values(), nodes=nodes)


def test_a_few_nodes_are_named_and_many_are_told_in_general():
    general = ("nobody to evict",)
    few = on_each(3, in_general=general).message()
    assert few == "0/3 nodes are available: 1 nobody to evict on n0, 1 nobody to evict on n1, 1 nobody to evict on n2."
    full = (unschedulable("full"), 2)
    assert on_each(500, in_general=general, full=full).message() == (
        "0/500 nodes are available: 2 full, 500 nobody to evict."
    )


def test_a_message_is_bounded_whatever_plugins_say():
    full, empty = (unschedulable("full"), 20), (unschedulable("a reason of great length " * 1000), 30)
    lengths = [len(on_each(nodes, full=full).message()) for nodes in (200, 5_000)]
    assert lengths[1] <= lengths[0] + 30 < 3_000
    message = on_each(5_000, full=full).message()
    assert "20 full" in message and "1 nobody to evict on n0" in message
    named = message.count("nobody to evict")
    assert message.endswith(f", {5_000 - named} others for {5_000 - named} reasons.")
    assert len(diagnosis(empty).message()) < 3_000


def test_who_is_to_be_woken_follows_from_the_codes():
    found = diagnosis(
        (unschedulable("a").by("A"), 1),
        (unresolvable("b").by("B"), 1),
        (Status(Code.PENDING, ("c",), "C"), 1),
        (error("d").by("D"), 1),
        (unschedulable("nobody"), 1),
    )
    assert (found.unschedulable_plugins, found.pending_plugins) == ({"A", "B"}, {"C"})
    assert found.node_statuses["n1"].plugin == "B"
    assert set(found.node_statuses) == {f"n{row}" for row in range(5)}


def test_histogram_sorts_as_text():
    assert histogram([("z", 1), ("a", 10), ("z", 1), ("b", 9)]) == ["10 a", "2 z", "9 b"]


@pytest.mark.parametrize("code", list(Code))
def test_codes_have_kubernetes_names(code):
    names = ["Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending"]
    assert code.label == names[code]
    assert code.is_rejection == (code.label in ("Unschedulable", "UnschedulableAndUnresolvable", "Pending"))


class Counted:
    def __init__(self, count):
        self.count = count

    def clone(self):
        return Counted(self.count)


def test_a_clone_of_the_state_can_be_changed_alone():
    state, shared = CycleState(), [1]
    state.write("counted", Counted(1))
    state.write("shared", shared)
    force_setattr(state, "skip_filter", frozenset({"A"}))
    copy = state.clone()
    copy.read("counted").count = 7
    force_setattr(copy, "skip_filter", copy.skip_filter | {"B"})
    copy.delete("shared")
    copy.delete("unknown")
    assert (state.read("counted").count, state.skip_filter) == (1, {"A"})
    assert state.get("shared") is shared
    assert copy.get("shared") is None
    with pytest.raises(KeyError):
        copy.read("shared")


@pytest.mark.parametrize(
    ("registered", "happened", "covers"),
    [
        (("Node", Action.ADD), ("Node", Action.ADD), True),
        (("Node", Action.ADD | Action.UPDATE), ("Node", Action.UPDATE_NODE_TAINT), True),
        (("Node", Action.ADD), ("Node", Action.DELETE), False),
        (("Node", Action.ALL), ("Pod", Action.ADD), False),
        (("*", Action.ALL), ("Pod", Action.ADD), True),
        (("Node", Action.ADD), ("*", Action.ALL), True),
    ],
)
def test_which_events_a_registration_covers(registered, happened, covers):
    assert ClusterEvent(*registered).matches(ClusterEvent(*happened)) is covers
