"""Has independent parts of one answer worked out by several processes, which share the loaded cluster by `fork`.

    for at, found in spread(lambda at: lost(nodes[at]), len(nodes), watch):
        answers[at] = found
        watch.advance()

A child is a copy of this process at the moment of the fork, so nothing is sent to it but which part comes next, and it
sends back what the part has come to. Each part leaves the cluster as it was. So the answers are the same, however many
processes there are; only the order in which they come differs.

A process that has threads cannot be forked: a lock that another thread holds stays held in the child for ever. There,
as in the page's server, everything is worked out by the one process. The bar of a command is drawn without a thread.
"""

import gc
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from berth.api.user_error import UserError
from berth_workbench.simulation.watch import StoppedError, WorkWatch

LOOK_EVERY_S = 0.1
"""How often it is looked whether to stop while nothing comes back."""
GRACE_S = 0.7
"""So long children have to come to an end by themselves."""
_LIMIT = Path("/sys/fs/cgroup/cpu.max")

_T = TypeVar("_T")


class ProcessDiedError(UserError, RuntimeError):
    """A process has ended in the middle of its work."""


def cores() -> int:
    """Return how many cores this process may use: of the machine, of its affinity, and of its container."""
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = _LIMIT.read_text().split()
        known = min(known, max(1, int(quota) // int(period)))  # `max` for no limit is no number
    return known


def may_fork() -> bool:
    """Say whether this process can be forked now."""
    return threading.active_count() == 1 and hasattr(os, "fork")


def spread(
    work: Callable[[int], _T], count: int, watch: WorkWatch, *, is_each_alone: bool = False
) -> Iterator[tuple[int, _T]]:
    """Yield what `work` comes to for each number below `count`, as it comes, until `watch` asks for an end.

    With `is_each_alone`, where `may_fork` says so, each part has a process to itself, which it need not leave as it
    was. Parts that end by `StoppedError` are left out. What else a part raises is raised here, and ends the others.
    Raises `ProcessDiedError` as well.
    """
    jobs = min(watch.jobs, count)
    if (jobs > 1 or is_each_alone) and may_fork():
        yield from _forked(work, count, watch, jobs, is_each_alone=is_each_alone)
        return
    for at in range(count):
        if watch.is_stopped:
            return
        try:
            found = work(at)
        except StoppedError:
            return
        yield at, found


def _forked(
    work: Callable[[int], _T], count: int, watch: WorkWatch, jobs: int, *, is_each_alone: bool
) -> Iterator[tuple[int, _T]]:
    context = get_context("fork")
    turn, is_ended = context.Value("q", 0), context.RawValue("b", 0)
    parent = os.getpid()

    def child(results: Connection) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal's processes, only the first one is to hear it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        watch.follow(lambda: bool(is_ended.value) or os.getppid() != parent)
        while not watch.is_stopped:
            with turn.get_lock():
                at, turn.value = turn.value, turn.value + 1
            if at >= count:
                break
            with suppress(StoppedError):
                results.send_bytes(_told(at, work))
            if is_each_alone:
                break
        results.send_bytes(b"")

    children: list[Any] = []
    open_: dict[Any, Any] = {}

    def start() -> None:
        with _ready_to_fork():
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=child, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            children.append(process)
            open_[ours] = process

    try:
        for _ in range(jobs):
            start()
        patience = GRACE_S
        while open_ and patience > 0:
            if watch.is_stopped:
                is_ended.value = 1
                patience -= LOOK_EVERY_S
            for results in wait(list(open_), LOOK_EVERY_S):
                try:
                    message = results.recv_bytes()  # type: ignore[union-attr] # only these are waited for
                except EOFError:
                    raise ProcessDiedError(
                        "a process has died in the middle of its work, perhaps for want of memory; try fewer --jobs"
                    ) from None
                if not message:
                    del open_[results]
                    if len(children) < count and is_each_alone and not watch.is_stopped:
                        start()
                    continue
                at, is_good, found = pickle.loads(message)
                if not is_good:
                    raise found
                yield at, found
    finally:
        for process in children:
            process.kill()
            process.join()


def _told(at: int, work: Callable[[int], Any]) -> bytes:
    """Return what a part has come to, as bytes for the parent."""
    try:
        return pickle.dumps((at, True, work(at)))
    except StoppedError:
        raise
    except Exception as error:
        try:
            told = pickle.dumps((at, False, error))
            pickle.loads(told)
        except Exception:
            return pickle.dumps((at, False, RuntimeError(f"{type(error).__name__}: {error}")))
        return told


@contextmanager
def _ready_to_fork() -> Iterator[None]:
    """Keep what is loaded in shared memory, where the garbage collector does not write, and no Ctrl-C in between."""
    gc.freeze()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        gc.unfreeze()
