"""Trials: one at a time, with progress, and an end."""

import asyncio
import threading

import pytest

from berth_workbench.page.jobs import Jobs, JobsBusy
from berth_workbench.simulation.watch import WorkWatch


def until_stopped(watch):
    while not watch.is_stopped:
        watch.advance()
    return "stopped"


async def test_one_at_a_time_and_the_next_after_it():
    jobs, may_end, watch = Jobs(), threading.Event(), WorkWatch()

    def work(watch):
        watch.advance(3)
        may_end.wait(10)
        return "done"

    first = asyncio.create_task(jobs.run(work, watch))
    while watch.done < 3:
        await asyncio.sleep(0)
    with pytest.raises(JobsBusy):
        await jobs.run(work, WorkWatch())
    may_end.set()
    assert await first == "done" and not jobs.is_at_work
    assert await jobs.run(lambda watch: watch.is_stopped, WorkWatch()) is False


async def test_a_trial_is_told_to_stop_and_the_next_is_not():
    jobs, watch = Jobs(), WorkWatch()
    trial = asyncio.create_task(jobs.run(until_stopped, watch))
    while not watch.done:
        await asyncio.sleep(0)
    watch.stop()
    assert await trial == "stopped"
    assert await jobs.run(lambda watch: watch.is_stopped, WorkWatch()) is False


async def test_a_trial_whose_page_was_left_makes_way_and_whoever_is_first_then_runs():
    jobs, watches, is_open = Jobs(), [WorkWatch() for _ in range(3)], [True]
    left = asyncio.create_task(jobs.run(until_stopped, watches[0], lambda: is_open[0]))
    while not watches[0].done:
        await asyncio.sleep(0)
    with pytest.raises(JobsBusy):
        await jobs.run(until_stopped, WorkWatch())
    is_open[0] = False
    following = [asyncio.create_task(jobs.run(until_stopped, watch)) for watch in watches[1:]]
    assert await left == "stopped"
    with pytest.raises(JobsBusy):
        await following[1]
    assert not watches[1].is_stopped, "it is awaited"
    watches[1].stop()
    assert await following[0] == "stopped" and not jobs.is_at_work


async def test_what_a_trial_raises_is_raised_and_frees_the_place():
    jobs = Jobs()
    with pytest.raises(ZeroDivisionError):
        await jobs.run(lambda watch: 1 / 0, WorkWatch())
    assert not jobs.is_at_work
