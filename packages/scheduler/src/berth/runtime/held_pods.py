"""Keeps pods from the core while something that decides where they go cannot be read yet.

The scheduler does not wait forever for what only a few pods need: it starts, and `HeldPods` holds back the pending pods
that could be misplaced. A pod that uses volumes waits for the kinds of volume binding, since an unknown limit or
capacity would count as none; one that claims devices waits for everything that says which devices are taken. Pods that
have a node are never held: they are counted wherever they are. `following` puts the pods' changes through it.
"""

from collections.abc import Callable, Iterable
from typing import Any

from berth.api.pod import Pod
from berth.kube.changes import Added, Change, Deleted, Modified

VOLUME_KINDS = frozenset(
    {"PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity"}
    | {"VolumeAttachment"}
)
DEVICE_KINDS = frozenset({"ResourceClaim", "ResourceSlice", "DeviceClass", "DeviceTaintRule"})

Unsettled = Callable[[], Iterable[str]]


class HeldPods:
    """Passes on the changes of pods, except of held ones; `unsettled` says which kinds are not known yet."""

    __slots__ = ("_holds_extended", "_pods", "_unsettled")

    def __init__(self, unsettled: Unsettled, *, holds_extended: bool) -> None:
        """`holds_extended` says that extended resources may be devices, so that pods that request them wait too."""
        self._unsettled = unsettled
        self._holds_extended = holds_extended
        self._pods: dict[str, Pod] = {}

    def __len__(self) -> int:
        """How many pods are held."""
        return len(self._pods)

    def holds(self, obj: Any) -> bool:
        """Say whether an object is a held pod."""
        return isinstance(obj, Pod) and obj.key in self._pods

    def waits_for(self) -> dict[str, int]:
        """Return how many pods wait for each kind."""
        unknown = self._unknown()
        missing = [kind for pod in self._pods.values() for kind in self._needs(pod) & unknown]
        return {kind: missing.count(kind) for kind in set(missing)}

    def passed(self, changes: list[Change]) -> list[Change]:
        """Return the changes that the core may see."""
        unknown = self._unknown()
        if not self._pods and not unknown:
            return changes
        return [seen for change in changes for seen in self._seen(change, unknown)]

    def released(self) -> list[Change]:
        """Return the pods that no longer wait for anything, as added pods."""
        unknown = self._unknown()
        free = [pod for pod in self._pods.values() if not self._needs(pod) & unknown]
        for pod in free:
            del self._pods[pod.key]
        return [Added(pod) for pod in free]

    def _seen(self, change: Change, unknown: frozenset[str]) -> list[Change]:
        if isinstance(change, Deleted):
            return [] if self._pods.pop(change.object.key, None) is not None else [change]
        if not isinstance(change, Added | Modified):
            return [change]
        pod: Pod = change.object
        is_held = self._pods.pop(pod.key, None) is not None
        is_new = is_held or isinstance(change, Added)  # a pod that the core knows is not taken back
        if is_new and not pod.spec.node_name and self._needs(pod) & unknown:
            self._pods[pod.key] = pod
            return []
        return [Added(pod)] if is_held else [change]

    def _unknown(self) -> frozenset[str]:
        return frozenset(self._unsettled()) & (VOLUME_KINDS | DEVICE_KINDS)

    def _needs(self, pod: Pod) -> frozenset[str]:
        """Return the kinds without which the pod could be misplaced."""
        needs: frozenset[str] = frozenset()
        if pod.spec.volumes:
            needs |= VOLUME_KINDS
        if pod.spec.resource_claims or (self._holds_extended and _requests_extended(pod)):
            needs |= DEVICE_KINDS
        return needs


def _requests_extended(pod: Pod) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any("/" in name for container in containers for name in container.resources.requests)
