"""What is noted on the main path reaches the log: in detail while there is time, in short otherwise, and in order."""

import asyncio
import contextlib
import itertools

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.decisions import collector as collecting
from berth.decisions import keeper as keeping
from berth.decisions.collector import DecisionCollector
from berth.decisions.decision_log import DecisionLog
from berth.decisions.keeper import LogKeeper
from tests.waiting import until


class Live:
    """A scheduler in virtual time, which may be too busy to be asked, and its log."""

    def __init__(self, *objects):
        ticks = itertools.count()
        self.collector = DecisionCollector(clock=lambda: float(next(ticks)))
        self.cluster = VirtualCluster(*objects, instrument=self.collector)
        self.reading = 0.0
        self.keeper = LogKeeper(DecisionLog(), self.collector, stopwatch=lambda: self.reading)
        self.synced = asyncio.Event()
        self.is_busy = False

    @contextlib.asynccontextmanager
    async def between_cycles(self, _timeout_s):
        if self.is_busy:
            raise RuntimeError("the scheduler is busy")
        yield self.cluster.core

    async def story(self, name):
        (story,) = await self.keeper.lives(self, f"default/{name}")
        return story


def placing(count):
    nodes = [make_node(f"n{number}").capacity(cpu="64", memory="64Gi", pods="10000") for number in range(3)]
    live = Live(*nodes)
    for number in range(count):
        live.cluster.put(make_pod(f"web-{number}").request(cpu="1m"))
    live.cluster.advance(1.0)
    return live


async def test_steps_come_in_the_order_in_which_they_happened_whether_written_or_not():
    live = placing(1)
    unwritten = await live.story("web-0")
    await live.keeper.flush(live)
    written = await live.story("web-0")
    assert unwritten == written
    assert [step.what for step in written.steps] == ["queued", "decided", "bound"]
    assert written.decision.best[0].scores
    assert written.decision.node == written.steps[-1].node


def refusing(count):
    """As `placing`, but no pod fits: each asks for something else, so that none is told what another was."""
    live = Live(make_node("n0").capacity(cpu="1", memory="64Gi", pods="10000"))
    for number in range(count):
        live.cluster.put(make_pod(f"web-{number}").request(cpu=str(number + 2)))
    live.cluster.advance(1.0)
    return live


async def test_details_of_pods_without_a_node_are_left_out_where_they_came_too_fast(monkeypatch):
    monkeypatch.setattr(collecting, "DETAILS_AT_MOST", 5)
    live = refusing(20)
    await live.keeper.flush(live)
    decisions = [(await live.story(f"web-{number}")).decision for number in range(20)]
    assert sum(bool(decision.rejected) for decision in decisions) == 5
    assert all(decision.message for decision in decisions)


async def test_every_pod_that_got_a_node_has_its_scores_however_fast_they_came(monkeypatch):
    monkeypatch.setattr(collecting, "DETAILS_AT_MOST", 5)
    live = placing(20)
    await live.keeper.flush(live)
    assert all([(await live.story(f"web-{number}")).decision.best[0].scores for number in range(20)])


async def test_a_plugin_that_cannot_say_what_it_meant_ends_no_attempt(monkeypatch, caplog):
    def bug(*_args, **_options):
        raise RuntimeError("no words")

    monkeypatch.setattr(collecting, "explain", bug)
    live = placing(1)
    assert live.cluster.nodes_of()["web-0"]
    assert (await live.story("web-0")).decision.node
    assert "no words" in caplog.text


async def test_reading_details_ends_when_its_time_is_over_and_goes_on_later():
    live = refusing(20)
    live.keeper._stopwatch = itertools.count().__next__  # each look takes a second
    await live.keeper.flush(live, 10.0)
    in_part = live.keeper.log.size
    await live.keeper.flush(live, 1000.0)
    assert 0 < in_part < live.keeper.log.size
    assert all([(await live.story(f"web-{number}")).decision.rejected for number in range(20)])


async def test_while_the_scheduler_is_busy_nothing_is_read_and_nothing_is_lost():
    live = placing(3)
    live.is_busy = True
    await live.keeper.flush(live, 10.0)
    assert live.keeper.log.size == 0
    live.is_busy = False
    await live.keeper.flush(live, 10.0)
    assert (await live.story("web-2")).decision.best


async def test_where_too_much_happens_the_oldest_is_lost_and_that_is_told_once(monkeypatch, caplog):
    monkeypatch.setattr(collecting, "NOTES_AT_MOST", 7)
    live = placing(10)
    assert live.collector.noted == 7
    for _ in range(2):
        await live.keeper._keep_up(live)
        live.collector.take()
    assert caplog.text.count("some of it is lost") == 1
    assert (await live.story("web-9")).decision is not None


async def test_the_same_refusal_is_written_in_detail_once():
    live = Live(make_node("n1").capacity(cpu="1", memory="1Gi", pods="10"))
    live.cluster.put(make_pod("big").request(cpu="8"))
    for _ in range(6):
        live.cluster.advance(400.0)  # beyond the age at which it is tried again in any case
        await live.keeper.flush(live, 10.0)
    story = await live.story("big")
    lines = live.keeper.log._storage.read("").splitlines()
    assert sum(b'"weights"' in line for line in lines) == 1
    assert story.steps[1].times == story.steps[1].attempts == story.decision.attempts > 5
    assert story.decision.shortfalls[0].needs == "8"


async def test_a_bug_of_its_own_does_not_end_it(monkeypatch, caplog):
    live = placing(1)
    broken = [OSError("no such luck")]
    flush = LogKeeper.flush

    async def flushing(self, scheduler, details_s=float("inf")):
        if broken:
            raise broken.pop()
        await flush(self, scheduler, details_s)

    monkeypatch.setattr(LogKeeper, "flush", flushing)
    monkeypatch.setattr(keeping, "PERIOD_S", 0.001)
    monkeypatch.setattr(keeping, "PAUSE_AFTER_BUG_S", 0.001)
    task = asyncio.create_task(live.keeper.run(live))
    await until(lambda: live.keeper.log.size)
    task.cancel()
    assert "the decision log broke" in caplog.text


async def test_room_is_made_with_what_lives_in_the_scheduler():
    live = placing(4)
    seen = []
    live.keeper.log = type("Log", (), {"write": lambda *_: None, "is_full": lambda _: True,
                                       "make_room": lambda _, living: seen.append(living)})()  # fmt: skip
    live.synced.set()
    await live.keeper._keep_up(live)
    assert seen == [{pod.uid for pod in live.cluster.core.intake.pods}]
    assert len(seen[0]) == 4


async def test_no_room_is_made_before_it_is_known_who_lives():
    live = placing(1)
    live.keeper.log = type("Log", (), {"write": lambda *_: None, "is_full": lambda _: True})()
    await live.keeper._keep_up(live)  # there is no make_room to be called
