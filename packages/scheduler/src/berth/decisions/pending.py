"""All pending pods by workload: what `berth explain` tells without a name, the page and `berth top`. Ready for JSON.

The pods of a workload, or of a pod group, are one group; pods without a controller form a group if they are in one
namespace and ask for the same, so that what helps one of them would help all. The group with most pods comes first; of
those with equally many the one with the highest priority, then the one that waits longest.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from berth.core.core import Core
from berth.decisions.named_in_vain import NamedInVain, in_sentences, named_in_vain
from berth.decisions.placements import workload_of
from berth.decisions.reasons import what_is_missing
from berth.decisions.shortfall import Shortfall, shortfalls
from berth.decisions.waits import Members, WallTime, members_of, queued_pods
from berth.framework.work_budget import STEPS_TO_TELL, WorkBudget
from berth.state.pod_groups import group_of
from berth.state.pod_info import PodInfo

PODS_NAMED = 20
"""How many pods of a group are named."""
PODS_LOOKED_AT = 10
"""For how many pods of a group to work out what they lack."""
SHORTFALLS = 4
NOT_TRIED = "not tried yet"
_HEAD = re.compile(r"\d+/\d+ nodes are available: ")
_BETWEEN = re.compile(r", (?=\d+ )")
_COUNT = re.compile(r"\d+ ")


class PendingGroup(msgspec.Struct, frozen=True, rename="camel"):
    """The pending pods of a workload."""

    reason: str
    """What keeps most of them, without numbers of nodes."""
    pods: int
    priority: int
    """The highest of them."""
    since: str
    """When the oldest of them was created or, if that is unknown, came back to the queue."""
    namespaces: dict[str, int]
    queues: dict[str, int]
    """How many are in which queue; `permit` counts those that Permit holds."""
    named: tuple[str, ...]
    """Some of them, those of the highest priority first."""
    message: str = ""
    """The message of the first pod with that reason."""
    shortfalls: tuple[Shortfall, ...] = ()
    """What some of them need, and the most that a node has: one for each requested amount."""
    workload: str = ""
    """`Deployment/web`; empty for pods without a controller."""
    missing: str = ""
    """What is missing, in one sentence."""

    @property
    def title(self) -> str:
        """Whose pods these are: `Deployment shop/web`, or the pod, or the first of several that are alike."""
        namespace = next(iter(self.namespaces), "")
        if self.workload:
            kind, _, name = self.workload.partition("/")
            return f"{kind} {namespace}/{name}"
        return f"Pod {self.named[0]}" if self.pods == 1 else f"Pods like {self.named[0]}"


class PendingReport(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that is pending."""

    pods: int
    groups: tuple[PendingGroup, ...]


class OnePending(NamedTuple):
    """A pod that is pending, and why."""

    pod: PodInfo
    queue: str
    reason: str
    message: str
    since: str
    is_held_back: bool = False
    """Whether there is a node for it, but it waits for the rest of its gang."""
    group: str = ""
    """The PodGroup that the scheduler places it with."""
    members: Members | None = None
    """How many members its gang has, and how many of them have a node."""


def pending_report(core: Core, wall_time: WallTime, told: Callable[[str], str], namespace: str = "") -> PendingReport:
    """Return what is pending in one namespace, or in all. `told` returns a pod's last failure, by uid.

    Nothing is scheduled meanwhile, so if many groups lack devices, or name what does not exist, some get only the
    reason.
    """
    work = WorkBudget(STEPS_TO_TELL)
    asked = set[tuple[object, int]]()

    def lacks(one: OnePending) -> Iterator[Shortfall]:
        decision = core.trace.get(one.pod.key)
        if decision is None or not one.message or decision.chosen is not None or decision.pod.uid != one.pod.uid:
            return iter(())
        # Searching all nodes for devices takes a while: once for all pods of a group that are alike.
        alike = _key(one), id(one.pod.shape)
        profile = None if alike in asked else core.profiles.get(decision.profile)
        asked.add(alike)
        return shortfalls(decision, core.cache.table, profile, work)

    pending = _all_pending(core, wall_time, told)
    wanted = (one for one in pending if namespace in ("", one.pod.namespace))
    return report_of(wanted, lacks, lambda pod: named_in_vain(core, pod, work))


def report_of(
    pending: Iterable[OnePending],
    lacks: Callable[[OnePending], Iterable[Shortfall]],
    in_vain: Callable[[PodInfo], Iterable[NamedInVain]],
) -> PendingReport:
    """Return pods by workload.

    For some of them `lacks` says what amounts nodes have too little of, and `in_vain` what they name that does not
    exist.
    """
    groups: dict[tuple[str, str, bytes], list[OnePending]] = {}
    for one in pending:
        groups.setdefault(_key(one), []).append(one)
    worst_first = sorted(groups.values(), key=_rank)
    return PendingReport(sum(map(len, worst_first)), tuple(_group(pods, lacks, in_vain) for pods in worst_first))


def _key(one: OnePending) -> tuple[str, str, bytes]:
    workload = _workload(one)
    return one.pod.namespace, workload, b"" if workload else msgspec.json.encode(one.pod.spec)


def _workload(one: OnePending) -> str:
    return f"PodGroup/{one.group}" if one.group else workload_of(one.pod)


def group_in(core: Core, pod: PodInfo) -> str:
    """Return the PodGroup that a scheduler places a pod with; empty if it places the pod alone."""
    key = group_of(pod) if core.schedules_groups else None
    return "" if key is None else key.name


def _all_pending(core: Core, wall_time: WallTime, told: Callable[[str], str]) -> list[OnePending]:
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
        decision = core.trace.get(pod.key)
        is_held_back = decision is not None and decision.pod.uid == pod.uid and decision.is_held_back
        group, gang = group_in(core, pod), members_of(core, pod)
        found.append(OnePending(pod, queue, reason, message, since, is_held_back, group, gang))
    for waiting in core.waiting:
        held = ", ".join(f"{plugin}: {waiting.words.get(plugin) or 'waits'}" for plugin in waiting.deadlines)
        since = waiting.pod.metadata.creation_timestamp or wall_time(waiting.waiting_since)
        group = group_in(core, waiting.pod)
        found.append(OnePending(waiting.pod, "permit", f"waits on Permit for {held}", "", since, group=group))
    return found


def _message(core: Core, pod: PodInfo, told: Callable[[str], str]) -> str:
    """Return why a pod was not placed when it was last tried; empty if it was not tried."""
    decision = core.trace.get(pod.key)
    if decision is not None and decision.pod.uid == pod.uid:
        return decision.message
    return told(pod.uid) or next(
        (each.message for each in pod.status.conditions if (each.type, each.status) == ("PodScheduled", "False")), ""
    )


def reasons_of(message: str) -> str:
    """Return a message's reasons without the numbers of nodes, and without what PostFilter plugins add.

    The reasons end with a full stop; those that contain one are cut short, which does no harm in a group.
    """
    head = _HEAD.match(message)
    if head is None:
        return message
    why = message[head.end() :].partition(". ")[0].removesuffix(".")
    return "; ".join(sorted({_COUNT.sub("", part, count=1) for part in _BETWEEN.split(why)})) or message


def _group(
    pods: list[OnePending],
    lacks: Callable[[OnePending], Iterable[Shortfall]],
    in_vain: Callable[[PodInfo], Iterable[NamedInVain]],
) -> PendingGroup:
    pods.sort(key=lambda one: (-one.pod.priority, one.since, one.pod.key))
    # In a gang, the message of members that have a place says only that the others have none.
    without = [one for one in pods if not one.is_held_back] or pods
    ((reason, _),) = Counter(one.reason for one in without).most_common(1)
    first = next(one for one in without if one.reason == reason)
    lacking = tuple(_lacking(without, lacks))
    return PendingGroup(
        reason=reason,
        pods=len(pods),
        priority=pods[0].pod.priority,
        since=min(one.since for one in pods),
        namespaces=dict(Counter(one.pod.namespace for one in pods)),
        queues=dict(Counter(one.queue for one in pods)),
        named=tuple(one.pod.key for one in pods[:PODS_NAMED]),
        message=first.message,
        shortfalls=lacking,
        workload=_workload(first),
        missing=in_sentences(each.sentence for each in in_vain(first.pod))
        or _of_gang(pods, first, what_is_missing(first.message or reason, lacking)),
    )


def _of_gang(pods: Sequence[OnePending], first: OnePending, missing: str) -> str:
    """Return what is missing for one pod; for a gang with room for some members, also how many these are."""
    held = sum(one.is_held_back for one in pods)
    if first.members is None or not held:
        return missing
    some = f"{held + first.members.placed} of {first.members.present} have a place"
    why = f"the next one n{missing[1:]}" if missing.startswith("Needs ") else f"for the next one, {missing}"
    return f"{some}, and none is bound before {first.members.needed} have: {why}"


def _lacking(pods: list[OnePending], lacks: Callable[[OnePending], Iterable[Shortfall]]) -> Iterator[Shortfall]:
    """Yield what the first pods lack, once for those that ask for the same."""
    known: set[tuple[str, str]] = set()
    for one in pods[:PODS_LOOKED_AT]:
        for lack in lacks(one):
            if (lack.resource, lack.needs) not in known and len(known) < SHORTFALLS:
                known.add((lack.resource, lack.needs))
                yield lack


def _rank(pods: list[OnePending]) -> tuple[int, int, str]:
    return -len(pods), -max(one.pod.priority for one in pods), min(one.since for one in pods)
