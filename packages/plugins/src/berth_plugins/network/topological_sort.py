"""TopologicalSort: the queue takes the pods of an application in the order in which its workloads start.

Upstream plugin `TopologicalSort`, with AppGroup, whose status has the order. Pods of different groups, and of none,
come by priority, then by time. Less says yes both ways of pods of one place, as upstream's does, so there is no sort
key.

Deviation: pods of a group that does not exist come by priority, then by time; upstream's scheduler crashes.
"""

from typing import ClassVar, final

import msgspec

from berth.plugin import Handle, QueuedPod, QueueSortPlugin
from berth_plugins.network.app_groups import APP_GROUPS, AppGroup, found_in, group_named_by, place_in_order, workload_of


class TopologicalSortArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Where the AppGroups are."""

    namespaces: tuple[str, ...] = ()

    def defaulted(self) -> "TopologicalSortArgs":
        """Fill in upstream's default: the namespace `default`."""
        return TopologicalSortArgs(self.namespaces or ("default",))


@final
class TopologicalSort(QueueSortPlugin):
    """QueueSort."""

    name: ClassVar[str] = "TopologicalSort"
    args_type: ClassVar[type[msgspec.Struct]] = TopologicalSortArgs

    def __init__(self, args: TopologicalSortArgs, handle: Handle) -> None:
        self._namespaces = args.namespaces
        self._groups = handle.follow(APP_GROUPS)

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Say whether a pod comes before another, or may."""
        name = group_named_by(a.pod)
        group = found_in(self._namespaces, self._groups, name) if name and name == group_named_by(b.pod) else None
        if group is None:
            return (-a.pod.priority, a.timestamp) < (-b.pod.priority, b.timestamp)
        assert isinstance(group, AppGroup)
        return place_in_order(group, workload_of(a.pod)) <= place_in_order(group, workload_of(b.pod))
