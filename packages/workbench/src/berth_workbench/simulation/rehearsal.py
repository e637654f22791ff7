"""Trying something on a simulated cluster, and putting everything back as it was.

For questions that are asked of one cluster many times over, where making the cluster anew would cost more than the
answer. Objects come back as the very structs that they were, so that what differs is told by identity.
"""

from types import TracebackType
from typing import Self

from berth.api.pod import Pod
from berth_workbench.simulation.site import Site


class Rehearsal:
    """A context manager: what happens to the cluster of a site within it is taken back at its end."""

    __slots__ = ("_applied", "_is_kept", "_noted", "_site")

    def __init__(self, site: Site) -> None:
        self._site = site
        self._is_kept = False
        self._noted = (0, 0)
        self._applied = site.applied

    def __enter__(self) -> Self:
        self._noted = (len(self._site.departures), len(self._site.broken))
        self._applied = self._site.applied
        self._site.cluster.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_kept and error is None:
            self._site.cluster.keep()
            return
        self._site.cluster.undo()
        self._site.applied = self._applied
        departures, broken = self._noted
        del self._site.departures[departures:]
        del self._site.broken[broken:]

    def keep(self) -> None:
        """Let everything stay as it is at the end."""
        self._is_kept = True

    def changed_pods(self) -> dict[str, tuple[Pod | None, Pod | None]]:
        """Return each pod that is not as it was, by `namespace/name`: before and now, None where there was or is none.

        A pod of which only the conditions have changed is among them. They are in the order of their names.
        """
        cluster = self._site.cluster
        pods = sorted((name[1], was) for name, was in cluster.touched.items() if name[0] == "Pod")
        found = {key: (was, cluster.objects.get(("Pod", key))) for key, was in pods}
        return {key: (was, now) for key, (was, now) in found.items() if was is not now}
