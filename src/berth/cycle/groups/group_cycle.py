"""The scheduling cycle of a pod group: all members that wait are popped together, and placed together or not at all.

Read `GroupCycle.run` from top to bottom. The first member popped pulls the others along; all are tried one after the
other in one state of the cluster (`group_trial`), on one part of the nodes where the group asks for that
(`group_placements`). If enough of them have a place, all that do are bound; if not, everything is taken back before
anybody else is scheduled, so that no group ever holds room while it waits for more.

Source: KEP-4671; pkg/scheduler/schedule_one_podgroup.go of v1.36. With the gate GenericWorkload.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from berth.api.scheduling import PodGroup
from berth.cycle.evicting import Evictor
from berth.cycle.groups.outcome import GroupOutcome, Outlets
from berth.cycle.groups.placements import try_placements
from berth.cycle.groups.preemption import Room, room_for_group
from berth.cycle.groups.trial import Tools, Trial
from berth.cycle.schedule import Search
from berth.engine.profile import Profile
from berth.framework.handle import Handle
from berth.framework.instrument import Instrument
from berth.framework.interface import PodGroupInfo
from berth.framework.status import Status, error
from berth.queue.queue import SchedulingQueue
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.pod_groups import POD_GROUP, GroupKey
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

MIXED_SCHEDULERS = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "{}" and "{}"'


class Wanted(Protocol):
    """Knows which popped pods are still to be scheduled."""

    def is_wanted(self, pod: PodInfo) -> bool: ...


class Host(Protocol):
    """What the core has."""

    cache: Cache
    nominator: Nominator
    search: Search
    profiles: dict[str, Profile]
    queue: SchedulingQueue
    instrument: Instrument

    @property
    def intake(self) -> Wanted: ...


class Scope(NamedTuple):
    """What a group cycle works on."""

    handle: Handle
    tools: Tools
    profiles: Mapping[str, Profile]
    queue: SchedulingQueue
    is_wanted: Callable[[PodInfo], bool]


class GroupCycle:
    """Schedules one group at a time."""

    __slots__ = ("_evictor", "_instrument", "_outlets", "_places", "_preempts", "_scope")

    def __init__(self, scope: Scope, evictor: Evictor, outlets: Outlets, instrument: Instrument) -> None:
        self._scope = scope
        self._instrument = instrument
        self._evictor = evictor
        self._outlets = outlets
        self._places = scope.handle.features.enabled("TopologyAwareWorkloadScheduling")
        self._preempts = scope.handle.features.enabled("WorkloadAwarePreemption")

    @classmethod
    def of(
        cls, host: Host, handle: Handle, evictor: Evictor, outlets: Outlets, stopwatch: Callable[[], float]
    ) -> "GroupCycle":
        """Make the one of a core."""
        tools = Tools(host.cache, host.nominator, host.search, outlets.broke, stopwatch)
        scope = Scope(handle, tools, host.profiles, host.queue, host.intake.is_wanted)
        return cls(scope, evictor, outlets, host.instrument)

    def run(self, first: QueuedPod, key: GroupKey) -> Generator[Any, Any, None]:
        """Schedule the members of a group that wait, of which `first` has been popped."""
        queued_pods = self._pull(first, key)
        if not queued_pods:
            return
        started = self._scope.tools.stopwatch()
        outcome = GroupOutcome(key, queued_pods, self._scope.handle, self._evictor, self._outlets)
        mixed = _mixed_schedulers(queued_pods)
        if mixed:
            outcome.refuse_all(mixed)
            return
        for queued in queued_pods:
            self._instrument.attempting(queued)
        profile = self._scope.profiles[queued_pods[0].pod.spec.scheduler_name]
        group = PodGroupInfo(key, tuple(queued.pod for queued in queued_pods))
        trial = yield from self._try(profile, group, queued_pods)
        tried = self._scope.tools.stopwatch() - started
        if trial.status is None:
            trial.status = trial.permit()
        if trial.status is None:
            result = outcome.bind(trial)
        else:
            trial.undo()
            room = yield from self._room(profile, group, queued_pods, trial)
            result = yield from outcome.turn_away(trial, room)
        self._instrument.group_decided(profile.name, result, self._scope.tools.stopwatch() - started, tried)

    def _pull(self, first: QueuedPod, key: GroupKey) -> list[QueuedPod]:
        """Take all members that may be tried out of the queue, in the order they are tried."""
        scope = self._scope
        arrival = {uid: index for index, uid in enumerate(scope.handle.pod_groups.members(key))}
        wanted = []
        for queued in scope.queue.pop_with(first, arrival, scope.handle.now()):
            if scope.is_wanted(queued.pod):
                wanted.append(queued)
            else:
                scope.queue.done(queued.pod.uid)
        return sorted(wanted, key=lambda q: (-q.pod.priority, q.initial_attempt or 0.0, arrival.get(q.pod.uid, -1)))

    def _try(
        self, profile: Profile, group: PodGroupInfo, queued_pods: Sequence[QueuedPod]
    ) -> Generator[Any, Any, Trial]:
        tools = self._scope.tools
        try:
            if self._places:
                return (yield from try_placements(tools, profile, group, queued_pods, makes_room=True))
            trial = Trial(tools, profile)
            yield from trial.run(queued_pods, makes_room=True)
        except Exception as bug:  # one group's bad luck must not stop the others
            trial = Trial(tools, profile)
            trial.status = tools.broke(queued_pods[0].pod, bug)
        return trial

    def _room(
        self, profile: Profile, group: PodGroupInfo, queued_pods: Sequence[QueuedPod], trial: Trial
    ) -> Generator[Any, Any, Room | Status | None]:
        """Return the room that preemption can make, why it can make none, or None where it is not asked."""
        if not self._preempts or trial.has_failed or trial.waits_for_preemption:
            return None
        found: PodGroup | None = self._scope.handle.objects.get(POD_GROUP, group.key.name, group.key.namespace)
        if found is None:
            return error(f'podgroups.scheduling.k8s.io "{group.key.name}" not found')
        return (yield from room_for_group(self._scope.tools, profile, group, found, queued_pods))


def _mixed_schedulers(queued_pods: Sequence[QueuedPod]) -> str:
    """Say so where the members belong to different profiles."""
    names = list(dict.fromkeys(queued.pod.spec.scheduler_name for queued in queued_pods))
    return MIXED_SCHEDULERS.format(names[0], names[1]) if len(names) > 1 else ""
