"""Two configurations decide pod by pod about the same cluster: who goes elsewhere, and which plugin causes it.

After each pod, the choice of the first configuration is what stands in both, so that one difference does not lead to
the next. Every node is looked at, whatever share of them a configuration asks for, and a pod counts as deciding
differently only where the second configuration would not choose the first one's node even by lot. Preemption, pod
groups and extenders are left out; the runs of `berth.comparing.running` have the first two.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from berth.api.pod import Pod
from berth.comparing.configurations import LoadedConfiguration
from berth.comparing.loads import ClusterLoad
from berth.comparing.stopping import Watch, unwatched
from berth.exchange import DividedDecision, assume, best_nodes, causes
from berth.impact import SUCCESSORS
from berth.simulation.admission import with_priority
from berth.simulation.cluster import SimulatedCluster

GATED = "has scheduling gates"
NOT_OURS = "no profile of either configuration schedules it"
ONE_PROFILE = "only one of the configurations has a profile that schedules it"

ChangeKind = Literal["elsewhere", "fitsNoMore", "fitsNow"]


class PodChange(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that the two configurations decide differently; None where it fits on no node."""

    pod: str
    a: str | None
    b: str | None
    kind: ChangeKind
    """What becomes of the pod with the second configuration."""
    plugins: tuple[str, ...]
    """The plugins that cause it."""
    alone: bool
    """Whether each of them alone accounts for the difference, or only all of them together."""
    note: str = ""
    """What causes it where no plugin does."""


class Decisions(msgspec.Struct, frozen=True, rename="camel"):
    """What became of all pods."""

    decided: int
    """How many were decided by both configurations."""
    changes: tuple[PodChange, ...]
    left_out: dict[str, int] = {}
    """How many pods were not decided, by the reason."""


def decide(
    load: ClusterLoad, a: LoadedConfiguration, b: LoadedConfiguration, *, memos: bool = True, watch: Watch = unwatched
) -> Decisions:
    """Decide a load's pods, by priority and then in their order, with both configurations.

    Ends early where `watch` says so. Raises `ConfigError`, `RegistryError`, and `PluginBrokenError` for a plugin that
    raises.
    """
    sides = [
        SimulatedCluster(load.standing, config=each.config, registry=each.registry, memos=memos) for each in (a, b)
    ]
    classes = sides[0].priority_classes
    cores = [side.core for side in sides]
    renamed = SUCCESSORS if a.config.generation != b.config.generation else {}
    changes: list[PodChange] = []
    left_out: Counter[str] = Counter()
    decided = 0
    for pod in in_queue_order(with_priority(pod, classes) for pod in load.pods):
        if watch(1):
            break
        served = [pod.spec.scheduler_name in core.profiles for core in cores]
        if pod.spec.scheduling_gates or not any(served):
            left_out[GATED if pod.spec.scheduling_gates else NOT_OURS] += 1
            continue
        decided += 1
        divided = [DividedDecision(core, core.intake.info(pod), renamed) for core in cores]
        change, stands = change_of(pod.key, divided, served)
        if change is not None:
            changes.append(change)
        if stands is not None:
            for side in divided:
                assume(side, stands)
    return Decisions(decided, tuple(changes), dict(sorted(left_out.items())))


def in_queue_order(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods by priority, the highest first; those of the same priority stay in their order."""
    return sorted(pods, key=lambda pod: -(pod.spec.priority or 0))


def change_of(
    pod: str, divided: Sequence[DividedDecision], served: Sequence[bool]
) -> tuple[PodChange | None, str | None]:
    """Return how the two decide differently, if they do, and the node that the first one chooses."""
    best = [best_nodes(side) if serves else () for side, serves in zip(divided, served, strict=True)]
    (of_a, of_b), first = best, [next(iter(each), None) for each in best]
    if first[0] in of_b or not (of_a or of_b):
        return None, first[0]
    kind: ChangeKind = "elsewhere" if of_a and of_b else "fitsNoMore" if of_a else "fitsNow"
    if not all(served):
        return PodChange(pod, first[0], first[1], kind, (), alone=False, note=ONE_PROFILE), first[0]

    def accounts_for(exchanged: tuple[str, ...]) -> bool:
        if not of_a or not of_b:
            return bool(exchanged) == bool(of_b)
        return of_a[0] not in exchanged and not set(of_b).isdisjoint(exchanged)

    plugins, alone = causes(divided[0], divided[1], accounts_for)
    return PodChange(pod, first[0], first[1], kind, plugins, alone), first[0]
