"""The pods that wait for something to happen, filed by whatever decides whether an event may help them.

An event is checked against groups of pods, not against each pod: those that the same plugins rejected, and among them
those of one shape. With twenty thousand pods of fifty shapes an event costs fifty questions, or none if no plugin that
rejected them is interested. Pods come out in the order in which they came in, as from a dictionary.
"""

from collections.abc import Iterator, Mapping, ValuesView
from typing import NamedTuple

from berth.state.pod_info import PodShape
from berth.state.queued_pod import QueuedPod

Pods = Mapping[str, QueuedPod]


class RejectedBy(NamedTuple):
    """Why pods wait: what `berth.queue.hints` looks at besides the pod itself."""

    profile_name: str
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str
    is_gate_broken: bool

    @classmethod
    def of(cls, queued: QueuedPod) -> "RejectedBy":
        """Return why a pod waits."""
        return cls(
            queued.pod.profile_name,
            queued.unschedulable_plugins,
            queued.pending_plugins,
            queued.gating_plugin,
            queued.is_gate_broken,
        )


class _Filed(NamedTuple):
    """Where a pod is filed, and when it arrived: the lowest number came first."""

    rejection: RejectedBy
    shape: PodShape
    number: int


class UnschedulablePods:
    """Pods by uid. One that changes while it waits is filed anew by putting it in again."""

    __slots__ = ("_alike", "_came", "_filed", "_pods", "rejections")

    def __init__(self) -> None:
        # Each pod is in `_pods`, in `_filed`, and in the one place in `_alike` that `_filed` names; no place is empty.
        self._pods: dict[str, QueuedPod] = {}
        self._filed: dict[str, _Filed] = {}
        self._alike: dict[RejectedBy, dict[PodShape, dict[str, QueuedPod]]] = {}
        self._came = 0
        self.rejections = 0
        """Grows whenever a reason to wait appears that no other pod had, and when the last pod with a reason goes."""

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[str]:
        return iter(self._pods)

    def __getitem__(self, uid: str) -> QueuedPod:
        return self._pods[uid]

    def __setitem__(self, uid: str, queued: QueuedPod) -> None:
        rejection, shape, known = RejectedBy.of(queued), queued.pod.shape, self._filed.get(uid)
        # Removed from where it was filed: what decides that may have changed since. It keeps its turn.
        if known is not None:
            self._take_out(uid, known)
        self._came += 1
        self._pods[uid] = queued
        self._filed[uid] = _Filed(rejection, shape, self._came if known is None else known.number)
        if rejection not in self._alike:
            self._alike[rejection] = {}
            self.rejections += 1
        self._alike[rejection].setdefault(shape, {})[uid] = queued

    def __delitem__(self, uid: str) -> None:
        del self._pods[uid]
        self._take_out(uid, self._filed.pop(uid))

    def values(self) -> ValuesView[QueuedPod]:
        """Return the pods, first come first."""
        return self._pods.values()

    def get(self, uid: str) -> QueuedPod | None:
        """Return a pod, or None."""
        return self._pods.get(uid)

    def pop(self, uid: str, default: None = None) -> QueuedPod | None:
        """Take a pod out; return it, or None if it is not here."""
        queued = self._pods.get(uid)
        if queued is not None:
            del self[uid]
        return queued

    def alike(self) -> Iterator[tuple[RejectedBy, Mapping[PodShape, Pods]]]:
        """Yield why pods wait, with the pods by shape; nothing may be added or removed meanwhile."""
        yield from self._alike.items()

    def number(self, queued: QueuedPod) -> int:
        """Return what orders the pods: the one that came first has the lowest."""
        return self._filed[queued.pod.uid].number

    def _take_out(self, uid: str, filed: _Filed) -> None:
        shapes = self._alike[filed.rejection]
        pods = shapes[filed.shape]
        del pods[uid]
        if not pods:
            del shapes[filed.shape]
            if not shapes:
                del self._alike[filed.rejection]
                self.rejections += 1
