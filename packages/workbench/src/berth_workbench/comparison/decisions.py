"""Two configurations decide pod by pod about the same cluster: which pods go elsewhere, and which plugin causes it.

After each pod, the choice of the first configuration is applied in both, so that one difference does not lead to the
next. Every node is looked at, whatever share of them a configuration asks for, and a pod counts as deciding differently
only if the second configuration would not choose the first one's node even in a random tie-break. Preemption, pod
groups and extenders are left out; the runs of `berth_workbench.comparison.run` have the first two.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from berth.api.pod import Pod
from berth.cycle.difference import AMONG_EQUALS, ComparedDecision
from berth.decisions.side_by_side import SUCCESSORS, DecisionComparer, Side
from berth.framework.setup import Setup
from berth_workbench.comparison.loads import ClusterLoad
from berth_workbench.simulation.admission import with_priority
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch

GATED = "has scheduling gates"
NOT_OURS = "no profile of either configuration schedules it"


class Decisions(msgspec.Struct, frozen=True, rename="camel"):
    """The results for all pods."""

    decided: int
    """How many were decided by both configurations."""
    changes: tuple[ComparedDecision, ...]
    """The pods that the two decide differently."""
    left_out: dict[str, int] = {}
    """How many pods were not decided, by the reason."""


class DecisionTally:
    """Compares pod by pod, and counts the results."""

    __slots__ = ("_changes", "_comparer", "_decided", "_left_out")

    def __init__(self, a: Setup, b: Setup, side_a: Side, side_b: Side) -> None:
        successors = SUCCESSORS if a.config.generation != b.config.generation else {}
        self._comparer = DecisionComparer(side_a, side_b, AMONG_EQUALS, successors)
        self._decided = 0
        self._changes: list[ComparedDecision] = []
        self._left_out: Counter[str] = Counter()

    def compare(self, pod: Pod, *, stands: bool = False) -> None:
        """Compare what both decide about a pod; see `DecisionComparer.compare`."""
        if pod.spec.scheduling_gates or not self._comparer.schedules(pod):
            self._left_out[GATED if pod.spec.scheduling_gates else NOT_OURS] += 1
            return
        self._decided += 1
        found = self._comparer.compare(pod, stands=stands)
        if found.kind != "same":
            self._changes.append(found)

    def leave_out(self, counts: Mapping[str, int]) -> None:
        """Take note of pods that are not decided, by the reason."""
        self._left_out.update(counts)

    def result(self) -> Decisions:
        """Return what was found so far."""
        return Decisions(self._decided, tuple(self._changes), dict(sorted(self._left_out.items())))


def decide(
    load: ClusterLoad,
    a: Setup,
    b: Setup,
    *,
    standing: Sequence[SimulatedCluster] = (),
    memos: bool = True,
    watch: WorkWatch = UNWATCHED,
) -> Decisions:
    """Decide a load's pods, by priority and then in their order, with both configurations.

    `standing` has the result of the load's `stand` for each of them, if at hand; they are used up. Ends early if it is
    stopped; with `StoppedError` while the cluster is being loaded. Raises `ConfigError`, `RegistryError`, and
    `PluginBrokenError` for a plugin that raises.
    """
    clusters = standing or [load.stand(each, watch, memos=memos) for each in (a, b)]
    for each in clusters:  # nobody schedules them here, but plugins know of them as they would in a live core
        each.add(watch.over(load.pods))
    classes = clusters[0].priority_classes
    tally = DecisionTally(a, b, *(Side.of(each.core) for each in clusters))
    tally.leave_out(load.refused)
    for pod in in_queue_order(with_priority(pod, classes) for pod in load.pods):
        watch.advance()
        if watch.is_stopped:
            break
        tally.compare(pod, stands=True)
    return tally.result()


def in_queue_order(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods by priority, the highest first; those of the same priority stay in their order."""
    return sorted(pods, key=lambda pod: -(pod.spec.priority or 0))
