"""The cache: which pods are on which nodes, counting those whose binding is still under way.

Its input is watch events (`add_pod`, `put_node`, …) and the scheduler's own decisions (`assume`, `forget`, …); its
output is the node table and the pod index. A pod's states:

                    assume                add (watch)
     (unknown) ───────────────→ assumed ───────────────→ added ⟲ update
         ↑   ↑                  │  │ ↑                     │
         │   └──── forget ──────┘  │ └─ finish_binding     │
         │                         │    (deadline starts)  │
         ├──────── expire ─────────┘                       │
         └──────── remove ─────────────────────────────────┘

`add` of a pod nobody assumed goes straight to added; `add` on another node than assumed moves it there: the API
server is right. An assumed pod whose binding has not finished never expires. Only a generation whose `assumed_ttl_s`
is set expires anything (that of v1.20 does, after 30 s, in a sweep every second); today's waits for the watch, or for
what the API server says when it is asked (`berth.cycle.confirmation`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import force_setattr

from berth.api.node import Node
from berth.state.pod_index import PodIndex
from berth.state.pod_info import PodInfo, PodShape
from berth.state.table import WritableNodeTable


class CacheError(RuntimeError):
    """A transition that the state machine does not have: a bug in the caller."""


class PodState(msgspec.Struct, frozen=True, eq=False):
    """Where a pod is counted, and how certain that is. The cache and the confirmer set it, with `force_setattr`."""

    pod: PodInfo
    row: int
    assumed: bool
    binding_finished: bool = False
    deadline: float | None = None
    bound: Any = None
    """What it takes to undo the binding, kept by `berth.cycle.confirmation` until the watch has confirmed the pod."""
    look_at: float | None = None
    """When the API server will be asked for the pod if the watch has not confirmed it by then."""


class Expired(NamedTuple):
    """The result of a sweep: expired pods, as they were counted, and assumed pods whose binding is under way."""

    pods: list[PodInfo]
    unfinished: list[PodInfo]


NOTHING_EXPIRED = Expired([], [])


class Cache:
    """Nodes, the pods on them, and the indexes over both."""

    def __init__(self, assumed_ttl_s: float | None = None, capacity: int = 64, *, sweep_period_s: float = 0.0) -> None:
        """`sweep_period_s`: how often to look for overdue pods; 0 finds each the moment it is overdue."""
        self.table = WritableNodeTable(capacity)
        self.index = PodIndex(capacity, self._pods_on_rows)
        self.assumed_ttl_s = assumed_ttl_s
        self._sweep_period_s = sweep_period_s
        self._next_sweep = float("-inf")
        self._states: dict[str, PodState] = {}
        self._assumed: dict[str, PodState] = {}
        self._lifted: dict[str, PodState] = {}

    def __len__(self) -> int:
        return len(self._states)

    @property
    def assumed_count(self) -> int:
        """How many pods are assumed."""
        return len(self._assumed)

    @property
    def assumed(self) -> Mapping[str, PodState]:
        """The assumed pods by uid."""
        return self._assumed

    def state_of(self, uid: str) -> PodState | None:
        """Return where a pod is counted, or None."""
        return self._states.get(uid)

    def assumed_state(self, uid: str) -> PodState | None:
        """Return where an assumed pod is counted, or would be without a what-if; None if it is not assumed."""
        state = self._states.get(uid) or self._lifted.get(uid)
        return state if state is not None and state.assumed else None

    def assumed_on(self, row: int) -> list[PodInfo]:
        """Return the assumed pods of a row, youngest first."""
        return [state.pod for state in reversed(self._assumed.values()) if state.row == row]

    def states(self) -> Mapping[str, PodState]:
        """Return all counted pods by uid."""
        return self._states

    def put_node(self, node: Node) -> int:
        """Add a node, or take in a newer object of it. Raises `QuantityError`."""
        row = self.table.put_node(node)
        self._match_capacity()
        return row

    def make_room(self, nodes: int) -> None:
        """Reserve rows for this many more nodes, so that the table does not grow while masks are in use."""
        self.table.make_room(nodes)
        self._match_capacity()

    def remove_node(self, name: str) -> bool:
        """Forget a node; its pods stay counted until they go. Return whether it was known."""
        if name not in self.table.row_of:
            return False
        self.table.remove_node(name)
        return True

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Note a namespace's labels, or that it is gone."""
        self.index.set_namespace(name, labels)

    def touch(self, node_name: str) -> None:
        """Make everything derived from the pods of a node stale."""
        row = self.table.row_of.get(node_name)
        if row is not None:
            self.table.touch_pods(row)

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on the node just chosen for it, before the API server knows."""
        if pod.uid in self._states:
            raise CacheError(f"pod {pod.key} is in the cache, so can't be assumed")
        self._count(pod, node_name, assumed=True)

    def finish_binding(self, uid: str, now: float) -> None:
        """Note that the binding was sent and answered; from now on the pod may expire, in generations with expiry."""
        # A what-if may have lifted the pod; the answer is still about it.
        state = self._states.get(uid) or self._lifted.get(uid)
        if state is not None and state.assumed:
            force_setattr(state, "binding_finished", True)
            if self.assumed_ttl_s is not None:
                force_setattr(state, "deadline", now + self.assumed_ttl_s)

    def forget(self, uid: str) -> None:
        """Take an assumed pod back. A pod that the watch has confirmed meanwhile stays."""
        state = self._states.get(uid)
        if state is not None and state.assumed:
            self._uncount(uid, state)
        # Lifted by an open what-if: `put_back` will find nothing to restore.
        elif uid in self._lifted and self._lifted[uid].assumed:
            self.table.release(self._lifted.pop(uid).row)

    def expire(self, now: float) -> Expired:
        """Forget the assumed pods whose confirmation is overdue, if a sweep is due; return these, and those that
        stay.
        """
        if self.assumed_ttl_s is None or now < self._next_sweep:
            return NOTHING_EXPIRED
        self._next_sweep = now + self._sweep_period_s
        unfinished = [state.pod for state in self._assumed.values() if not state.binding_finished]
        # Only `finish_binding` sets a deadline, so a pod whose binding is under way is never overdue.
        overdue = [
            (uid, state) for uid, state in self._assumed.items() if state.deadline is not None and now >= state.deadline
        ]
        return Expired([self._taken_off(uid, state) for uid, state in overdue], unfinished)

    def next_expiry(self) -> float | None:
        """Return when a sweep will next find something, or None if nothing can expire."""
        deadlines = (state.deadline for state in self._assumed.values())
        first = min((deadline for deadline in deadlines if deadline is not None), default=None)
        return None if first is None else max(first, self._next_sweep)

    def add_pod(self, pod: PodInfo) -> None:
        """Take in a bound pod as the API server has it: new, confirmed, moved or changed."""
        state = self._states.get(pod.uid)
        if state is None:
            self._count(pod, pod.node_name, assumed=False)
            return
        force_setattr(state, "assumed", False)
        force_setattr(state, "deadline", None)
        force_setattr(state, "bound", None)
        self._assumed.pop(pod.uid, None)
        # Confirmed as assumed, by far the most frequent case: nothing is recounted, so nothing derived becomes stale.
        if self.table.names[state.row] == pod.node_name and same_for_scheduling(state.pod, pod):
            self.table.replace_pod(state.row, pod)
            force_setattr(state, "pod", pod)
            return
        # Changed, or on another node than was assumed: the API server is right.
        self._uncount(pod.uid, state)
        self._count(pod, pod.node_name, assumed=False)

    def add_pods(self, pods: Iterable[PodInfo]) -> None:
        """Take in many bound pods at once: like `add_pod` for each, but new ones are counted shape by shape."""
        table, states, row_of = self.table, self._states, self.table.row_of
        alike: dict[tuple[PodShape, bool], tuple[PodInfo, list[int]]] = {}
        known: list[PodInfo] = []
        put = dict.__setitem__
        for pod in pods:
            uid, node_name = pod.uid, pod.spec.node_name
            if uid in states:  # copied manifests contain one uid several times
                known.append(pod)
                continue
            row = row_of.get(node_name)
            if row is None:
                row = table.row_for(node_name)
            put(table.pods[row], uid, pod)
            states[uid] = PodState(pod, row, False)
            group = alike.get(kind := (pod.shape, pod.metadata.deletion_timestamp is not None))
            if group is None:
                group = alike[kind] = pod, []
            group[1].append(row)
        self._match_capacity()
        table.add_alike(alike.values())
        for example, rows in alike.values():
            self.index.add_alike(example, rows)
        for pod in known:
            self.add_pod(pod)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Take a pod off, whatever its state; return it as it was counted, on its node, or None if it was not
        counted.
        """
        state = self._states.get(uid)
        if state is None:
            return None
        return self._taken_off(uid, state)

    def lift(self, uid: str) -> None:
        """Take a counted pod off for a what-if; `put_back` restores it exactly. Raises `KeyError`."""
        state = self._lifted[uid] = self._states[uid]
        self.table.hold(state.row)
        self._uncount(uid, state)

    def put_back(self, uid: str) -> None:
        """Count a lifted pod again, where and as it was, unless it was forgotten meanwhile."""
        state = self._lifted.pop(uid, None)
        if state is not None:
            self.table.add_pod(state.row, state.pod)
            self.table.release(state.row)
            self.index.add_pod(state.row, state.pod)
            self._states[uid] = state
            if state.assumed:
                self._assumed[uid] = state

    def _pods_on_rows(self) -> Iterator[tuple[int, PodInfo]]:
        return ((state.row, state.pod) for state in self._states.values())

    def _count(self, pod: PodInfo, node_name: str, assumed: bool) -> None:
        row = self.table.row_for(node_name)
        # A new row may have made the table grow, and the index needs one for each of its rows.
        self._match_capacity()
        self.table.add_pod(row, pod)
        self.index.add_pod(row, pod)
        state = self._states[pod.uid] = PodState(pod, row, assumed)
        if assumed:
            self._assumed[pod.uid] = state

    def _taken_off(self, uid: str, state: PodState) -> PodInfo:
        pod = on_node(state.pod, self.table.names[state.row])  # first: with its last pod a row may lose its name
        self._uncount(uid, state)
        return pod

    def _uncount(self, uid: str, state: PodState) -> None:
        del self._states[uid]
        self._assumed.pop(uid, None)
        self.index.remove_pod(state.row, state.pod)
        self.table.remove_pod(state.row, state.pod)

    def _match_capacity(self) -> None:
        if self.index.capacity != self.table.capacity:
            self.index.grow(self.table.capacity)


def on_node(pod: PodInfo, node_name: str) -> PodInfo:
    """Return a pod with its node in its spec, where hints look for it: the object of an assumed pod does not have it
    yet.
    """
    if pod.node_name == node_name:
        return pod
    spec = msgspec.structs.replace(pod.spec, node_name=node_name)
    return PodInfo.of(msgspec.structs.replace(pod.pod, spec=spec), pod.shape)


def same_for_scheduling(old: PodInfo, new: PodInfo) -> bool:
    """Say whether two objects of one pod count the same: requests, ports, labels, terms, deletion."""
    if old.is_terminating != new.is_terminating or old.labels != new.labels:
        return False
    if msgspec.structs.replace(old.spec, node_name=new.spec.node_name) != new.spec:
        return False
    return old.requests == new.requests
