"""Trying something on a simulated cluster, and putting everything back as it was.

For questions that are asked of one cluster many times over, where making the cluster anew would cost more than the
answer. Objects come back as the very structs that they were, so that what differs is told by identity. Virtual time
goes on, and nodes that were away come last in the order of nodes, so that ties may be broken otherwise afterwards.
"""

from types import TracebackType
from typing import Any, Self

from berth.api.pod import Pod
from berth_workbench.simulation.site import Site

Name = tuple[str, str]
"""Kind, and `namespace/name` or name."""


class Rehearsal:
    """A context manager: what happens to the cluster of a site within it is taken back at its end."""

    __slots__ = ("_before", "_is_kept", "_messages", "_noted", "_site")

    def __init__(self, site: Site) -> None:
        self._site = site
        self._before: dict[Name, Any] = {}
        self._is_kept = False
        self._messages: dict[str, str] = {}
        self._noted = (0, 0, 0)

    def __enter__(self) -> Self:
        cluster = self._site.cluster
        self._before = dict(cluster.objects)
        self._messages = dict(cluster.messages)
        self._noted = (len(self._site.departures), len(self._site.broken), len(cluster.evictions))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_kept:
            return
        cluster, before = self._site.cluster, self._before
        # Pods leave first and come last: their claims and the nodes they are on have to be there when they are.
        for name, obj in list(cluster.objects.items()):
            if isinstance(obj, Pod) and before.get(name) is not obj:
                cluster.delete(*name)
        others = [(name, obj) for name, obj in cluster.objects.items() if not isinstance(obj, Pod)]
        for name, _ in others:
            if name not in before:
                cluster.delete(*name)
        missing = [(name, obj) for name, obj in before.items() if cluster.objects.get(name) is not obj]
        for _, obj in sorted(missing, key=lambda each: isinstance(each[1], Pod)):
            cluster.put(obj)
        cluster.messages.clear()
        cluster.messages.update(self._messages)
        departures, broken, evictions = self._noted
        del self._site.departures[departures:]
        del self._site.broken[broken:]
        del cluster.evictions[evictions:]

    def keep(self) -> None:
        """Let everything stay as it is at the end."""
        self._is_kept = True

    def changed_pods(self) -> dict[str, tuple[Pod | None, Pod | None]]:
        """Return each pod that is not as it was, by `namespace/name`: before and now, None where there was or is none.

        A pod of which only the conditions have changed is among them.
        """
        now = self._site.cluster.objects
        found: dict[str, tuple[Pod | None, Pod | None]] = {}
        for name, obj in self._before.items():
            if name[0] == "Pod" and now.get(name) is not obj:
                found[name[1]] = (obj, now.get(name))
        for name, obj in now.items():
            if name[0] == "Pod" and name not in self._before:
                found[name[1]] = (None, obj)
        return found
