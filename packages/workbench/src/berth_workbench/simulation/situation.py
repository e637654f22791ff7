"""What a question is asked about: a cluster as documents, who decides there, and what is done to it first."""

import msgspec

from berth.framework.setup import Setup
from berth_workbench.simulation.kept import KeptCluster
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.steps import Step, take_steps
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch
from berth_workbench.snapshot.snapshot import Snapshot


class Situation(msgspec.Struct, frozen=True):
    """A cluster, the scheduler that decides in it, and the changes after which a question is asked."""

    snapshot: Snapshot
    setup: Setup | None = None
    """None for the default configuration."""
    steps: tuple[Step, ...] = ()
    namespace: str = "default"
    """That of manifests which name none."""
    seed: int = 0
    """How ties between nodes are broken."""
    kept: KeptCluster | None = None
    """Where there is one, it lends the cluster, and has to be told when it is no longer used."""

    def site(self, watch: WorkWatch = UNWATCHED) -> Site:
        """Return the cluster in memory, as it is after the steps.

        What is pending is placed before the first step, as far as it fits; where there are no steps, nothing is tried.
        Raises `ObjectError`, `ManifestError`, `ChangeError`, `StuckError`, `StoppedError`.
        """
        site = self.untouched(watch)
        if self.steps:
            site.settle()
            take_steps(site, self.steps, self.namespace)
        return site

    def untouched(self, watch: WorkWatch = UNWATCHED) -> Site:
        """Return the cluster in memory, as the snapshot has it. Raises `ObjectError`, `StoppedError`."""
        if self.kept is not None:
            return self.kept.lend(self.snapshot, self.setup, self.seed, watch)
        return Site.of(self.snapshot, self.setup, seed=self.seed, watch=watch)
