"""What is worked out before anybody asks: in the background, kept for the state that it is about, out of the way."""

import asyncio

import pytest

from berth.core.builders import make_node, make_pod
from berth_workbench.page.ahead import AGAIN_S, Ahead
from berth_workbench.page.attention import FINDINGS, TOLD_AS, WORKS
from berth_workbench.page.jobs import Jobs
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.cluster_file import ClusterFileSource
from berth_workbench.sources.source import SourceError
from packages.workbench.tests.sources.test_cluster_file import document


class Counted(ClusterFileSource):
    """A source that counts how often its documents were asked for, and may have none."""

    problem = ""
    snapshots = 0

    async def snapshot(self):
        self.snapshots += 1
        if self.problem:
            raise SourceError(self.problem)
        return await super().snapshot()


@pytest.fixture
def source():
    nodes = [make_node(f"n{i}").capacity(cpu="4", memory="8Gi", pods="10") for i in range(2)]
    return Counted("test", Snapshot([document(each.build()) for each in (*nodes, make_pod("big").request(cpu="9"))]))


async def ended(ahead):
    while ahead.is_at_work:
        await asyncio.sleep(0)


async def test_what_is_asked_for_is_known_a_little_later_and_worked_out_once(source):
    ahead = Ahead(source, Jobs())
    assert ahead.get("help", 1) is None and ahead.is_at_work
    ahead.get("quotas", 1)
    await ended(ahead)
    assert ahead.get("help", 1)["default/big"].changes and ahead.get("quotas", 1) == []
    assert source.snapshots == 1 and not ahead.is_at_work


async def test_another_state_is_worked_out_a_minute_later_and_the_earlier_answer_shown_until_then(source):
    now = [100.0]
    ahead = Ahead(source, Jobs(), lambda: now[0])
    ahead.get("help", 1)
    await ended(ahead)
    earlier = ahead.get("help", 2)
    assert earlier and not ahead.is_at_work, "too early"
    now[0] += AGAIN_S
    assert ahead.get("help", 2) is earlier and ahead.is_at_work
    await ended(ahead)
    assert ahead.get("help", 2) is not earlier and source.snapshots == 2


async def test_why_nothing_is_known_is_told_and_it_is_not_tried_again_and_again(source):
    source.problem = "no kubeconfig"
    ahead = Ahead(source, Jobs())
    ahead.get("help", 1)
    await ended(ahead)
    assert ahead.get("help", 1) is None and not ahead.is_at_work
    assert (ahead.problem, source.snapshots) == (
        "What would help pending pods could not be worked out: no kubeconfig.",
        1,
    )


async def test_what_fails_is_named_with_its_reason_and_the_rest_is_known(source, monkeypatch):
    def broken(_situation, _watch):
        raise KeyError(2)

    monkeypatch.setattr("berth_workbench.page.ahead.WORKS", WORKS | {"lost": broken, "removable": broken})
    ahead = Ahead(source, Jobs())
    for name in FINDINGS:
        ahead.get(name, 1)
    await ended(ahead)
    assert [ahead.known(name) for name in FINDINGS] == [None, [], None, []]
    assert ahead.problem == (
        "Which nodes and zones can be lost and which nodes could go could not be worked out: a mistake in Berth "
        "(KeyError: 2); the log has more."
    )


def test_everything_that_is_worked_out_has_words_for_when_it_cannot_be():
    assert TOLD_AS.keys() == WORKS.keys() >= set(FINDINGS)


async def test_whoever_tries_something_comes_first(source, monkeypatch):
    """The first work is stopped when the trial begins, and done anew after it."""
    begun, jobs = [], Jobs()

    def until_stopped(_situation, watch):
        begun.append(watch)
        while len(begun) == 1 and not watch.is_stopped:
            pass
        return len(begun)

    monkeypatch.setattr("berth_workbench.page.ahead.WORKS", WORKS | {"slow": until_stopped})
    ahead = Ahead(source, jobs)
    ahead.get("slow", 1)
    while not begun:
        await asyncio.sleep(0)
    assert await jobs.run(lambda watch: "tried", WorkWatch()) == "tried"
    await ended(ahead)
    assert ahead.get("slow", 1) == 2 and begun[0].is_stopped
