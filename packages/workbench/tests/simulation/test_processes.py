"""Parts of an answer worked out by several processes: the same as by one, and nothing of them is left behind."""

import multiprocessing
import os
import signal
import threading

import pytest

from berth.api.user_error import UserError
from berth_workbench.simulation import processes
from berth_workbench.simulation.processes import ProcessDiedError, cores, spread
from berth_workbench.simulation.watch import StoppedError, WorkWatch


@pytest.fixture(autouse=True)
def nobody_is_left(monkeypatch, request):
    """A test before may have left a thread to the process, which would keep it from forking."""
    if "threads" not in request.node.name:
        monkeypatch.setattr(processes.threading, "active_count", lambda: 1)
    yield
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_each_part_is_worked_out_once(jobs):
    known = {"shared": [10, 20, 30, 40]}
    found = dict(spread(lambda at: known["shared"][at] + at, 4, WorkWatch(jobs=jobs)))
    assert found == {0: 10, 1: 21, 2: 32, 3: 43}


def test_children_are_other_processes_and_have_none_of_their_own():
    def pids(_at):
        return os.getpid(), {pid for _, pid in spread(lambda _: os.getpid(), 2, watch)}

    watch = WorkWatch(jobs=2)
    for _, (pid, below) in spread(pids, 2, watch):
        assert pid != os.getpid() and below == {pid}


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_a_part_that_is_alone_finds_everything_as_it_was(jobs):
    """However many are at work; and what it leaves behind is nowhere else."""
    known = []

    def work(at):
        known.append(at)
        return list(known)

    found = dict(spread(work, 5, WorkWatch(jobs=jobs), is_each_alone=True))
    assert found == {at: [at] for at in range(5)}
    assert known == []


def test_a_process_with_threads_does_it_all_by_itself():
    may_end = threading.Event()
    thread = threading.Thread(target=may_end.wait)
    thread.start()
    try:
        assert {pid for _, pid in spread(lambda _: os.getpid(), 2, WorkWatch(jobs=2))} == {os.getpid()}
    finally:
        may_end.set()
        thread.join()


@pytest.mark.parametrize("jobs", [1, 2])
def test_who_asks_for_an_end_gets_what_is_done(jobs):
    """The first part comes to something; the others go on until they hear of the end."""
    watch = WorkWatch(jobs=jobs)

    def work(at):
        while at:
            watch.within().check()
        return at

    found = []
    for at, _ in spread(work, 9, watch):
        found.append(at)
        watch.stop()
    assert found == [0]


@pytest.mark.parametrize("jobs", [1, 2])
def test_time_that_is_up_ends_all_of_them(jobs):
    watch = WorkWatch(until=0.0, jobs=jobs)
    assert list(spread(lambda at: at, 3, watch)) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_part_that_was_stopped_is_left_out(jobs):
    watch = WorkWatch(jobs=jobs)

    def work(at):
        if at == 1:
            raise StoppedError
        return at

    found = [at for at, _ in spread(work, 2, watch)]
    assert found == [0]


def test_whoever_wants_no_more_leaves_nobody_behind():
    parts = spread(lambda at: at, 100, WorkWatch(jobs=2))
    next(parts)
    parts.close()


def test_a_process_that_dies_is_an_error_for_people():
    def work(_at):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ProcessDiedError, match=r"died in the middle of its work.*try fewer --jobs") as ended:
        list(spread(work, 4, WorkWatch(jobs=2)))
    assert isinstance(ended.value, UserError)


class OfTwoError(UserError):
    """Cannot be read back: what is written of it are the arguments of its base."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize(
    ("error", "told"), [(UserError("does not fit"), "^does not fit$"), (OfTwoError(1, 2), "^(OfTwoError: )?1 and 2$")]
)
def test_what_a_part_raises_is_raised(error, told):
    def work(_at):
        raise error

    with pytest.raises((UserError, RuntimeError), match=told):
        list(spread(work, 4, WorkWatch(jobs=2)))


def test_ctrl_c_is_for_the_first_process_alone():
    def work(at):
        os.kill(os.getpid(), signal.SIGINT)
        return at

    assert sorted(spread(work, 4, WorkWatch(jobs=2))) == [(at, at) for at in range(4)]


def test_cores_are_those_that_we_may_use():
    assert 1 <= cores() <= (os.cpu_count() or 1)
