"""What pods wait for, as shown to people: the queue, Permit, and the members of a gang.

Values ready for JSON, made from a core between two cycles.
"""

from collections.abc import Callable, Iterator

import msgspec

from berth.api.scheduling import PodGroup
from berth.core.core import Core
from berth.decisions.explanation import waits_for
from berth.framework.waiting_pods import WaitingPod
from berth.state.pod_groups import POD_GROUP, group_of
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

WallTime = Callable[[float], str]
"""Turns a time of the core's clock into RFC 3339."""


class Members(msgspec.Struct, frozen=True, rename="camel"):
    """The pod group that a pod belongs to, if its members are placed together."""

    group: str
    present: int
    """How many members there are."""
    placed: int
    """How many of them have a node."""
    needed: int

    @property
    def sentence(self) -> str:
        """Say it in words."""
        there = f"{self.present} of {self.needed} members"
        if self.present < self.needed:
            return f"{there} of pod group {self.group} are there"
        return f"{self.placed} of {self.needed} members of pod group {self.group} have a node"


class PendingPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod in a queue; times are RFC 3339."""

    pod: str
    uid: str
    profile: str
    queue: str
    since: str
    attempts: int
    rejected_by: tuple[str, ...] = ()
    gated_by: str = ""
    backoff_until: str | None = None
    waits_for: dict[str, tuple[str, ...]] = {}
    gate_reasons: tuple[str, ...] = ()
    """What the plugin that holds the pod back said."""
    members: Members | None = None
    nominated_node: str = ""
    """Where room is kept for the pod."""
    wakes_at: str | None = None
    """When it is tried again whatever happens until then, as requested by a plugin (`handle.wake_after`)."""


class Held(msgspec.Struct, frozen=True, rename="camel"):
    """A Permit plugin that holds a pod."""

    plugin: str
    says: str
    until: str


class PermitWait(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that has a node and waits for Permit to let it go on."""

    pod: str
    uid: str
    profile: str
    node: str
    since: str
    held_by: tuple[Held, ...]
    members: Members | None = None


def queued_pods(core: Core) -> Iterator[tuple[str, QueuedPod]]:
    """Yield every pod in a queue, with the queue's name for people."""
    queue = core.queue
    for name, pods in (
        ("active", queue.active),
        ("backoff", queue.backoff),
        ("backoff", queue.error_backoff),
        ("unschedulable", queue.unschedulable.values()),
    ):
        for queued in pods:
            yield ("gated" if queued.is_gated else name), queued


def pending_pod(core: Core, queued: QueuedPod, queue: str, wall_time: WallTime) -> PendingPod:
    """Return where a pod is queued, and what would wake it."""
    pod = queued.pod
    profile, alarm = core.profiles[pod.profile_name], core.queue.alarm_of(pod.uid)
    return PendingPod(
        pod=pod.key,
        uid=pod.uid,
        profile=profile.name,
        queue=queue,
        since=wall_time(queued.timestamp),
        attempts=queued.attempts,
        rejected_by=tuple(sorted(queued.rejectors)),
        gated_by=queued.gating_plugin,
        backoff_until=None if queued.backoff_until is None else wall_time(queued.backoff_until),
        waits_for=waits_for(profile, queued.rejectors),
        gate_reasons=queued.gating_reasons,
        members=members_of(core, pod),
        nominated_node=core.nominator.node_of(pod.uid) or "",
        wakes_at=None if alarm is None else wall_time(alarm),
    )


def permit_wait(core: Core, waiting: WaitingPod, wall_time: WallTime) -> PermitWait:
    """Return which plugins hold a pod at Permit, and until when."""
    return PermitWait(
        pod=waiting.pod.key,
        uid=waiting.pod.uid,
        profile=core.profiles[waiting.pod.profile_name].name,
        node=waiting.node_name,
        since=wall_time(waiting.waiting_since),
        held_by=tuple(
            Held(plugin, waiting.words.get(plugin, ""), wall_time(until)) for plugin, until in waiting.deadlines.items()
        ),
        members=members_of(core, waiting.pod),
    )


def members_of(core: Core, pod: PodInfo) -> Members | None:
    """Return the progress of a pod's gang; None for a pod that is in none."""
    key, groups = group_of(pod), core.intake.groups
    if key is None or groups is None:
        return None
    group: PodGroup | None = core.objects.get(POD_GROUP, key.name, key.namespace)
    gang = None if group is None else group.spec.scheduling_policy.gang
    if gang is None:
        return None
    return Members(str(key), groups.count(key), groups.placed_count(key), gang.min_count)
