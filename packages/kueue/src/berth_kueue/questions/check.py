"""`berth kueue check`: is a job admitted, whom does it preempt, and do its pods have nodes then?"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from berth.decisions.reasons import in_our_words
from berth_kueue.jobs import JobManifestError, KueueJob
from berth_kueue.lives import Queues
from berth_kueue.model import QUOTA_RESERVED
from berth_kueue.pods import PodPlacer, WorkloadPods, assignment_of
from berth_kueue.queued_cluster import KueueConfig, QueuedCluster
from berth_kueue.running import Preempted, RunStory, is_admitted, run_until_quiet
from berth_workbench.questions.question import Fails, NamedThings, Question
from berth_workbench.showing.sections import Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.documents import Document

NAMES_SHOWN = 3


class JobCheckRequest(msgspec.Struct, frozen=True):
    """The jobs, and how Kueue is configured."""

    documents: tuple[Document, ...] = ()
    kueue_config: KueueConfig = None


class CheckedPodSet(msgspec.Struct, frozen=True, rename="camel"):
    """What a pod set is admitted with."""

    pod_set: str
    count: int
    flavors: dict[str, str]
    """By resource."""
    domains: tuple[tuple[tuple[str, ...], int], ...] = ()
    """Of a topology: the values at its levels, and how many pods."""


class WorkloadCheck(msgspec.Struct, frozen=True, rename="camel"):
    """One Workload of the jobs that were asked about."""

    workload: str
    job: str
    cluster_queue: str
    """Empty where its queue leads to none."""
    is_admitted: bool
    cycle: int
    """The scheduling cycle in which it is admitted, from 1; 0 where it is not."""
    message: str
    """Kueue's, where it waits."""
    pod_sets: tuple[CheckedPodSet, ...] = ()
    preempts: tuple[Preempted, ...] = ()
    pods: WorkloadPods | None = None
    """Where its pods are; None where it is not admitted."""


class JobCheckAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The workloads of the jobs, in the order in which Kueue would make them."""

    workloads: tuple[WorkloadCheck, ...]
    others: tuple[WorkloadPods, ...]
    """Other workloads that are admitted meanwhile, and where their pods are."""
    cycles: int
    notes: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def is_yes(self) -> bool:
        """Whether everything is admitted and every pod has a node."""
        return all(each.is_admitted and each.pods is not None and not each.pods.without for each in self.workloads)


def answer(situation: Situation, request: JobCheckRequest, watch: WorkWatch) -> JobCheckAnswer:
    """Let Kueue decide about the jobs, and the scheduler about their pods.

    Raises `NoQueuesError`, `JobManifestError`, `ObjectError`, `StuckError`, `StoppedError`.
    """
    cluster = QueuedCluster(situation.snapshot, request.kueue_config)
    queues = cluster.queues()
    jobs = list(cluster.jobs((each.manifest for each in request.documents), situation.namespace))
    if not jobs:
        raise JobManifestError("-f names no job that Kueue would make a Workload of")
    queues.advance(1)
    for job in jobs:
        for workload in job.workloads:
            queues.put(workload)
    queues.settle()
    watch.begin("running scheduling cycles")
    story = run_until_quiet(queues, watch)
    placer = PodPlacer(situation.site(watch), situation.snapshot, queues)
    pods = placed_in_order(placer, queues, story)
    asked = {f"{job.namespace}/{each['metadata']['name']}": job for job in jobs for each in job.workloads}
    notes = (
        cluster.notes if story.is_quiet else (*cluster.notes, "Workloads keep preempting each other without an end.")
    )
    return JobCheckAnswer(
        tuple(_checked(queues, story, key, job, pods.get(key)) for key, job in asked.items()),
        tuple(found for key, found in pods.items() if key not in asked),
        story.cycles,
        notes,
    )


def placed_in_order(placer: PodPlacer, queues: Queues, story: RunStory) -> dict[str, WorkloadPods]:
    """Let the pods of those preempted go, and place the pods of those admitted, one after the other.

    One that came and had to go again never has pods: what counts is where those are who are there in the end.
    """
    last = {key: at for at, (_, key) in enumerate(story.steps)}
    there = []
    for at, (comes, key) in enumerate(story.steps):
        if not comes:
            placer.remove(key)
        elif at == last[key]:
            placer.place(queues, key)
            there.append(key)
    return {key: placer.where(key) for key in there}


def _checked(queues: Queues, story: RunStory, key: str, job: KueueJob, pods: WorkloadPods | None) -> WorkloadCheck:
    workload = queues.workloads[key]
    condition = workload.conditions.get(QUOTA_RESERVED)
    there = is_admitted(queues, key)
    sets: tuple[CheckedPodSet, ...] = ()
    if there and workload.admission is not None:
        sets = tuple(
            CheckedPodSet(
                each.name,
                each.count or 0,
                dict(each.flavors),
                (found.domains if (found := assignment_of(each.topology_assignment)) is not None else ()),
            )
            for each in workload.admission.pod_set_assignments
        )
    message = "" if there else condition.message if condition is not None else "its queue has not been looked at"
    return WorkloadCheck(
        key,
        f"{job.kind} {job.namespace}/{job.name}",
        workload.admission.cluster_queue
        if workload.admission is not None
        else queues.pending.queue_name(workload) or "",
        there,
        story.admitted.get(key, 0),
        message,
        sets,
        tuple(story.by(key)),
        pods,
    )


def told(found: JobCheckAnswer) -> Iterator[Section]:
    """Tell who is admitted with what, whom that preempts, and where the pods are."""
    yield _verdict(found)
    if found.others:
        names = listed([each.workload for each in found.others], shown=NAMES_SHOWN)
        yield Sentence(f"Meanwhile, {names} would be admitted, too.")
    waiting = [each for each in found.workloads if not each.is_admitted]
    yield table(
        "",
        ("Waits", "Cluster queue", ("Why", "text")),
        ((w.workload, w.cluster_queue, w.message) for w in waiting),
    )
    yield table(
        "",
        ("Admitted", "Cluster queue", "Pod set", ("Pods", "number"), ("Flavors", "text"), ("Domains", "text")),
        (
            (
                each.workload,
                each.cluster_queue,
                pod_set.pod_set,
                pod_set.count,
                flavors_in_words(pod_set.flavors),
                domains,
            )
            for each in found.workloads
            for pod_set in each.pod_sets
            for domains in [", ".join(f"{'/'.join(values)}: {count}" for values, count in pod_set.domains)]
        ),
    )
    yield preempted_table([each for workload in found.workloads for each in workload.preempts])
    yield from pods_sections([each.pods for each in found.workloads if each.pods is not None])


def flavors_in_words(flavors: dict[str, str]) -> str:
    """Say which flavor each resource comes from, those of one flavor together."""
    by_flavor: dict[str, list[str]] = {}
    for resource, flavor in flavors.items():
        by_flavor.setdefault(flavor, []).append(resource)
    return "; ".join(f"{flavor} ({', '.join(resources)})" for flavor, resources in by_flavor.items())


def preempted_table(preempted: Iterable[Preempted]) -> Section:
    """Who makes way for whom."""
    rows = ((each.workload, each.by, each.reason) for each in preempted)
    return table("", ("Preempted", "Made way for", "Reason"), rows)


def pods_sections(pods: Sequence[WorkloadPods]) -> Iterator[Section]:
    """Where the pods of workloads are, and why some have no node."""
    yield table(
        "Without a node, by reason",
        ("Workload", "Pod set", ("Pods", "number"), ("Why", "text")),
        (
            (each.workload, lack.pod_set, lack.count, in_our_words(lack.message))
            for each in pods
            for lack in each.without
        ),
    )
    rows = ((each.workload, node, count) for each in pods for node, count in each.nodes.items())
    yield table("Where its pods are", ("Workload", "Node", ("Pods", "number")), rows)
    evicted = ((pod, each.workload) for each in pods for pod in each.evicted)
    yield table("", ("Evicted by the scheduler", "Made way for"), evicted)


def _verdict(found: JobCheckAnswer) -> VerdictSection:
    waiting = [each for each in found.workloads if not each.is_admitted]
    if waiting:
        first, others = waiting[0], len(waiting) - 1
        more = f", and so do {others:,} more" if others else ""
        return VerdictSection(f"No: {first.workload} waits{more}. {first.message}".rstrip(), is_good=False)
    without = [each for each in found.workloads if each.pods is not None and each.pods.without]
    victims = [each.workload for workload in found.workloads for each in workload.preempts]
    by = f", which preempts {listed(victims, shown=NAMES_SHOWN)}" if victims else ""
    who = found.workloads[0].workload if len(found.workloads) == 1 else f"All {len(found.workloads):,} workloads"
    verb = "is" if len(found.workloads) == 1 else "are"
    if without:
        lacking = sum(each.pods.count - each.pods.placed for each in without if each.pods is not None)
        of = sum(each.pods.count for each in found.workloads if each.pods is not None)
        have = "has" if lacking == 1 else "have"
        return VerdictSection(
            f"No: {who} {verb} admitted{by}, but {lacking:,} of {counted(of, 'pod')} {have} no node.", is_good=False
        )
    return VerdictSection(f"Yes: {who} {verb} admitted{by}, and every pod has a node.", is_good=True)


def _so_far(_found: JobCheckAnswer) -> str:
    return ""


QUESTION = Question(
    name="check",
    title="Check a job",
    about="""Say whether Kueue would admit a job, and whether its pods have nodes then.

    The job of -f is put into its queue beside what waits there, and Kueue's scheduling cycles are run until nothing
    changes any more, as if no job ended. Then the pods of all that was admitted are placed by the scheduler, without
    those of the workloads that were preempted. Nothing is done to the cluster itself.

    Known are Job, JobSet, Kubeflow's jobs, RayJob, RayCluster, RayService, LeaderWorkerSet, Deployment, StatefulSet,
    pods, pod groups, and Workload itself.
    """,
    doing="running scheduling cycles",
    request=JobCheckRequest,
    answer=answer,
    told=told,
    group="kueue",
    so_far=_so_far,
    manifests="asked",
    names=NamedThings("the workloads that wait or lack nodes", lambda found: _lacking(found)),
    fails=Fails(
        "--fail-on-waiting", "Exit with 1 where it waits, or a pod has no node.", lambda found: not found.is_yes
    ),
)


def _lacking(found: JobCheckAnswer) -> Iterator[str]:
    return (each.workload for each in found.workloads if each.pods is None or each.pods.without)
