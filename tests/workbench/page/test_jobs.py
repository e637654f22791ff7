"""Trials: one at a time, with progress, and an end."""

import asyncio
import threading

import pytest

from berth_workbench.page.jobs import Jobs, JobsBusy


async def test_one_at_a_time_and_the_next_after_it():
    jobs, may_end = Jobs(), threading.Event()

    def work(watch):
        watch.advance(3)
        may_end.wait(10)
        return "done"

    first = asyncio.create_task(jobs.run(work))
    while jobs.watch.done < 3:
        await asyncio.sleep(0)
    with pytest.raises(JobsBusy):
        await jobs.run(work)
    may_end.set()
    assert await first == "done" and not jobs.is_at_work
    assert await jobs.run(lambda watch: watch.is_stopped) is False and jobs.watch.done == 0


async def test_a_trial_is_told_to_stop_and_the_next_is_not():
    jobs = Jobs()

    def until_stopped(watch):
        while not watch.is_stopped:
            watch.advance()
        return "stopped"

    trial = asyncio.create_task(jobs.run(until_stopped))
    while not jobs.watch.done:
        await asyncio.sleep(0)
    jobs.stop()
    assert await trial == "stopped"
    assert await jobs.run(lambda watch: watch.is_stopped) is False


async def test_what_a_trial_raises_is_raised_and_frees_the_place():
    jobs = Jobs()
    with pytest.raises(ZeroDivisionError):
        await jobs.run(lambda watch: 1 / 0)
    assert not jobs.is_at_work
