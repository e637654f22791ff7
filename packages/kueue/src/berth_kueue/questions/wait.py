"""`berth kueue wait`: when waiting workloads run, by deadlines and usual durations, through both schedulers."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from berth_kueue.lives import Queues
from berth_kueue.model import QUOTA_RESERVED
from berth_kueue.pods import PodPlacer
from berth_kueue.queued_cluster import KueueConfig, QueuedCluster, key_of
from berth_kueue.running import is_admitted
from berth_kueue.simulation import DAY_S, QueueSimulation, WorkloadLife
from berth_workbench.questions.question import NamedThings, Question
from berth_workbench.showing.ask import HowAsked
from berth_workbench.showing.sections import Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import counted
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.snapshot import Snapshot


def read_durations(document: Any) -> dict[str, float]:
    """Read seconds by workload or job (`namespace/name`), by namespace, or for all others (`*`). Raises ValueError."""
    if not isinstance(document, Mapping):
        raise ValueError("expected seconds by namespace/name, namespace or *")
    for name, seconds in document.items():
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= seconds < math.inf:
            raise ValueError(f"{name}: {seconds!r} is no number of seconds")
    return {str(name): float(seconds) for name, seconds in document.items()}


class QueueWaitRequest(msgspec.Struct, frozen=True):
    """What is known about how long workloads run."""

    durations: Annotated[
        dict[str, float] | None,
        HowAsked(
            "How long workloads run: seconds by workload or job (NAMESPACE/NAME), by namespace, or for others (*).",
            metavar="FILE",
            reads=read_durations,
        ),
    ] = None
    within: Annotated[float, HowAsked("How far to look ahead.", metavar="DAYS", least=0, most=10_000)] = 7.0
    kueue_config: KueueConfig = None


class ExpectedStart(msgspec.Struct, frozen=True, rename="camel"):
    """When a waiting workload runs."""

    workload: str
    cluster_queue: str
    admitted_s: float | None
    """Seconds from now until it has its quota for good; null where that does not happen."""
    starts_s: float | None
    """Seconds from now until all its pods have nodes."""
    preemptions: int
    why: str
    """Why it does not run within that time."""


class QueueWaitAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """When those that wait run."""

    workloads: tuple[ExpectedStart, ...]
    ends_known: int
    """How many of those that run end at a time that is known."""
    without_end: int
    within_s: float
    notes: tuple[str, ...] = ()
    is_complete: bool = True


def answer(situation: Situation, request: QueueWaitRequest, watch: WorkWatch) -> QueueWaitAnswer:
    """Play the ends of what runs, and of what begins meanwhile.

    Raises `NoQueuesError`, `ObjectError`, `StuckError`, `StoppedError`.
    """
    cluster = QueuedCluster(situation.snapshot, request.kueue_config)
    queues = cluster.queues()
    lasts = _Durations(situation.snapshot, cluster, request.durations or {})
    running = {
        key: left
        for key in queues.workloads
        if is_admitted(queues, key) and (left := lasts.left(queues, key)) is not None
    }
    known = {key: of for key in queues.workloads if (of := lasts.of(key)) is not None}
    without_end = sum(is_admitted(queues, key) for key in queues.workloads) - len(running)
    asked = [key for key, workload in queues.workloads.items() if workload.is_admissible]
    placer = PodPlacer(situation.site(watch), situation.snapshot, queues)
    simulation = QueueSimulation(queues, placer, running=running, durations=known)
    watch.begin("letting workloads end")
    result = simulation.run(until_s=request.within * DAY_S, watch=watch)
    found = tuple(_expected(queues, result.lives[key]) for key in asked if key in result.lives)
    return QueueWaitAnswer(found, len(running), without_end, request.within * DAY_S, cluster.notes)


class _Durations:
    """How long workloads run: what is given, and the deadlines of Workloads and Jobs."""

    __slots__ = ("_documents", "_given", "_jobs")

    def __init__(self, snapshot: Snapshot, cluster: QueuedCluster, given: Mapping[str, float]) -> None:
        self._documents = cluster.of("Workload")
        self._given = given
        jobs = {key_of(manifest): manifest for each in snapshot.of("Job") for manifest in [each.manifest]}
        self._jobs = {key: (job.get("spec") or {}).get("activeDeadlineSeconds") for key, job in jobs.items()}

    def of(self, key: str) -> float | None:
        """How long it runs in all; None where nothing says so."""
        document = self._documents.get(key) or {}
        namespace = key.split("/", 1)[0]
        names = [
            f"{namespace}/{each.get('name')}" for each in document.get("metadata", {}).get("ownerReferences") or ()
        ]
        usual = next((self._given[name] for name in (key, *names, namespace, "*") if name in self._given), None)
        limits = [
            document.get("spec", {}).get("maximumExecutionTimeSeconds"),
            *(self._jobs.get(name) for name in names),
        ]
        ends = [float(each) for each in (usual, *limits) if each is not None]
        return min(ends, default=None)

    def left(self, queues: Queues, key: str) -> float | None:
        """How long it runs yet."""
        lasts = self.of(key)
        if lasts is None:
            return None
        return max(0.0, queues.workloads[key].conditions[QUOTA_RESERVED].since + lasts - queues.now)


def _expected(queues: Queues, life: WorkloadLife) -> ExpectedStart:
    why = ""
    if life.admitted is None:
        condition = queues.workloads[life.workload].conditions.get(QUOTA_RESERVED)
        why = condition.message if condition is not None else "its queue has not been looked at"
    elif life.started is None:
        why = "it holds its quota, and some of its pods have no node"
    return ExpectedStart(life.workload, life.cluster_queue, life.admitted, life.started, life.preemptions, why)


def told(found: QueueWaitAnswer) -> Iterator[Section]:
    """Tell when each runs."""
    yield _verdict(found)
    running = found.ends_known + found.without_end
    yield Sentence(f"It is known when {found.ends_known:,} of {counted(running, 'running workload')} end.")
    columns = ("Workload", "Cluster queue", ("Admitted in", "number"), ("Runs in", "number"), ("Why not", "text"))
    rows = ((w.workload, w.cluster_queue, _time(w.admitted_s), _time(w.starts_s), w.why) for w in found.workloads)
    yield table("", columns, rows)


def _verdict(found: QueueWaitAnswer) -> VerdictSection:
    if not found.workloads:
        return VerdictSection("No workload waits.", is_good=True)
    without = [each for each in found.workloads if each.starts_s is None]
    if without:
        of = f"{len(without):,} of {counted(len(found.workloads), 'workload')}"
        return VerdictSection(f"{of} do not run within {found.within_s / DAY_S:g} days.", is_good=False)
    last = max(found.workloads, key=lambda each: each.starts_s or 0.0)
    who = (
        last.workload if len(found.workloads) == 1 else f"All {len(found.workloads):,} run; {last.workload}, the last,"
    )
    return VerdictSection(f"{who} runs in {_time(last.starts_s)}.", is_good=True)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, hours = round(seconds / 60), seconds / 3600
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{hours:.1f} h"


QUESTION = Question(
    name="wait",
    title="How long it waits",
    about="""Say when waiting workloads run, if those that run end by their deadlines or after their usual time.

    Kueue decides who is admitted whenever something ends, and the scheduler places the pods; a workload runs once all
    its pods have nodes. Deadlines are a Workload's maximumExecutionTimeSeconds and a Job's activeDeadlineSeconds; usual
    times come from --durations. What neither names does not end.
    """,
    doing="letting workloads end",
    request=QueueWaitRequest,
    answer=answer,
    told=told,
    group="kueue",
    names=NamedThings(
        "the workloads that do not run", lambda found: (w.workload for w in found.workloads if w.starts_s is None)
    ),
)
