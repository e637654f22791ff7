"""Places a group on one part of the nodes: the placements that plugins propose are tried in turn, and the best is
taken.

Source: KEP-5732; pkg/scheduler/schedule_one_podgroup.go of v1.36, podGroupSchedulingPlacementAlgorithm. Only with the
gate TopologyAwareWorkloadScheduling; without it a group is tried on all nodes at once.
"""

from collections.abc import Sequence

import numpy as np

from berth.cycle.groups.trial import GroupTrial, TrialTools
from berth.engine.profile import Profile
from berth.framework.blame import ask, blamed
from berth.framework.effects import Steps
from berth.framework.interface import Assignment, Placement, PodGroupAssignments, PodGroupInfo
from berth.framework.status import Status, unschedulable
from berth.state.queued_pod import QueuedPod

ALL_NODES = "all nodes"
NONE_AVAILABLE = "0/{} placements are available"
FIRST_STATUS = ", first placement status: {}"


def try_placements(
    tools: TrialTools, profile: Profile, group: PodGroupInfo, queued_pods: Sequence[QueuedPod], *, makes_room: bool
) -> Steps[GroupTrial]:
    """Return the trial of the best placement, in effect if it succeeded, or one that says why there is none."""
    placements = generate(profile, group, Placement(ALL_NODES, tools.search.table.rows()))
    if isinstance(placements, Status):
        return _refused(tools, profile, placements)
    trials: list[GroupTrial] = []
    for placement in placements:
        trial = yield from _try(tools, profile, placement, queued_pods, makes_room=makes_room)
        trials.append(trial)
        if trial.has_failed:
            return trial
    good = [index for index, trial in enumerate(trials) if trial.status is None or trial.waits_for_preemption]
    if not good:
        return _none_available(profile, trials)
    chosen = _best(tools, profile, group, [(placements[index], trials[index]) for index in good])
    if isinstance(chosen, Status):
        return _refused(tools, profile, chosen)
    best = trials[good[chosen]]
    hindrance = best.redo()
    return best if hindrance is None else _refused(tools, profile, hindrance)


def generate(profile: Profile, group: PodGroupInfo, everywhere: Placement) -> Sequence[Placement] | Status:
    """Ask the PlacementGenerate plugins, each about every placement that the one before proposed."""
    placements: Sequence[Placement] = [everywhere]
    for plugin in profile.placement_generate:
        divided: list[Placement] = []
        for parent in placements:
            answer = ask("PlacementGenerate", plugin, plugin.placement_generate, group, parent)
            if isinstance(answer, Status):
                return blamed("PlacementGenerate", plugin.name, answer)
            divided += answer
        if not divided:
            return unschedulable(NONE_AVAILABLE.format(0)).by(plugin.name)
        placements = divided
    return placements


def score(profile: Profile, group: PodGroupInfo, assignments: Sequence[PodGroupAssignments]) -> list[int] | Status:
    """Return the placements' totals: each plugin's scores, normalised and weighted."""
    totals = [0] * len(assignments)
    for plugin, weight, normalize in profile.placement_scorers:
        raw: list[int] = []
        for one in assignments:
            answer = ask("PlacementScore", plugin, plugin.placement_score, group, one)
            if isinstance(answer, Status):
                return blamed("PlacementScore", plugin.name, answer)
            raw.append(answer)
        scores: Sequence[int] | Status = raw
        if normalize is not None:
            scores = ask("NormalizePlacementScore", plugin, normalize.normalize_placement_scores, group, raw)
        if isinstance(scores, Status):
            return blamed("NormalizePlacementScore", plugin.name, scores)
        totals = [total + weight * int(each) for total, each in zip(totals, scores, strict=True)]
    return totals


def _try(
    tools: TrialTools, profile: Profile, placement: Placement, queued_pods: Sequence[QueuedPod], *, makes_room: bool
) -> Steps[GroupTrial]:
    within = np.zeros(tools.search.table.capacity, dtype=np.bool_)
    within[placement.rows] = True
    trial = GroupTrial(tools, profile, within)
    yield from trial.run(queued_pods, makes_room=makes_room)
    trial.undo()
    # It will not be chosen. There may be hundreds of placements, and each attempt's columns have an element per node.
    if trial.status is not None and not trial.waits_for_preemption:
        trial.release_columns()
    return trial


def _best(
    tools: TrialTools, profile: Profile, group: PodGroupInfo, candidates: Sequence[tuple[Placement, GroupTrial]]
) -> int | Status:
    """Return the index of the candidate with the highest total; ties are broken at random."""
    if len(candidates) == 1:
        return 0
    totals = score(profile, group, [_assignments(placement, trial) for placement, trial in candidates])
    if isinstance(totals, Status):
        return totals
    return tools.search.break_tie(np.flatnonzero(np.array(totals) == max(totals)))


def _assignments(placement: Placement, trial: GroupTrial) -> PodGroupAssignments:
    placed = (Assignment(member.pod, member.node_name) for member in trial.members if member.node_name)
    return PodGroupAssignments(placement, tuple(placed))


def _refused(tools: TrialTools, profile: Profile, status: Status) -> GroupTrial:
    """Return a trial that did not take place."""
    trial = GroupTrial(tools, profile)
    trial.status = status
    if status.plugin and status.code.is_rejection:
        trial.unschedulable_plugins.add(status.plugin)
    return trial


def _none_available(profile: Profile, trials: Sequence[GroupTrial]) -> GroupTrial:
    """Return the first trial on behalf of all: it provides the message, and whatever helps in any placement wakes the
    pods.
    """
    first = trials[0]
    assert first.status is not None, "no placement has room"
    first.status = unschedulable(NONE_AVAILABLE.format(len(trials)) + FIRST_STATUS.format(first.status.message))
    for trial in trials[1:]:
        first.add_rejectors(*trial.rejectors())
    first.add_rejectors((plugin.name for plugin in profile.placement_generate), ())
    return first
