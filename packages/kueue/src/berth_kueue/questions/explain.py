"""`berth kueue explain`: why a workload waits, where it stands in its queue, and what would help."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated

import msgspec

from berth.api.near_names import nearest
from berth.api.user_error import UserError
from berth_kueue.amounts import written
from berth_kueue.lives import Queues
from berth_kueue.model import PENDING, QUOTA_RESERVED
from berth_kueue.queued_cluster import KueueConfig, QueuedCluster, in_namespace
from berth_kueue.remedies import QueueRemedy, in_line, remedies_for, requests_of
from berth_kueue.running import is_admitted, run_until_quiet, waiting
from berth_workbench.questions.question import NamedThings, Question
from berth_workbench.showing.ask import HowAsked, HowSaid
from berth_workbench.showing.sections import Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import StoppedError, WorkWatch

NAMES_SHOWN = 4
AHEAD_OF_ALL = 100
"""How many at the head of a queue are looked at for `ahead` where all that wait are listed."""


class UnknownWorkloadError(UserError):
    """A name that no workload has."""


class ExplainRequest(msgspec.Struct, frozen=True):
    """Which workloads, and how Kueue is configured."""

    workloads: Annotated[
        tuple[str, ...],
        HowAsked("The workloads, by their names or those of their jobs; all that wait without.", flag="NAMESPACE/NAME"),
        HowSaid(without="workloads"),
    ] = ()
    kueue_config: KueueConfig = None


class Shortage(msgspec.Struct, frozen=True, rename="camel"):
    """What a flavor has too little of for a workload. Amounts are as Kueue writes them."""

    flavor: str
    resource: str
    lacks: str
    of: str
    """What the workload asks for in all."""
    nominal: str
    """The ClusterQueue's own quota."""
    used: str
    """What of it, or beyond it, the ClusterQueue uses."""
    borrowers: dict[str, str] = {}
    """The other ClusterQueues of the cohort that use more than their own quota, and how much more."""
    is_to_come: bool = False
    """Whether there is enough now, and all this is so once those are admitted who come next."""


class WaitingWorkload(msgspec.Struct, frozen=True, rename="camel"):
    """A workload, and why it waits."""

    workload: str
    cluster_queue: str
    state: str
    """Waiting, Admitted, Finished or Inactive; Next where it would be admitted in the next cycles."""
    reason: str
    """Of Kueue's condition."""
    message: str
    position: int
    """In the ClusterQueue, from 1; 0 where it does not wait there."""
    waiting: int
    """How many wait in the ClusterQueue."""
    ahead: tuple[str, ...] = ()
    """Those before it that ask for something that it lacks; where all that wait are listed, of the first 100 there."""
    shortages: tuple[Shortage, ...] = ()
    remedies: tuple[QueueRemedy, ...] = ()


class ExplainAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Why workloads wait."""

    workloads: tuple[WaitingWorkload, ...]
    notes: tuple[str, ...] = ()
    is_complete: bool = True


def answer(situation: Situation, request: ExplainRequest, watch: WorkWatch) -> ExplainAnswer:
    """Decide again about the queues as they are, and try what would help those that were named.

    Raises `NoQueuesError`, `UnknownWorkloadError`, `ObjectError`, `StoppedError`.
    """
    cluster = QueuedCluster(situation.snapshot, request.kueue_config)
    queues = cluster.queues()
    named = [_named(cluster, queues, name) for name in in_namespace(request.workloads, situation.namespace)]
    after = queues.copy()
    watch.begin("running scheduling cycles")
    run_until_quiet(after, watch)
    found, is_complete = [], True
    lines = lines_of(after)
    for key in named or waiting(queues):
        told = waits(queues, after, lines, key, looks_at=None if named else AHEAD_OF_ALL)
        if named and told.state == "Waiting":
            remedies: list[QueueRemedy] = []
            try:
                remedies.extend(remedies_for(cluster, queues, key, watch))
            except StoppedError:
                is_complete = False
            told = msgspec.structs.replace(told, remedies=tuple(remedies))
        found.append(told)
    return ExplainAnswer(tuple(found), cluster.notes, is_complete)


def _named(cluster: QueuedCluster, queues: Queues, name: str) -> str:
    """The workload of a name, or of the job of that name."""
    if name in queues.workloads:
        return name
    namespace, _, job = name.partition("/")
    of_job = [
        key
        for key, document in cluster.of("Workload").items()
        if key.startswith(f"{namespace}/")
        and any(each.get("name") == job for each in document["metadata"].get("ownerReferences") or ())
    ]
    if len(of_job) == 1:
        return of_job[0]
    if of_job:
        raise UnknownWorkloadError(f"{name} has several workloads: {listed(sorted(of_job), shown=NAMES_SHOWN)}")
    raise UnknownWorkloadError(
        f"there is no workload {name}, nor one of a job of that name{nearest(name, queues.workloads)}"
    )


def lines_of(queues: Queues) -> dict[str, dict[str, int]]:
    """Return the workloads that wait, by ClusterQueue, with their positions from 1, in the order of the queue."""
    return {name: {key: at for at, key in enumerate(in_line(queues, name), 1)} for name in queues.pending.queues}


def waits(
    queues: Queues,
    after: Queues,
    lines: Mapping[str, Mapping[str, int]],
    key: str,
    *,
    looks_at: int | None = AHEAD_OF_ALL,
) -> WaitingWorkload:
    """Tell of a workload: `queues` are as they are, `after` and `lines` as once nothing changes any more.

    Of those before it, so many are looked at, all of them for None.
    """
    workload, later = queues.workloads[key], after.workloads[key]
    condition = later.conditions.get(QUOTA_RESERVED)
    name = queues.pending.queue_name(workload) or ""
    line = lines.get(name, {})
    position = line.get(key, 0)
    state = "Waiting"
    if workload.phase != PENDING:
        state = "Finished" if workload.has("Finished") else "Admitted"
    elif not workload.spec.active:
        state = "Inactive"
    elif is_admitted(after, key):
        state = "Next"
    shortages: tuple[Shortage, ...] = ()
    if state == "Waiting":
        shortages = tuple(_shortages(queues, key, name)) or tuple(_shortages(after, key, name, is_to_come=True))
    lacking = {each.resource for each in shortages}
    before = islice(line, max(0, position - 1)) if lacking else ()
    ahead = [other for other in islice(before, looks_at) if lacking & requests_of(after, other).keys()]
    return WaitingWorkload(
        key,
        name,
        state,
        condition.reason if condition is not None and state == "Waiting" else "",
        condition.message if condition is not None and state == "Waiting" else "",
        position,
        len(line),
        tuple(ahead),
        shortages,
    )


def _shortages(queues: Queues, key: str, name: str, *, is_to_come: bool = False) -> Iterator[Shortage]:
    queue = queues.world.queues.get(name)
    if queue is None or queue.is_in_cycle:
        return
    queues.world.refresh()
    needs = requests_of(queues, key)
    root = queue.root
    others = [other for other in root.subtree_queues() if other is not queue] if root is not None else []
    for group in queue.groups:
        for flavor in group.flavors:
            for resource in sorted(group.covered):
                fr = queues.world.fr(flavor, resource)
                lacks = needs.get(resource, 0) - max(0, queue.available(fr))
                if lacks > 0:
                    quota = queue.quotas.get(fr)
                    over = {other.name: other.usage[fr] - other.subtree[fr] for other in others}
                    yield Shortage(
                        flavor,
                        resource,
                        written(resource, lacks),
                        written(resource, needs[resource]),
                        written(resource, quota.nominal if quota is not None else 0),
                        written(resource, queue.usage[fr]),
                        {each: written(resource, amount) for each, amount in sorted(over.items()) if amount > 0},
                        is_to_come,
                    )


def told(found: ExplainAnswer) -> Iterator[Section]:
    """Tell of one workload in sentences, of several in a table."""
    if len(found.workloads) != 1:
        yield _of_all(found)
        rows = (
            (w.workload, w.cluster_queue, w.position or "-", w.reason or w.state, w.message) for w in found.workloads
        )
        yield table("", ("Workload", "Cluster queue", ("Position", "number"), "State", ("Why", "text")), rows)
        return
    (one,) = found.workloads
    yield verdict_of(one)
    if one.message:
        yield Sentence(f"Kueue says: {one.message}.")
    for each in one.shortages:
        yield Sentence(_in_words(each, one.cluster_queue))
    if one.position:
        ask = "asks" if len(one.ahead) == 1 else "ask"
        also = f"; {counted(len(one.ahead), 'workload')} before it {ask} for what it lacks, too" if one.ahead else ""
        yield Sentence(f"Position {one.position} of {one.waiting} in ClusterQueue {one.cluster_queue}{also}.")
    if one.state != "Waiting":
        return
    if not one.remedies:
        yield Sentence("Nothing that was tried would help.")
    yield table(
        "Any one of these would help, the cheapest first",
        (("Change", "text"), ("Preempts", "text")),
        ((each.change, listed([p.workload for p in each.preempts], shown=NAMES_SHOWN)) for each in one.remedies),
    )


def _of_all(found: ExplainAnswer) -> VerdictSection:
    if not found.workloads:
        return VerdictSection("No workload waits.", is_good=True)
    soon = sum(each.state == "Next" for each in found.workloads)
    still = sum(each.state == "Waiting" for each in found.workloads)
    said = f"{counted(still, 'workload')} of {len(found.workloads):,} {'waits' if still == 1 else 'wait'}"
    return VerdictSection(f"{said}; {soon:,} would be admitted in the next cycles.", is_good=None)


def verdict_of(one: WaitingWorkload) -> VerdictSection:
    """Say in a sentence why a workload waits."""
    if one.state == "Next":
        return VerdictSection(f"{one.workload} would be admitted in the next scheduling cycles.", is_good=True)
    if one.state != "Waiting":
        return VerdictSection(f"{one.workload} does not wait: it is {one.state.lower()}.", is_good=True)
    if one.shortages:
        then = ", once those are admitted who come next" if one.shortages[0].is_to_come else ""
        lacks = [f"{each.lacks} of {each.of} {each.resource} in flavor {each.flavor}" for each in one.shortages]
        return VerdictSection(f"{one.workload} waits: it lacks {listed(lacks, 'and')}{then}.", is_good=False)
    return VerdictSection(f"{one.workload} waits ({one.reason or 'it was not looked at yet'}).", is_good=False)


def _in_words(lack: Shortage, queue: str) -> str:
    uses, borrows = ("then uses", "then borrows") if lack.is_to_come else ("uses", "borrows")
    said = f"ClusterQueue {queue} has {lack.nominal} {lack.resource} of flavor {lack.flavor} and {uses} {lack.used}"
    if lack.borrowers:
        said += "; " + listed([f"{name} {borrows} {amount}" for name, amount in lack.borrowers.items()], "and")
    return f"{said}."


def _so_far(found: ExplainAnswer) -> str:
    helps = [remedy.change for each in found.workloads for remedy in each.remedies]
    return f"By then it is certain that this would help: {helps[0]}." if helps else ""


QUESTION = Question(
    name="explain",
    title="Why it waits",
    about="""Say why a workload waits, where it stands in its queue, and what would help.

    Kueue's decisions are made again on a copy of the queues, as if no job ended. For workloads that are named, changes
    are tried: each is carried out and decided again, so that what is told would help. Without a name, all that wait are
    listed.
    """,
    doing="running scheduling cycles",
    request=ExplainRequest,
    answer=answer,
    told=told,
    asks="Say what keeps {workloads} waiting, and what would help.",
    so_far=_so_far,
    takes_changes=False,
    group="kueue",
    names=NamedThings("the workloads", lambda found: (each.workload for each in found.workloads)),
)
