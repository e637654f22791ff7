"""What is done to a cluster, step by step: a change, or manifests that are applied."""

from collections.abc import Sequence
from dataclasses import dataclass

from berth_workbench.simulation.changes import ClusterChange
from berth_workbench.simulation.operations import carry_out
from berth_workbench.simulation.rollouts import apply, take_away
from berth_workbench.simulation.scale import refuse_awaited
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.workloads import Expansion
from berth_workbench.snapshot.documents import Document


@dataclass(slots=True, eq=False, repr=False)
class Manifests:
    """A step that takes away what is gone from some manifests, and applies them.

    A tool that deletes last comes to the same in the end: what has no room until then is placed afterwards.
    """

    documents: list[Document]
    words: str
    gone: Sequence[Document] = ()

    def __str__(self) -> str:
        return self.words


Step = ClusterChange | Manifests


def take_steps(site: Site, steps: Sequence[Step], namespace: str = "default") -> None:
    """Carry steps out one after the other; `namespace` is that of manifests that name none.

    Raises `ManifestError`, and `ChangeError` also for a workload that is to be scaled and that no step has brought.
    """
    for step in steps:
        take_step(site, step, namespace)
    refuse_awaited(site)


def take_step(site: Site, step: Step, namespace: str = "default") -> Expansion:
    """Carry one step out, and return what was applied by it; `refuse_awaited` belongs behind the last one.

    Raises `ChangeError`, `ManifestError`.
    """
    if isinstance(step, Manifests):
        if step.gone:
            take_away(site, step.gone, namespace)
        return apply(site, step.documents, namespace)
    carry_out(site, step)
    return Expansion()
