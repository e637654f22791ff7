"""Tracks which pods are being evicted for which others, until the watch shows them going or it is known that they stay.

An eviction does not end with the API server's answer: while the cache counts a victim as running, a search for room
does not see the room that is being made. The core notes the evictions it requests and their results; plugins ask
whether a pod should wait before it is tried again, or before others are evicted for it.
"""

from collections.abc import Iterable

from berth.state.cache import Cache
from berth.state.pod_groups import GroupKey
from berth.state.pod_info import PodInfo


def group_key(group: GroupKey) -> str:
    """Return the key that stands for a group in place of a preemptor's uid."""
    return f"PodGroup {group}"


class Evictions:
    """Victims not yet seen to be going, by preemptor: a pod's uid, or a `group_key`."""

    __slots__ = ("_cache", "_failed", "_preemptors_of", "_under_way", "searches")

    def __init__(self, cache: Cache) -> None:
        self.searches = 0
        """How often victims were searched for, whether or not any were found."""
        self._cache = cache
        self._under_way: dict[str, set[str]] = {}
        self._preemptors_of: dict[str, set[str]] = {}
        """The same by victim."""
        self._failed: set[str] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def note_search(self) -> None:
        """Note that a plugin searches for victims."""
        self.searches += 1

    def preemptors(self) -> Iterable[str]:
        """Return the preemptors with victims not yet seen to be going."""
        return self._under_way.keys()

    def begin(self, preemptor_uid: str, victims: Iterable[PodInfo]) -> None:
        """Note that the eviction of these pods was requested."""
        for victim in victims:
            self._under_way.setdefault(preemptor_uid, set()).add(victim.uid)
            self._preemptors_of.setdefault(victim.uid, set()).add(preemptor_uid)

    def is_under_way(self, preemptor_uid: str) -> bool:
        """Say whether some victim is still counted as running whose eviction was requested and not refused."""
        victims = self._under_way.get(preemptor_uid)
        return victims is not None and any(self.is_staying(uid) for uid in victims)

    def is_asked_to_go(self, victim_uid: str) -> bool:
        """Say whether a pod's eviction was requested and not refused, or the watch already shows it going."""
        return victim_uid in self._preemptors_of

    def is_staying(self, victim_uid: str) -> bool:
        """Say whether a pod still counts as running, because the watch has not shown it going."""
        state = self._cache.state_of(victim_uid)
        return state is not None and not state.pod.is_terminating

    def ended(self, preemptor_uid: str, victim_uid: str, *, is_refused: bool) -> bool | None:
        """Note that a victim is going or, if `is_refused`, stays. Return None before the last one, then whether any
        stays.
        """
        self._drop(preemptor_uid, victim_uid)
        if is_refused:
            self._failed.add(preemptor_uid)
        if self._under_way.get(preemptor_uid):
            return None
        self._under_way.pop(preemptor_uid, None)
        has_failed = preemptor_uid in self._failed
        self._failed.discard(preemptor_uid)
        return has_failed

    def spare(self, preemptor_uid: str, victims: Iterable[PodInfo]) -> None:
        """Note that these pods are not evicted after all."""
        for victim in victims:
            self._drop(preemptor_uid, victim.uid)

    def _drop(self, preemptor_uid: str, victim_uid: str) -> None:
        self._under_way.get(preemptor_uid, set()).discard(victim_uid)
        preemptors = self._preemptors_of.get(victim_uid, set())
        preemptors.discard(preemptor_uid)
        if not preemptors:
            self._preemptors_of.pop(victim_uid, None)
