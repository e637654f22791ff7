"""`berth capacity`: how many more of a pod or workload fit, what limits them, pool by pool."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from berth.decisions.reasons import reason_in_words
from berth_workbench.planning.capacity import Capacity, LimitedBy, capacity_after
from berth_workbench.planning.free_devices import DevicesOfClass, FreeDevices
from berth_workbench.questions.question import Question
from berth_workbench.showing.ask import HowAsked, HowSaid, PoolLabel
from berth_workbench.showing.numbers import quantity
from berth_workbench.showing.sections import KEPT, Bars, Behind, Section, Sentence, Try, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.documents import Document

POOLS_DRAWN = 20
SHAPE = "shape"
"""The name of a pod that stands for what it requests."""
PARTS_NAMED = 3
CLASSES_NAMED = 4
BYTES_FROM = 1 << 20
"""Counters and capacities from here on are told in binary units, as memory is."""


class CapacityRequest(msgspec.Struct, frozen=True):
    """What is to fit, and up to how many."""

    documents: Annotated[
        tuple[Document, ...], HowSaid("{}", "pods", words=lambda documents: shapes_in_words(documents))
    ]
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
    devices: Annotated[
        bool,
        HowAsked("Say which devices are free, by class and node; -f may be left out then.", on_page=False),
        HowSaid("Say which devices are free, too."),
    ] = False

    def __post_init__(self) -> None:
        """Raise ValueError where nothing is to fit."""
        if not self.documents and not self.devices:
            raise ValueError("-f: what is to fit? give the manifest of a pod or of a workload, or ask for --devices")


def shapes_in_words(documents: Sequence[Document]) -> str:
    """Return what is to fit: the requests of a shape, or the names of pods and workloads."""
    if not documents:
        return "pods"
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
        devices=request.devices,
        watch=watch,
    )


def told(found: Capacity) -> Iterator[Section]:
    """Tell the number, what keeps the next one away, and where the room is; then which devices are free."""
    yield _verdict(found)
    if found.shapes:
        yield from _told_of_room(found)
    if found.devices is not None:
        yield from _told_of_devices(found.devices)


def _told_of_room(found: Capacity) -> Iterator[Section]:
    if any(not shape.is_counted for shape in found.shapes) or found.is_of_sets:
        yield Sentence("Placed one by one as the scheduler would; another order may give another number.")
    if found.is_of_sets:
        rows = ((each.shape, each.fits, first_limits(each.limited_by)) for each in found.shapes)
        yield table("", ("Each on its own", ("Fit", "number"), ("Limited by", "text")), rows)
    if found.together_in:
        yield table(
            "",
            (found.together_in, ("Nodes", "number"), ("Fit", "number"), ("Limited by", "text")),
            ((name, each.nodes, each.fits, first_limits(each.limited_by)) for name, each in found.by_part.items()),
        )
    like = next((each.largest_hole_on for each in found.fragmentation.values() if each.largest_hole_on), "")
    if like:
        same = dict.fromkeys(("cpu", "memory", "others", "manifests"), KEPT)
        yield Try(f"How many if 1 node like {like} were added?", "capacity", {**same, "changes": f"add-nodes 1={like}"})
    limits = ((each.nodes, Behind(reason_in_words(each.reason, each.nodes), each.reason)) for each in found.limited_by)
    yield table("What keeps the next one away", (("Nodes", "number"), ("Reason", "text")), limits)
    pools = found.by_pool.items()
    if any(pool.fits for _, pool in pools):
        drawn = sorted(pools, key=lambda each: -each[1].fits)[:POOLS_DRAWN]
        names = tuple(f"{name or 'no pool'} ({counted(pool.nodes, 'node')})" for name, pool in drawn)
        yield Bars("How many fit, by pool", names, {"fit": tuple(pool.fits for _, pool in drawn)})
    elif found.limited_by:
        drawn_limits = found.limited_by[:POOLS_DRAWN]
        reasons = tuple(reason_in_words(each.reason, each.nodes) for each in drawn_limits)
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


def _told_of_devices(found: FreeDevices) -> Iterator[Section]:
    """Tell what is free by class, how it is scattered, and what is left of what devices share."""
    number = "number"
    yield table(
        "Devices",
        ("Class", ("Devices", number), ("Free", number), ("Most on one node", number), "On", "Nodes that would give"),
        ((each.device_class, each.devices, each.free, *_most(each), _scattered(each)) for each in found.classes),
    )
    rows = ((of.device_class, each.node, each.devices, each.at_once) for of in found.classes for each in of.by_node)
    yield table("", ("Class", "Node", ("Devices", number), ("Free at once", number)), rows)
    for title, amounts in (("Shared counters", found.counters), ("Shared devices", found.shared)):
        kinds = ((each, "memory" if each.total >= BYTES_FROM else each.name) for each in amounts)
        told = ((e.of, e.name, quantity(kind, e.total), quantity(kind, e.left), e.users) for e, kind in kinds)
        yield table(title, ("Of", "Name", ("Total", number), ("Left", number), ("Taken by", number)), told)


def _most(found: DevicesOfClass) -> tuple[int, str]:
    best = found.by_node[0] if found.by_node else None
    return (0, "") if best is None or not best.at_once else (best.at_once, best.node)


def _scattered(found: DevicesOfClass) -> str:
    return ", ".join(f"{size}: {counted(nodes, 'node')}" for size, nodes in found.sizes.items())


def _device_verdict(found: FreeDevices) -> VerdictSection:
    if not found.classes:
        return VerdictSection("The cluster has no device class, and so no devices to claim.", is_good=False)
    told = [f"{each.free:,} of {each.devices:,} {each.device_class}" for each in found.classes[:CLASSES_NAMED]]
    more = f" and more of {len(found.classes) - CLASSES_NAMED} classes" if len(found.classes) > CLASSES_NAMED else ""
    return VerdictSection(f"Free: {', '.join(told)}{more}.", is_good=any(each.free for each in found.classes))


def _verdict(found: Capacity) -> VerdictSection:
    if not found.shapes and found.devices is not None:
        return _device_verdict(found.devices)
    then = f"; the API server refuses the next one: {found.refused}" if found.refused else ""
    if found.is_of_sets:
        parts = " + ".join(f"{each.per_set} {each.shape}" for each in found.shapes)
        pods = counted(found.pods, "pod")
        most = sorted(((each.fits, name) for name, each in found.by_part.items() if each.fits), reverse=True)
        where = f", each in one {found.together_in}" if found.together_in else ""
        where += ": " + ", ".join(f"{fits:,} in {name}" for fits, name in most[:PARTS_NAMED]) if most else ""
        where += f" and {len(most) - PARTS_NAMED} more" if len(most) > PARTS_NAMED else ""
        text = f"{found.fits:,} more sets of {parts} fit, {pods}{where}{then}."
        return VerdictSection(text, found.fits > 0, found.fits, "more sets fit")
    shape = found.shapes[0].shape
    why = f": {first_limits(found.limited_by)}" if found.limited_by and not found.fits else ""
    who = "" if shape.endswith(f"/{SHAPE}") else f"{shape}: "
    return VerdictSection(f"{who}{found.fits:,} more fit{then or why}.", found.fits > 0, found.fits, "more fit")


def _so_far(found: Capacity) -> str:
    if not found.shapes:
        return ""
    return f"At least {found.fits:,} more{' sets' if found.is_of_sets else ''} fit."


def first_limits(limits: tuple[LimitedBy, ...]) -> str:
    """The two reasons that most nodes have."""
    return ", ".join(f"{each.nodes:,} {reason_in_words(each.reason, each.nodes)}" for each in limits[:2])


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
