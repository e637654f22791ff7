"""PrioritySort: priority first, then time."""

from typing import NamedTuple

import pytest

from berth.core.builders import make_pod
from berth.plugins.priority_sort import PrioritySort
from berth.state.pod_info import PodInfo
from packages.scheduler.tests.plugins.support import handle_of


class Queued(NamedTuple):
    pod: PodInfo
    timestamp: float


def queued(priority, timestamp):
    pod = make_pod()
    return Queued((pod if priority is None else pod.priority(priority)).info(), timestamp)


@pytest.mark.parametrize(
    ("a", "b", "a_first", "b_first"),
    [
        (queued(10, 2.0), queued(5, 1.0), True, False),
        (queued(5, 1.0), queued(10, 2.0), False, True),
        (queued(5, 1.0), queued(5, 2.0), True, False),
        (queued(5, 1.0), queued(5, 1.0), False, False),
        (queued(None, 2.0), queued(-1, 1.0), True, False),
        (queued(None, 1.0), queued(0, 2.0), True, False),
    ],
)
def test_order(a, b, a_first, b_first):
    plugin = PrioritySort(None, handle_of())
    assert (plugin.less(a, b), plugin.less(b, a)) == (a_first, b_first)
    assert (plugin.sort_key(a) < plugin.sort_key(b)) is a_first
