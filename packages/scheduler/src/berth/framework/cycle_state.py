"""The data that plugins keep or pass on during one scheduling attempt, from PreFilter to PostBind."""

from typing import Any

import msgspec

from berth.api.read_only import ReadOnlyList
from berth.framework.work_budget import WorkBudget


class CycleState(msgspec.Struct, frozen=True, eq=False):
    """Data by key, and which plugins skip this pod.

    A value with a `clone()` method is cloned with the state, which happens when nominated pods or preemption victims
    are tried out; others are shared and must not be changed after PreFilter. Plugins may read all other fields; only
    the engine sets them, with `force_setattr`.
    """

    work: WorkBudget = msgspec.field(default_factory=WorkBudget)
    """The attempt's budget, shared by clones. Plugins spend it before work that may take long."""
    asked: ReadOnlyList[Any] = msgspec.field(default_factory=ReadOnlyList)
    """The calls to extenders so far (`berth.framework.extenders.ExtenderCallRecord`), shared by clones."""
    is_timed: bool = False
    """Whether plugins are timed for an observer in this attempt."""
    skip_filter: frozenset[str] = frozenset()
    skip_score: frozenset[str] = frozenset()
    skip_pre_bind: frozenset[str] = frozenset()
    taken_out: frozenset[str] = frozenset()
    """The plugins that are left out of this attempt because they fail again and again."""
    parallel_pre_bind: frozenset[str] = frozenset()
    """The plugins whose PreBind may run in parallel with others."""
    skip_post_filter: bool = False
    """Whether this attempt only asks where the pod fits, so that no room is made for it."""
    _data: dict[str, Any] = msgspec.field(default_factory=dict)

    def write(self, key: str, value: Any) -> None:
        """Keep `value` under `key`; plugins use their own name as the key, or as its prefix."""
        self._data[key] = value

    def read(self, key: str) -> Any:
        """Return what was written under `key`; raises `KeyError` if nothing was."""
        return self._data[key]

    def get(self, key: str) -> Any | None:
        """Return what was written under `key`, or None."""
        return self._data.get(key)

    def delete(self, key: str) -> None:
        """Forget what was written under `key`."""
        self._data.pop(key, None)

    def clone(self) -> "CycleState":
        """Return a copy that can be changed by AddPod and RemovePod without touching this one."""
        return CycleState(
            self.work,
            self.asked,
            skip_filter=self.skip_filter,
            skip_score=self.skip_score,
            taken_out=self.taken_out,
            skip_post_filter=self.skip_post_filter,
            _data={k: v.clone() if hasattr(v, "clone") else v for k, v in self._data.items()},
        )
