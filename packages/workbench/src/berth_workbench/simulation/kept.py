"""A loaded cluster that is lent to one question after the other, and put back as it was in between.

Loading a large cluster takes seconds, and taking back what a question did to it takes as long as that was much. So
whoever asks many questions about one file keeps its cluster here, and has each `Situation` say so.
"""

import threading

from berth.framework.setup import Setup
from berth_workbench.simulation.site import OF_WORKLOADS, Site
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.snapshot import Snapshot


class KeptCluster:
    """The cluster of the snapshot that was asked about last. A question on another thread meanwhile gets its own."""

    __slots__ = ("_asked", "_borrower", "_lock", "_site")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: tuple[Snapshot, Setup | None, int] | None = None
        self._site: Site | None = None
        self._borrower = 0
        """The thread that has it."""

    def lend(self, snapshot: Snapshot, setup: Setup | None, seed: int, watch: WorkWatch) -> Site:
        """Return what `Site.of` does, of the kept cluster where it is at hand and the same."""
        if not self._lock.acquire(blocking=False):
            return Site.of(snapshot, setup, seed=seed, watch=watch)
        self._borrower = threading.get_ident()
        known, site = self._asked, self._site
        is_same = known is not None and known[0] is snapshot and known[1] is setup and known[2] == seed
        if site is None or not is_same:
            self._asked = self._site = None  # before another one is loaded, for there need not be room for both
            site = Site.of(snapshot, setup, seed=seed, watch=watch)
            self._asked, self._site = (snapshot, setup, seed), site
        site.cluster.begin()
        return Site(site.cluster, snapshot.of(*OF_WORKLOADS), watch=watch)

    def take_back(self) -> None:
        """Put everything back that the question of this thread has done, if the cluster was lent to it."""
        if not self._lock.locked() or self._borrower != threading.get_ident():
            return
        self._borrower = 0
        try:
            if self._site is not None:
                self._site.cluster.undo_all()
        except BaseException:
            self._asked = self._site = None  # nobody knows what it is like now
            raise
        finally:
            self._lock.release()
