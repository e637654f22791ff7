"""Sorts object events into the cache, the queue, or the store in which plugins look objects up.

`Inbox` is where the core puts events; it hands them to `Intake` in their order, and never while a scheduling cycle is
open. Bound pods are counted in the cache, whichever scheduler placed them; pending pods of our profiles are queued, or,
if the cluster is divided among schedulers, those of our shards. Finished pods, and other schedulers' pending ones, are
neither counted nor queued.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from berth.api.node import Namespace, Node
from berth.api.pod import Pod
from berth.api.pod_resources import ALL_COUNTS, Counting
from berth.cycle.conflicts import Conflicts
from berth.cycle.dispatcher import Dispatcher
from berth.cycle.instrument import Instrument
from berth.cycle.pods_in_pre_bind import PodsInPreBind
from berth.framework.effects import PatchPodStatus, PodRef
from berth.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    Action,
    ClusterEvent,
    label_of,
)
from berth.framework.pod_events import PodEventHandlers
from berth.framework.waiting_pods import WaitingPods
from berth.queue.changes import is_schedulers_own, node_changes, pod_changes
from berth.queue.in_flight import InFlightEvent
from berth.queue.queue import SchedulingQueue
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore, key_of
from berth.state.pod_groups import PodGroups, group_of
from berth.state.pod_info import PodInfo, PodShapes
from berth.state.shards import Ownership

FINISHED_PHASES = ("Succeeded", "Failed")
SHARD_LOST = "the pod's namespace went to another scheduler"


class ObjectEvent(msgspec.Struct, frozen=True):
    """An object was added, modified or deleted (then `obj` is its last known state)."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    kind: str
    obj: Any


class ShardsHeld(msgspec.Struct, frozen=True):
    """From now on exactly these shards are ours: pods of other shards leave the queue, and pods of these enter it."""

    shards: frozenset[int]


class FoundGone(msgspec.Struct, frozen=True):
    """The API server, when asked, no longer had a pod; the watch has yet to show that."""

    pod: Pod


Event = ObjectEvent | ShardsHeld


class Intake:
    """Sorts object events into cache, queue and object store."""

    def __init__(
        self,
        cache: Cache,
        objects: ObjectStore,
        queue: SchedulingQueue,
        scheduler_names: frozenset[str],
        counting: Counting = ALL_COUNTS,
        pod_groups: PodGroups | None = None,
        ownership: Ownership | None = None,
        handlers: PodEventHandlers | None = None,
    ) -> None:
        self._cache = cache
        self._ownership = ownership or Ownership()
        self.handlers = handlers or None
        """The plugins that are told about pods; None if there are none, so that they cost nothing."""
        self._groups = pod_groups
        """Which pods belong to which group; None where the gates for groups are off."""
        self._objects = objects
        self._queue = queue
        self._scheduler_names = scheduler_names
        self._pods: dict[str, PodInfo] = {}
        self._shapes = PodShapes(counting)
        self._meant: list[str] = []
        self._found_gone: set[str] = set()
        """The pods that were found gone, by uid, until the watch says so: what it shows of them before that is
        outdated.
        """
        self.placed_elsewhere: PodInfo | None = None
        """The pod that the last event showed on a node although we did not place it, if any."""
        self.vanished: PodInfo | None = None
        """The pod that the last event removed from a node although nobody had deleted it, if any."""

    def take(self, event: ObjectEvent, now: float) -> Iterable[str]:
        """Take an event in; return the uids of pods that are gone, in case they are waiting somewhere."""
        self._meant = []
        self.placed_elsewhere = self.vanished = None
        if event.kind == "Pod":
            return self._take_pod(event, now)
        if event.kind == "Node":
            self._take_node(event, now)
        else:
            self._take_other(event, now)
        return ()

    def take_as_gone(self, event: FoundGone, now: float) -> Iterable[str]:
        """Take in that a pod was found gone, unless the watch was faster; return what `take` does."""
        self._meant = []
        self.placed_elsewhere = self.vanished = None
        known = self._pods.get(event.pod.key)
        if known is None or known.uid != event.pod.metadata.uid:
            return ()
        gone = self._remove_pod(known, now)
        self._found_gone.add(known.uid)
        return gone

    @property
    def meant(self) -> Sequence[str]:
        """What the last event counted as, by the names in upstream's metrics: an update may be several things, or none.

        Source: pkg/scheduler/eventhandlers.go, where EventHandlingLatency is observed.
        """
        return self._meant

    @property
    def pods(self) -> Iterable[PodInfo]:
        """All pods that have not finished, bound or pending, of any scheduler."""
        return self._pods.values()

    @property
    def groups(self) -> PodGroups | None:
        """Which pods belong to which group; None where the gates for groups are off."""
        return self._groups

    def pod(self, key: str) -> PodInfo | None:
        """Return a pod of any scheduler that has not finished, by `namespace/name`; None if there is none."""
        return self._pods.get(key)

    def info(self, pod: Pod, *, is_placed: bool = False) -> PodInfo:
        """Return a pod as plugins see it; it shares what was computed for pods like it."""
        return PodInfo.of(pod, self._shapes.of(pod, is_placed=is_placed))

    def take_placed(self, pods: Mapping[str, Pod]) -> None:
        """Take in pods that have a node, by `namespace/name`; none may be known yet, and no pod may be waiting to be
        woken.
        """
        # All are read before any is stored: if one raises, everything is left as it was.
        running = {key: obj for key, obj in pods.items() if obj.status.phase not in FINISHED_PHASES}
        placed = list(map(PodInfo.of, running.values(), self._shapes.of_placed(running.values()), running))
        self._pods.update(zip(running, placed, strict=True))
        if self._groups is not None:
            for pod in placed:
                self._groups.put(pod)
        self._cache.add_pods(placed)
        if self.handlers is not None:
            for pod in placed:
                self.handlers.added(pod)

    def place(self, pod: PodInfo, bound: Pod, now: float) -> None:
        """Take in that a pending pod, which was not assumed, is bound: only waiting pods and plugins are told."""
        info = PodInfo.of(bound, pod.shape)
        self._pods[info.key] = info
        if self._groups is not None:
            self._groups.put(info)
        self._cache.add_pod(info)
        self._queue.move(ASSIGNED_POD_ADD, None, info, now)

    def take_off(self, pod: PodInfo) -> None:
        """Take in that a pod on a node is pending again, in the given state; no plugin is told, and it is in no
        queue.
        """
        self._pods[pod.key] = pod
        self._cache.remove_pod(pod.uid)
        if self._groups is not None:
            self._groups.put(pod)

    def latest(self, pod: PodInfo) -> PodInfo | None:
        """Return the newest object of a pending pod, or None if it is gone, bound, or being deleted."""
        known = self._pods.get(pod.key)
        if known is None or known.uid != pod.uid or known.node_name or known.is_terminating:
            return None
        return known if self._ownership.owns(known.namespace) else None

    def hold(self, shards: frozenset[int], now: float) -> list[str]:
        """Queue the pending pods of new shards, and drop those of shards that are no longer ours.

        Return the uids of assumed pods among the latter, whose bindings have to be called off.
        """
        changed = self._ownership.hold(shards)
        called_off: list[str] = []
        for pod in tuple(self._pods.values()):
            if pod.node_name or pod.spec.scheduler_name not in self._scheduler_names:
                continue
            if not self._ownership.is_of(pod.namespace, changed):
                continue
            is_assumed = self._cache.state_of(pod.uid) is not None
            if self._ownership.owns(pod.namespace):
                if not is_assumed:  # else an earlier binding of ours is not over yet
                    self._queue_pending(None, pod, now)
            else:
                self._queue.delete(pod.uid)
                if is_assumed:
                    called_off.append(pod.uid)
        return called_off

    def is_wanted(self, pod: PodInfo) -> bool:
        """Say whether a popped pod still has to be scheduled."""
        return self.latest(pod) is not None and self._cache.state_of(pod.uid) is None

    def _take_pod(self, event: ObjectEvent, now: float) -> Iterable[str]:
        obj: Pod = event.obj
        if self._found_gone and obj.metadata.uid in self._found_gone:
            if event.type == "DELETED":
                self._found_gone.discard(obj.metadata.uid)
            return []
        old = self._pods.get(obj.key)
        gone: list[str] = []
        if old is not None and old.uid != obj.metadata.uid:
            # The deletion of the old pod was missed: a new one has taken its name.
            gone += self._remove_pod(old, now)
            old = None
        if event.type == "DELETED" or obj.status.phase in FINISHED_PHASES:
            if old is not None:
                self.vanished = None if old.is_terminating or not old.node_name else old
                gone += self._remove_pod(old, now)
            return gone
        pod = self.info(obj, is_placed=bool(obj.spec.node_name))
        self._pods[pod.key] = pod
        if self._groups is not None:
            self._groups.put(pod)
        if pod.node_name:
            self._put_bound(old, pod, now)
        else:
            gone += self._put_pending(old, pod, now)
        return gone

    def _put_bound(self, old: PodInfo | None, pod: PodInfo, now: float) -> None:
        known = self._cache.state_of(pod.uid)
        was_bound = known is not None and not known.assumed
        if known is None:
            self.placed_elsewhere = pod
        if not was_bound:
            self._meant.append(ASSIGNED_POD_ADD.label)
            if old is not None and self._is_ours(old):
                self._meant.append(UNSCHEDULED_POD_DELETE.label)
        # A pod that was not known before, or already had a node, is neither queued nor nominated.
        if old is not None and not old.node_name:
            self._queue.delete(pod.uid)
        self._cache.add_pod(pod)
        self._tell_plugins(old, pod)
        if not was_bound:
            self._queue.move(ASSIGNED_POD_ADD, None, pod, now)
        elif old is not None:
            changes = pod_changes(old, pod)
            self._note_update("AssignedPodUpdate", changes)
            for change in changes:
                self._queue.move(change, old, pod, now)

    def _put_pending(self, old: PodInfo | None, pod: PodInfo, now: float) -> list[str]:
        self._tell_plugins(old, pod)
        if pod.spec.scheduler_name not in self._scheduler_names or not self._ownership.owns(pod.namespace):
            return []
        if self._cache.state_of(pod.uid) is not None:
            self._note_update("UnschedulablePodUpdate", () if old is None else pod_changes(old, pod))
            return [pod.uid] if pod.is_terminating else []
        self._queue_pending(old, pod, now)
        return []

    def _queue_pending(self, old: PodInfo | None, pod: PodInfo, now: float) -> None:
        is_member = self._groups is not None and group_of(pod) is not None
        if pod.is_terminating and (old is not None or is_member):
            self._meant.append(UNSCHEDULED_POD_DELETE.label)
            if not is_member and self._queue.is_to_be_tried(pod.uid):
                self._queue.update(pod, (), now)  # its owner is told when it is popped
                self._queue.nominator.withdraw(pod.uid)
            else:
                self._queue.delete(pod.uid)
            self._tell_group(UNSCHEDULED_POD_DELETE, pod, None, now)
        elif old is None or old.node_name:
            self._meant.append(UNSCHEDULED_POD_ADD.label)
            self._queue.add(pod, now)
            if pod.is_terminating:
                self._queue.nominator.withdraw(pod.uid)
            self._tell_group(UNSCHEDULED_POD_ADD, None, pod, now)
        else:
            changes = [] if is_schedulers_own(old, pod) else pod_changes(old, pod)
            self._note_update("UnschedulablePodUpdate", changes)
            self._queue.update(pod, [InFlightEvent(change, old, pod) for change in changes], now)

    def _tell_plugins(self, old: PodInfo | None, pod: PodInfo) -> None:
        if self.handlers is None:
            return
        if old is None:
            self.handlers.added(pod)
        else:
            self.handlers.updated(old, pod)

    def give_back(self, uid: str, now: float) -> None:
        """Stop counting a pod that is deleted while being bound; its binding goes on until it is refused."""
        state = self._cache.state_of(uid)
        if state is not None and state.assumed and (counted := self._cache.remove_pod(uid)) is not None:
            self._queue.move(ASSIGNED_POD_DELETE, counted, None, now)

    def _remove_pod(self, pod: PodInfo, now: float) -> list[str]:
        del self._pods[pod.key]
        if self._groups is not None:
            self._groups.remove(pod)
        self._queue.delete(pod.uid)
        counted = self._cache.remove_pod(pod.uid)
        if self.handlers is not None:
            self.handlers.removed(pod)
        if counted is not None:
            self._meant.append(ASSIGNED_POD_DELETE.label)
            self._queue.move(ASSIGNED_POD_DELETE, counted, None, now)
            return [pod.uid]
        if self._is_ours(pod):
            self._meant.append(UNSCHEDULED_POD_DELETE.label)
        self._tell_group(UNSCHEDULED_POD_DELETE, pod, None, now)
        return [pod.uid]

    def _is_ours(self, pod: PodInfo) -> bool:
        is_named = pod.spec.scheduler_name in self._scheduler_names
        return is_named and not pod.node_name and self._ownership.owns(pod.namespace)

    def _note_update(self, label: str, changes: Iterable[ClusterEvent]) -> None:
        """Note an update under its general name, and under the name of each specific change that has one."""
        self._meant.append(label)
        self._meant += [change.label for change in changes if change.label != label]

    def _tell_group(self, event: ClusterEvent, old: PodInfo | None, new: PodInfo | None, now: float) -> None:
        """Tell the queue that a member without a node has come or gone: others of its group may be waiting for that."""
        member = new or old
        if self._groups is not None and member is not None and group_of(member) is not None:
            self._queue.move(event, old, new, now, except_uid=member.uid)

    def _take_node(self, event: ObjectEvent, now: float) -> None:
        node: Node = event.obj
        table = self._cache.table
        row = table.row_of.get(node.metadata.name)
        old = table.nodes[row] if row is not None else None
        if event.type == "DELETED":
            if self._cache.remove_node(node.metadata.name):
                pods = self._queue.nominator.withdraw_node(node.metadata.name)
                self._meant.append(NODE_DELETE.label)
                self._queue.move(NODE_DELETE, old, None, now)
                for pod in pods:  # what they wait for cannot come any more, so nothing else may ever wake them
                    self._queue.retry(pod.uid, now)
            return
        self._cache.put_node(node)
        if old is None:
            self._meant.append(NODE_ADD.label)
            self._queue.move(NODE_ADD, None, node, now)
            return
        for change in node_changes(old, node):
            self._meant.append(change.label)
            self._queue.move(change, old, node, now)

    def _take_other(self, event: ObjectEvent, now: float) -> None:
        kind, obj = event.kind, event.obj
        if event.type == "DELETED":
            old, new = self._objects.remove(kind, obj), None
            action = Action.DELETE
        else:
            old, new = self._objects.put(kind, obj), obj
            action = Action.ADD if old is None else Action.UPDATE
        if isinstance(obj, Namespace):
            self._cache.set_namespace(key_of(obj), None if new is None else obj.metadata.labels)
        if old is None and new is None:
            return
        happened = ClusterEvent(kind, action, label_of(kind, action))
        self._meant.append(happened.label)
        self._queue.move(happened, old, new, now)


class Inbox:
    """Incoming object events: taken in at once, or at the end of the open scheduling cycle.

    A cycle that waits for an answer (of an extender, say) is parked with row numbers, columns and node views in hand.
    They stay true because no node or pod comes, goes or changes before the cycle has ended. All that may happen
    meanwhile is that another pod's binding fails and frees its room; not seeing that room yet is safe.
    """

    __slots__ = (
        "_conflicts",
        "_dispatcher",
        "_events",
        "_in_pre_bind",
        "_instrument",
        "_intake",
        "_nominator",
        "_stopwatch",
        "_waiting",
    )

    def __init__(
        self,
        intake: Intake,
        nominator: Nominator,
        waiting: WaitingPods,
        in_pre_bind: PodsInPreBind,
        conflicts: Conflicts,
        dispatcher: Dispatcher,
        instrument: Instrument,
        stopwatch: Callable[[], float],
    ) -> None:
        self._conflicts = conflicts
        self._intake = intake
        self._nominator = nominator
        self._waiting = waiting
        self._in_pre_bind = in_pre_bind
        self._dispatcher = dispatcher
        self._instrument = instrument
        self._stopwatch = stopwatch
        self._events: deque[Event | FoundGone] = deque()

    def __len__(self) -> int:
        """How many events wait for the end of a cycle."""
        return len(self._events)

    def put(self, event: Event | FoundGone) -> None:
        """Take an event in, after those before it."""
        self._events.append(event)
        self.empty()

    def put_placed(self, pods: Mapping[str, Pod]) -> None:
        """Take in pods that have appeared on nodes, all at once; `Intake.take_placed` says when that is allowed."""
        started = self._stopwatch()
        self._intake.take_placed(pods)
        seconds = (self._stopwatch() - started) / len(pods)
        for pod in pods.values():
            self._instrument.pod_heard_of("ADDED", pod)
            if pod.status.phase not in FINISHED_PHASES:
                self._instrument.event_handled(ASSIGNED_POD_ADD.label, seconds)

    def put_pod(self, type_: Literal["MODIFIED", "DELETED"], pod: Pod) -> None:
        """Take in a pod as the API server has it, or that it is gone, as if the watch had said so."""
        self.put(ObjectEvent(type_, "Pod", pod) if type_ == "MODIFIED" else FoundGone(pod))

    def node_is_gone(self, node: Node) -> None:
        """Take in that a node was deleted, as if the watch had said so."""
        self.put(ObjectEvent("DELETED", "Node", node))

    def empty(self) -> None:
        """Take in the waiting events unless a cycle is open; the core calls this when one may have ended."""
        while self._events and not self._dispatcher.is_open:
            self._take(self._events.popleft())

    def _take(self, event: Event | FoundGone) -> None:
        if isinstance(event, ShardsHeld):
            for uid in self._intake.hold(event.shards, self._dispatcher.now()):
                if not self._waiting.reject(uid, "", SHARD_LOST):
                    self._in_pre_bind.cancel(uid, SHARD_LOST)
            return
        started = self._stopwatch()
        now = self._dispatcher.now()
        if isinstance(event, FoundGone):
            gone = self._intake.take_as_gone(event, now)
            self._instrument.pod_heard_of("DELETED", event.pod)
        else:
            gone = self._intake.take(event, now)
            if event.kind == "Pod":
                self._instrument.pod_heard_of(event.type, event.obj)
        if self._intake.placed_elsewhere is not None:
            self._conflicts.came(self._intake.placed_elsewhere)
        if self._intake.vanished is not None:
            self._conflicts.vanished(self._intake.vanished)
        for uid in gone:
            is_told = self._waiting.reject(uid, "", "pod was deleted")
            if not (is_told or self._in_pre_bind.cancel(uid, "pod was deleted")):
                self._intake.give_back(uid, now)
        # At once, not when the pod is next tried: a pod that is held back may not be tried for a long time.
        for pod in self._nominator.take_pods_without_node():
            if self._intake.latest(pod) is not None:
                self._dispatcher.tell(PatchPodStatus(PodRef.of(pod), nominated_node_name=""))
        seconds = self._stopwatch() - started
        for label in self._intake.meant:
            self._instrument.event_handled(label, seconds)
