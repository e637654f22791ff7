"""Detects conflicts with other schedulers that use the same nodes: after the fact, by counting them and trying again.

Schedulers do not lock nodes. Each decides by what it knows, and two may give away the same room. Then one of these
happens:

- The pod itself was bound by somebody else: the API server refuses the Binding, or the pod is seen elsewhere
  (`bound_elsewhere`).
- The watch shows a pod of somebody else's, and its node is over its size now. The youngest pod that we have placed
  there, and whose Binding has not been sent, is called off and tried again (`called_off`); if there is none, it is too
  late, and the kubelet decides (`node_over_size`).
- The kubelet fails a pod that was just bound by us, for want of room (`refused_by_kubelet`). The watch shows no
  finished pods, so one that leaves it soon after it was bound, and that nobody deleted, is read, as far as that is not
  too many. A failed pod is for its controller to replace; the new one comes into the queue as any other.
"""

from collections import OrderedDict

from berth.cycle.dispatcher import Dispatcher
from berth.cycle.instrument import Instrument
from berth.cycle.pods_in_pre_bind import PodsInPreBind
from berth.framework.effects import PodRead, PodRef, ReadPod, Steps, call
from berth.framework.waiting_pods import WaitingPods
from berth.state.cache import Cache
from berth.state.pod_info import PodInfo

CROWDED_OUT = "another scheduler's pod took the room on the node"
RECENT_S = 30.0
"""A kubelet admits or refuses a pod within seconds of its binding."""
MOST_RECENT = 1024
READS_AT_ONCE = 2
"""Reads only feed a counter: if there are more such pods, the others are not looked at."""
OUT_OF = "OutOf"
"""What the kubelet's reasons begin with if room is short: OutOfcpu, OutOfmemory, OutOfpods, …"""


class Conflicts:
    """Watches for what other schedulers do to our pods."""

    __slots__ = ("_cache", "_dispatcher", "_in_pre_bind", "_instrument", "_reading", "_recent", "_waiting")

    def __init__(
        self,
        cache: Cache,
        waiting: WaitingPods,
        in_pre_bind: PodsInPreBind,
        dispatcher: Dispatcher,
        instrument: Instrument,
    ) -> None:
        self._cache = cache
        self._waiting = waiting
        self._in_pre_bind = in_pre_bind
        self._dispatcher = dispatcher
        self._instrument = instrument
        self._recent: OrderedDict[str, float] = OrderedDict()
        """When we bound which pods, for recent pods."""
        self._reading = 0

    def bound(self, uid: str) -> None:
        """Note that we have bound a pod."""
        self._recent[uid] = self._dispatcher.now()
        if len(self._recent) > MOST_RECENT:
            self._recent.popitem(last=False)

    def came(self, pod: PodInfo) -> None:
        """Note that a pod which we did not place has appeared on a node."""
        state = self._cache.state_of(pod.uid)
        if state is None or not (self._recent or self._cache.assumed_count) or not self._tips(state.row, pod):
            return
        ours = self._cache.assumed_on(state.row)
        # We have placed no pod there lately, so the conflict is between others.
        if not ours and self._recent.keys().isdisjoint(self._cache.table.pods[state.row]):
            return
        for assumed in ours:
            waiting = self._waiting.get(assumed.uid)
            is_called_off = waiting is not None and waiting.preempt("", CROWDED_OUT)
            if is_called_off or self._in_pre_bind.cancel(assumed.uid, CROWDED_OUT):
                self._instrument.conflicted(assumed, "called_off")
                return
        self._instrument.conflicted(pod, "node_over_size")

    def _tips(self, row: int, pod: PodInfo) -> bool:
        """Say whether this pod pushes the node over its size; a node that was over before is meant to be."""
        table = self._cache.table
        over = int(table.pod_count[row] - table.allowed_pods[row]) == 1
        for resource, amount in pod.requests.items():
            column = table.column_of(resource)
            over = over or 0 < int(table.requested[column, row] - table.allocatable[column, row]) <= amount
        return bool(over and table.valid[row])

    def vanished(self, pod: PodInfo) -> None:
        """Note that a pod has left the watch without being deleted first: its kubelet may have refused it."""
        bound_at = self._recent.pop(pod.uid, None)
        if bound_at is None or self._dispatcher.now() - bound_at > RECENT_S or self._reading >= READS_AT_ONCE:
            return
        self._reading += 1
        self._dispatcher.start(self._look(pod))

    def _look(self, pod: PodInfo) -> Steps[None]:
        answer = yield from call(ReadPod(PodRef.of(pod)))
        self._reading -= 1
        found: PodRead | None = answer.result
        if found is None or found.pod is None:
            return
        status = found.pod.status
        if status.phase == "Failed" and status.reason.startswith(OUT_OF):
            self._instrument.conflicted(pod, "refused_by_kubelet")
