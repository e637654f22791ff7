"""Recorded lives of a scheduling queue replayed: what `berth decide` prints for a line that has a `queue`.

A life is a list of steps (pods come, are popped, fail, are woken) on a clock of its own; after each comes a state:
which pods are where. Steps go through the queue of a `Core` and through its intake, as in `berth run`, and the four
plugins that a life names are ordinary plugins of its profile. The records' README in `tests/conformance/` says
what each key means.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, ClassVar, final

import msgspec

from berth.api.codec import decode
from berth.config.load import legacy_default_config, load_config
from berth.config.types import SchedulerConfiguration
from berth.core.assembly import build_core
from berth.core.core import Core
from berth.core.generation import GENERATIONS
from berth.core.intake import ObjectEvent
from berth.core.options import CoreOptions, DecisionOptions
from berth.framework.events import (
    ASSIGNED_POD_ADD,
    NODE_ADD,
    WILDCARD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    queue_if,
)
from berth.framework.interface import EventsPlugin, FilterPlugin, PreEnqueuePlugin
from berth.framework.registry import Registry
from berth.framework.status import Status, unresolvable
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth_workbench.cases.cases import CaseError, Json

MAX_LIFE_S = 1_000_000
"""A life that is longer is refused: the queue has something to do every half minute of it."""

NODE_LABEL = ClusterEvent("Node", Action.UPDATE_NODE_LABEL, "NodeUpdateNodeLabel")
NODE_TAINT = ClusterEvent("Node", Action.UPDATE_NODE_TAINT, "NodeUpdateNodeTaint")
POD_LABEL = ClusterEvent("Pod", Action.UPDATE_POD_LABEL, "UnschedulablePodUpdatePodLabel")
MOVES: Mapping[str, ClusterEvent] = MappingProxyType(
    {
        "NodeAdd": NODE_ADD,
        "NodeLabel": NODE_LABEL,
        "NodeTaint": NODE_TAINT,
        "NodeAllocatable": ClusterEvent("Node", Action.UPDATE_NODE_ALLOCATABLE, "NodeUpdateNodeAllocatable"),
        "PVAdd": ClusterEvent("PersistentVolume", Action.ADD, "PersistentVolumeAdd"),
        "Wildcard": ClusterEvent(WILDCARD, Action.ALL, "Wildcard"),
    }
)


class LifePod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod as a step gives it. `affinity_to_app`: it must be beside a pod with this label `app`."""

    name: str
    priority: int = 0
    labels: dict[str, str] = {}
    affinity_to_app: str = ""

    def document(self, *, node_name: str = "") -> Json:
        """Return the pod as an API server gives it."""
        spec: Json = {"priority": self.priority, "schedulerName": "default-scheduler", "nodeName": node_name}
        if self.affinity_to_app:
            selector = {"matchLabels": {"app": self.affinity_to_app}}
            term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        metadata = {"name": self.name, "namespace": "default", "uid": uid_of(self.name), "labels": self.labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Step(msgspec.Struct, frozen=True, tag_field="op", tag=str.lower, rename="camel"):
    """Something that happens `at` so many milliseconds after the start."""

    at: int


class Add(Step, frozen=True):
    """A pending pod comes."""

    pod: LifePod


class Pop(Step, frozen=True):
    """The scheduling cycle takes a pod."""


class Fail(Step, frozen=True):
    """The attempt of a pod in flight has failed; with no plugins, of an unexpected error."""

    name: str
    unschedulable_plugins: tuple[str, ...] = ()
    pending_plugins: tuple[str, ...] = ()


class Done(Step, frozen=True):
    """The attempt of a pod in flight is over."""

    name: str


class Move(Step, frozen=True):
    """A cluster event, with the pods for which each plugin's hint says Queue, or fails."""

    event: str = "NodeAdd"
    hints: dict[str, frozenset[str]] = {}
    hint_errors: dict[str, frozenset[str]] = {}


class Assigned(Step, frozen=True):
    """A pod has come that is on a node."""

    pod: LifePod


class Activate(Step, frozen=True):
    """A plugin activates pods."""

    names: tuple[str, ...]


class Update(Step, frozen=True):
    """The labels of a pending pod change."""

    pod: LifePod


class Delete(Step, frozen=True):
    """A pending pod is deleted."""

    name: str


class Advance(Step, frozen=True):
    """Nothing happens but that time passes."""


class Life(msgspec.Struct, frozen=True, rename="camel"):
    """A line of the records."""

    name: str
    queue: tuple[Add | Pop | Fail | Done | Move | Assigned | Activate | Update | Delete | Advance, ...]
    generation: str = "v1.36"
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    pod_max_in_unschedulable_pods_seconds: int | None = None


def is_life(case: Mapping[str, Any]) -> bool:
    """Say whether a case is the life of a queue."""
    return "queue" in case


def replay_life(case: Mapping[str, Any], registry: Registry, *, memos: bool = True) -> list[Json]:
    """Return what the queue holds after each step of a life. Raises `CaseError` or `ConfigError`."""
    try:
        life = msgspec.convert(case, Life)
    except msgspec.ValidationError as error:
        raise CaseError(f"life {case.get('name')!r}: {error}") from error
    decisions = DecisionOptions(memos=memos, unschedulable_age_s=life.pod_max_in_unschedulable_pods_seconds)
    core = build_core(_config_of(life), registry.merge(PLUGINS), CoreOptions(rng=Random(0), decisions=decisions))
    living = _Living(life.name, core)
    return [living.live(step) for step in life.queue]


def uid_of(name: str) -> str:
    """Return the uid of a pod of a life, whose names are all different."""
    return f"uid-of-{name}"


class LifePlugin(FilterPlugin, EventsPlugin):
    """A plugin of a life: its hints answer what a step prescribes. It takes part in Filter, and rejects nothing."""

    wakers: ClassVar[Sequence[ClusterEvent]]

    def __init__(self, _args: Any, _handle: Any) -> None:
        """Take no args."""

    def filter(self, _state: Any, _pod: PodInfo, _node: Any) -> Status | None:
        """Let every node pass."""
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return what may help pods that the plugin has rejected."""
        return [ClusterEventWithHint(event, self.hint) for event in self.wakers]

    def hint(self, pod: PodInfo, _old: Any, new: Any) -> QueueingHint:
        """Say of a move what its step says, and of a pod's update whether it wakes the pod itself."""
        if not isinstance(new, Move):
            return queue_if(new.uid == pod.uid and self.is_woken(new.labels))
        if pod.name in new.hint_errors.get(self.name, ()):
            raise RuntimeError(f"the hint of {self.name} fails for {pod.name}")
        return queue_if(pod.name in new.hints.get(self.name, ()))

    def is_woken(self, labels: Mapping[str, str]) -> bool:
        """Say whether a pod's own new labels wake it."""
        return labels.get("wake") == self.name


@final
class PluginA(LifePlugin):
    """`A`."""

    name, wakers = "A", (NODE_ADD, NODE_LABEL, POD_LABEL)


@final
class PluginB(LifePlugin):
    """`B`."""

    name, wakers = "B", (NODE_ADD, NODE_TAINT)


@final
class PluginC(LifePlugin):
    """`C`."""

    name, wakers = "C", (NODE_TAINT, POD_LABEL)


@final
class Gate(LifePlugin, PreEnqueuePlugin):
    """`Gate`: keeps a pod out while its label `gate` is `closed`."""

    name, wakers = "Gate", (POD_LABEL,)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Reject a pod whose gate is closed."""
        return None if self.is_woken(pod.labels) else unresolvable("the gate is closed")

    def is_woken(self, labels: Mapping[str, str]) -> bool:
        """Say whether the gate is open."""
        return labels.get("gate") != "closed"


PLUGINS = Registry({plugin.name: plugin for plugin in (PluginA, PluginB, PluginC, Gate)}, "the recorded lives")


def _config_of(life: Life) -> SchedulerConfiguration:
    """Return a configuration with a life's backoff."""
    if life.generation not in GENERATIONS:
        known = ", ".join(GENERATIONS)
        raise CaseError(f"life {life.name!r}: generation {life.generation!r} is not known; the known ones: {known}")
    if life.generation != "v1.20":
        return load_config(_document(life), f"the times of life {life.name!r}")
    return msgspec.structs.replace(
        legacy_default_config(),
        pod_initial_backoff_s=life.pod_initial_backoff_seconds,
        pod_max_backoff_s=life.pod_max_backoff_seconds,
    )


def _document(life: Life) -> Json:
    """Return a configuration with the plugins of the lives, and what no profile can do without."""
    enabled = [{"name": name} for name in ("PrioritySort", *PLUGINS.names, "DefaultBinder")]
    plugins = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podInitialBackoffSeconds": life.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": life.pod_max_backoff_seconds,
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }


class _Living:
    """A queue in the middle of a life."""

    def __init__(self, name: str, core: Core) -> None:
        self._name = name
        self._core = core
        self._queue = core.queue
        self._now_ms = 0
        self._popped: dict[str, QueuedPod] = {}
        self._pending: set[str] = set()
        self._steps: Mapping[type[Step], Callable[[Any, float], str | None]] = {
            Add: self._add, Pop: self._pop, Fail: self._fail, Done: self._done, Move: self._move,
            Assigned: self._assigned, Activate: self._activate, Update: self._update, Delete: self._delete,
            Advance: lambda _step, _now: None,
        }  # fmt: skip
        self._queue.flush(0.0)

    def live(self, step: Step) -> Json:
        """Let time pass until a step, take it, and return what the queue holds then."""
        if not self._now_ms <= step.at <= MAX_LIFE_S * 1000:
            raise self._wrong(step, f"at must not be before the last step's ({self._now_ms}), nor after {MAX_LIFE_S} s")
        self._pass_time(step.at)
        popped = self._steps[type(step)](step, step.at / 1000)
        return {"popped": popped} | self._state() if popped else self._state()

    def _pass_time(self, until_ms: int) -> None:
        """Flush at every whole second on the way where there is something to flush."""
        second = self._now_ms // 1000
        while (due := self._queue.next_deadline()) is not None:
            second = max(second + 1, -int(-due // 1))
            if second * 1000 > until_ms:
                break
            self._queue.flush(float(second))
        self._now_ms = until_ms

    def _add(self, step: Add, now: float) -> None:
        if step.pod.name in self._pending or step.pod.name in self._popped:
            raise self._wrong(step, f"there is a pod {step.pod.name!r} already")
        self._pending.add(step.pod.name)
        self._take_in("ADDED", step.pod.document(), now)

    def _pop(self, _step: Pop, now: float) -> str | None:
        queued = self._queue.pop(now)
        if queued is None:
            return None
        self._popped[queued.pod.name] = queued
        return queued.pod.name

    def _fail(self, step: Fail, now: float) -> None:
        queued = self._take_popped(step, step.name)
        latest = self._core.intake.latest(queued.pod)
        if latest is None:  # deleted meanwhile
            self._queue.done(queued.pod.uid)
            return
        queued.pod = latest
        self._queue.add_unschedulable(queued, step.unschedulable_plugins, step.pending_plugins, now)

    def _done(self, step: Done, _now: float) -> None:
        """A pod that is done is on some node, or was deleted before."""
        self._queue.done(self._take_popped(step, step.name).pod.uid)
        self._pending.discard(step.name)

    def _move(self, step: Move, now: float) -> None:
        event = MOVES.get(step.event)
        if event is None:
            raise self._wrong(step, f"event {step.event!r} is not known; the known ones: {', '.join(MOVES)}")
        self._queue.move(event, None, None if event.resource == WILDCARD else step, now)

    def _assigned(self, step: Assigned, now: float) -> None:
        pod = self._core.intake.info(decode("Pod", step.pod.document(node_name="some-node")), is_placed=True)
        self._queue.move(ASSIGNED_POD_ADD, None, pod, now)

    def _activate(self, step: Activate, now: float) -> None:
        for name in step.names:
            self._queue.activate(uid_of(name), now)

    def _update(self, step: Update, now: float) -> None:
        self._check_pending(step, step.pod.name)
        self._take_in("MODIFIED", step.pod.document(), now)

    def _delete(self, step: Delete, now: float) -> None:
        self._check_pending(step, step.name)
        self._pending.remove(step.name)
        self._take_in("DELETED", LifePod(step.name).document(), now)

    def _take_in(self, kind: Any, document: Json, now: float) -> None:
        self._core.handle(ObjectEvent(kind, "Pod", decode("Pod", document)), now)

    def _take_popped(self, step: Step, name: str) -> QueuedPod:
        queued = self._popped.pop(name, None)
        if queued is None:
            raise self._wrong(step, f"pod {name!r} is not in flight")
        return queued

    def _check_pending(self, step: Step, name: str) -> None:
        if name not in self._pending:
            raise self._wrong(step, f"there is no pending pod {name!r}")

    def _wrong(self, step: Step, what: str) -> CaseError:
        return CaseError(f"life {self._name!r}, the step {type(step).__name__.lower()} at {step.at}: {what}")

    def _state(self) -> Json:
        queue = self._queue
        unschedulable = queue.unschedulable.values()
        active, in_flight = _names(queue.active.ordered()), sorted(pod.name for pod in queue.in_flight.pods())
        if not queue.policy.hints:
            by_end = sorted(queue.backoff, key=lambda queued: (queued.backoff_until, queued.pod.name))
            lying = {"backoff": _names(by_end), "unschedulable": sorted(_names(unschedulable))}
        else:
            lying = {
                "backoff": _names(queue.backoff.ordered()),
                "errorBackoff": sorted(_names(queue.error_backoff)),
                "unschedulable": sorted(queued.pod.name for queued in unschedulable if not queued.is_gated),
                "gated": sorted(queued.pod.name for queued in unschedulable if queued.is_gated),
            }
        return {"active": active, **lying, "inFlight": in_flight}


def _names(pods: Any) -> list[str]:
    return [queued.pod.name for queued in pods]
