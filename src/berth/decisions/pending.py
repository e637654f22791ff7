"""All pending pods, grouped by what keeps them: what `berth explain` tells without a name. Values ready for JSON.

Pods whose messages give the same reasons are one group, however many nodes each reason counts. The group with most pods
comes first; of those with equally many the one with the highest priority, then the one that waits longest.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from berth.core.core import Core
from berth.decisions.shortfall import Shortfall, shortfalls
from berth.decisions.waits import WallTime, members_of, queued_pods
from berth.state.pod_info import PodInfo

PODS_NAMED = 20
"""How many pods of a group are named."""
PODS_LOOKED_AT = 10
"""At how many pods of a group it is looked at what they lack."""
SHORTFALLS = 4
NOT_TRIED = "not tried yet"
_HEAD = re.compile(r"\d+/\d+ nodes are available: ")
_BETWEEN = re.compile(r", (?=\d+ )")
_COUNT = re.compile(r"\d+ ")


class PendingGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Pods that are pending for the same reasons."""

    reason: str
    pods: int
    priority: int
    """The highest of them."""
    since: str
    """When the oldest of them was created, or came back to the queue where that is not known."""
    namespaces: dict[str, int]
    queues: dict[str, int]
    """How many are in which queue; `permit` are those that Permit holds."""
    named: tuple[str, ...]
    """Some of them, those of the highest priority first."""
    message: str = ""
    """What the first of them was told."""
    shortfalls: tuple[Shortfall, ...] = ()
    """What some of them need, and the most that a node has: one for each amount that is asked for."""


class PendingReport(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that is pending."""

    pods: int
    groups: tuple[PendingGroup, ...]


class _Pending(NamedTuple):
    pod: PodInfo
    queue: str
    reason: str
    message: str
    since: str


def pending_report(core: Core, wall_time: WallTime, told: Callable[[str], str], namespace: str = "") -> PendingReport:
    """Return what is pending in one namespace, or in all. `told` is what a pod's last failure was, by uid."""
    by_reason: dict[str, list[_Pending]] = {}
    for one in _all_pending(core, wall_time, told):
        if namespace in ("", one.pod.namespace):
            by_reason.setdefault(one.reason, []).append(one)
    groups = sorted((_group(core, pods) for pods in by_reason.values()), key=_worst_first)
    return PendingReport(sum(group.pods for group in groups), tuple(groups))


def _all_pending(core: Core, wall_time: WallTime, told: Callable[[str], str]) -> list[_Pending]:
    found = []
    for queue, queued in queued_pods(core):
        pod = queued.pod
        message = "" if queued.is_gated else _message(core, pod, told)
        if queued.is_gated:
            members = members_of(core, pod)
            said = [", ".join(queued.gating_reasons)] if queued.gating_reasons else []
            said += [members.sentence] if members is not None else []
            reason = f"held back by {queued.gating_plugin}" + (f": {'; '.join(said)}" if said else "")
        else:
            reason = reasons_of(message) if message else NOT_TRIED
        since = pod.metadata.creation_timestamp or wall_time(queued.timestamp)
        found.append(_Pending(pod, queue, reason, message, since))
    for waiting in core.waiting:
        held = ", ".join(f"{plugin}: {waiting.words.get(plugin) or 'waits'}" for plugin in waiting.deadlines)
        since = waiting.pod.metadata.creation_timestamp or wall_time(waiting.waiting_since)
        found.append(_Pending(waiting.pod, "permit", f"waits on Permit for {held}", "", since))
    return found


def _message(core: Core, pod: PodInfo, told: Callable[[str], str]) -> str:
    """Return why a pod was not placed when it was last tried; empty where it was not."""
    decision = core.trace.get(pod.key)
    if decision is not None and decision.pod.uid == pod.uid:
        return decision.message
    return told(pod.uid) or next(
        (each.message for each in pod.status.conditions if (each.type, each.status) == ("PodScheduled", "False")), ""
    )


def reasons_of(message: str) -> str:
    """Return a message's reasons without the numbers of nodes, and without what PostFilter plugins say of it.

    The reasons end with a full stop; those that have one within are cut short, which does no harm to groups.
    """
    head = _HEAD.match(message)
    if head is None:
        return message
    why = message[head.end() :].partition(". ")[0].removesuffix(".")
    return "; ".join(sorted({_COUNT.sub("", part, count=1) for part in _BETWEEN.split(why)})) or message


def _group(core: Core, pods: list[_Pending]) -> PendingGroup:
    pods.sort(key=lambda one: (-one.pod.priority, one.since, one.pod.key))
    first = pods[0]
    return PendingGroup(
        reason=first.reason,
        pods=len(pods),
        priority=first.pod.priority,
        since=min(one.since for one in pods),
        namespaces=dict(Counter(one.pod.namespace for one in pods)),
        queues=dict(Counter(one.queue for one in pods)),
        named=tuple(one.pod.key for one in pods[:PODS_NAMED]),
        message=first.message,
        shortfalls=tuple(_lacking(core, pods)),
    )


def _lacking(core: Core, pods: list[_Pending]) -> Iterator[Shortfall]:
    """Yield what the first pods lack, those that ask for the same once."""
    known: set[tuple[str, str]] = set()
    for one in pods[:PODS_LOOKED_AT]:
        decision = core.trace.get(one.pod.key)
        if decision is None or not one.message or decision.chosen is not None or decision.pod.uid != one.pod.uid:
            continue
        for lack in shortfalls(decision, core.cache.table):
            if (lack.resource, lack.needs) not in known and len(known) < SHORTFALLS:
                known.add((lack.resource, lack.needs))
                yield lack


def _worst_first(group: PendingGroup) -> tuple[int, int, str]:
    return -group.pods, -group.priority, group.since
