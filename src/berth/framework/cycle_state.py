"""The data that plugins keep or pass on during one scheduling attempt, from PreFilter to PostBind."""

from typing import Any

from berth.framework.work_budget import WorkBudget

_NOBODY = frozenset[str]()


class CycleState:
    """Data by key, and which plugins skip this pod.

    A value with a `clone()` method is cloned with the state, which happens where nominated pods or preemption victims
    are tried out; others are shared and must not be changed after PreFilter.
    """

    __slots__ = (
        "_data", "asked", "is_timed", "parallel_pre_bind", "skip_filter", "skip_post_filter", "skip_pre_bind",
        "skip_score", "taken_out", "work",
    )  # fmt: skip

    def __init__(self, work: WorkBudget | None = None) -> None:
        """`work` is the budget of the attempt; each has one of its own unless another is given."""
        self.work = WorkBudget() if work is None else work
        """The attempt's budget, shared by clones. Plugins spend it before work that may take long."""
        self._data: dict[str, Any] = {}
        self.asked: list[Any] = []
        """The calls to extenders so far (`berth.framework.extenders.ExtenderCallRecord`), shared by clones."""
        self.is_timed = False
        """Whether an observer is told how long each plugin takes in this attempt."""
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        self.taken_out: frozenset[str] = _NOBODY
        """The plugins that are left out of this attempt, since they fail again and again."""
        self.parallel_pre_bind: set[str] = set()
        """The plugins whose PreBind may run beside that of others."""
        self.skip_post_filter = False
        """Whether this attempt only asks where the pod fits, and no room is to be made for it."""

    def write(self, key: str, value: Any) -> None:
        """Keep `value` under `key`; plugins use their own name as key, or start it with that."""
        self._data[key] = value

    def read(self, key: str) -> Any:
        """Return what was written under `key`; raises `KeyError` where nothing was."""
        return self._data[key]

    def get(self, key: str) -> Any | None:
        """Return what was written under `key`, or None."""
        return self._data.get(key)

    def delete(self, key: str) -> None:
        """Forget what was written under `key`."""
        self._data.pop(key, None)

    def clone(self) -> "CycleState":
        """Return a copy that can be changed by AddPod and RemovePod without touching this one."""
        copy = CycleState(self.work)
        copy._data = {k: v.clone() if hasattr(v, "clone") else v for k, v in self._data.items()}
        copy.asked = self.asked
        copy.skip_filter, copy.skip_score = set(self.skip_filter), set(self.skip_score)
        copy.skip_post_filter = self.skip_post_filter
        copy.taken_out = self.taken_out
        return copy
