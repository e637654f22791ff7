"""A run that is described so fully that any process, anywhere, carries it out with the same result.

The description names the load by the hash of its content, which is handed over beside it. The result is bytes, and the
same description always gives the same bytes.
"""

import msgspec

import berth
from berth.api.user_error import UserError
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.loads import Load, hash_of, unpacked
from berth_workbench.comparison.run import run
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch


class TaskError(UserError, RuntimeError):
    """A run that cannot be carried out here; the message says why, and what to do."""


class TaskDescription(msgspec.Struct, frozen=True):
    """Everything that a run's result depends on."""

    load: str
    """The hash of the load's content."""
    configuration: ConfigurationSource
    seed: int
    prices: Prices | None = None
    version: str = berth.__version__

    @property
    def key(self) -> str:
        """The key of the run: the same for descriptions that must give the same result, whatever their names."""
        depends_on = (self.version, self.load, self.configuration.content(), self.seed, self.prices)
        return hash_of(msgspec.json.encode(depends_on))[:32]


class TaskResult(msgspec.Struct, frozen=True):
    """The result of a run."""

    key: str
    figures: dict[str, float]


def carry_out(description: bytes, content: bytes) -> bytes:
    """Carry out a run; `description` is an encoded `TaskDescription`, and the result an encoded `TaskResult`.

    Raises `TaskError`, and whatever `run` raises.
    """
    task = msgspec.json.decode(description, type=TaskDescription)
    return carry_out_on(task, load_of(task, content))


def load_of(task: TaskDescription, content: bytes) -> Load:
    """Return the load of a run, which was handed over beside it. Raises `TaskError` if it is a different one."""
    if task.version != berth.__version__:
        here = f"this worker has Berth {berth.__version__}"
        raise TaskError(f"{here}, the sweep was begun by {task.version}: install the same on both")
    if hash_of(content) != task.load:
        raise TaskError("the load that came with a run is not the one that it describes")
    return unpacked(content)


def carry_out_on(task: TaskDescription, load: Load, watch: WorkWatch = UNWATCHED) -> bytes:
    """Carry out a run on its load. Raises `StoppedError`, and what `run` raises."""
    found = run(load, task.configuration.load(), task.seed, prices=task.prices, watch=watch)
    return msgspec.json.encode(TaskResult(task.key, found.figures))
