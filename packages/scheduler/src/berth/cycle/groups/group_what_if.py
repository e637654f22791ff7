"""What if some running pods were gone: the question that preemption for a group asks about the whole cluster.

The cache itself is changed while the question is open, since the columns follow it, and `close` restores exactly what
was there. Nothing else happens meanwhile: at most one scheduling cycle is open, and events wait for its end.
"""

from collections.abc import Iterable, Sequence

from berth.cycle.attempt import Attempt
from berth.cycle.binding_cycle import Reservations
from berth.cycle.groups.trial import GroupTrial, TrialTools
from berth.engine.profile import Profile
from berth.framework.effects import Steps
from berth.framework.status import Status
from berth.framework.work_budget import steps_to_filter
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

PREEMPTION = "preemption for groups"
"""The spender in the work budget for these questions."""
STEPS_TO_TRY = 50
"""What preparing the plugins for a member costs in the work budget, and what reserving its place costs."""


class GroupWhatIf:
    """One group, and the cluster without some pods; a `framework.interface.GroupQuestion`."""

    def __init__(self, tools: TrialTools, profile: Profile, queued_pods: Sequence[QueuedPod]) -> None:
        self._tools = tools
        self._profile = profile
        self._queued_pods = queued_pods
        self._lifted: set[str] = set()
        self._order_of: dict[int, list[str]] = {}
        self.nodes: dict[str, str] = {}
        """The node of each member placed in the question, by uid."""
        self._promised = {queued.pod.uid: tools.nominator.node_of(queued.pod.uid) for queued in queued_pods}
        # The question places the members; if they were nominated as well, they would take their room twice.
        for queued in queued_pods:
            tools.nominator.withdraw(queued.pod.uid)

    def take(self, pods: Iterable[PodInfo]) -> None:
        """Take running pods off their nodes."""
        table = self._tools.cache.table
        for pod in pods:
            state = self._tools.cache.state_of(pod.uid)
            if state is not None:
                self._order_of.setdefault(state.row, list(table.pods[state.row]))
                self._tools.cache.lift(pod.uid)
                self._lifted.add(pod.uid)

    def put_back(self, pods: Iterable[PodInfo]) -> None:
        """Put pods that were taken off back where they were."""
        for pod in pods:
            self._lifted.discard(pod.uid)
            self._tools.cache.put_back(pod.uid)

    def schedule(self) -> Steps[Status | None]:
        """Place the group in the cluster as it now is; remember where its members would go, or return why it cannot be
        placed.
        """
        trial = GroupTrial(self._tools, self._profile)
        yield from trial.run(self._queued_pods, makes_room=False)
        trial.undo()
        self.nodes = {member.pod.uid: member.node_name for member in trial.members if member.node_name}
        return trial.status

    def still_fits(self) -> bool:
        """Say whether the members, one after the other, still fit on the nodes that `schedule` found for them."""
        with Reservations(self._tools.cache) as placed:
            return all(self._fits(queued.pod, placed) for queued in self._queued_pods if queued.pod.uid in self.nodes)

    def close(self) -> None:
        """Restore the cache to exactly what it was before the question."""
        table = self._tools.cache.table
        for uid in self._lifted:
            self._tools.cache.put_back(uid)
        for row, uids in self._order_of.items():
            pods = table.pods[row]
            for uid in uids:  # the order of pods on a row decides between otherwise equal victims
                if uid in pods:
                    dict.__setitem__(pods, uid, dict.pop(pods, uid))
        for queued in self._queued_pods:
            self._tools.nominator.nominate(queued.pod, self._promised[queued.pod.uid] or "")

    def _fits(self, pod: PodInfo, placed: Reservations) -> bool:
        """Ask about one member on its node alone; where it fits, it is placed there for those after it."""
        steps = STEPS_TO_TRY + steps_to_filter(pod)
        self._tools.work.spend(PREEMPTION, steps, lambda: "which looks for pods to evict for a whole group")
        attempt, node_name = Attempt(self._profile, pod, work=self._tools.work), self.nodes[pod.uid]
        pre = self._profile.run_pre_filter(attempt.state, pod)
        if pre.status is not None or (pre.node_names is not None and node_name not in pre.node_names):
            return False
        table = self._tools.cache.table
        node = table.view(table.row_of[node_name])
        if self._profile.run_filter_beside_nominated(attempt.state, pod, node) is not None:
            return False
        return placed.add(attempt, node_name, asks_permit=False) is None
