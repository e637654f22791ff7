"""Acts on a group's trial: binds the pods, or puts them back in the queue with the reason, and sets the group's
condition.

Source of reasons, messages and conditions: pkg/scheduler/schedule_one_podgroup.go of v1.36,
submitPodGroupAlgorithmResult. Deviations: victims are evicted once it is known that the whole group fits without them,
not while it is being tried; a member that had a place is woken by whatever helps those that had none; the condition
gives a reason where upstream's message is empty.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from berth.api.scheduling import PodGroup
from berth.cycle.binding_cycle import BindingCycles
from berth.cycle.dispatcher import Dispatcher
from berth.cycle.eviction import Evictor, Preemptor
from berth.cycle.failure import SCHEDULER_ERROR, UNSCHEDULABLE, FailureHandler
from berth.cycle.groups.preemption import Room
from berth.cycle.groups.trial import WAITS_FOR_PREEMPTION, GroupTrial, Member
from berth.cycle.reports import Reporter
from berth.framework.effects import SetPodGroupCondition, Steps
from berth.framework.evictions import group_key
from berth.framework.handle import Handle
from berth.framework.status import Code, Status
from berth.state.pod_groups import POD_GROUP, GroupKey
from berth.state.queued_pod import QueuedPod

CONDITION = "PodGroupScheduled"
SCHEDULED = "Scheduled"
WAITING_ON_PREEMPTION = "waiting_on_preemption"


class OutcomeTools(NamedTuple):
    """The parts that carry out a group's outcome."""

    handle: Handle
    dispatcher: Dispatcher
    reporter: Reporter
    failure_handler: FailureHandler
    binding: BindingCycles
    evictor: Evictor


class GroupOutcome:
    """Carries out what was decided about one group."""

    def __init__(self, key: GroupKey, queued_pods: Sequence[QueuedPod], tools: OutcomeTools) -> None:
        self._key = key
        self._queued_pods = queued_pods
        self._handle = tools.handle
        self._tools = tools

    def refuse_all(self, message: str) -> None:
        """Turn all members away because something is wrong with the group itself."""
        for queued in self._queued_pods:
            self._tools.failure_handler.fail(queued, SCHEDULER_ERROR, message, nomination="")

    def bind(self, trial: GroupTrial) -> str:
        """Bind the members that have a place, and tell the others why they have none; return the name of the result."""
        # From here on the binding cycles undo them, each its own.
        placed = set(map(id, trial.stands()))
        for member in trial.members:
            self._tools.reporter.record(member.attempt, member.queued, member.seconds)
        for member in trial.members:
            if id(member) in placed:
                member.attempt.found.release_columns()
                binding = self._tools.binding.run(
                    member.queued, member.attempt, member.node_name, dict(member.timeouts_s)
                )
                self._tools.dispatcher.start(binding)
            else:
                self._requeue(member.queued, _message(member, trial), member.rejectors(), "")
        self._tell("True", SCHEDULED, "")
        left = [member for member in trial.members if id(member) not in placed]
        if left and self._handle.features.enabled("WorkloadAwarePreemption"):
            # Preemption is for a group that found no room, not for single members; those left over now form such a
            # group.
            self._handle.activate(left[0].pod.uid)
        return "scheduled"

    def turn_away(self, trial: GroupTrial, room: Room | Status | None) -> Steps[str]:
        """Queue all members again, and make room if that helps the group; return the name of the result."""
        if trial.has_failed or (isinstance(room, Status) and not room.code.is_rejection):
            return self._fail_all(trial, room)
        nodes = room.nodes if isinstance(room, Room) else _nodes(trial)
        refusal = (yield from self._make_room(trial, room)) if nodes else ""
        nomination_of = self._nominations({} if refusal else nodes, trial, room)
        held = (each for each in trial.members if each.node_name and not each.needs_preemption)
        placed = tuple((each.node_name, each.pod) for each in held)
        for queued, member in self._with_members(trial):
            message = _message(member, trial)
            if member is not None and member.node_name:
                if nodes and not member.needs_preemption:
                    message = WAITS_FOR_PREEMPTION
                held_back = "" if member.needs_preemption and nodes else message
                member.attempt.outcome = msgspec.structs.replace(
                    member.attempt.outcome, chosen_row=None, held_back=held_back
                )
            elif member is not None:
                member.attempt.outcome = msgspec.structs.replace(member.attempt.outcome, beside=placed)
            self._record(queued, member)
            self._requeue(queued, message, trial.rejectors(), nomination_of(queued.pod.uid))
        self._tell("False", UNSCHEDULABLE, _summary(trial, room, len(self._queued_pods), refusal))
        return WAITING_ON_PREEMPTION if nodes else "unschedulable"

    def _fail_all(self, trial: GroupTrial, room: Room | Status | None) -> str:
        """Queue all members again because of an error; only the member concerned gets its bare message."""
        status = room if isinstance(room, Status) and not trial.has_failed else trial.status
        summary = status.message if status is not None else ""
        for queued, member in self._with_members(trial):
            message = summary
            if member is not None:
                message = member.attempt.outcome.error or summary
                member.attempt.outcome = member.attempt.outcome.failed(message)
            self._record(queued, member)
            self._tools.failure_handler.fail(queued, SCHEDULER_ERROR, message, nomination="")
        self._tell("False", SCHEDULER_ERROR, summary)
        return "error"

    def _requeue(
        self, queued: QueuedPod, message: str, rejectors: tuple[set[str], set[str]], nomination: str | None
    ) -> None:
        unschedulable_plugins, pending_plugins = rejectors
        self._tools.failure_handler.fail(
            queued, UNSCHEDULABLE, message, unschedulable_plugins, pending_plugins, nomination=nomination
        )

    def _nominations(
        self, nodes: Mapping[str, str], trial: GroupTrial, room: Room | Status | None
    ) -> Callable[[str], str | None]:
        """Return the node to which each pod is nominated from now on: as before while victims under eviction remain."""
        if nodes:
            return lambda uid: nodes.get(uid, "")
        if isinstance(room, Status):
            is_waiting = room.code is Code.PENDING
        else:
            is_waiting = any(
                not member.node_name
                and member.attempt.outcome.nominated_node_name is None
                and self._handle.nominator.node_of(member.pod.uid) is not None
                for member in trial.members
            )
        return lambda _uid: None if is_waiting else ""

    def _make_room(self, trial: GroupTrial, room: Room | Status | None) -> Steps[str]:
        """Evict victims for the group, or for each member that needs it; return why one was refused, if that is
        known.
        """
        uids = tuple(queued.pod.uid for queued in self._queued_pods)
        key = group_key(self._key)
        if isinstance(room, Room):
            group = self._find()
            first = self._queued_pods[0].pod
            uid = group.metadata.uid if group is not None else ""
            priority = (group.spec.priority or 0) if group is not None else first.priority
            preemptor = Preemptor(key, "podgroup", uid, priority, uids, first)
            return (yield from self._tools.evictor.evict(preemptor, room.victims_on))
        asked: set[str] = set()
        refusal = ""
        for member in trial.members:
            # Members are tried one after another, and several may have found the same victim.
            victims = [victim for victim in member.attempt.outcome.victims if victim.uid not in asked]
            asked.update(victim.uid for victim in victims)
            if victims and not refusal:
                pod = member.pod
                preemptor = Preemptor(key, "pod", pod.uid, pod.priority, uids, pod)
                refusal = yield from self._tools.evictor.evict(preemptor, {member.node_name: victims})
        return refusal

    def _with_members(self, trial: GroupTrial) -> Iterator[tuple[QueuedPod, Member | None]]:
        members = {member.pod.uid: member for member in trial.members}
        return ((queued, members.get(queued.pod.uid)) for queued in self._queued_pods)

    def _record(self, queued: QueuedPod, member: Member | None) -> None:
        if member is not None:
            self._tools.reporter.record(member.attempt, queued, member.seconds)

    def _tell(self, status: str, reason: str, message: str) -> None:
        """Note the outcome in the group's condition. A group that was scheduled once stays so, and nothing is written
        twice.
        """
        group = self._find()
        if group is None:
            return
        known = next((c for c in group.status.conditions if c.type == CONDITION), None)
        generation = group.metadata.generation
        if known is not None:
            said = (known.status, known.reason, known.message, known.observed_generation)
            if said == (status, reason, message, generation) or (known.status == "True" and status != "True"):
                return
        has_changed = known is None or known.status != status
        place = (self._key.namespace, self._key.name, group.metadata.uid)
        self._tools.dispatcher.tell(SetPodGroupCondition(*place, status, reason, message, generation, has_changed))

    def _find(self) -> PodGroup | None:
        found: PodGroup | None = self._handle.objects.get(POD_GROUP, self._key.name, self._key.namespace)
        return found


def _nodes(trial: GroupTrial) -> Mapping[str, str]:
    """Return by uid where the members go once the victims of some of them are gone."""
    if not trial.waits_for_preemption:
        return {}
    return {member.pod.uid: member.node_name for member in trial.members if member.node_name}


def _message(member: Member | None, trial: GroupTrial) -> str:
    """Return the message for one member's condition and event."""
    whole = trial.status.message if trial.status is not None else ""
    if member is None:
        return whole
    if member.rejection is not None:
        return member.rejection.message
    if member.node_name and not (member.needs_preemption and trial.waits_for_preemption):
        return member.waits.message if member.waits is not None else whole
    return member.attempt.outcome.message


def _summary(trial: GroupTrial, room: Room | Status | None, count: int, refusal: str) -> str:
    """Return the message of the group's condition."""
    parts = [trial.status.message] if trial.status is not None else []
    if isinstance(room, Room):
        parts = [WAITS_FOR_PREEMPTION]
    elif isinstance(room, Status):
        parts += room.reasons
    if refusal:
        parts.append(f"preemption: {refusal}")
    placed = sum(bool(member.node_name) for member in trial.members)
    first = next((member for member in trial.members if not member.node_name), None)
    if first is not None:
        parts.append(f"{placed} of {count} pods have a place, {first.pod.name} has none: {_message(first, trial)}")
    return ", ".join(parts)
