"""What happens if: a cluster before and after changes and new workloads, decided by the scheduler's own engine.

`what_if` makes a cluster in memory of a snapshot, carries the steps out one after another, lets the scheduler place
what it can after each, and says where everything went, what had to leave and for which pod, and what this breaks. The
same snapshot, steps, configuration and seed give the same result.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from berth.api.pod import Pod
from berth_workbench.planning.dynamic_admission import unasked
from berth_workbench.simulation.budgets import follows_its_node, is_active, is_daemon
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT, Eviction, SimulatedCluster
from berth_workbench.simulation.comebacks import AGAIN_AND_AGAIN
from berth_workbench.simulation.gangs import Gang, gangs_of, held_by, held_in_words
from berth_workbench.simulation.measures import Measures, is_pending, measure, pending_pods
from berth_workbench.simulation.missing_resources import missing_resources
from berth_workbench.simulation.scale import refuse_awaited
from berth_workbench.simulation.site import LOST, Broken, Site
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import Step, take_step
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch

NO_LONGER_RUNS = "NoLongerRuns"
DAEMON_DOES_NOT_FIT = "DaemonPodDoesNotFit"
BUDGET_VIOLATED = "BudgetViolated"
EVICTED_AGAIN_AND_AGAIN = "EvictedAgainAndAgain"
GANG_STOPPED = "GangStopped"
NO_GROUPS = "the configuration does not look at groups (feature gates GenericWorkload and GangScheduling)"

_RAN_ON = re.compile(r"^ran on \S+ and has no node")
_PIECES = re.compile(r"\d{1,18}|\D+")


class PodOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """Where a pod is in the end: one that is new, that is not where it was, or that has no node."""

    pod: str
    """`namespace/name`."""
    node: str | None
    message: str
    """Why it has no node; empty where it has one."""
    before: str | None
    """The node that it was on."""
    is_new: bool = False
    is_refused: bool = False
    """Whether there is no such pod in the end, since the API server does not let it be made; the message says why."""


class LeftNode(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that had to leave its node."""

    pod: str
    """`namespace/name`."""
    by: str
    """The pod that it made way for, as `namespace/name`, or the change in words."""
    node: str
    """The node that it left."""
    is_preempted: bool


class GangOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """Pods that are placed together or not at all, some of which have no node in the end."""

    name: str
    """`namespace/name` of the PodGroup."""
    needed: int
    """So many have to have a node."""
    pods: int
    placed: int
    is_stopped: bool = False
    """Whether enough of them had one before."""
    holds: dict[str, str] = {}
    """What those that have a node hold there, by resource: for nothing, as long as the others have none."""

    @property
    def stopped_in_words(self) -> str:
        """Say that it has stopped, and what that costs, without a full stop."""
        held = f", which hold {held_in_words(self.holds)} for nothing" if self.holds else ""
        return (
            f"PodGroup {self.name} is stopped: {self.placed} of the {self.needed} pods that it needs have a node{held}"
        )

    @property
    def in_words(self) -> str:
        """Say which pods wait, as the end of a sentence."""
        if self.pods < self.needed:
            return f"PodGroup {self.name}, which has {self.pods} of the {self.needed} pods that it needs"
        if self.placed:
            return f"PodGroup {self.name}, which needs {self.needed} pods with a node and has {self.placed}"
        return f"the {self.pods} pods of PodGroup {self.name}, none of which is bound before {self.needed} have a place"


class StepOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The result of one step."""

    step: str
    evicted: int
    """How many pods left their nodes because of it."""
    preempted: int
    pending: int
    """How many pods have no node after it."""


class GonePods(msgspec.Struct, frozen=True, rename="camel"):
    """How many pods that had a node are not there any more, none in their place; those that are refused not counted."""

    with_their_nodes: int = 0
    """Of DaemonSets and of kubelets themselves, on nodes that are gone; those that had ended are among them."""
    lost: int = 0
    """Without a controller that would make others."""
    deleted: int = 0
    """By a change, such as fewer replicas."""


class WhatIfResult(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster before and after some changes."""

    pods: tuple[PodOutcome, ...]
    """By name; pods that stayed where they were are left out."""
    evicted: tuple[LeftNode, ...]
    """In the order in which they left."""
    broken: tuple[Broken, ...]
    """Where it was stopped, only what stays broken whatever comes after."""
    steps: tuple[StepOutcome, ...]
    before: Measures
    """The cluster as the snapshot has it."""
    after: Measures
    notes: tuple[str, ...] = ()
    is_complete: bool = True
    """False where it was stopped before the end."""
    gangs: tuple[GangOutcome, ...] = ()
    """Those that have fewer pods with a node in the end than they need."""
    gone: GonePods = GonePods()
    """Pods on nodes before, less these and those without a node now, plus those placed, are the pods after."""
    returned: tuple[str, ...] = ()
    """The pods that have left their nodes and are back on them."""

    @property
    def unplaced(self) -> tuple[PodOutcome, ...]:
        """The pods that have no node."""
        return tuple(each for each in self.pods if each.node is None)


def what_if(situation: Situation, pool_label: str = "", watch: WorkWatch = UNWATCHED) -> WhatIfResult:
    """Return what the steps of a situation do to a cluster.

    Pods that are pending in the snapshot are placed first, as far as they fit. Raises `ObjectError`, `ManifestError`,
    `ChangeError`, `StuckError`, `StoppedError` where the cluster is not loaded yet, and ValueError for a pod whose
    PriorityClass is not there.
    """
    run = WhatIfRun(situation.untouched(watch), pool_label)
    return run.run(situation.steps, situation.namespace, unasked(situation))


class WhatIfRun:
    """Carries steps out on a cluster, and remembers what it was like before."""

    __slots__ = ("_before", "_cluster", "_followers", "_left", "_measured", "_notes", "_pool_label", "_ran", "_seen",
                 "_site", "_steps", "_strained")  # fmt: skip

    def __init__(self, site: Site, pool_label: str = "") -> None:
        self._cluster = cluster = site.cluster
        self._site = site
        self._pool_label = pool_label
        self._before = cluster.placements
        self._followers = {pod.key for pod in cluster.of(Pod) if follows_its_node(pod) or not is_active(pod)}
        self._measured = measure(cluster, pool_label=pool_label)
        cluster.publish_budgets()
        self._strained = {key for key, _ in cluster.budgets.violated()}
        self._ran = {gang.key: gang.needed for gang in gangs_of(cluster) if gang.placed >= gang.needed}
        self._left: list[LeftNode] = []
        self._seen = (0, 0)
        self._steps: list[StepOutcome] = []
        self._notes: list[str] = [EXTENDERS_LEFT_OUT] if cluster.leaves_out_extenders else []

    def run(self, steps: Sequence[Step], namespace: str = "default", notes: Iterable[str] = ()) -> WhatIfResult:
        """Carry the steps out, and return the result, with further notes."""
        is_complete = True
        words = "place what is pending"
        try:
            if pending_pods(self._cluster):
                self._site.settle()
                self._note_step(words)
            for step in steps:
                words = str(step)
                applied = take_step(self._site, step, namespace)
                self._note_passed_over(applied.passed_over)
                self._note_groups(applied.pods)
                self._note_step(words)
            refuse_awaited(self._site)
        except StoppedError:
            is_complete = False
            self._note_step(words)
            self._notes.append(f"stopped in the middle of: {words}")
        return self._result(is_complete, tuple(notes))

    def _note_passed_over(self, names: Sequence[str]) -> None:
        if names:
            some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
            what = "1 object" if len(names) == 1 else f"{len(names)} objects"
            self._notes.append(f"decisions do not depend on {what} of the manifests: {some}")

    def _note_groups(self, pods: Iterable[Pod]) -> None:
        """Add a note if pods name a group and nothing looks at groups."""
        for pod in pods:
            profile = self._cluster.core.profiles.get(pod.spec.scheduler_name)
            asks = pod.spec.scheduling_group is not None and profile is not None
            if asks and profile is not None and not profile.plugins_that_permit_groups:
                self._notes.append(f"{pod.key} names a pod group, but {NO_GROUPS}")
                return

    def _note_step(self, words: str) -> None:
        """Add what has happened since the last step."""
        departures, evictions = self._seen
        left = [LeftNode(each.pod, each.by, each.node, False) for each in self._site.departures[departures:]]
        preempted = self._cluster.evictions[evictions:]
        left += [LeftNode(each.pod, each.by, each.node, True) for each in preempted]
        self._site.broken += self._lost(preempted)
        self._seen = (len(self._site.departures), len(self._cluster.evictions))
        self._left += left
        pending = len(pending_pods(self._cluster))
        self._steps.append(StepOutcome(words, len(left), len(preempted), pending))

    def _lost(self, preempted: Iterable[Eviction]) -> Iterator[Broken]:
        for each in preempted:
            if ("Pod", each.pod) not in self._cluster.objects:
                yield Broken("Pod", each.pod, LOST, f"has no controller, and is preempted by {each.by}")

    # -- the result --------------------------------------------------------------------------------------------------

    def _result(self, is_complete: bool, notes: tuple[str, ...]) -> WhatIfResult:
        outcomes = tuple(sorted(self._outcomes(), key=lambda each: natural(each.pod)))
        left = gangs_of(self._cluster)
        gangs = tuple(
            outcome_of(self._cluster, each, is_stopped=each.key in self._ran)
            for each in left
            if each.placed < each.needed
        )
        gone = self._ran.keys() - {each.key for each in left}
        gangs += tuple(GangOutcome(key, self._ran[key], 0, 0, is_stopped=True) for key in sorted(gone))
        self._cluster.publish_budgets()
        broken = self._site.broken
        if is_complete:  # else whoever has no node yet may still get one
            broken = [
                *broken,
                *self._circles(),
                *self._broken_pods(outcomes),
                *self._broken_gangs(gangs),
                *self._broken_budgets(),
            ]
        return WhatIfResult(
            pods=outcomes,
            evicted=tuple(self._left),
            broken=tuple(broken),
            steps=tuple(self._steps),
            before=self._measured,
            after=measure(self._cluster, pool_label=self._pool_label),
            notes=(
                *self._notes,
                *missing_resources(self._cluster, pending_pods(self._cluster)),
                *self._kept_rooms(),
                *self._cluster.admission.unchecked(each.pod.partition("/")[0] for each in outcomes if each.is_new),
                *notes,
            ),
            is_complete=is_complete,
            gone=self._gone(),
            returned=tuple(sorted({each.pod for each in self._left if self._is_back(each.pod)})),
            gangs=gangs,
        )

    def _kept_rooms(self) -> Iterator[str]:
        """Say which pending pods reserve room on nodes: others then do not fit there.

        A nomination stays as long as pods of lower priority that are being deleted are on the node; here they stay.
        """
        nominator = self._cluster.core.nominator
        for name in sorted(nominator.nodes()):
            going = [pod.key for pod in self._site.pods_on(name) if pod.metadata.deletion_timestamp is not None]
            why = f", until {', '.join(going)} is gone" if going else ""
            for pod in nominator.pods_on(name):
                yield f"room on {name} is kept for {pod.key}, which is nominated to it{why}"

    def _outcomes(self) -> Iterator[PodOutcome]:
        for key, node in self._cluster.placements.items():
            before = self._before.get(key)
            if node and node == before:
                continue
            pod = self._cluster.objects["Pod", key]
            if not node and not is_pending(pod):
                continue
            message = "" if node else why_pending(self._cluster, pod)
            yield PodOutcome(key, node or None, message, before or None, key not in self._before)
        for key, refused in self._cluster.refused.items():
            yield PodOutcome(key, None, refused.why, self._before.get(key), key not in self._before, is_refused=True)

    def _is_back(self, key: str) -> bool:
        pod = self._cluster.objects.get(("Pod", key))
        return pod is not None and bool(pod.spec.node_name) and pod.spec.node_name == self._before.get(key)

    def _gone(self) -> GonePods:
        lost = {each.name for each in self._site.broken if each.reason == LOST}
        there = self._cluster.objects
        keys = [key for key, node in self._before.items() if node and ("Pod", key) not in there]
        keys = [key for key in keys if key not in self._cluster.refused]
        alone = sum(key in lost for key in keys)
        with_their_nodes = sum(key in self._followers and key not in lost for key in keys)
        return GonePods(with_their_nodes, alone, len(keys) - alone - with_their_nodes)

    def _circles(self) -> Iterator[Broken]:
        for pod, by in self._cluster.circles:
            message = f"{AGAIN_AND_AGAIN.format(by=by)}; here it stays away until {by} has its node, or can get none"
            yield Broken("Pod", pod, EVICTED_AGAIN_AND_AGAIN, message)

    def _broken_pods(self, outcomes: Iterable[PodOutcome]) -> Iterator[Broken]:
        for each in outcomes:
            if each.node is not None or (each.before is None and not each.is_new):  # it was pending before, too
                continue
            if each.is_refused:
                message = f"ran on {each.before} and has no node, since it is not made again: {each.message}"
                if not each.is_new:
                    yield Broken("Pod", each.pod, NO_LONGER_RUNS, message)
            elif is_daemon(self._cluster.objects["Pod", each.pod]):
                yield Broken("Pod", each.pod, DAEMON_DOES_NOT_FIT, f"has no room on its node: {each.message}")
            elif not each.is_new:
                yield Broken("Pod", each.pod, NO_LONGER_RUNS, f"ran on {each.before} and has no node: {each.message}")

    def _broken_gangs(self, gangs: Iterable[GangOutcome]) -> Iterator[Broken]:
        for each in gangs:
            if each.is_stopped:
                held = f"; they hold {held_in_words(each.holds)} for nothing" if each.holds else ""
                message = f"needs {each.needed} pods with a node and has {each.placed}{held}"
                yield Broken("PodGroup", each.name, GANG_STOPPED, message)

    def _broken_budgets(self) -> Iterator[Broken]:
        for key, status in self._cluster.budgets.violated():
            if key not in self._strained:
                message = f"needs {status.desired_healthy} healthy pods and has {status.current_healthy}"
                yield Broken("PodDisruptionBudget", key, BUDGET_VIOLATED, message)


def outcome_of(cluster: SimulatedCluster, gang: Gang, *, is_stopped: bool) -> GangOutcome:
    """Return how a gang ends that has too few pods with a node."""
    return GangOutcome(gang.key, gang.needed, len(gang.members), gang.placed, is_stopped, held_by(cluster, gang))


def why_pending(cluster: SimulatedCluster, pod: Pod) -> str:
    """Say why a pod has no node: what the last attempt said, what keeps it from being tried, or its condition."""
    said = next((each.message for each in pod.status.conditions if each.type == "PodScheduled"), "")
    return cluster.messages.get(pod.key) or what_holds(cluster, pod) or said or "has not been tried"


def what_holds(cluster: SimulatedCluster, pod: Pod) -> str:
    """Say what keeps a pending pod from being tried at all; nothing where it is tried."""
    if pod.spec.scheduler_name not in cluster.core.profiles:
        return f"no profile of the configuration schedules for {pod.spec.scheduler_name!r}"
    if pod.spec.scheduling_gates:
        return "waits for its scheduling gates: " + ", ".join(each.name for each in pod.spec.scheduling_gates)
    queued = cluster.core.queue.find(pod.metadata.uid)
    return (
        f"{queued.gating_plugin}: {', '.join(queued.gating_reasons)}" if queued is not None and queued.is_gated else ""
    )


class BrokenGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Things that break for the same reason."""

    kind: str
    reason: str
    message: str
    """Why, without the node on which each of them ran."""
    names: tuple[str, ...]


def broken_groups(broken: Iterable[Broken]) -> list[BrokenGroup]:
    """Put together what breaks for the same reason; the largest group first."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for each in broken:
        key = (each.kind, each.reason, _RAN_ON.sub("ran and has no node", each.message))
        groups.setdefault(key, []).append(each.name)
    found = [BrokenGroup(*key, tuple(names)) for key, names in groups.items()]
    return sorted(found, key=lambda group: -len(group.names))


class WhoIsWhere(NamedTuple):
    """The pods of a result, by what happened to them."""

    left: tuple[PodOutcome, ...]
    """Were on a node that they had to leave."""
    new: tuple[PodOutcome, ...]
    waited: tuple[PodOutcome, ...]
    """Were pending before."""

    @classmethod
    def of(cls, pods: Sequence[PodOutcome]) -> "WhoIsWhere":
        """Sort the pods into these groups."""
        return cls(
            tuple(each for each in pods if each.before is not None),
            tuple(each for each in pods if each.is_new),
            tuple(each for each in pods if each.before is None and not each.is_new),
        )

    def sentences(self, result: WhatIfResult) -> list[str]:
        """Say in one sentence each what became of the pods of a result; nothing about empty groups.

        Together they account for every pod that is not where it was, and for every time a pod left a node.
        """
        told = []
        for outcomes, one, several, placed, unplaced in (
            (self.left, "pod left its node", "pods left their nodes", "with another", "with none"),
            (self.new, "new pod", "new pods", "placed", "without a node"),
            (self.waited, "pod was pending", "pods were pending", "with a node now", "still pending"),
        ):
            nodes, refused = (sum(map(test, outcomes)) for test in (_is_placed, attrgetter("is_refused")))
            counts = ((nodes, placed), (len(outcomes) - nodes - refused, unplaced), (refused, "refused"))
            parts = [f"{count:,} {what}" for count, what in counts if count]
            if outcomes:
                told.append(f"{len(outcomes):,} {one if len(outcomes) == 1 else several}: {', '.join(parts)}")
        gone = result.gone
        again, returned = {each.pod for each in (*self.new, *self.waited)}, set(result.returned)
        times = Counter(each.pod for each in result.evicted)
        for count, one, several in (
            (sum(pod in again for pod in times), "pod left a node again that it was given in between",
             "pods left nodes again that they were given in between"),
            (sum(pod in returned for pod in times),
             "pod left its node and is back on it", "pods left their nodes and are back on them"),
            (sum(count > 1 for count in times.values()), "of them left more than once", "of them left more than once"),
            (gone.with_their_nodes, "pod of a DaemonSet or the like went with its node",
             "pods of DaemonSets and the like went with their nodes"),
            (gone.lost, "pod is gone, and nothing makes another", "pods are gone, and nothing makes others"),
            (gone.deleted, "pod was deleted", "pods were deleted"),
        ):  # fmt: skip
            if count:
                told.append(f"{count:,} {one if count == 1 else several}")
        return told or ["every pod stays where it is"]


def _is_placed(outcome: PodOutcome) -> bool:
    return outcome.node is not None


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts `web-10` after `web-9`."""
    return tuple((0, int(each), "") if each.isdecimal() else (1, 0, each) for each in _PIECES.findall(text))


def moved(result: WhatIfResult) -> Mapping[str, int]:
    """Return how many of the pods are new, have moved, or have no node: `new`, `moved`, `pending`."""
    found = {"new": 0, "moved": 0, "pending": 0}
    for each in result.pods:
        found["pending" if each.node is None else "new" if each.is_new else "moved"] += 1
    return found
