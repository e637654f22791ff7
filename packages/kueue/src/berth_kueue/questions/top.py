"""`berth kueue top`, and the page of queues: what each has, uses, borrows and lends, and what waits for what."""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from berth_kueue.amounts import CPU, UNLIMITED, written
from berth_kueue.lives import Queues
from berth_kueue.questions.explain import WaitingWorkload, lines_of, verdict_of, waits
from berth_kueue.queued_cluster import KueueConfig, QueuedCluster
from berth_kueue.running import run_until_quiet, waiting
from berth_kueue.world import CohortNode, KueueWorld, QueueNode, QuotaNode
from berth_workbench.questions.question import NamedThings, Question
from berth_workbench.showing.numbers import amount, is_bytes
from berth_workbench.showing.sections import Bars, Behind, Section, Sentence, Try, VerdictSection, table
from berth_workbench.showing.words import counted
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import StoppedError, WorkWatch

WAITING_SHOWN: Final = 100
PICTURES: Final = 6
BARS_SHOWN: Final = 40
TRIES: Final = 3
INDENTED_AT_MOST: Final = 8


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


class TreeLine(msgspec.Struct, frozen=True, rename="camel"):
    """One resource of a flavor at a node of the cohort tree. CPU is in thousandths, everything else in units."""

    name: str
    is_cohort: bool
    depth: int
    """How many cohorts are above it."""
    flavor: str
    resource: str
    nominal: float
    """Of a cohort, its own quota and what its members do not keep to themselves. Null in JSON where it is unlimited."""
    used: int
    """Of a cohort, what its members use beyond what they keep to themselves."""
    borrowed: float
    """What of it is beyond the nominal quota."""
    lent: float
    """What of the nominal quota is not used, and could not be now: others have borrowed it."""
    available: float
    """How much more it could use now, borrowing included."""


class TopAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """All queues."""

    queues: tuple[QueueState, ...]
    lines: tuple[QueueLine, ...]
    cohorts: tuple[CohortLine, ...]
    tree: tuple[TreeLine, ...] = ()
    """Cohorts with their ClusterQueues and then the cohorts in them, from each root down."""
    waiting: tuple[WaitingWorkload, ...] = ()
    """The first of each ClusterQueue, then the second, and so on; `WAITING_SHOWN` of them."""
    notes: tuple[str, ...] = ()
    is_complete: bool = True


def answer(situation: Situation, request: TopRequest, watch: WorkWatch) -> TopAnswer:
    """Read the queues as they are, and let a copy run to say who waits for what.

    Raises `NoQueuesError`, `ObjectError`, `StuckError`.
    """
    cluster = QueuedCluster(situation.snapshot, request.kueue_config)
    queues = cluster.queues()
    queues.world.refresh()
    nodes = sorted(queues.world.queues.values(), key=lambda each: (_path(each), each.name))
    states = tuple(watch.over(_state(queues, each) for each in nodes))
    lines = tuple(line for each in nodes for line in _lines(queues, each))
    tree = tuple(line for depth, node in _tree(queues.world) for line in _tree_lines(queues.world, depth, node))
    try:
        told, is_complete = tuple(_waiting(queues, watch)), True
    except StoppedError:
        told, is_complete = (), False
    return TopAnswer(states, lines, tuple(_cohorts(queues, nodes)), tree, told, cluster.notes, is_complete)


def _path(queue: QueueNode) -> tuple[str, ...]:
    """The cohorts from the root; those in a cycle have none, and only the queue's own is known."""
    if queue.parent is not None and queue.is_in_cycle:
        return (queue.parent.name,)
    return tuple(reversed([cohort.name for cohort in queue.path()]))


def _tree(world: KueueWorld) -> Iterator[tuple[int, QuotaNode]]:
    """Walk over cohorts and ClusterQueues from the roots down. Cohorts in a cycle have no root, and are left out."""
    alone = [each for each in _by_name(world.queues) if each.parent is None]
    roots = [each for each in _by_name(world.cohorts) if each.parent is None]
    left = [(0, each) for each in reversed([*roots, *alone])]
    while left:
        depth, node = left.pop()
        yield depth, node
        if isinstance(node, CohortNode):
            below = [*_by_name(node.queues), *_by_name(node.cohorts)]
            left += ((depth + 1, each) for each in reversed(below))


def _by_name(nodes: Mapping[str, QuotaNode]) -> list[QuotaNode]:
    return [nodes[name] for name in sorted(nodes)]


def _tree_lines(world: KueueWorld, depth: int, node: QuotaNode) -> Iterator[TreeLine]:
    for fr in sorted(node.quota_keys):
        nominal, used = node.subtree[fr], node.usage[fr]
        borrowed, unused = max(0, used - nominal), max(0, nominal - used)
        available = max(0, node.available(fr))
        lent = max(0, unused - available) if unused < UNLIMITED else 0
        flavor, resource = world.fr_names[fr]
        is_cohort, name = isinstance(node, CohortNode), node.name
        yield TreeLine(name, is_cohort, depth, flavor, resource, nominal, used, borrowed, lent, available)


def _waiting(queues: Queues, watch: WorkWatch) -> Iterator[WaitingWorkload]:
    """Tell of those who wait: who would be admitted in the next cycles, then by their positions."""
    after = queues.copy()
    watch.begin("running scheduling cycles")
    run_until_quiet(after, watch)
    lines = lines_of(after)
    positions = {key: at for line in lines.values() for key, at in line.items()}
    first = heapq.nsmallest(WAITING_SHOWN, waiting(queues), key=lambda key: (positions.get(key, 0), key))
    return (waits(queues, after, lines, key) for key in first)


def _state(queues: Queues, queue: QueueNode) -> QueueState:
    pending = queues.pending.queues[queue.name]
    share = queue.share().value if queues.strategies is not None else None
    problems = [words for _, words in queues.world.problems(queue.name)]
    if queue.is_in_cycle:
        problems.append("is in a cycle of cohorts")
    return QueueState(
        queue.name,
        _path(queue),
        sum(pending.counts),
        len(queue.workloads),
        None if share is None or math.isinf(share) else share,
        ", ".join(problems),
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
        available = 0 if queue.is_in_cycle else max(0, queue.available(fr))
        amounts = (nominal, used, max(0, used - nominal), available)
        yield QueueLine(queue.name, flavor, resource, *(written(resource, each) for each in amounts))


def _cohorts(queues: Queues, nodes: list[QueueNode]) -> Iterator[CohortLine]:
    """Tell of whatever is borrowed, cohort tree by cohort tree."""
    trees: dict[str, list[QueueNode]] = {}
    for node in nodes:
        if (root := node.root) is not None:
            trees.setdefault(root.name, []).append(node)
    for name_of_root, members in sorted(trees.items()):
        named = dict.fromkeys(each for member in members for each in _resources(queues, member))
        for flavor, resource, fr in named:
            over = {member.name: member.usage[fr] - _nominal(member, fr) for member in members}
            borrowers = {name: written(resource, each) for name, each in over.items() if each > 0}
            lenders = {name: written(resource, -each) for name, each in over.items() if each < 0}
            if borrowers:
                borrowed = written(resource, sum(each for each in over.values() if each > 0))
                yield CohortLine(name_of_root, flavor, resource, borrowed, borrowers, lenders)


def _nominal(queue: QueueNode, fr: int) -> float:
    quota = queue.quotas.get(fr)
    return quota.nominal if quota is not None else 0


def told(found: TopAnswer) -> Iterator[Section]:
    """Tell of the queues, of what each has, and of who borrows from whom."""
    pending = sum(each.pending for each in found.queues)
    admitted = sum(each.admitted for each in found.queues)
    verb = "waits" if pending == 1 else "wait"
    of = counted(len(found.queues), "ClusterQueue")
    said = f"{counted(admitted, 'workload')} of {of} admitted, {pending:,} {verb}."
    yield VerdictSection(said, figure=pending, counts="pending")
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
    yield from _bars(found.tree)
    numbers = tuple((name, "number") for name in ("Quota", "Used", "Borrowed", "Lent", "Available"))
    yield table(
        "Cohorts and their queues",
        ("Cohort or queue", "Flavor", "Resource", *numbers),
        (
            (_indented(each), each.flavor, each.resource, *(_amount(each.resource, one) for one in _amounts_of(each)))
            for each in found.tree
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

    yield table(
        "Who waits for what",
        ("Workload", "Cluster queue", ("Position", "number"), ("Why", "text")),
        (
            (each.workload, each.cluster_queue, each.position or "-", Behind(said, each.message or said))
            for each in found.waiting
            for said in [verdict_of(each).text]
        ),
    )
    if found.waiting and len(found.waiting) < pending:
        yield Sentence(f"Of {pending:,} that wait, these are the first; `berth kueue explain` has all.")
    for each in [each for each in found.waiting if each.state == "Waiting"][:TRIES]:
        yield Try(f"What would help {each.workload}?", "explain", {"workloads": each.workload})


def _bars(tree: Sequence[TreeLine]) -> Iterator[Bars]:
    """Yield a picture of each resource of a flavor, the fullest first: nominal quota is all but what is borrowed."""
    by_kind: dict[tuple[str, str], list[TreeLine]] = {}
    for line in tree:
        if line.nominal < UNLIMITED:
            by_kind.setdefault((line.flavor, line.resource), []).append(line)
    fullest = sorted(by_kind.items(), key=lambda kind: -max(each.used / (each.nominal or 1) for each in kind[1]))
    for (flavor, resource), lines in fullest[:PICTURES]:
        shown, unit = lines[:BARS_SHOWN], 1000 if resource == CPU else 2**30 if is_bytes(resource) else 1
        first = f", the first {BARS_SHOWN} of {len(lines):,}" if len(lines) > BARS_SHOWN else ""
        parts = {
            "used": [each.used - each.borrowed for each in shown],
            "borrowed": [each.borrowed for each in shown],
            "lent": [each.lent for each in shown],
            "unused": [each.nominal + each.borrowed - each.used - each.lent for each in shown],
        }
        series = {name: [amount / unit for amount in amounts] for name, amounts in parts.items()}
        title = f"{resource}{' in Gi' if unit == 2**30 else ''} of {flavor}{first}"
        yield Bars(title, tuple(map(_indented, shown)), series, is_stacked=True)


def _indented(line: TreeLine) -> str:
    """The name below its cohort, in signs: a browser folds spaces."""
    return f"{'· ' * (min(line.depth, INDENTED_AT_MOST) - 1)}└ {line.name}" if line.depth else line.name


def _amounts_of(line: TreeLine) -> tuple[float, ...]:
    return line.nominal, line.used, line.borrowed, line.lent, line.available


def _amount(resource: str, counted: float) -> str:
    return "unlimited" if counted == UNLIMITED else amount(resource, counted)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0f}"


def _amounts(by_queue: dict[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in by_queue.items())


QUESTION = Question(
    name="top",
    title="Queues",
    about="""Tell what each ClusterQueue has, uses, borrows and lends, and how much waits.

    The figures are those of the cluster's objects as Kueue's scheduler counts them: workloads that hold quota use it,
    and what a ClusterQueue does not use of its own is there for its cohort. Lent is what of its quota a ClusterQueue
    could not use now, for others have borrowed it. Why workloads wait is decided again, as `berth kueue explain` does.
    """,
    doing="reading queues",
    request=TopRequest,
    answer=answer,
    told=told,
    group="kueue",
    asks="Show what queues have, what they use, borrow and lend, and what waits for what.",
    takes_changes=False,
    names=NamedThings("the ClusterQueues", lambda found: (each.cluster_queue for each in found.queues)),
)
