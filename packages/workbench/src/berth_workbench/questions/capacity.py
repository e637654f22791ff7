"""`berth capacity`: how many more of a pod or workload fit, what limits them, pool by pool."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from berth_workbench.planning.capacity import Capacity, LimitedBy, capacity_after
from berth_workbench.questions.question import Question
from berth_workbench.showing.ask import HowAsked, HowSaid, PoolLabel
from berth_workbench.showing.numbers import quantity
from berth_workbench.showing.sections import Bars, Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.documents import Document

POOLS_DRAWN = 20
SHAPE = "shape"
"""The name of a pod that stands for what it requests."""


class CapacityRequest(msgspec.Struct, frozen=True):
    """What is to fit, and up to how many."""

    documents: Annotated[tuple[Document, ...], HowSaid(words=lambda documents: shapes_in_words(documents))]
    pending_first: Annotated[
        bool,
        HowAsked("Place what is pending in the cluster before anything is counted."),
        HowSaid("once what is pending has its place", "beside what is there"),
    ] = False
    pool_label: PoolLabel = ""
    at_most: Annotated[
        int,
        HowAsked("Stop after so many, where pods have to be placed one by one.", metavar="N", least=1, most=1_000_000),
        HowSaid("Stop after {} where pods have to be placed one by one."),
    ] = 1_000_000

    def __post_init__(self) -> None:
        """Raise ValueError where nothing is to fit."""
        if not self.documents:
            raise ValueError("-f: what is to fit? give the manifest of a pod or of a workload")


def shapes_in_words(documents: Sequence[Document]) -> str:
    """Return what is to fit: the requests of a shape, or the names of pods and workloads."""
    shape = documents[0].manifest if len(documents) == 1 else {}
    if shape.get("metadata", {}).get("name") != SHAPE:
        return listed([f"{each.kind} {each.name}" for each in documents], shown=3)
    requests = shape["spec"]["containers"][0]["resources"]["requests"]
    names = {"cpu": "CPU", "memory": "memory"}
    return "pods of " + listed([f"{requested} {names.get(name, name)}" for name, requested in requests.items()])


def answer(situation: Situation, request: CapacityRequest, watch: WorkWatch) -> Capacity:
    """Count how many more fit."""
    return capacity_after(
        situation,
        request.documents,
        pool_label=request.pool_label,
        at_most=request.at_most,
        pending_first=request.pending_first,
        watch=watch,
    )


def told(found: Capacity) -> Iterator[Section]:
    """Tell the number, what keeps the next one away, and where the room is."""
    yield _verdict(found)
    if any(not shape.is_counted for shape in found.shapes) or found.is_of_sets:
        yield Sentence("Placed one by one as the scheduler would; another order may give another number.")
    if found.is_of_sets:
        rows = ((each.shape, each.fits, first_limits(each.limited_by)) for each in found.shapes)
        yield table("", ("Each on its own", ("Fit", "number"), ("Limited by", "text")), rows)
    limits = tuple((each.nodes, each.reason) for each in found.limited_by)
    yield table("What keeps the next one away", (("Nodes", "number"), ("Reason", "text")), limits)
    pools = found.by_pool.items()
    if any(pool.fits for _, pool in pools):
        drawn = sorted(pools, key=lambda each: -each[1].fits)[:POOLS_DRAWN]
        names = tuple(f"{name or 'no pool'} ({counted(pool.nodes, 'node')})" for name, pool in drawn)
        yield Bars("How many fit, by pool", names, {"fit": tuple(pool.fits for _, pool in drawn)})
    elif found.limited_by:
        drawn_limits = found.limited_by[:POOLS_DRAWN]
        reasons = tuple(each.reason for each in drawn_limits)
        yield Bars("Nodes that do not take it, by reason", reasons, {"nodes": tuple(e.nodes for e in drawn_limits)})
    if len(pools) > 1 or any(name for name, _ in pools):
        yield table(
            "",
            ("Pool", ("Nodes", "number"), ("Fit", "number"), ("Limited by", "text")),
            ((name or "(none)", pool.nodes, pool.fits, first_limits(pool.limited_by)) for name, pool in pools),
        )
    free = {name: each for name, each in found.fragmentation.items() if each.free}
    usable = tuple(100 * each.usable / each.free for each in free.values())
    parts = {"usable": usable, "stranded": tuple(100 - each for each in usable)}
    if free:
        yield Bars("Of what is free, what they can use", tuple(free), parts, is_stacked=True, unit="%")
    yield table(
        "",
        (
            "Resource",
            ("Free", "number"),
            ("Usable", "number"),
            ("Stranded", "number"),
            ("Largest hole", "number"),
            "On",
        ),
        (
            (
                name,
                *(quantity(name, some) for some in (each.free, each.usable, each.stranded, each.largest_hole)),
                each.largest_hole_on,
            )
            for name, each in found.fragmentation.items()
        ),
    )


def _verdict(found: Capacity) -> VerdictSection:
    then = f"; the API server refuses the next one: {found.refused}" if found.refused else ""
    if found.is_of_sets:
        parts = " + ".join(f"{each.per_set} {each.shape}" for each in found.shapes)
        pods = counted(found.pods, "pod")
        return VerdictSection(f"{found.fits:,} more sets of {parts} fit, {pods}{then}.", found.fits > 0)
    shape = found.shapes[0].shape
    why = f": {first_limits(found.limited_by)}" if found.limited_by and not found.fits else ""
    return VerdictSection(f"{shape}: {found.fits:,} more fit{then or why}.", is_good=found.fits > 0)


def _so_far(found: Capacity) -> str:
    return f"At least {found.fits:,} more{' sets' if found.is_of_sets else ''} fit."


def first_limits(limits: tuple[LimitedBy, ...]) -> str:
    """The two reasons that most nodes have."""
    return ", ".join(f"{each.nodes:,} {each.reason}" for each in limits[:2])


QUESTION = Question(
    name="capacity",
    title="Capacity",
    about="""Say how many more pods of -f fit into a cluster, and what limits them.

    Of one pod or workload, pods are counted, whatever its replicas. Of several, sets are: one of each pod, and of each
    workload as many as it has replicas. The number is that which the scheduler would place one after the other,
    preempting nobody. Changes are carried out first.
    """,
    asks="How many more {documents} fit {pending_first}, after {changes}?",
    doing="placing pods",
    request=CapacityRequest,
    answer=answer,
    told=told,
    so_far=_so_far,
    manifests="asked",
)
