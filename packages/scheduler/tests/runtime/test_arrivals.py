"""What has to be told to the core at once, and what may wait for more to come."""

import pytest

from berth.api.resources import RESOURCES
from berth.core.builders import make_pod
from berth.framework.effects import Answer
from berth.kube.changes import Added, Deleted, Modified, Synced
from berth.runtime.arrivals import Arrivals

POD = make_pod("web").build()


@pytest.mark.parametrize(
    ("change", "is_urgent"),
    [(Added(POD), True), (Synced(RESOURCES["Pod"]), True), (Modified(POD, POD), False), (Deleted(POD), False)],
)
async def test_what_is_new_is_urgent_and_what_has_changed_is_not(change, is_urgent):
    arrivals = Arrivals()
    assert arrivals.take_in([change]) == []
    assert (arrivals.wake.is_set(), arrivals.urgent.is_set()) == (True, is_urgent)
    assert arrivals.take() is change


async def test_an_answer_makes_what_waits_urgent_too():
    arrivals = Arrivals()
    arrivals.take_in([Modified(POD, POD)])
    arrivals.put(Answer(1))
    assert arrivals.urgent.is_set()
    arrivals.all_taken()
    assert not (arrivals.wake.is_set() or arrivals.urgent.is_set())
    assert len(arrivals) == 2, "said to be taken, and taken one by one"
