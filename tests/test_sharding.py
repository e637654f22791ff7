"""A cluster divided among schedulers: whose pods a core queues, and what becomes of them when shards come and go."""

import hashlib

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.intake import ShardsHeld
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import Bind, WaitUntil
from berth.framework.status import Code, Status
from berth.state.shards import Ownership, shard_of
from berth.testing.invariants import check_cache
from packages.scheduler.tests.support import plugin, requests_of

COUNT = 4
HOME = "team-a"
OURS = shard_of(HOME, COUNT)
ABROAD = next(f"team-{n}" for n in range(100) if shard_of(f"team-{n}", COUNT) != OURS)
ALL = frozenset(range(COUNT))


def cluster(*objects, held=frozenset({OURS}), **options):
    found = VirtualCluster(make_node("n1").capacity(cpu="4", memory="8Gi", pods="10"), shards=COUNT, **options)
    found.handle(ShardsHeld(held))
    for obj in objects:
        found.put(obj)
    return found.run()


def pod(name, namespace=HOME):
    return make_pod(name, namespace).request(cpu="1")


def test_the_shard_of_a_namespace_is_the_same_everywhere_and_for_ever():
    assert [shard_of(name, 16) for name in ("default", "kube-system", "team-a", "", "ü")] == [
        int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) % 16
        for name in ("default", "kube-system", "team-a", "", "ü")
    ]
    assert shard_of("anything", 1) == 0


def test_namespaces_are_spread_over_the_shards():
    counts = [0] * 8
    for number in range(8000):
        counts[shard_of(f"namespace-{number}", 8)] += 1
    assert min(counts) > 850 and max(counts) < 1150


def test_a_single_shard_is_ours_from_the_start():
    assert Ownership().owns("anything") and Ownership(1).owns("anything")
    assert not Ownership(2).owns("anything")


def test_pods_of_other_shards_are_counted_and_not_queued():
    found = cluster(pod("mine"), pod("other", ABROAD), pod("placed", ABROAD).node("n1"))
    assert found.nodes_of() == {"mine": "n1", "other": "", "placed": "n1"}
    assert len(found.core.queue) == 0 and len(found.core.cache) == 2
    assert found.events("FailedScheduling") == []


def test_a_shard_that_comes_brings_its_pending_pods():
    found = cluster(pod("mine"), pod("other", ABROAD), held=frozenset())
    assert set(found.nodes_of().values()) == {""}
    found.handle(ShardsHeld(ALL))
    found.run()
    assert set(found.nodes_of().values()) == {"n1"}


def test_a_shard_that_goes_takes_its_pods_out_of_every_queue():
    found = cluster(pod("placed"), pod("big").request(cpu="64"), pod("gated").gate("wait"), pod("other", ABROAD))
    found.put(pod("fresh"))
    assert len(found.core.queue) == 3
    found.handle(ShardsHeld(ALL - {OURS}))
    found.run()
    assert len(found.core.queue) == 0 and found.nodes_of()["fresh"] == ""
    assert found.nodes_of()["other"] == "n1"
    found.put(pod("big").request(cpu="1"))  # what becomes of them is no business of ours any more
    found.delete("Pod", f"{HOME}/gated")
    found.advance(600.0)
    assert found.nodes_of()["big"] == "" and len(found.core.queue) == 0
    check_cache(found.core.cache)


def test_and_when_it_comes_back_they_are_queued_again():
    found = cluster(pod("big").request(cpu="64"))
    found.handle(ShardsHeld(frozenset()))
    assert len(found.core.queue) == 0
    found.handle(ShardsHeld(frozenset({OURS})))
    assert len(found.core.queue) == 1
    found.handle(ShardsHeld(frozenset({OURS})))
    assert len(found.core.queue) == 1


def test_a_binding_that_fails_after_the_shard_has_gone_is_not_tried_again():
    found = cluster()
    found.answers_binds = False
    found.put(pod("mine"))
    found.run()
    found.handle(ShardsHeld(frozenset()))
    assert found.core.cache.assumed_count == 1, "nobody knows yet what became of it"
    (request,) = found.requests
    found.answer(request, error="not sent: the lease is not held")
    found.advance(600.0)
    assert found.core.cache.assumed_count == 0 and len(found.core.queue) == 0
    assert len(requests_of(found, Bind)) == 1
    assert found.events("FailedScheduling") == [] and found.patches("mine") == []


def test_a_binding_that_is_still_under_way_when_the_shard_comes_back_is_not_begun_twice():
    found = cluster()
    found.answers_binds = False
    found.put(pod("mine"))
    found.run()
    found.handle(ShardsHeld(frozenset()))
    found.handle(ShardsHeld(frozenset({OURS})))
    found.run()
    assert len(requests_of(found, Bind)) == 1 and len(found.core.queue) == 0
    (request,) = found.requests
    found.answers_binds = True
    found.answer(request, error="not sent: the lease is not held")
    found.advance(60.0)
    assert found.nodes_of()["mine"] == "n1"


@pytest.mark.parametrize("point", ["permit", "pre_bind"])
def test_a_pod_that_waits_for_something_is_called_off_with_its_shard(point):
    def pre_bind(*_):
        yield WaitUntil(lambda: False, 600.0)

    methods = {"permit": lambda *_: (Status(Code.WAIT), 600.0), "pre_bind": pre_bind}
    found = cluster(plugins=[plugin("Waits", **{point: methods[point]})])
    found.put(pod("mine"))
    found.run()
    assert found.core.cache.assumed_count == 1
    found.handle(ShardsHeld(frozenset()))
    found.run()
    assert found.core.cache.assumed_count == 0 and len(found.core.queue) == 0
    assert requests_of(found, Bind) == [] and found.events("FailedScheduling") == []
