"""Which pods are being evicted for whom, until the API server has answered for the last of them.

The core notes what it has asked for and what was answered; plugins ask whether a pod had better wait before it is
tried again.
"""

from collections.abc import Iterable

from berth.state.cache import Cache
from berth.state.pod_groups import GroupKey
from berth.state.pod_info import PodInfo


def group_key(group: GroupKey) -> str:
    """Return the key under which a group takes the place of a preemptor's uid."""
    return f"PodGroup {group}"


class Evictions:
    """Victims whose eviction has no outcome yet, by preemptor: a pod's uid, or a `group_key`."""

    __slots__ = ("_cache", "_failed", "_under_way", "searches")

    def __init__(self, cache: Cache) -> None:
        self.searches = 0
        """How often victims were looked for, found or not. The plugins that look increase it."""
        self._cache = cache
        self._under_way: dict[str, set[str]] = {}
        self._failed: set[str] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def preemptors(self) -> Iterable[str]:
        """Return the preemptors that still await an answer about a victim."""
        return self._under_way.keys()

    def begin(self, preemptor_uid: str, victims: Iterable[PodInfo]) -> None:
        """Note that the eviction of these pods was requested."""
        uids = {victim.uid for victim in victims}
        if uids:
            self._under_way.setdefault(preemptor_uid, set()).update(uids)

    def is_under_way(self, preemptor_uid: str) -> bool:
        """Say whether for some victim there is no answer yet and the watch has not shown its deletion either."""
        victims = self._under_way.get(preemptor_uid)
        return victims is not None and any(self._is_staying(uid) for uid in victims)

    def answered(self, preemptor_uid: str, victim_uid: str, *, is_refused: bool) -> bool | None:
        """Note the API server's answer about a victim. Return None before the last, then whether any was a refusal."""
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

    def spare(self, preemptor_uid: str, victims: Iterable[PodInfo]) -> None:
        """Note that these pods are not asked to go after all."""
        self._under_way.get(preemptor_uid, set()).difference_update(victim.uid for victim in victims)

    def _is_staying(self, uid: str) -> bool:
        state = self._cache.state_of(uid)
        return state is not None and not state.pod.is_terminating
