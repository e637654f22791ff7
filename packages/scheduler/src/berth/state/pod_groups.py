"""Which pods belong to which pod group (`spec.schedulingGroup`), and which of them have a node.

The intake writes it as pods come and go; the gang plugins and the group cycle read it. Every unfinished pod of the API
server counts, whichever scheduler it belongs to: after a restart the running members count as before.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from berth.state.cache import Cache
from berth.state.ordering import put_in_order
from berth.state.pod_info import PodInfo

POD_GROUP = "PodGroup"
"""The kind under which the object store keeps the groups themselves."""

_NONE: Mapping[str, PodInfo] = MappingProxyType({})


class GroupKey(NamedTuple):
    """A pod group by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def group_of(pod: PodInfo) -> GroupKey | None:
    """Return the group that a pod belongs to, or None."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return None
    return GroupKey(pod.namespace, group.pod_group_name)


class PodGroups:
    """The members of each group, by uid."""

    __slots__ = ("_cache", "_leaving", "_members")

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._members: dict[GroupKey, dict[str, PodInfo]] = {}
        self._leaving: dict[GroupKey, set[str]] = {}
        """The members that are being deleted."""

    def put(self, pod: PodInfo) -> None:
        """Take in a pod, or a newer object of it; which group it belongs to never changes."""
        key = group_of(pod)
        if key is not None:
            self._members.setdefault(key, {})[pod.uid] = pod
            if pod.is_terminating:
                self._leaving.setdefault(key, set()).add(pod.uid)

    def remove(self, pod: PodInfo) -> None:
        """Forget a pod that is gone or has finished."""
        key = group_of(pod)
        members = self._members.get(key) if key is not None else None
        if key is None or members is None:
            return
        members.pop(pod.uid, None)
        self._leaving.get(key, set()).discard(pod.uid)
        if not members:
            del self._members[key]
            self._leaving.pop(key, None)

    def order(self) -> dict[GroupKey, tuple[str, ...]]:
        """Return the uids of the members of each group, in the order they came."""
        return {key: tuple(members) for key, members in self._members.items()}

    def put_in_order(self, order: Mapping[GroupKey, Iterable[str]]) -> None:
        """Put members into an earlier order."""
        for key, uids in order.items():
            put_in_order(self._members.get(key, {}), uids)

    def members(self, key: GroupKey) -> Mapping[str, PodInfo]:
        """Return the members of a group by uid, in the order in which they came; not to be stored."""
        return self._members.get(key, _NONE)

    def count(self, key: GroupKey) -> int:
        """Return how many members are running or may yet run; a pod deleted while it waited never will."""
        leaving = self._leaving.get(key, ())
        return len(self.members(key)) - sum(self._cache.state_of(uid) is None for uid in leaving)

    def placed(self, key: GroupKey) -> list[PodInfo]:
        """Return the members that have a node, according to the API server or by this scheduler's decision."""
        return [pod for pod in self.members(key).values() if self._has_node(pod)]

    def placed_count(self, key: GroupKey) -> int:
        """Return how many members have a node."""
        return sum(map(self._has_node, self.members(key).values()))

    def _has_node(self, pod: PodInfo) -> bool:
        return self._cache.state_of(pod.uid) is not None
