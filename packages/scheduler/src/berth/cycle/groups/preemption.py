"""Preemption on behalf of a whole group, once its trial has found no room.

Source: KEP-5710; pkg/scheduler/schedule_one_podgroup.go of v1.36, runWorkloadAwarePreemption. With the gate
WorkloadAwarePreemption; without it each member preempts for itself, node by node, as pods without a group do.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.api.scheduling import PodGroup
from berth.cycle.dispatcher import THROWN_IN
from berth.cycle.groups.group_what_if import GroupWhatIf
from berth.cycle.groups.trial import TrialTools
from berth.engine.profile import Profile
from berth.framework.blame import PluginBrokenError, contained
from berth.framework.effects import Steps
from berth.framework.interface import PodGroupInfo
from berth.framework.status import Status, unschedulable
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

NO_PLUGIN = "default preemption plugin is not registered, workload aware preemption is disabled"
CONSTRAINED = "workload aware preemption is not supported for pod groups with scheduling constraints"


class Room(NamedTuple):
    """The pods that have to go for a group to fit, and where its members then go, by uid."""

    victims_on: Mapping[str, Sequence[PodInfo]]
    nodes: Mapping[str, str]


def room_for_group(
    tools: TrialTools, profile: Profile, group: PodGroupInfo, found: PodGroup | None, queued_pods: Sequence[QueuedPod]
) -> Steps[Room | Status]:
    """Ask the plugin that preempts for groups; return the room it can make, or why it cannot."""
    plugin = next(iter(profile.pod_group_post_filter), None)
    if plugin is None:
        return unschedulable(NO_PLUGIN)
    constraints = found.spec.scheduling_constraints if found is not None else None
    if constraints is not None and constraints.topology:
        return unschedulable(CONSTRAINED)
    question = GroupWhatIf(tools, profile, queued_pods)
    try:
        answer = yield from plugin.pod_group_post_filter(group, question)
    except BaseException as raised:  # a bug ends this group's attempt only, not the scheduler
        bug = contained(raised, THROWN_IN)
        answer = tools.reporter.broke(queued_pods[0].pod, PluginBrokenError("PodGroupPostFilter", plugin.name, bug))
    finally:
        question.close()
    if isinstance(answer, Status):
        return answer.by(plugin.name)
    victims_on: dict[str, list[PodInfo]] = {}
    for victim in answer:
        state = tools.cache.state_of(victim.uid)
        assert state is not None, "a victim is counted on a node"
        victims_on.setdefault(tools.cache.table.names[state.row], []).append(victim)
    return Room(victims_on, dict(question.nodes))
