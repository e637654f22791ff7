"""The way of docs/way-over.md, there and back, on an embedded cluster with two schedulers.

The other scheduler is one of ours that holds the lease kube-scheduler, since what is walked is the way and not its
decisions: observe, explain, shadow a candidate, canary by name, take over by the lease, and back. At no time may two
processes bind pods of one name.
"""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from berth.agreement.observer import Lookahead, Observing
from berth.agreement.report import report_of, told, verdict
from berth.agreement.settings import build_observer
from berth.config.load import load_config
from berth.decisions.stories import rfc3339
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.turns import Inline
from tests.runtime.world import World, configuration
from tests.waiting import until

PACKING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
                }
            ]
        }
    ],
}
LEASE = {
    "leaderElect": True,
    "resourceName": "kube-scheduler",
    "leaseDuration": "3s",
    "renewDeadline": "2s",
    "retryPeriod": "100ms",
}


def elected(**document):
    return load_config(
        {"apiVersion": PACKING["apiVersion"], "kind": PACKING["kind"], "leaderElection": LEASE, **document}, "the test"
    )


@asynccontextmanager
async def at_work(scheduler):
    stop = asyncio.Event()
    task = asyncio.create_task(scheduler.run(stop))
    try:
        yield scheduler
    finally:
        stop.set()
        await task


def contender(world, identity):
    """One of those that share kube-scheduler's lease."""
    return at_work(LiveScheduler(elected(), world.transport, identity=identity, runner=Inline()))


def observer_of(world, **more):
    observing = Observing(Lookahead(None, 0.0), **more)
    build = partial(build_observer, observing=observing)
    return LiveScheduler(configuration(), world.transport, runner=Inline(), build=build, writes=False)


async def all_bound(world, *names):
    await until(lambda: all(world.node_of(name) for name in names))
    bound = [record.name for record in world.accepted()]
    assert len(bound) == len(set(bound)), "a pod was bound twice"


async def test_the_way_there_and_back():
    world = World(nodes=3, cpu="8")
    async with AsyncExitStack() as whole:
        candidates = {"packing": load_config(PACKING)}
        observer = await whole.enter_async_context(at_work(observer_of(world, candidates=candidates)))
        async with contender(world, "theirs") as theirs, AsyncExitStack() as others:
            await until(lambda: theirs.is_leading and observer.is_leading)

            # 1. Observe, 2. explain, 3. shadow a candidate: nothing changes in the cluster.
            for number in range(6):
                world.add_pod(f"web-{number}", cpu="500m")
                await all_bound(world, f"web-{number}")
            await until(lambda: observer.core.agreement.pods == 6)
            report = report_of(observer.core, rfc3339)
            assert verdict(report) == "100 % of 6 pods went where they would have gone here."
            assert observer.core.trace["default/web-5"].chosen == world.node_of("web-5")
            (packing,) = report.candidates
            assert packing.kinds["elsewhere"] >= 2
            assert any(line.startswith("packing would have decided otherwise") for line in told(report))

            # 4. A canary by name, beside the other scheduler, with pods of its own.
            profile = {"schedulerName": "berth"}
            canary = LiveScheduler(configuration(profiles=[profile]), world.transport, runner=Inline())
            async with at_work(canary):
                world.add_pod("canary", schedulerName="berth")
                world.add_pod("web-6", cpu="500m")
                await all_bound(world, "canary", "web-6")
            await until(lambda: observer.core.agreement.pods == 8)
            assert observer.core.agreement.results["otherwise"] == 0

            # 5. Take over by the lease: ours stands by as long as theirs holds it.
            ours = await others.enter_async_context(contender(world, "ours"))
            await until(ours.synced.is_set)
            world.add_pod("web-7", cpu="500m")
            await all_bound(world, "web-7")
            assert theirs.is_leading and not ours.is_leading
            kept = others.pop_all()  # ours goes on when theirs is stopped
        async with kept:
            await until(lambda: ours.is_leading)
            world.add_pod("web-8", cpu="500m")
            await all_bound(world, "web-8")
            assert ours.leader == "ours" and not theirs.is_leading

            # And back: theirs stands by, ours is stopped, and theirs goes on.
            again = await whole.enter_async_context(contender(world, "theirs"))
            await until(again.synced.is_set)
            assert ours.is_leading and not again.is_leading
        await until(lambda: again.is_leading)
        world.add_pod("web-9", cpu="500m")
        await all_bound(world, "web-9")
        await until(lambda: observer.core.agreement.pods == 11)
        assert verdict(report_of(observer.core, rfc3339)) == "100 % of 11 pods went where they would have gone here."
