"""Takes a core back to an earlier moment: the caller puts the objects back, and this restores what is not an object.

The order of the queue, how often each pod was tried and what it waits for, the order of the nodes and of the pods on
each node, where the next search begins: a core remembers all of this, later decisions depend on it, and no object holds
it. Time still moves on: what was due in two seconds is due two seconds after the later moment. At neither moment may a
cycle be open or a pod be in flight.

What plugins remember is not restored. Those of Kubernetes remember nothing that cannot be derived from objects.
"""

from collections.abc import Mapping
from typing import NamedTuple

from berth.core.core import Core
from berth.queue.queue import QueueMark
from berth.state.pod_groups import GroupKey
from berth.state.table import TableOrder


class CoreMark(NamedTuple):
    """What a core remembered at some moment."""

    table: TableOrder
    queue: QueueMark
    nominations: tuple[tuple[str, str], ...]
    """The uid of each nominated pod, and its node."""
    groups: Mapping[GroupKey, tuple[str, ...]]
    """The uids of the members of pod groups."""
    objects: Mapping[str, tuple[str, ...]]
    """The keys of objects, by kind."""
    start_index: int


def remember(core: Core) -> CoreMark:
    """Note what a core remembers; `rewind` or `leave` must follow. Marks nest: an inner one ends first."""
    nominator, groups = core.nominator, core.intake.groups
    return CoreMark(
        core.cache.table.note_order(),
        core.queue.remember(),
        tuple((pod.uid, name) for name in nominator.nodes() for pod in nominator.pods_on(name)),
        {} if groups is None else groups.order(),
        core.objects.order(),
        core.search.start_index,
    )


def leave(core: Core) -> None:
    """Give up the last mark, and leave everything as it is."""
    core.cache.table.keep_order()


def reserve_rows(core: Core, mark: CoreMark) -> None:
    """Reserve the old rows of nodes that are gone; to be called before they come back."""
    core.cache.table.reserve_rows(mark.table)


def rewind(core: Core, mark: CoreMark, now: float, later_s: float) -> None:
    """Let a core remember again what it did at a mark, now that it has the same objects, so much later."""
    core.cache.table.put_in_order(mark.table)
    if core.intake.groups is not None:
        core.intake.groups.put_in_order(mark.groups)
    core.objects.put_in_order(mark.objects)
    core.search.begin_at(mark.start_index)
    core.queue.rewind(mark.queue, now, later_s)
    pods = {queued.pod.uid: queued.pod for queued in core.queue} if mark.nominations else {}
    core.nominator.restore((pods[uid], name) for uid, name in mark.nominations)
