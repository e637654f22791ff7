"""SchedulingGates: code and message as upstream, and which events end the wait."""

import pytest

from berth.core.builders import make_pod
from berth.framework.events import Action, QueueingHint
from berth.framework.status import Code
from berth.plugins.scheduling_gates import SchedulingGates
from packages.scheduler.tests.plugins.support import handle_of, hint, registered

PLUGIN = SchedulingGates(None, handle_of())


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        (("foo",), "waiting for scheduling gates: [foo]"),
        (("foo", "example.com/bar"), "waiting for scheduling gates: [foo example.com/bar]"),
    ],
)
def test_a_gated_pod_waits(gates, message):
    status = PLUGIN.pre_enqueue(make_pod().gate(*gates).info())
    assert status is not None
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, message)


def test_a_pod_without_gates_goes_in():
    assert PLUGIN.pre_enqueue(make_pod().info()) is None


def test_only_its_own_last_gate_lets_a_pod_in():
    assert registered(PLUGIN) == {("Pod", Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)}
    ask, gated = hint(PLUGIN, "Pod"), make_pod("p").gate("foo", "bar").info()
    assert ask(gated, gated, make_pod("p").info()) is QueueingHint.QUEUE
    assert ask(gated, gated, make_pod("p").gate("bar").info()) is QueueingHint.SKIP
    assert ask(gated, gated, make_pod("other").info()) is QueueingHint.SKIP
