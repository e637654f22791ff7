"""A live observer beside a live scheduler: what it says, what it serves, and that it asks for nothing but reading.

Its calls are held against the role of deploy/kustomize/components/observer; one that the role does not grant fails.
"""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import pytest
import yaml

from berth.agreement.observer import Lookahead, Observing
from berth.agreement.settings import build_observer
from berth.kube.read_only import ReadOnlyTransport, WriteRefusedError
from berth.runtime.observing.metrics import Metrics
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.turns import Inline
from tests.deploy.manifests import KUSTOMIZE
from tests.rbac import Authorizer
from tests.runtime.world import FaultyTransport, World, configuration, scheduling
from tests.waiting import until

ROLE = list(yaml.safe_load_all((KUSTOMIZE / "components/observer/rbac.yaml").read_text()))


class WatchingTransport(FaultyTransport):
    """The store's transport, which grants what the observer's role does."""

    def __init__(self, store):
        super().__init__(store)
        self._rbac = Authorizer(ROLE)


@asynccontextmanager
async def observing(world, transport, **more):
    metrics = Metrics()
    settings = Observing(Lookahead(None, 0.0), **more)
    observer = LiveScheduler(
        configuration(),
        transport,
        runner=Inline(),
        instrument=metrics,
        build=partial(build_observer, observing=settings),
        writes=False,
    )
    metrics.observe(observer)
    stop = asyncio.Event()
    task = asyncio.create_task(observer.run(stop))
    try:
        await until(lambda: observer.is_leading or task.done())
        yield observer, metrics
    finally:
        stop.set()
        await task


async def test_it_judges_what_another_scheduler_binds_and_asks_for_nothing_but_reading():
    world = World(nodes=3, cpu="4")
    transport = WatchingTransport(world.store)
    async with observing(world, transport) as (observer, metrics), scheduling(world):
        for number in range(12):
            world.add_pod(f"web-{number}", cpu="500m")
        world.add_pod("large", cpu="64")
        agreement = observer.core.agreement
        await until(lambda: agreement.pods == 12 and agreement.failures.total() == 1)
        assert agreement.results["agrees"] + agreement.results["couldHaveSeen"] == 12
        assert agreement.failures["otherwise"] == 0
        assert {verb for verb, _ in transport.calls} == {"list", "watch", "read"}
        exposed = metrics.exposition().decode()
        assert 'berth_observed_pods_total{result="agrees"}' in exposed
        assert "berth_observed_agreement_ratio 1.0" in exposed
    assert len(world.accepted()) == 12


async def test_what_it_knows_of_pods_is_what_a_scheduler_would():
    world = World(nodes=2, cpu="2")
    async with observing(world, WatchingTransport(world.store)) as (observer, _), scheduling(world):
        world.add_pod("web")
        world.add_pod("large", cpu="64")
        await until(lambda: {"default/web", "default/large"} <= observer.core.trace.keys())
        await until(lambda: world.node_of("web") and observer.core.agreement.pods == 1)
        assert observer.core.trace["default/web"].chosen == world.node_of("web")
        large = observer.core.trace["default/large"]
        assert large.outcome == "unschedulable" and "2 Insufficient cpu" in large.message
        (waiting,) = observer.core.queue
        assert waiting.unschedulable_plugins == {"NodeResourcesFit"}


async def test_nobody_is_told_of_a_pod_that_cannot_be_read():
    world = World(nodes=1)
    transport = WatchingTransport(world.store)
    transport.garbled = {b'"cpu":"77"': b'"cpu":[77]'}
    async with observing(world, transport) as (observer, _):
        world.add_pod("odd", cpu="77")
        world.add_pod("even")
        await until(lambda: [queued.pod.name for queued in observer.core.queue] == ["even"])
    assert world.events("FailedScheduling") == []


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete", "bind"])
async def test_its_transport_refuses_to_write(verb):
    world = World(nodes=1)
    inner = WatchingTransport(world.store)
    with pytest.raises(WriteRefusedError, match=verb):
        await getattr(ReadOnlyTransport(inner), verb)("pods", "default", b"{}")
    assert inner.calls == []
