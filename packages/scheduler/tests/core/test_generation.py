"""The rules of v1.20 in a whole core: who is woken, and when assumed pods expire.

Source: pkg/scheduler/scheduler.go and internal/cache/cache.go, release-1.20."""

import msgspec
import pytest

from berth.config.load import default_config
from berth.core.generation import generation_of
from berth.queue.move_requests import MoveRequestQueue
from berth.state.follower import RowFollower
from berth.testing.invariants import check, check_cache
from packages.scheduler.tests.support import cluster, node, pod

V1_20 = "v1.20"
TTL_S, SWEEP_S = 30.0, 1.0


def test_times_come_from_the_generation_and_backoffs_from_the_configuration():
    config = msgspec.structs.replace(default_config(), generation=V1_20, pod_initial_backoff_s=2, pod_max_backoff_s=20)
    found = generation_of(config)
    assert (found.queue.unschedulable_age_s, found.queue.hints, found.queue.pop_from_backoff) == (60.0, False, False)
    assert (found.queue.initial_backoff_s, found.queue.max_backoff_s) == (2, 20)
    assert (found.assumed_ttl_s, found.assumed_sweep_period_s) == (TTL_S, SWEEP_S)
    today = generation_of(default_config())
    assert (today.name, today.queue.hints, today.assumed_ttl_s) == ("v1.36", True, None)


def test_a_pod_that_fits_nowhere_is_woken_by_any_node():
    found = cluster(node(), pod("big", cpu="4"), generation=V1_20).run()
    assert isinstance(found.core.queue, MoveRequestQueue)
    assert "default/big" in found.core.queue.unschedulable
    found.put(node("still-too-small"))
    assert "default/big" in found.core.queue.backoff, "no hint is asked"
    found.put(node("large", cpu="8"))
    found.advance(3.0)
    assert found.pod("big").spec.node_name == "large"
    check(found.core)


def test_without_nodes_a_pod_waits_for_one():
    found = cluster(pod("a"), generation=V1_20).advance(20.0)
    assert found.core.trace["default/a"].attempts == 1
    found.put(node())
    found.advance(2.0)
    assert found.pod("a").spec.node_name == "n1"


def test_an_old_unschedulable_pod_is_tried_again_after_a_minute():
    found = cluster(node(), pod("big", cpu="4"), generation=V1_20).advance(59.0)
    assert found.core.trace["default/big"].attempts == 1
    found.advance(32.0)
    assert found.core.trace["default/big"].attempts == 2


def test_an_assumed_pod_expires_in_the_first_sweep_after_its_time():
    """The deadline is 30 s after the binding finished, and is looked at once a second, or whenever the core steps."""
    found = cluster(node(), pod("a"), pod("b"), generation=V1_20)
    found.confirms_binds = False
    found.run()
    assert found.core.cache.assumed_count == 1, "n1 has room for one of them"
    expected = f"{TTL_S} s after the binding finished"
    for seconds in (5.0, 15.0, 5.0, 4.0, 0.999):
        found.advance(seconds)
        found.step()
        assert found.core.cache.state_of("default/a") is not None, f"at {found.now} s, not before {expected}"
    found.advance(SWEEP_S)
    assert found.core.cache.state_of("default/a") is None, f"at {found.now} s, in the first sweep after {expected}"
    assert found.pod("b").spec.node_name == "n1", "the room that was given back is taken"
    check_cache(found.core.cache)


def test_a_pod_whose_binding_has_not_finished_never_expires():
    found = cluster(node(), pod("a"), generation=V1_20)
    found.answers_binds = found.confirms_binds = False
    found.advance(10 * TTL_S)
    assert found.core.cache.assumed_count == 1
    (request,) = found.requests
    found.answer(request)
    for seconds in (TTL_S - 5.0, 4.999):
        found.advance(seconds)
        found.step()
        assert found.core.cache.assumed_count == 1, "the time runs from the end of the binding, not from its start"
    found.advance(SWEEP_S)
    assert found.core.cache.assumed_count == 0


@pytest.mark.parametrize("generation", ["v1.36", V1_20])
def test_a_snapshot_copies_only_what_changed(generation):
    found = cluster(*(node(f"n{number}") for number in range(50)), generation=generation)
    table = found.core.cache.table
    row_of, snapshot = dict(table.row_of), RowFollower(table, nodes=True, pods=True)
    assert snapshot.changed_rows() is None, "the first one has everything to copy"
    found.put(pod("a"))
    found.run()
    (bound,) = (each for each in row_of.values() if table.pods[each])
    assert snapshot.changed_rows() == [bound], "the node that the pod was assumed on, and confirmed by the watch"
    found.run()
    assert not snapshot.changed_rows()
    found.put(node("n7", cpu="2"))
    found.delete("Node", "n8")
    assert snapshot.changed_rows() == sorted((row_of["n7"], row_of["n8"]))
