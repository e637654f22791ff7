"""Tells interested plugins which pods come, change and go.

`Intake` calls it with each pod that it takes in, between the cache and the queue: a plugin has drawn its conclusions by
the time PreEnqueue and hints ask it. What a plugin raises is reported, and affects neither the other plugins nor the
pod.
"""

from collections.abc import Callable, Iterable

from berth.framework.blame import contained
from berth.framework.guard import Report
from berth.framework.loaded import LoadedPlugin
from berth.state.pod_info import PodInfo


class PodEventHandlers:
    """The plugins of all profiles that are told about pods, in the order of each profile."""

    __slots__ = ("_changed", "_plugins", "_report")

    def __init__(self, plugins: Iterable[LoadedPlugin], report: Report, changed: Callable[[str], None]) -> None:
        """`report` is called with bugs that `guarded` has not caught; `changed` when a plugin's own state has
        changed.
        """
        self._plugins = tuple(plugin for plugin in plugins if plugin.pod_events is not None)
        self._report = report
        self._changed = changed

    def __bool__(self) -> bool:
        """Whether there is any plugin to tell."""
        return bool(self._plugins)

    def added(self, pod: PodInfo) -> None:
        """Report a new pod."""
        for plugin in self._plugins:
            if plugin.pod_events is not None:
                self._tell(plugin.name, "pod_added", plugin.pod_events.pod_added, pod)

    def updated(self, old: PodInfo, new: PodInfo) -> None:
        """Report a pod that may have changed."""
        for plugin in self._plugins:
            if plugin.pod_updates is not None:
                self._tell(plugin.name, "pod_updated", plugin.pod_updates.pod_updated, old, new)

    def removed(self, pod: PodInfo) -> None:
        """Report a pod that is gone or has finished."""
        for plugin in self._plugins:
            if plugin.pod_events is not None:
                self._tell(plugin.name, "pod_removed", plugin.pod_events.pod_removed, pod)

    def _tell(self, name: str, method: str, tell: Callable[..., None], *pods: PodInfo) -> None:
        try:
            tell(*pods)
        except BaseException as raised:
            self._report(name, method, contained(raised))
        self._changed(name)  # so that answers from before the change are not used again
