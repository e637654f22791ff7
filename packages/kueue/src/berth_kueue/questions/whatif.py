"""`berth kueue whatif`: who is admitted and where pods go after changes of quota, of nodes and of workloads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from berth.api.near_names import nearest
from berth.api.node import Node
from berth.api.quantity import QuantityError
from berth.api.user_error import UserError
from berth_kueue.amounts import amount_of
from berth_kueue.jobs import GROUP_LABEL, QUEUE_LABEL
from berth_kueue.lives import Queues
from berth_kueue.pods import PodPlacer, WorkloadPods
from berth_kueue.questions.check import NAMES_SHOWN, placed_in_order, pods_sections, preempted_table
from berth_kueue.queued_cluster import KueueConfig, QueuedCluster, quotas_of
from berth_kueue.remedies import with_quota
from berth_kueue.resources import GROUP
from berth_kueue.running import Preempted, RunStory, is_admitted, run_until_quiet, waiting
from berth_workbench.questions import whatif as of_pods
from berth_workbench.questions.question import NamedThings, Question
from berth_workbench.showing.ask import HowAsked
from berth_workbench.showing.sections import NoteSection, Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import Manifests, Step
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.documents import Document


class QuotaChangeError(UserError, ValueError):
    """A change of quota that cannot be made."""


class QueueWhatIfRequest(msgspec.Struct, frozen=True):
    """Changes of quota, before all others; jobs of -f are put into their queues."""

    quota: Annotated[
        tuple[str, ...],
        HowAsked("More, less or another quota of a ClusterQueue or Cohort.", metavar="NAME.FLAVOR.RESOURCE=[+-]AMOUNT"),
    ] = ()
    kueue_config: KueueConfig = None


class QueueWhatIfAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The queues without and with the changes, each when nothing changes any more, and the cluster's pods."""

    admitted: tuple[str, ...]
    """The workloads that are admitted with the changes and not without."""
    no_longer: tuple[str, ...]
    """Those that would be admitted, or are, without the changes and not with them."""
    preempted: tuple[Preempted, ...]
    waiting: dict[str, str]
    """Those that wait with the changes, and why."""
    pods: tuple[WorkloadPods, ...]
    """Of the workloads that are admitted in the end and were not at first."""
    cluster: Any = None
    """The answer of `berth whatif` to the changes of the cluster; null where there are none."""
    notes: tuple[str, ...] = ()
    is_complete: bool = True


class _ToldAnswer(msgspec.Struct, frozen=True):
    """The answer, and that about the cluster's pods with its pictures."""

    answer: QueueWhatIfAnswer
    trial: of_pods.PicturedTrial | None

    @property
    def notes(self) -> tuple[str, ...]:
        return self.answer.notes

    @property
    def is_complete(self) -> bool:
        return self.answer.is_complete


def answer(situation: Situation, request: QueueWhatIfRequest, watch: WorkWatch) -> _ToldAnswer:
    """Run the queues without and with the changes, and place the pods of those who are admitted.

    Raises `NoQueuesError`, `QuotaChangeError`, `JobManifestError`, `ChangeError`, `StuckError`, `StoppedError`.
    """
    cluster = QueuedCluster(situation.snapshot, request.kueue_config)
    steps, manifests = _without_jobs(situation.steps)
    changed = cluster.queues()
    plain = changed.copy()
    for change in request.quota:
        changed.put(quota_changed(cluster, change))
    site_of = msgspec.structs.replace(situation, steps=tuple(steps))
    trial = of_pods.answer(site_of, of_pods.WhatIfRequest(), watch) if steps else None
    site = site_of.site(watch)
    if steps and cluster.has_topologies:
        _put_nodes(changed, cluster, site.cluster.nodes)
    changed.advance(1)
    for job in cluster.jobs(manifests, situation.namespace):
        for workload in job.workloads:
            changed.put(workload)
    changed.settle()
    held = {key for key in changed.workloads if is_admitted(changed, key)}
    watch.begin("running scheduling cycles")
    run_until_quiet(plain, watch)
    story = run_until_quiet(changed, watch)
    pods = placed_in_order(PodPlacer(site, situation.snapshot, changed), changed, story)
    return _ToldAnswer(_compared(cluster, plain, changed, story, tuple(pods.values()), held, trial), trial)


def _compared(
    cluster: QueuedCluster,
    plain: Queues,
    changed: Queues,
    story: RunStory,
    pods: tuple[WorkloadPods, ...],
    held: set[str],
    trial: of_pods.PicturedTrial | None,
) -> QueueWhatIfAnswer:
    there = {key for key in changed.workloads if is_admitted(changed, key)}
    without = {key for key in plain.workloads if is_admitted(plain, key)}
    why = {key: changed.workloads[key].conditions for key in waiting(changed)}
    return QueueWhatIfAnswer(
        tuple(sorted(there - without)),
        tuple(sorted((without | held) - there)),
        tuple(story.preempted.values()),
        {
            key: conditions["QuotaReserved"].message if "QuotaReserved" in conditions else ""
            for key, conditions in why.items()
        },
        pods,
        trial.result if trial is not None else None,
        (*cluster.notes, *(trial.notes if trial is not None else ())),
    )


def _without_jobs(steps: Sequence[Step]) -> tuple[list[Step], list[Mapping[str, Any]]]:
    """Take what goes into a queue out of the steps; the rest the cluster takes at once."""
    left: list[Step] = []
    queued: list[Mapping[str, Any]] = []
    for step in steps:
        if isinstance(step, Manifests):
            queued += [each.manifest for each in step.documents if _is_queued(each)]
            others = [each for each in step.documents if not _is_queued(each)]
            if others:
                left.append(Manifests(others, step.words))
        else:
            left.append(step)
    return left, queued


def _is_queued(document: Document) -> bool:
    metadata = document.manifest.get("metadata") or {}
    named = {QUEUE_LABEL, GROUP_LABEL} & (metadata.get("labels") or {}).keys()
    return bool(named) or (document.kind == "Workload" and document.api_version.startswith(f"{GROUP}/"))


def quota_changed(cluster: QueuedCluster, change: str) -> dict[str, Any]:
    """Change a quota (`NAME.FLAVOR.RESOURCE=+8`) and return the object that has it. Raises `QuotaChangeError`."""
    where, sign, amount = change.partition("=")
    for kind in ("ClusterQueue", "Cohort"):
        for name, document in cluster.of(kind).items():
            for _, flavor, quota in quotas_of(document):
                resource, nominal = quota.get("name") or "", quota.get("nominalQuota") or 0
                if sign and where == f"{name}.{flavor}.{resource}":
                    more = _amount(resource, amount.lstrip("+-") or "?", change)
                    if amount[:1] not in ("+", "-"):
                        more -= _amount(resource, nominal, change)
                    changed = with_quota(document, flavor, {resource: -more if amount[:1] == "-" else more})
                    cluster.documents[kind, name] = changed
                    return changed
    known = [
        f"{name}.{flavor}.{quota.get('name')}"
        for kind in ("ClusterQueue", "Cohort")
        for name, document in cluster.of(kind).items()
        for _, flavor, quota in quotas_of(document)
    ]
    raise QuotaChangeError(
        f"--quota {change}: expected NAME.FLAVOR.RESOURCE=+AMOUNT of a ClusterQueue or Cohort"
        f"{nearest(where, known) or f'; there are {listed(known, shown=NAMES_SHOWN)}'}"
    )


def _amount(resource: str, quantity: Any, change: str) -> int:
    try:
        return amount_of(resource, quantity)
    except QuantityError as error:
        raise QuotaChangeError(f"--quota {change}: {error}") from None


def _put_nodes(queues: Queues, cluster: QueuedCluster, nodes: Mapping[str, Node]) -> None:
    """Let the queues have the nodes of the changed cluster; topologies are made of them."""
    for name in cluster.of("Node").keys() - nodes.keys():
        queues.delete("Node", "", name)
    for node in nodes.values():
        queues.put({"kind": "Node", **msgspec.to_builtins(node)})


def told(found: _ToldAnswer) -> Iterator[Section]:
    """Tell who is admitted then and who no longer, where pods go, and what becomes of the cluster's other pods."""
    one = found.answer
    yield _verdict(one)
    if one.no_longer:
        yield Sentence(f"{listed(one.no_longer, shown=NAMES_SHOWN)} would not be admitted any more.")
    yield table("", ("Admitted with the changes",), ((each,) for each in one.admitted))
    yield preempted_table(one.preempted)
    yield table("", ("Still waits", ("Why", "text")), one.waiting.items())
    yield from pods_sections(one.pods)
    if found.trial is not None:
        verdict, *others = of_pods.told(found.trial)
        assert isinstance(verdict, VerdictSection)
        yield NoteSection(f"Of the cluster's own pods: {verdict.text}")
        yield from others


def _verdict(one: QueueWhatIfAnswer) -> VerdictSection:
    without = [each for each in one.pods if each.without]
    said = f"{counted(len(one.admitted), 'more workload')} admitted, {len(one.no_longer):,} no longer"
    if one.pods:
        placed = sum(each.placed for each in one.pods)
        said += f"; {placed:,} of {counted(sum(each.count for each in one.pods), 'new pod')} have nodes"
    return VerdictSection(
        f"{said}.", is_good=None if not one.admitted and not without else not without and not one.no_longer
    )


QUESTION = Question(
    name="whatif",
    title="What if, with queues",
    about="""Try changes of quota, nodes and workloads: who is admitted then, and where do the pods go?

    Queues are run with the changes and without, each until nothing changes any more, as if no job ended. Of -f, what
    names a queue is put into it, and everything else is applied to the cluster. Then the scheduler places the pods of
    those who are admitted. Changes of the cluster itself are answered as `berth whatif` does.

    NODE is a name, a pattern (`gpu-*`) or a label selector (`pool=gpu`).
    """,
    doing="running scheduling cycles",
    request=QueueWhatIfRequest,
    answer=answer,
    told=told,
    group="kueue",
    manifests="applied",
    names=NamedThings("the workloads that are admitted with the changes", lambda found: found.answer.admitted),
    document=lambda found: found.answer,
)
