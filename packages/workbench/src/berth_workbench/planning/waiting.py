"""How long pending pods will wait: running pods end one after another, and the scheduler places what it can.

`waits_of` plays the known ends (`ends`) on a simulated cluster, in the order of the scheduler's own queue, until the
pods in question have places, or nothing more ends. No new pods come meanwhile, and pods without a known end run
forever; pods that get a place end in their turn, as far as that is known.
"""

import heapq
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal

import msgspec

from berth.api.pod import Pod
from berth.core.intake import FINISHED_PHASES
from berth.core.questions import judge
from berth.decisions.reasons import in_our_words
from berth.state.pod_info import PodShape
from berth_workbench.planning.dynamic_admission import unasked
from berth_workbench.planning.ends import EndsBy, KnownEnds, timestamp
from berth_workbench.planning.whatif import natural, what_holds, why_pending
from berth_workbench.simulation.budgets import follows_its_node
from berth_workbench.simulation.changes import ChangeError
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT, SimulatedCluster
from berth_workbench.simulation.measures import is_pending, pending_pods
from berth_workbench.simulation.missing_resources import missing_resources
from berth_workbench.simulation.scale import refuse_awaited
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import Manifests, take_step
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch
from berth_workbench.snapshot.snapshot import Snapshot

ENDING = "ending pods"
WITHIN_S = 7 * 86_400.0
"""So far it is looked ahead, unless something else is asked for."""

NAMED_AT_MOST = 3
"""How many of the pods are named that have to end first."""


class EndedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that has to end first."""

    pod: str
    """`namespace/name`."""
    node: str
    at: str
    """RFC 3339."""
    by: EndsBy


Outlook = Literal["placed", "unknown", "stopped", "never", "held"]
"""What comes of a pod's waiting: a place; none by any end that is known; nobody knows, since it was stopped; none by
any end at all; or none before something happens that has nothing to do with room."""


class PodWait(msgspec.Struct, frozen=True, rename="camel"):
    """How long a pod waits."""

    pod: str
    """`namespace/name`."""
    outlook: Outlook
    seconds: float | None
    """From now; null where it gets no place."""
    at: str | None
    """RFC 3339."""
    node: str | None
    is_bound: bool
    """Whether deadlines have to pass for it: pods may end sooner, so this is the latest moment."""
    waits_for: tuple[EndedPod, ...]
    """The pods that end on its node until then; where there are none, those that end at that moment."""
    ahead: tuple[str, ...]
    """The pods that were pending as well and got their places sooner, in this order."""
    message: str
    """Why it has no place now, in the words of its condition; empty where it has one at once."""
    because: str = ""
    """Why it never gets one, or what holds it."""


class Waits(msgspec.Struct, frozen=True, rename="camel"):
    """How long pods wait."""

    now: str
    """The moment from which is counted, RFC 3339."""
    pods: tuple[PodWait, ...]
    """The shortest wait first."""
    ends_known: int
    """Of how many of the running pods an end is known."""
    without_end: int
    """Of how many it is not; daemons are left out."""
    within_s: float
    notes: tuple[str, ...] = ()
    is_complete: bool = True
    """False where it was stopped: who has no place yet may still get one."""


def waits_of(
    situation: Situation,
    names: Sequence[str] = (),
    *,
    durations: dict[str, float] | None = None,
    within_s: float = WITHIN_S,
    watch: WorkWatch = UNWATCHED,
) -> Waits:
    """Return how long pods of a cluster wait (`namespace/name`), all pending ones if none are named.

    Now is when the snapshot was taken; where it does not say, the last moment at which one of its pods was made or
    started. Raises `ChangeError` for a pod that is not there or not pending, and what `what_if` raises;
    `StoppedError` where it is stopped while the cluster is loaded.
    """
    site, snapshot, namespace = situation.untouched(watch), situation.snapshot, situation.namespace
    cluster = site.cluster
    now = _now(snapshot, cluster)
    ends = KnownEnds(snapshot.documents, durations)
    pending = {pod.key for pod in pending_pods(cluster)}
    site.settle()
    for step in situation.steps:
        before = set(cluster.pods)
        take_step(site, step, namespace)
        if isinstance(step, Manifests):
            ends.note(step.documents, namespace)
        pending |= set(cluster.pods) - before
    refuse_awaited(site)
    pending |= {pod.key for pod in pending_pods(cluster)}
    for name in names:
        if name not in pending:
            there = cluster.objects.get(("Pod", name))
            found = f"runs on {there.spec.node_name}" if there is not None else "is not there"
            raise ChangeError(f"pod {name} {found}; only pending pods wait")
    ends.start_jobs(cluster.of(Pod), now)
    answered = _answered(site, ends, now, list(names) or sorted(pending), within_s, watch)
    return msgspec.structs.replace(answered, notes=(*answered.notes, *unasked(situation)))


def _now(snapshot: Snapshot, cluster: SimulatedCluster) -> float:
    taken = timestamp(snapshot.header.taken) if snapshot.header is not None else None
    if taken is not None:
        return taken
    moments = (
        timestamp(text) for pod in cluster.of(Pod) for text in (pod.metadata.creation_timestamp, pod.status.start_time)
    )
    return max((moment for moment in moments if moment is not None), default=0.0)


def _answered(
    site: Site, ends: KnownEnds, now: float, names: Sequence[str], within_s: float, watch: WorkWatch
) -> Waits:
    """Play the ends, and say for each of these pods how it fares."""
    cluster = site.cluster
    cluster.begin()
    watch.begin(ENDING)
    life = _Life(site, ends, now, watch)
    life.go_on(names, now + within_s)
    cluster.undo()
    places = life.places
    # A pod needs a deadline if it would not have a place by then with only the expected ends.
    passed = math.inf if life.passed is None else life.passed
    by_deadlines = {name for name in names if name in life.messages and name in places and places[name][0] >= passed}
    if by_deadlines and ends.expects_any:
        cluster.begin()
        other = _Life(site, ends, now, watch, deadlines=False)
        other.go_on([name for name in names if name in by_deadlines], max(places[name][0] for name in by_deadlines))
        cluster.undo()
        if other.is_complete:
            by_deadlines -= {name for name in by_deadlines if other.places.get(name, (math.inf,))[0] <= places[name][0]}
    waiting = [name for name in names if name not in places]
    notes = list(missing_resources(cluster, (cluster.objects["Pod", name] for name in sorted(waiting))))
    notes += cluster.refused_in_words()
    because = {name: life.failed[name] for name in waiting if name in life.failed}
    held = {name: what_holds(cluster, cluster.objects["Pod", name]) for name in waiting if name not in because}
    held = {name: why for name, why in held.items() if why}
    if life.is_complete:
        because |= _nowhere(site, [name for name in waiting if name not in because and name not in held])

    def wait(name: str) -> PodWait:
        outlook: Outlook = "unknown" if life.is_complete else "stopped"
        if name in places:
            outlook = "placed"
        elif name in because:
            outlook = "never"
        elif name in held:
            outlook = "held"
        at, node = places.get(name, (None, None))
        return PodWait(
            pod=name,
            outlook=outlook,
            seconds=None if at is None else at - now,
            at=None if at is None else _words(at),
            node=node,
            is_bound=name in by_deadlines,
            waits_for=life.waits_for(name),
            ahead=life.ahead_of(name),
            message=life.messages.get(name, ""),
            because=because.get(name, held.get(name, "")),
        )

    found = map(wait, names)
    return Waits(
        now=_words(now),
        pods=tuple(sorted(found, key=lambda each: (each.seconds is None, each.seconds or 0.0, natural(each.pod)))),
        ends_known=life.known,
        without_end=life.unknown,
        within_s=within_s,
        notes=(*([EXTENDERS_LEFT_OUT] if cluster.leaves_out_extenders else ()), *notes),
        is_complete=life.is_complete,
    )


class _Life:
    """Plays the ends of pods, all known or all expected ones, on a cluster at rest."""

    __slots__ = ("_by_deadlines", "_due", "_ended", "_ends", "_now", "_pending", "_seen", "_site", "_start", "_watch",
                 "failed", "is_complete", "known", "messages", "passed", "places", "unknown")  # fmt: skip

    def __init__(self, site: Site, ends: KnownEnds, now: float, watch: WorkWatch, *, deadlines: bool = True) -> None:
        self._site = site
        self._ends = ends
        self._now = now
        self._start = site.cluster.now
        self._watch = watch
        self._by_deadlines = deadlines
        self._due: list[tuple[float, str, str, EndsBy]] = []
        """A heap of when pods end: `namespace/name`, uid, and how it is known."""
        self._ended: list[tuple[EndedPod, float]] = []
        self.passed: float | None = None
        """When the first pod ended by a deadline."""
        self.places: dict[str, tuple[float, str]] = {}
        """When pods that were pending got their places, in this order, and where."""
        self.failed: dict[str, str] = {}
        """Why pending pods are gone."""
        self.messages: dict[str, str] = {}
        self.is_complete = True
        self._pending: set[str] = set()
        self._seen = len(site.cluster.evictions)
        self.unknown = 0
        for pod in site.cluster.of(Pod):
            if is_pending(pod):
                self._note_pending(pod)
                self.messages[pod.key] = why_pending(site.cluster, pod)
            elif pod.spec.node_name and pod.status.phase not in FINISHED_PHASES and not follows_its_node(pod):
                started = timestamp(pod.status.start_time)
                self.unknown += not self._note_end(pod, now if started is None else started, now)
        self.known = sum(key not in self._pending for _, key, _, _ in self._due)

    def _note_end(self, pod: Pod, started: float, now: float) -> bool:
        end = self._ends.of(pod, started, now, deadlines=self._by_deadlines)
        if end is not None:
            heapq.heappush(self._due, (end.at, pod.key, pod.metadata.uid, end.by))
        return end is not None

    def _note_pending(self, pod: Pod) -> None:
        """Note the end of a pending pod whose Job has one: it is deleted with the others then."""
        self._pending.add(pod.key)
        fails = self._ends.job_fails(pod, self._now) if self._by_deadlines else None
        if fails is not None:
            heapq.heappush(self._due, (fails, pod.key, pod.metadata.uid, "jobDeadline"))

    def go_on(self, names: Sequence[str], until: float) -> None:
        """Let pods end until these have places, or no more ends; stop where the watch says so."""
        cluster = self._site.cluster
        wanted = {name for name in names if name in self._pending}
        for name in names:
            if name not in wanted and (pod := cluster.objects.get(("Pod", name))) is not None:
                self.places[name] = (self._now, pod.spec.node_name)
        while wanted and self._due and self._due[0][0] <= until:
            at = self._due[0][0]
            count = self._end_all(at)
            wanted -= self.failed.keys()
            self._watch.advance(count)
            if self._watch.is_stopped:
                self.is_complete = False
                break
            if count:
                # The queue's clock goes along, so that nobody is still in backoff because of an earlier end.
                cluster.now = max(cluster.now, self._start + at - self._now)
                changes = cluster.changes
                try:
                    self._site.settle()
                except StoppedError:
                    self.is_complete = False
                    break
                if cluster.changes != changes:
                    wanted -= self._note_placed(at)

    def _end_all(self, at: float) -> int:
        """End the pods that end at a moment, and say how many."""
        cluster = self._site.cluster
        count = 0
        while self._due and self._due[0][0] == at:
            _, key, uid, by = heapq.heappop(self._due)
            pod: Pod | None = cluster.objects.get(("Pod", key))
            if pod is None or pod.metadata.uid != uid:
                continue  # preempted meanwhile
            if not pod.spec.node_name:
                self._pending.discard(key)
                self.failed[key] = f"its Job fails at {_words(at)}, when it has run for as long as it may"
            else:
                self._ended.append((EndedPod(key, pod.spec.node_name, _words(at), by), at))
                if by != "duration" and self.passed is None:
                    self.passed = at
            cluster.delete("Pod", key)
            count += 1
        return count

    def _note_placed(self, at: float) -> set[str]:
        """Note which pods have got a place, and which have lost it; return the former."""
        cluster = self._site.cluster
        for each in cluster.evictions[self._seen :]:
            pod: Pod | None = cluster.objects.get(("Pod", each.pod))
            if pod is not None:
                self._note_pending(pod)
        self._seen = len(cluster.evictions)
        found = set()
        for key in sorted(self._pending, key=natural):
            pod = cluster.objects.get(("Pod", key))
            if pod is not None and not pod.spec.node_name:
                continue
            self._pending.discard(key)
            if pod is not None:
                found.add(key)
                self.places.setdefault(key, (at, pod.spec.node_name))
                self._note_end(pod, at, at)
        return found

    def waits_for(self, name: str) -> tuple[EndedPod, ...]:
        """Return which pods have to end before a pod has a place."""
        if name not in self.places:
            return ()
        at, node = self.places[name]
        ended = [(each, when) for each, when in self._ended if when <= at]
        return tuple([each for each, _ in ended if each.node == node] or [each for each, when in ended if when == at])

    def ahead_of(self, name: str) -> tuple[str, ...]:
        """Return the pods that waited as well and have places before this one, in this order."""
        sooner = takewhile(lambda key: key != name, self.places) if name in self.places else ()
        return tuple(key for key in sooner if key in self.messages)


def _nowhere(site: Site, names: Sequence[str]) -> dict[str, str]:
    """Say which of these pending pods no end can certainly help, and why; the cluster is unusable afterwards.

    They are tried on the nodes with nothing but what follows them. The fewer pods there are, the more a filter lets
    through, but for the pods that a pod wants to be near: that is not asked for here. What PreFilter says is left out,
    since it may be about the others of a group.
    """
    cluster = site.cluster
    core = cluster.core
    pods = [pod for name in names if (pod := cluster.objects.get(("Pod", name))) is not None]
    if not pods:
        return {}
    for pod in pods:
        core.queue.delete(pod.metadata.uid)  # whoever is nominated keeps no room
    kept = {pod.key for pod in pods}
    for pod in [each for each in cluster.of(Pod) if not (each.key in kept or follows_its_node(each))]:
        cluster.delete("Pod", pod.key)
    found: dict[str, str] = {}
    by_shape: dict[PodShape, str] = {}
    for pod in pods:
        info = core.intake.info(_near_nobody(pod))
        if info.shape not in by_shape:
            answer = judge(core, info)
            pre = answer.attempt.found.pre_filtered
            is_certain = not answer.fits.any() and pre is not None and pre.status is None
            by_shape[info.shape] = answer.message if is_certain else ""
        if by_shape[info.shape]:
            found[pod.key] = f"no node takes it, whoever ends: {by_shape[info.shape]}"
    return found


def _near_nobody(pod: Pod) -> Pod:
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return pod
    affinity = msgspec.structs.replace(affinity, pod_affinity=None)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=affinity))


def _words(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


# -- in words --------------------------------------------------------------------------------------------------------


def lasting(seconds: float) -> str:
    """Say how long something lasts: `7 days`, `1 h 6 min 40 s`."""
    days, rest = divmod(round(seconds), 86_400)
    parts = [(rest // 3600, "h"), (rest // 60 % 60, "min"), (rest % 60, "s")]
    told = ["1 day" if days == 1 else f"{days:,} days"] if days else []
    return " ".join(told + [f"{number} {unit}" for number, unit in parts if number]) or "0 s"


def how_long(wait: PodWait) -> str:
    """Say how long a pod waits."""
    if wait.seconds is None:
        return "never" if wait.outlook == "never" else "not known"
    return f"{'≤ ' if wait.is_bound else ''}{lasting(wait.seconds)}" if wait.seconds else "not at all"


def for_what(wait: PodWait, within_s: float) -> str:
    """Say what a pod waits for, or why it gets no place."""
    if wait.because:
        return in_our_words(wait.because)
    why = f": {in_our_words(wait.message)}" if wait.message else ""
    if wait.outlook == "stopped":
        return f"this was stopped before it had a place{why}"
    if wait.seconds is None:
        return f"no end that is known within {lasting(within_s)} makes room{why}"
    told = ", ".join(each.pod for each in wait.waits_for[:NAMED_AT_MOST])
    more = len(wait.waits_for) - NAMED_AT_MOST
    return (f"the end of {told}" + (f" and {more:,} more" if more > 0 else "")) if wait.seconds else ""
