"""Takes a core back to an earlier moment: whoever tries things out puts the objects back, and this what is no object.

Which pod comes first, how often it was tried and what it waits for, where each node stands among the nodes, which pod
of a node came first, where the next search begins: a core remembers all of it, later decisions depend on it, and no
object says so. Time goes on all the same: what was to happen in two seconds happens in two seconds from the later
moment. No cycle may be open, and no pod in flight, at either moment.

What plugins remember of their own is theirs. Those of Kubernetes keep nothing that objects do not say.
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
    """Note what a core remembers; `rewind` or `leave` is to follow, and what is remembered meanwhile ends first."""
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
    """Leave everything as it is, now that nobody will go back to what was remembered last."""
    core.cache.table.keep_order()


def reserve_rows(core: Core, mark: CoreMark) -> None:
    """Have nodes that are gone come back to the rows they had; to be called before they do."""
    core.cache.table.reserve_rows(mark.table)


def rewind(core: Core, mark: CoreMark, now: float, later_s: float) -> None:
    """Let a core remember what it did at a moment, now that it has the same objects, so much later."""
    core.cache.table.put_in_order(mark.table)
    if core.intake.groups is not None:
        core.intake.groups.put_in_order(mark.groups)
    core.objects.put_in_order(mark.objects)
    core.search.begin_at(mark.start_index)
    core.queue.rewind(mark.queue, now, later_s)
    pods = {queued.pod.uid: queued.pod for queued in core.queue} if mark.nominations else {}
    core.nominator.restore((pods[uid], name) for uid, name in mark.nominations)
