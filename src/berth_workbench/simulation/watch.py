"""How whoever waits for an answer hears how far it is, and how it hears that it has to end.

One `WorkWatch` goes through everything that takes a while: loading a cluster, placing its pods, asking failure after
failure. Each tells it of the steps that are done. What can be kept in part looks at `is_stopped` between two steps, and
returns what it has; what cannot calls `step`, which raises `StoppedError`, and whoever asked decides what is left then.
"""


class StoppedError(Exception):
    """An end in the middle of something: somebody has asked for it, or all the work is used up that it may take."""


class WorkWatch:
    """Counts the steps of one answer, of how many, and remembers whether somebody has asked for an end."""

    __slots__ = ("_is_stopped", "doing", "done", "total")

    def __init__(self) -> None:
        self.doing = ""
        """What is being done, in a few words; empty where the question says it all."""
        self.done = 0
        self.total: int | None = None
        """How many steps there will be, as far as is known by now."""
        self._is_stopped = False

    @property
    def is_stopped(self) -> bool:
        """Whether somebody has asked for an end."""
        return self._is_stopped

    def expect(self, more: int) -> None:
        """Say how many steps are still to come."""
        self.total = self.done + more

    def begin(self, doing: str) -> None:
        """Say what is being done from now on."""
        self.doing = doing

    def advance(self, steps: int = 1) -> None:
        """Say that so many more steps are done; cheap enough for an inner loop."""
        self.done += steps

    def step(self, steps: int = 1) -> None:
        """The same, where what is under way cannot be kept in part. Raises `StoppedError`."""
        self.advance(steps)
        if self.is_stopped:
            raise StoppedError

    def stop(self) -> None:
        """Ask for an end, with what is done by then."""
        self._is_stopped = True

    def within(self) -> "WorkWatch":
        """Return a watch for what is done within a single step: it hears of the end, and counts nothing."""
        return _Within(self)


class _Within(WorkWatch):
    """What is done within a step of another watch's."""

    __slots__ = ("_outer",)

    def __init__(self, outer: WorkWatch) -> None:
        super().__init__()
        self._outer = outer

    @property
    def is_stopped(self) -> bool:
        return self._outer.is_stopped


class _Unwatched(WorkWatch):
    """Nobody waits: nothing is counted, since all who are not watched share it."""

    __slots__ = ()

    def expect(self, more: int) -> None:
        pass

    def begin(self, doing: str) -> None:
        pass

    def advance(self, steps: int = 1) -> None:
        pass

    def stop(self) -> None:
        raise ValueError("who wants to stop something has to watch it")


UNWATCHED = _Unwatched()
