"""`berth kueue top`: what each queue has, uses, borrows and lends, and what waits."""

import math
from collections.abc import Iterator

import msgspec

from berth_kueue.amounts import written
from berth_kueue.lives import Queues
from berth_kueue.queued_cluster import KueueConfig, QueuedCluster
from berth_kueue.world import QueueNode
from berth_workbench.questions.question import NamedThings, Question
from berth_workbench.showing.sections import Section, VerdictSection, table
from berth_workbench.showing.words import counted
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch


class TopRequest(msgspec.Struct, frozen=True):
    """How Kueue is configured."""

    kueue_config: KueueConfig = None


class QueueLine(msgspec.Struct, frozen=True, rename="camel"):
    """One resource of a flavor in a ClusterQueue. Amounts are as Kueue writes them."""

    cluster_queue: str
    flavor: str
    resource: str
    nominal: str
    used: str
    borrowed: str
    """What it uses beyond what it has."""
    available: str
    """How much more it could use now, borrowing included."""


class QueueState(msgspec.Struct, frozen=True, rename="camel"):
    """A ClusterQueue as a whole."""

    cluster_queue: str
    cohorts: tuple[str, ...]
    """From the root to its own; empty outside a cohort."""
    pending: int
    admitted: int
    share: float | None
    """Its weighted share, with fair sharing only; null where it borrows at weight 0."""
    problem: str = ""
    """Why it admits nothing."""


class CohortLine(msgspec.Struct, frozen=True, rename="camel"):
    """One resource of a flavor in a cohort: what its members lend, and what of that is borrowed."""

    cohort: str
    flavor: str
    resource: str
    borrowed: str
    """What members use together beyond what they keep to themselves."""
    borrowers: dict[str, str]
    lenders: dict[str, str]
    """The members that have quota which they do not use, and how much."""


class TopAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """All queues."""

    queues: tuple[QueueState, ...]
    lines: tuple[QueueLine, ...]
    cohorts: tuple[CohortLine, ...]
    notes: tuple[str, ...] = ()
    is_complete: bool = True


def answer(situation: Situation, request: TopRequest, watch: WorkWatch) -> TopAnswer:
    """Read the queues as they are. Raises `NoQueuesError`, `ObjectError`."""
    cluster = QueuedCluster(situation.snapshot, request.kueue_config)
    queues = cluster.queues()
    queues.world.refresh()
    nodes = sorted(queues.world.queues.values(), key=lambda each: (_path(each), each.name))
    states = tuple(watch.over(_state(queues, each) for each in nodes))
    lines = tuple(line for each in nodes for line in _lines(queues, each))
    return TopAnswer(states, lines, tuple(_cohorts(queues, nodes)), cluster.notes)


def _path(queue: QueueNode) -> tuple[str, ...]:
    return tuple(reversed([cohort.name for cohort in queue.path()]))


def _state(queues: Queues, queue: QueueNode) -> QueueState:
    pending = queues.pending.queues[queue.name]
    share = queue.share().value if queues.strategies is not None else None
    return QueueState(
        queue.name,
        _path(queue),
        sum(pending.counts),
        len(queue.workloads),
        None if share is None or math.isinf(share) else share,
        ", ".join(words for _, words in queues.world.problems(queue.name)),
    )


def _resources(queues: Queues, queue: QueueNode) -> Iterator[tuple[str, str, int]]:
    for group in queue.groups:
        for flavor in group.flavors:
            for resource in sorted(group.covered):
                yield flavor, resource, queues.world.fr(flavor, resource)


def _lines(queues: Queues, queue: QueueNode) -> Iterator[QueueLine]:
    for flavor, resource, fr in _resources(queues, queue):
        quota = queue.quotas.get(fr)
        nominal, used = quota.nominal if quota is not None else 0, queue.usage[fr]
        amounts = (nominal, used, max(0, used - nominal), max(0, queue.available(fr)))
        yield QueueLine(queue.name, flavor, resource, *(written(resource, each) for each in amounts))


def _cohorts(queues: Queues, nodes: list[QueueNode]) -> Iterator[CohortLine]:
    """Tell of whatever is borrowed, cohort tree by cohort tree."""
    trees: dict[str, list[QueueNode]] = {}
    for node in nodes:
        if node.parent is not None:
            trees.setdefault(node.parent.root.name, []).append(node)
    for root, members in sorted(trees.items()):
        named = dict.fromkeys(each for member in members for each in _resources(queues, member))
        for flavor, resource, fr in named:
            over = {member.name: member.usage[fr] - _nominal(member, fr) for member in members}
            borrowers = {name: written(resource, each) for name, each in over.items() if each > 0}
            lenders = {name: written(resource, -each) for name, each in over.items() if each < 0}
            if borrowers:
                borrowed = written(resource, sum(each for each in over.values() if each > 0))
                yield CohortLine(root, flavor, resource, borrowed, borrowers, lenders)


def _nominal(queue: QueueNode, fr: int) -> float:
    quota = queue.quotas.get(fr)
    return quota.nominal if quota is not None else 0


def told(found: TopAnswer) -> Iterator[Section]:
    """Tell of the queues, of what each has, and of who borrows from whom."""
    pending = sum(each.pending for each in found.queues)
    admitted = sum(each.admitted for each in found.queues)
    waits = "waits" if pending == 1 else "wait"
    of = counted(len(found.queues), "ClusterQueue")
    yield VerdictSection(f"{counted(admitted, 'workload')} of {of} admitted, {pending:,} {waits}.")
    shares = any(each.share is not None for each in found.queues)
    share = (("Share", "number"),) if shares else ()
    yield table(
        "",
        ("Cluster queue", "Cohort", ("Pending", "number"), ("Admitted", "number"), *share, ("Problem", "text")),
        (
            (
                each.cluster_queue,
                "/".join(each.cohorts) or "-",
                each.pending,
                each.admitted,
                *((_share(each.share),) if shares else ()),
                each.problem,
            )
            for each in found.queues
        ),
    )
    numbers = tuple((name, "number") for name in ("Quota", "Used", "Borrowed", "Available"))
    yield table(
        "",
        ("Cluster queue", "Flavor", "Resource", *numbers),
        (
            (each.cluster_queue, each.flavor, each.resource, each.nominal, each.used, each.borrowed, each.available)
            for each in found.lines
        ),
    )
    yield table(
        "Borrowed and lent",
        ("Cohort", "Flavor", "Resource", ("Borrowed", "number"), ("By", "text"), ("Unused by", "text")),
        (
            (each.cohort, each.flavor, each.resource, each.borrowed, _amounts(each.borrowers), _amounts(each.lenders))
            for each in found.cohorts
        ),
    )


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0f}"


def _amounts(by_queue: dict[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in by_queue.items())


QUESTION = Question(
    name="top",
    title="Queues",
    about="""Tell what each ClusterQueue has, uses, borrows and lends, and how much waits.

    The figures are those of the cluster's objects as Kueue's scheduler counts them: workloads that hold quota use it,
    and what a ClusterQueue does not use of its own is there for its cohort.
    """,
    doing="reading queues",
    request=TopRequest,
    answer=answer,
    told=told,
    takes_changes=False,
    names=NamedThings("the ClusterQueues", lambda found: (each.cluster_queue for each in found.queues)),
)
