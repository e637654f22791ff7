"""The scheduling cycle of a pod group: all waiting members are popped together, and placed together or not at all.

Read `GroupCycle.run` from top to bottom. The first member popped pulls the others along; all are tried one after the
other in one state of the cluster (`trial`), on one part of the nodes if the group asks for that (`placements`). If
enough of them find a place, those are bound; if not, everything is undone before any other pod is scheduled, so that no
group ever holds room while it waits for more.

Source: KEP-4671; pkg/scheduler/schedule_one_podgroup.go of v1.36. With the gate GenericWorkload.
"""

from collections.abc import Callable, Mapping, Sequence

from berth.api.scheduling import PodGroup
from berth.cycle.dispatcher import THROWN_IN
from berth.cycle.groups.outcome import GroupOutcome, OutcomeTools
from berth.cycle.groups.placements import try_placements
from berth.cycle.groups.preemption import Room, room_for_group
from berth.cycle.groups.trial import GroupTrial, TrialTools
from berth.engine.profile import Profile
from berth.framework.blame import contained
from berth.framework.effects import Steps
from berth.framework.interface import PodGroupInfo
from berth.framework.status import Status, error
from berth.queue.queue import SchedulingQueue
from berth.state.pod_groups import POD_GROUP, GroupKey
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

MIXED_SCHEDULERS = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "{}" and "{}"'


class GroupCycle:
    """Schedules one group at a time."""

    __slots__ = ("_instrument", "_is_wanted", "_outcome_tools", "_places", "_preempts", "_profiles", "_queue", "_tools")

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        queue: SchedulingQueue,
        tools: TrialTools,
        outcome_tools: OutcomeTools,
        *,
        is_wanted: Callable[[PodInfo], bool],
    ) -> None:
        """`is_wanted` says whether a popped pod still has to be scheduled."""
        self._profiles = profiles
        self._queue = queue
        self._tools = tools
        self._outcome_tools = outcome_tools
        self._is_wanted = is_wanted
        self._instrument = tools.reporter.instrument
        features = outcome_tools.handle.features
        self._places = features.enabled("TopologyAwareWorkloadScheduling")
        self._preempts = features.enabled("WorkloadAwarePreemption")

    def run(self, first: QueuedPod, key: GroupKey) -> Steps[None]:
        """Schedule the waiting members of a group, of which `first` has been popped."""
        queued_pods = self._pull(first, key)
        if not queued_pods:
            return
        tools = self._tools.with_budget()
        started = tools.stopwatch()
        outcome = GroupOutcome(key, queued_pods, self._outcome_tools)
        mixed = _mixed_schedulers(queued_pods)
        if mixed:
            outcome.refuse_all(mixed)
            return
        for queued in queued_pods:
            self._instrument.attempting(queued)
        profile = self._profiles[queued_pods[0].pod.profile_name]
        group = PodGroupInfo(key, tuple(queued.pod for queued in queued_pods))
        trial = yield from self._try(tools, profile, group, queued_pods)
        tried = tools.stopwatch() - started
        # A trial may take a while, and Permit's timeouts start now.
        self._outcome_tools.dispatcher.catch_up()
        if trial.status is None:
            trial.status = trial.permit()
        if trial.status is None:
            result = outcome.bind(trial)
        else:
            # Before preemption asks, so that the group does not stand in its own way.
            trial.undo()
            room = yield from self._room(tools, profile, group, queued_pods, trial)
            result = yield from outcome.turn_away(trial, room)
        self._instrument.group_decided(profile.name, result, tools.stopwatch() - started, tried)

    def _pull(self, first: QueuedPod, key: GroupKey) -> list[QueuedPod]:
        """Take all members that may be tried out of the queue, in the order in which to try them."""
        members = self._outcome_tools.handle.pod_groups.members(key)
        arrival = {uid: index for index, uid in enumerate(members)}
        wanted = []
        for queued in self._queue.pop_with(first, arrival, self._outcome_tools.dispatcher.now()):
            if self._is_wanted(queued.pod):
                wanted.append(queued)
            else:
                self._queue.done(queued.pod.uid)
        return sorted(wanted, key=lambda q: (-q.pod.priority, q.initial_attempt or 0.0, arrival.get(q.pod.uid, -1)))

    def _try(
        self, tools: TrialTools, profile: Profile, group: PodGroupInfo, queued_pods: Sequence[QueuedPod]
    ) -> Steps[GroupTrial]:
        try:
            if self._places:
                return (yield from try_placements(tools, profile, group, queued_pods, makes_room=True))
            trial = GroupTrial(tools, profile)
            yield from trial.run(queued_pods, makes_room=True)
        except BaseException as raised:  # a bug ends this group's attempt only, not the scheduler
            bug = contained(raised, THROWN_IN)
            trial = GroupTrial(tools, profile)
            trial.status = tools.reporter.broke(queued_pods[0].pod, bug)
        return trial

    def _room(
        self,
        tools: TrialTools,
        profile: Profile,
        group: PodGroupInfo,
        queued_pods: Sequence[QueuedPod],
        trial: GroupTrial,
    ) -> Steps[Room | Status | None]:
        """Return the room that preemption can make, or why it can make none; None if it is not asked."""
        if not self._preempts or trial.has_failed or trial.waits_for_preemption:
            return None
        found: PodGroup | None = self._outcome_tools.handle.objects.get(POD_GROUP, group.key.name, group.key.namespace)
        if found is None:
            return error(f'podgroups.scheduling.k8s.io "{group.key.name}" not found')
        return (yield from room_for_group(tools, profile, group, found, queued_pods))


def _mixed_schedulers(queued_pods: Sequence[QueuedPod]) -> str:
    """Return what is wrong if the members belong to different profiles; empty otherwise."""
    names = list(dict.fromkeys(queued.pod.profile_name for queued in queued_pods))
    return MIXED_SCHEDULERS.format(names[0], names[1]) if len(names) > 1 else ""
