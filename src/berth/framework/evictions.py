"""Which pods are being evicted for whom, until the API server has answered for the last of them.

The core notes what it has asked for and what was answered; plugins ask whether a pod had better wait before it is
tried again.
"""

from collections.abc import Iterable

from berth.state.cache import Cache
from berth.state.pod_groups import GroupKey
from berth.state.pod_info import PodInfo


def group_key(group: GroupKey) -> str:
    """Return what stands for a group where a preemptor's uid is asked for."""
    return f"PodGroup {group}"


class Evictions:
    """The victims that are asked to go and not yet known to be going, by preemptor: a pod's uid, or a `group_key`."""

    __slots__ = ("_cache", "_failed", "_under_way", "searches")

    def __init__(self, cache: Cache) -> None:
        self.searches = 0
        """How often a plugin has looked for victims, whether it found any or not; plugins count."""
        self._cache = cache
        self._under_way: dict[str, set[str]] = {}
        self._failed: set[str] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def preemptors(self) -> Iterable[str]:
        """Return the uids of those for whom an answer is still awaited."""
        return self._under_way.keys()

    def begin(self, preemptor_uid: str, victims: Iterable[PodInfo]) -> None:
        """Note that these pods were asked to go."""
        uids = {victim.uid for victim in victims}
        if uids:
            self._under_way.setdefault(preemptor_uid, set()).update(uids)

    def is_under_way(self, preemptor_uid: str) -> bool:
        """Say whether any victim has neither been answered for nor been seen to go."""
        return any(self._is_staying(uid) for uid in self._under_way.get(preemptor_uid, ()))

    def answered(self, preemptor_uid: str, victim_uid: str, *, is_refused: bool) -> bool | None:
        """Note what the API server said of a victim. After the last: whether any was refused, before it: None."""
        waiting = self._under_way.get(preemptor_uid, set())
        waiting.discard(victim_uid)
        if is_refused:
            self._failed.add(preemptor_uid)
        if waiting:
            return None
        self._under_way.pop(preemptor_uid, None)
        has_failed = preemptor_uid in self._failed
        self._failed.discard(preemptor_uid)
        return has_failed

    def _is_staying(self, uid: str) -> bool:
        state = self._cache.state_of(uid)
        return state is not None and not state.pod.is_terminating
