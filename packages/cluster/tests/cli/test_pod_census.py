"""The line that `berth up` shows: what pods do, and why some wait."""

import asyncio
import io

import pytest

from berth_cluster.cli import pod_census
from berth_cluster.cli.pod_census import PodCensus, tell
from berth_cluster.hollow.kubelet import KubeletSettings
from packages.cluster.tests.controllers.world import World, job, pod
from tests.waiting import pass_time, virtually

MESSAGE = (
    "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 Insufficient cpu. preemption: 0/5 nodes are "
    "available: 5 Preemption is not helpful for scheduling."
)


def waits(world, name, message, reason="Unschedulable"):
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    world.patch("Pod", name, {"status": {"conditions": [condition]}}, subresource="status")


def test_pods_are_counted_as_they_change():
    world = World(nodes=1, binds=False, kubelet=KubeletSettings(start_delay_s=1))
    census = PodCensus(world.store)
    assert census.line() == ""
    for name in ("one", "other", "third"):
        world.create(pod(name))
    assert census.line() == "pods: 3 pending (3: not looked at yet)"
    world.bind(world.get("Pod", "one"), "node-0")
    waits(world, "other", MESSAGE)
    waits(world, "third", MESSAGE.replace("4 Insufficient", "2 Insufficient"))
    assert census.line() == "pods: 1 starting, 2 pending (2: Insufficient cpu, node(s) had untolerated taint(s))"
    world.run(1)
    waits(world, "third", "gated", reason="SchedulingGated")
    both = "1: Insufficient cpu, node(s) had untolerated taint(s); 1: scheduling gates"
    assert census.line() == f"pods: 1 running, 2 pending ({both})"
    assert PodCensus(world.store).line() == census.line()
    for name in ("one", "other", "third"):
        world.delete("Pod", name)
    assert census.line() == "pods: 1 ending"
    world.run(5)
    assert census.line() == ""


def test_ended_pods_are_told_apart():
    world = World()
    census = PodCensus(world.store)
    world.create(job("good", completions=3, parallelism=3))
    world.create(job("bad", {"berth.dev/exit-code": "1"}, backoffLimit=0))
    world.run(5)
    assert census.line() == "pods: 3 succeeded, 1 failed"


class Out(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "said"),
    [
        (False, "pods: 1 pending (1: not looked at yet)\npods: none\n"),
        (True, "\r\x1b[Kpods: 1 pending (1: not looked at yet)\r\x1b[K"),
    ],
)
@virtually
async def test_the_line_is_renewed_on_a_terminal_and_written_again_elsewhere(is_terminal, said, monkeypatch):
    monkeypatch.setattr(pod_census, "_is_read", lambda _out: True)
    world, out = World(nodes=0, binds=False), Out(is_terminal)
    telling = asyncio.create_task(tell(PodCensus(world.store), out))
    world.create(pod("one"))
    await pass_time(pod_census.SAY_S * 3)
    world.delete("Pod", "one")
    await pass_time(pod_census.SAY_S * 3)
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
    assert out.getvalue() == said
