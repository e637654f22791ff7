"""How long pending pods will wait: running pods end one after the other, and the scheduler places what it can.

`waits_of` lives through the known ends (`ends`) on a simulated cluster, in the order of the scheduler's own queue,
until the pods that are asked about have places, or nothing more ends. Nobody new comes meanwhile, and pods of which no
end is known run for ever; whoever gets a place ends in its turn, as far as that is known.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import takewhile

import msgspec

from berth.api.pod import Pod
from berth.config.types import SchedulerConfiguration
from berth.framework.registry import Registry
from berth_workbench.planning.ends import EndsBy, KnownEnds, timestamp
from berth_workbench.planning.whatif import StoppedEarlyError, natural
from berth_workbench.simulation.budgets import is_active
from berth_workbench.simulation.changes import ChangeError
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT, SimulatedCluster
from berth_workbench.simulation.measures import is_pending
from berth_workbench.simulation.missing_resources import missing_resources
from berth_workbench.simulation.scale import refuse_awaited
from berth_workbench.simulation.site import Site, is_daemon, is_mirror
from berth_workbench.simulation.steps import Manifests, Step, take_step
from berth_workbench.snapshot.snapshot import Snapshot

WITHIN_S = 7 * 86_400.0
"""So far it is looked ahead, unless something else is asked for."""

Watch = Callable[[int], bool]
"""Is told how many pods have ended since it was told last, and says whether to stop."""


class EndedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that has to end first."""

    pod: str
    """`namespace/name`."""
    node: str
    at: str
    """RFC 3339."""
    by: EndsBy


class PodWait(msgspec.Struct, frozen=True, rename="camel"):
    """How long a pod waits."""

    pod: str
    """`namespace/name`."""
    seconds: float | None
    """From now; null where no known end gives it a place."""
    at: str | None
    """RFC 3339."""
    node: str | None
    is_bound: bool
    """Whether deadlines had to pass for it: pods may end sooner, so this is the latest moment."""
    waits_for: tuple[EndedPod, ...]
    """The pods that end on its node until then; where there are none, those that end at that moment."""
    ahead: tuple[str, ...]
    """The pods that were pending as well and got their places sooner, in this order."""
    message: str
    """Why it has no place now, in the words of its condition; empty where it has one at once."""


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
    snapshot: Snapshot,
    names: Sequence[str] = (),
    steps: Sequence[Step] = (),
    *,
    config: SchedulerConfiguration | None = None,
    registry: Registry | None = None,
    seed: int = 0,
    namespace: str = "default",
    durations: dict[str, float] | None = None,
    within_s: float = WITHIN_S,
    watch: Watch | None = None,
) -> Waits:
    """Return how long pods of a snapshot wait (`namespace/name`), all that are pending where none are named.

    Now is when the snapshot was taken; where it does not say, the last moment at which one of its pods was made or
    started. Raises `ChangeError` for a pod that is not there or not pending, and what `what_if` raises;
    `StoppedEarlyError` where `watch` stops it while the cluster is loaded.
    """

    def progress(steps: int) -> None:
        if watch is not None and watch(steps):
            raise StoppedEarlyError

    site = Site.of(snapshot, config=config, registry=registry, seed=seed, progress=progress)
    cluster = site.cluster
    now = _now(snapshot, cluster)
    documents = list(snapshot.documents)
    pending = {pod.key for pod in cluster.of(Pod) if is_pending(pod)}
    site.settle()
    for step in steps:
        before = set(cluster.pods)
        take_step(site, step, namespace)
        documents += step.documents if isinstance(step, Manifests) else ()
        pending |= set(cluster.pods) - before
    refuse_awaited(site)
    pending |= {pod.key for pod in cluster.of(Pod) if is_pending(pod)}
    for name in names:
        if name not in pending:
            there = cluster.objects.get(("Pod", name))
            found = f"runs on {there.spec.node_name}" if there is not None else "is not there"
            raise ChangeError(f"pod {name} {found}; only pending pods wait")
    return _Waiting(site, KnownEnds(documents, durations), now, watch).until(list(names) or sorted(pending), within_s)


def _now(snapshot: Snapshot, cluster: SimulatedCluster) -> float:
    taken = timestamp(snapshot.header.taken) if snapshot.header is not None else None
    if taken is not None:
        return taken
    moments = (
        timestamp(text) for pod in cluster.of(Pod) for text in (pod.metadata.creation_timestamp, pod.status.start_time)
    )
    return max((moment for moment in moments if moment is not None), default=0.0)


class _Waiting:
    """Lives through the ends of pods."""

    __slots__ = (
        "_bound_since",
        "_due",
        "_ended",
        "_ends",
        "_messages",
        "_now",
        "_pending",
        "_placed",
        "_seen",
        "_site",
        "_start",
        "_unknown",
        "_watch",
    )

    def __init__(self, site: Site, ends: KnownEnds, now: float, watch: Watch | None) -> None:
        self._site = site
        self._ends = ends
        self._now = now
        self._start = site.cluster.now
        self._watch = watch
        self._due: list[tuple[float, str, str, EndsBy]] = []
        """A heap of when pods end: `namespace/name`, uid, and how it is known."""
        self._ended: list[tuple[EndedPod, float]] = []
        self._bound_since: float | None = None
        """When the first pod ended by a deadline."""
        self._placed: dict[str, tuple[float, str]] = {}
        """When pods that were pending got their places, in this order, and where."""
        self._messages: dict[str, str] = {}
        self._pending: set[str] = set()
        self._seen = 0
        self._unknown = 0
        for pod in site.cluster.of(Pod):
            if is_pending(pod):
                self._pending.add(pod.key)
                self._messages[pod.key] = site.cluster.messages.get(pod.key, "")
            elif is_active(pod) and not is_daemon(pod) and not is_mirror(pod):
                started = timestamp(pod.status.start_time)
                self._unknown += not self._note_end(pod, now if started is None else started, now)

    def _note_end(self, pod: Pod, started: float, now: float) -> bool:
        end = self._ends.of(pod, started, now)
        if end is not None:
            heapq.heappush(self._due, (end.at, pod.key, pod.metadata.uid, end.by))
        return end is not None

    def until(self, names: list[str], within_s: float) -> Waits:
        """Go on until the pods have places, or nothing more ends."""
        cluster = self._site.cluster
        known = len(self._due)
        wanted = {name for name in names if name in self._pending}
        for name in names:
            if name not in wanted and (pod := cluster.objects.get(("Pod", name))) is not None:
                self._placed[name] = (self._now, pod.spec.node_name)
        is_complete = True
        while wanted and self._due and self._due[0][0] <= self._now + within_s:
            at = self._due[0][0]
            count = self._end_all(at)
            if self._watch is not None and self._watch(count):
                is_complete = False
                break
            if count:
                # The queue's clock goes along, so that nobody is still in backoff because of an earlier end.
                cluster.now = max(cluster.now, self._start + at - self._now)
                changes = cluster.changes
                self._site.settle()
                if cluster.changes != changes:
                    wanted -= self._note_placed(at)
        found = sorted(
            (self._answer(name) for name in names),
            key=lambda each: (each.seconds is None, each.seconds or 0.0, natural(each.pod)),
        )
        return Waits(
            now=_words(self._now),
            pods=tuple(found),
            ends_known=known,
            without_end=self._unknown,
            within_s=within_s,
            notes=(*([EXTENDERS_LEFT_OUT] if cluster.leaves_out_extenders else ()), *self._missing(wanted)),
            is_complete=is_complete,
        )

    def _missing(self, wanted: Iterable[str]) -> Iterator[str]:
        objects = self._site.cluster.objects
        pods = (pod for key in sorted(wanted) if (pod := objects.get(("Pod", key))) is not None)
        return missing_resources(self._site.cluster, pods)

    def _end_all(self, at: float) -> int:
        """End the pods that end at a moment, and say how many."""
        cluster = self._site.cluster
        count = 0
        while self._due and self._due[0][0] == at:
            _, key, uid, by = heapq.heappop(self._due)
            pod: Pod | None = cluster.objects.get(("Pod", key))
            if pod is None or pod.metadata.uid != uid or not pod.spec.node_name:
                continue  # preempted meanwhile
            self._ended.append((EndedPod(key, pod.spec.node_name, _words(at), by), at))
            if by != "duration" and self._bound_since is None:
                self._bound_since = at
            cluster.delete("Pod", key)
            count += 1
        return count

    def _note_placed(self, at: float) -> set[str]:
        """Note who has got a place, and who has lost it; return the former."""
        cluster = self._site.cluster
        self._pending |= {each.pod for each in cluster.evictions[self._seen :]}
        self._seen = len(cluster.evictions)
        found = set()
        for key in sorted(self._pending, key=natural):
            pod: Pod | None = cluster.objects.get(("Pod", key))
            if pod is not None and not pod.spec.node_name:
                continue
            self._pending.discard(key)
            if pod is not None:
                found.add(key)
                self._placed.setdefault(key, (at, pod.spec.node_name))
                self._note_end(pod, at, at)
        return found

    def _answer(self, name: str) -> PodWait:
        at, node = self._placed.get(name, (None, None))
        if at is None or node is None:
            message = self._messages.get(name, "")
            return PodWait(name, None, None, None, is_bound=False, waits_for=(), ahead=(), message=message)
        ended = [(each, when) for each, when in self._ended if when <= at]
        on_node = [each for each, _ in ended if each.node == node]
        then = [each for each, when in ended if when == at]
        sooner = takewhile(lambda key: key != name, self._placed)
        return PodWait(
            pod=name,
            seconds=at - self._now,
            at=_words(at),
            node=node,
            is_bound=self._bound_since is not None and self._bound_since <= at,
            waits_for=tuple(on_node or then),
            ahead=tuple(key for key in sooner if key in self._messages),
            message=self._messages.get(name, ""),
        )


def _words(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
