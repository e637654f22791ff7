"""Many viewers ask a scheduler no more often than one."""

import asyncio

import pytest

from berth_workbench.sources.shared import SharedSource
from berth_workbench.sources.source import SourceError


class Counting:
    title, taken, is_live = "test", "", True
    node = story = fit = sample = snapshot = configuration = None  # asked as it comes

    def __init__(self):
        self.asked = 0
        self.problem = ""

    async def nodes(self):
        self.asked += 1
        number = self.asked
        await asyncio.sleep(0)
        if self.problem:
            raise SourceError(self.problem)
        return number

    async def pods(self, find=""):
        return f"pods {find}"

    async def plugins(self):
        return "plugins"

    async def pending(self):
        return "pending"

    async def recent(self):
        return "recent"


async def test_those_who_ask_at_once_or_within_a_second_get_one_answer():
    now, source = [0.0], Counting()
    shared = SharedSource(source, lambda: now[0])
    assert await asyncio.gather(*(shared.nodes() for _ in range(50))) == [1] * 50
    now[0] = 0.9
    assert await shared.nodes() == 1
    now[0] = 1.1
    assert await shared.nodes() == 2 and source.asked == 2


async def test_a_cluster_that_does_not_change_is_asked_about_once():
    now, source = [0.0], Counting()
    source.is_live = False
    shared = SharedSource(source, lambda: now[0])
    assert await shared.nodes() == 1
    now[0] = 1e9
    assert await shared.nodes() == 1 and source.asked == 1


async def test_pods_of_a_name_are_no_answer_about_all():
    shared = SharedSource(Counting(), lambda: 0.0)
    assert [await shared.pods("web"), await shared.pods(), await shared.pods("db")] == ["pods web", "pods ", "pods db"]


async def test_a_failure_is_told_to_all_who_wait_and_kept_for_nobody():
    source = Counting()
    shared = SharedSource(source, lambda: 0.0)
    source.problem = "gone"
    results = await asyncio.gather(*(shared.nodes() for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["gone"] * 3 and source.asked == 1
    source.problem = ""
    assert await shared.nodes() == 2


async def test_one_who_goes_away_does_not_take_the_answer_from_others():
    shared = SharedSource(Counting(), lambda: 0.0)
    first, second = asyncio.create_task(shared.nodes()), asyncio.create_task(shared.nodes())
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 1
    with pytest.raises(asyncio.CancelledError):
        await first
