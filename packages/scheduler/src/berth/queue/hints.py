"""Does an event make it worth trying a rejected pod again?

Each profile has a table of what its plugins registered for. Only the plugins that rejected the pod are asked; a hint
that raises counts as Queue, so that a bug costs an attempt rather than a pod.

`strategy` asks about one pod, `strategies` about all that wait, with as few questions as possible: if every hint
concerned promises to look at nothing but the pod's shape (`Promises.hints_by_shape`), one pod of a shape answers for
all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from berth.engine.profile import Profile
from berth.framework.blame import contained
from berth.framework.events import (
    UNSCHEDULABLE_TIMEOUT,
    WILDCARD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    HintFunction,
    QueueingHint,
)
from berth.framework.extenders import EXTENDER_NAME
from berth.framework.loaded import LoadedPlugin
from berth.queue.in_flight import InFlightEvent
from berth.queue.unschedulable import Pods, UnschedulablePods
from berth.state.pod_info import PodInfo, PodShape
from berth.state.queued_pod import QueuedPod


class Strategy(IntEnum):
    """What to do with a pod: leave it, queue it once its backoff is over, or queue it at once."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class Registered(NamedTuple):
    """One event that one plugin registered for."""

    plugin: str
    event: ClusterEvent
    hint: HintFunction | None
    by_shape: bool = False
    """Whether it answers the same for all pods of a shape, except one that the event itself is about."""


ANY_EVENT = (ClusterEventWithHint(ClusterEvent(WILDCARD, Action.ALL)),)
"""What a plugin that registers nothing counts as registering: anything may help."""


class WakeTable:
    """What the plugins of one profile registered for."""

    __slots__ = ("_by_event", "_ungating", "makes_room", "registered")

    def __init__(self, registered: Iterable[Registered], makes_room: Iterable[str] = ()) -> None:
        self.registered = tuple(registered)
        self.makes_room = frozenset(makes_room)
        """The plugins that gate pods only while room is being made for them (`Promises.gates_preemptors`)."""
        self._by_event: dict[ClusterEvent, tuple[Registered, ...]] = {}
        self._ungating: dict[tuple[str, ClusterEvent], bool] = {}

    @classmethod
    def of(cls, profile: Profile) -> "WakeTable":
        """Collect what the plugins of a profile registered for; one that registers nothing is woken by everything.

        So are pods that extenders rejected, since extenders cannot say what would help.
        """
        events = {plugin.name: _events(plugin) for plugin in profile.plugins}
        by_shape = {plugin.name for plugin in profile.plugins if plugin.promises.hints_by_shape}
        if profile.extenders:
            events[EXTENDER_NAME] = ANY_EVENT
        return cls(
            (
                Registered(name, entry.event, entry.hint, entry.hint is None or name in by_shape)
                for name, entries in events.items()
                for entry in entries
            ),
            (plugin.name for plugin in profile.plugins if plugin.promises.gates_preemptors),
        )

    def concerned(self, event: ClusterEvent) -> tuple[Registered, ...]:
        """Return the registrations that cover this event."""
        found = self._by_event.get(event)
        if found is None:
            found = tuple(registered for registered in self.registered if registered.event.matches(event))
            self._by_event[event] = found
        return found

    def asked_about(self, queued: QueuedPod, event: ClusterEvent) -> list[Registered] | None:
        """Return the registrations to ask about a pod that was rejected like this one; None if there are none."""
        rejectors = queued.rejectors
        if not rejectors or event.resource == WILDCARD:
            return None
        return [registered for registered in self.concerned(event) if registered.plugin in rejectors]

    def strategy_of_all(self, pods: Sequence[QueuedPod], happened: InFlightEvent) -> Strategy:
        """Say what an event means for pods that wait alike, by asking about the first.

        `berth.core.timed_runner` overrides this to report the pods that were not asked about.
        """
        return strategy(pods[0], happened, {pods[0].pod.profile_name: self})

    def may_ungate(self, plugin: str, event: ClusterEvent) -> bool:
        """Say whether a plugin that gates pods registered for this event: no other event can open its gate.

        That includes wildcard events, unless the plugin registered for everything.
        """
        known = self._ungating.get((plugin, event))
        if known is None:
            known = any(entry.plugin == plugin and _names(entry.event, event) for entry in self.registered)
            self._ungating[plugin, event] = known
        return known


def _names(registered: ClusterEvent, event: ClusterEvent) -> bool:
    return registered.resource in (WILDCARD, event.resource) and bool(registered.action & event.action)


def _events(plugin: LoadedPlugin) -> Sequence[ClusterEventWithHint]:
    return ANY_EVENT if plugin.events is None else plugin.events.events_to_register()


def is_of_interest(event: ClusterEvent, tables: Mapping[str, WakeTable]) -> bool:
    """Say whether any plugin of any profile registered for an event, or it is meant for all pods."""
    return event.resource == WILDCARD or any(table.concerned(event) for table in tables.values())


def is_kept_gated(queued: QueuedPod, event: ClusterEvent, tables: Mapping[str, WakeTable]) -> bool:
    """Say whether a pod is gated by a plugin that this event does not concern.

    A plugin that failed when asked is asked again once the pod has waited long enough: the event that opens its gate
    may never come.
    """
    if not queued.is_gated or (queued.is_gate_broken and event == UNSCHEDULABLE_TIMEOUT):
        return False
    table = tables.get(queued.pod.profile_name)
    return table is not None and not table.may_ungate(queued.gating_plugin, event)


def strategy(queued: QueuedPod, happened: InFlightEvent, tables: Mapping[str, WakeTable]) -> Strategy:
    """Say what an event means for a pod."""
    rejectors = queued.rejectors
    if not rejectors:
        return Strategy.AFTER_BACKOFF
    if happened.event.resource == WILDCARD:
        is_for_another = isinstance(happened.new, PodInfo) and happened.new.uid != queued.pod.uid
        return Strategy.SKIP if is_for_another else Strategy.AFTER_BACKOFF
    table = tables.get(queued.pod.profile_name)
    if table is None:  # no such profile: a wasted attempt is better than a pod that nothing wakes
        return Strategy.AFTER_BACKOFF
    best = Strategy.SKIP
    for registered in table.concerned(happened.event):
        if registered.plugin not in rejectors or _hint(registered, queued, happened) is QueueingHint.SKIP:
            continue
        if registered.plugin in queued.pending_plugins:
            return Strategy.IMMEDIATELY
        best = Strategy.AFTER_BACKOFF
        # No other plugin can say more: only one that has the pod pending brings it back without a backoff.
        if not queued.pending_plugins:
            return best
    return best


def heard(
    waiting: UnschedulablePods, event: ClusterEvent, tables: Mapping[str, WakeTable]
) -> Iterator[tuple[WakeTable | None, Mapping[PodShape, Pods], list[Registered] | None]]:
    """Yield the pods that an event may help, by shape: their table, and the registrations to ask, None if none need be.

    Which these are depends only on why pods wait (`UnschedulablePods.rejections`) and on the event.
    """
    for rejection, by_shape in waiting.alike():
        # Any of them will do: pods that are filed together agree in all that the next two questions look at.
        any_pod = next(iter(next(iter(by_shape.values())).values()))
        if is_kept_gated(any_pod, event, tables):
            continue
        table = tables.get(rejection.profile_name)
        asked = None if table is None else table.asked_about(any_pod, event)
        if asked is None or asked:
            yield table, by_shape, asked


def strategies(
    waiting: UnschedulablePods, happened: InFlightEvent, tables: Mapping[str, WakeTable], except_uid: str = ""
) -> Iterator[tuple[QueuedPod, Strategy]]:
    """Yield each pod that an event may help, with what it means for it: the same as asking `strategy` about each.

    Pods whose PreEnqueue gate the event cannot open are left out, and so is `except_uid`.
    """
    # For the pod that the event itself is about, a hint may answer differently than for others of its shape (it
    # compares uids), so such shapes are asked pod by pod.
    itself = {except_uid, *(obj.uid for obj in (happened.old, happened.new) if isinstance(obj, PodInfo))}
    for table, by_shape, asked in heard(waiting, happened.event, tables):
        is_alike = asked is not None and all(registered.by_shape for registered in asked)
        for pods in by_shape.values():
            how = None
            if table is not None and is_alike and not any(uid in pods for uid in itself):
                how = table.strategy_of_all(tuple(pods.values()), happened)
            for uid, queued in pods.items() if how is not Strategy.SKIP else ():
                found = strategy(queued, happened, tables) if how is None and uid != except_uid else how
                if found:
                    yield queued, found


def _hint(registered: Registered, queued: QueuedPod, happened: InFlightEvent) -> QueueingHint:
    if registered.hint is None:
        return QueueingHint.QUEUE
    try:
        return registered.hint(queued.pod, happened.old, happened.new)
    except BaseException as raised:  # a hint's bug must cost an attempt, not the pod
        contained(raised)
        return QueueingHint.QUEUE
