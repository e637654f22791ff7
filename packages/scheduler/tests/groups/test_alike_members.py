"""Members of one shape are not filtered again while nothing changes: decisions and messages are as if they were."""

import pytest

from berth.cycle import schedule
from berth.engine.profile import Profile
from packages.scheduler.tests.groups.support import GANG, PLACING, PREEMPTING, cluster, make_pod_group, members, node
from packages.scheduler.tests.groups.test_properties import Rivals
from tests.effort import examples

GATES = {"gang": GANG, "placing": PLACING, "preempting": PREEMPTING}


def told_of(found):
    """Where every pod is, and all that is said about it, node by node."""
    decided = {
        key: (each.message, each.outcome, [(str(status), rows.tolist()) for status, rows in each.rejected])
        for key, each in found.core.trace.items()
    }
    conditions = {key: each.status.conditions for (_, key), each in found.objects.items() if hasattr(each, "status")}
    return found.nodes_of(), decided, conditions, found.rng.getstate()


@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("seed", range(examples(6)))
def test_a_life_of_gangs_goes_as_where_each_member_is_filtered(gates, seed, monkeypatch):
    def life():
        rivals = Rivals(seed, GATES[gates])
        for _ in range(80):
            rivals.happen()
        rivals.settle()
        return told_of(rivals.found)

    skipping = life()
    monkeypatch.setattr(schedule, "_told_before", lambda *_: None)
    assert skipping == life()


def test_members_without_room_are_filtered_once_until_one_is_placed(monkeypatch):
    filtered = []
    run_filter = Profile.run_filter

    def spy(profile, state, pod, *arguments):
        filtered.append(pod.name)
        return run_filter(profile, state, pod, *arguments)

    monkeypatch.setattr(Profile, "run_filter", spy)
    large, small = members(4, cpu="3"), [each.priority(-1) for each in members(6, "s", "1")]
    found = cluster(node("a", "4"), make_pod_group("g", 9), *large, *(each.group("g") for each in small))
    found.advance(0.0)
    # One large and one small member fill the node; one more of each has no room, and the others are like these.
    assert filtered == ["g-0", "g-1", "s-0", "s-1"]
