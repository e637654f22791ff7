"""Carries out runs: in processes of this machine (`berth_workbench.simulation.processes`), or on a Dask cluster.

`workers` returns one of the two. Each takes the same tasks and calls back with each result as it comes, in any order.
The caller may stop it: results so far are kept, the rest is dropped.
"""

import queue
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from berth_workbench.comparison.loads import Load
from berth_workbench.comparison.tasks import TaskDescription, TaskError, carry_out, carry_out_on, load_of
from berth_workbench.simulation.processes import spread
from berth_workbench.simulation.watch import StoppedError, WorkWatch

LOOK_EVERY_S = 0.2
"""How often it is looked whether to stop while nothing comes back."""
MOST_TIMES_AGAIN = 3
"""A run that the cluster has given up is tried again so often, each time with its load sent anew."""


class Finished(NamedTuple):
    """A run that has ended."""

    task: TaskDescription
    result: bytes
    """Empty where it failed."""
    error: str = ""


Done = Callable[[Finished], None]


class Carry(Protocol):
    """Carries tasks out, and returns once all have ended or it was stopped. Raises `TaskError`."""

    def __call__(self, tasks: Sequence[TaskDescription], done: Done, watch: WorkWatch) -> None: ...


DASK_SCHEMES = ("tcp", "tls", "ws", "wss", "ucx", "ucxx", "inproc")


def workers(inputs: Mapping[str, Path], *, dask: str = "") -> AbstractContextManager[Carry]:
    """Return a function that carries tasks out: on a Dask cluster, or in processes of this machine.

    `inputs` are the files of the loads' contents, by hash. Raises `TaskError`, entering the context does too.
    """
    scheme, separator, _ = dask.partition("://")
    if separator and scheme not in DASK_SCHEMES:
        raise TaskError(f"--dask {dask}: no scheme is called {scheme!r}; there are {', '.join(DASK_SCHEMES)}")
    if dask:
        return _on_dask(inputs, dask)
    return _here(inputs)


@contextmanager
def _here(inputs: Mapping[str, Path]) -> Iterator[Carry]:
    """Carry tasks out on this machine, in as many processes as the watch allows; each load is read once, before all."""
    loads: dict[str, Load | Exception] = {}

    def carry(tasks: Sequence[TaskDescription], done: Done, watch: WorkWatch) -> None:
        def result_of(at: int) -> tuple[bytes, str]:
            load = loads[tasks[at].load]
            try:
                if isinstance(load, Exception):
                    raise load
                return carry_out_on(tasks[at], load, watch.within()), ""
            except StoppedError:
                raise
            except Exception as error:  # a plugin's bug, or a load that cannot be run, must not end the others
                return b"", _told(error)

        for task in tasks:
            if task.load not in loads:
                try:
                    loads[task.load] = load_of(task, inputs[task.load].read_bytes())
                except Exception as error:  # so is this: the others may have other loads
                    loads[task.load] = error
        for at, (result, said) in spread(result_of, len(tasks), watch):
            done(Finished(tasks[at], result, said))

    yield carry


@contextmanager
def _on_dask(inputs: Mapping[str, Path], address: str) -> Iterator[Carry]:
    """Carry tasks out on the workers of a Dask cluster, which need Berth of the same version."""
    try:
        from distributed import Client
    except ImportError:
        raise TaskError("--dask needs Dask: pip install 'berth-scheduler[sweep]'") from None
    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:  # timeouts are among them
        raise TaskError(f"--dask {address}: no Dask scheduler answers there: {_line(error)}") from None
    try:
        # Read first: an OSError below is the cluster's, not a file's.
        given = {name: path.read_bytes() for name, path in inputs.items()}

        def place(load: str) -> Any:
            # On all workers, since what lies on one alone is gone with it, and so are all runs of that load.
            with _lost(address):
                return client.scatter(given[load], broadcast=True)

        contents = {name: place(name) for name in given}

        def submit(task: TaskDescription, time: int = 0) -> Any:
            with _lost(address):
                key = f"berth-{task.key}" + (f"-{time}" if time else "")
                return client.submit(carry_out, msgspec.json.encode(task), contents[task.load], key=key)

        def again(task: TaskDescription, time: int) -> Any:
            contents[task.load] = place(task.load)
            return submit(task, time)

        def carry(tasks: Sequence[TaskDescription], done: Done, watch: WorkWatch) -> None:
            _gather({submit(task): task for task in tasks}, done, watch, again)

        yield carry
    finally:
        with suppress(OSError):  # a scheduler that is gone does not hear that we leave
            client.close()


@contextmanager
def _lost(address: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TaskError(f"--dask {address}: the Dask scheduler answers no more: {_line(error)}") from None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _gather(
    given: Mapping[Any, TaskDescription],
    done: Done,
    watch: WorkWatch,
    again: Callable[[TaskDescription, int], Any],
) -> None:
    """Hand on results as they come; with many tasks, nothing here looks at all of them more than once.

    Tasks that the cluster has dropped, because the load was lost with all workers that had it, are submitted `again`.
    """
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    submitted, times = dict(given), Counter[str]()
    for future in submitted:
        future.add_done_callback(ended.put)
    left = len(submitted)
    has_cancelled = False
    while left:
        if not has_cancelled and watch.is_stopped:
            has_cancelled = True
            for future in submitted:
                future.cancel()
        try:
            future = ended.get(timeout=LOOK_EVERY_S)
        except queue.Empty:
            continue
        left -= 1
        if future.cancelled():
            task = submitted[future]
            if has_cancelled:
                continue
            if times[task.key] == MOST_TIMES_AGAIN:
                done(Finished(task, b"", "the cluster has given it up"))
                continue
            times[task.key] += 1
            new = again(task, times[task.key])
            submitted[new] = task
            new.add_done_callback(ended.put)
            left += 1
            continue
        error = future.exception()
        done(Finished(submitted[future], b"", _told(error)) if error else Finished(submitted[future], future.result()))


def _told(error: BaseException) -> str:
    """Say in one line what went wrong: our own errors say it themselves, a plugin's need their class beside it."""
    is_ours = type(error).__module__.partition(".")[0] in ("berth", "berth_workbench") and str(error)
    return _line(error) if is_ours else f"{type(error).__name__}: {' '.join(str(error).split())}"
