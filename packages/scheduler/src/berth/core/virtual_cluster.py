"""A core in virtual time, with just enough of an API server to answer it: the one cluster in memory.

Tests of plugins and of the engine use it as it is. What `berth.Scheduler`, the questions of the workbench
(`UndoableCluster`, `SimulatedCluster`) and `berth bench` (`MeasuredCluster`) add to it is in classes of their own.

Objects go in with `put` and `delete`; `run` steps the core until it has nothing to do, `advance` lets time pass, and
`restart` puts a new core in the old one's place. Bindings and status patches are carried out at once and come back as
watch events, unless a test says otherwise: `refuse` makes bindings fail, `answers_binds = False` leaves them in
`requests` until `answer`, where calls to extenders stay too unless `answer_call` answers them. Calls of
plugins that it was given are carried out on its objects, unless `answer_api` is something else. Evicted pods leave at
once, or with `evicts_at_once = False` when the test deletes them.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from berth.api.meta import Condition
from berth.api.pod import Pod, PodCondition
from berth.api.shared_parts import shallow_copy
from berth.config.feature_gates import feature_gates
from berth.config.load import document_enabling, load_config
from berth.config.types import GenerationName, SchedulerConfiguration
from berth.core.api_calls import ObjectCalls
from berth.core.assembly import build_core
from berth.core.builders import NodeBuilder, PodBuilder
from berth.core.generation import with_rules_of
from berth.core.intake import ObjectEvent, ShardsHeld
from berth.core.options import Build, Clocks, CoreOptions, DecisionOptions, Instrumentation
from berth.cycle.instrument import Instrument
from berth.extender.in_process import AnswerCall, answered
from berth.framework.effects import (
    Answer,
    ApiCall,
    Bind,
    CallExtenders,
    Effect,
    EmitEvent,
    EvictPod,
    PatchPodStatus,
    PodRead,
    ReadPod,
    Request,
    SetPodGroupCondition,
)
from berth.framework.registry import Registry
from berth.framework.work_budget import DEFAULT_STEPS
from berth.plugins.registry import in_tree_registry
from berth.state.objects import key_of
from berth.state.pod_info import PodInfo

MAX_STEPS = 10_000
"""A core that is still busy after this many steps is considered stuck."""


class BrokenPromiseError(AssertionError):
    """A plugin answers by more than it promises."""


class VirtualCluster:
    """One core, its clock, and the pods as the API server has them."""

    def __init__(
        self,
        *objects: Any,
        plugins: Mapping[str, Any] | Iterable[type] | None = None,
        registry: Registry | None = None,
        config: Mapping[str, Any] | SchedulerConfiguration | None = None,
        gates: Mapping[str, bool] | None = None,
        seed: int = 0,
        memos: bool = True,
        generation: GenerationName | None = None,
        instrument: Instrument | None = None,
        stopwatch: Callable[[], float] | None = None,
        unschedulable_age_s: float | None = None,
        score_single_node: bool = False,
        shards: int = 1,
        work_limit: int = DEFAULT_STEPS,
        check_promises: int = 1,
        began_s: float | None = None,
        build: Build = build_core,
    ) -> None:
        """Make a core with these plugins, under their names if given, in addition to those of the registry.

        Without a `registry` those are the in-tree ones.
        Without a `config`, plugins that are given without names are enabled in the default profile. `generation` puts
        that generation's policies (queue, cycle, cache, permit) in place of the configuration's; the plugins stay those
        of the configuration. `build` makes the core, as `build_core` does. In one attempt of
        `check_promises` plugins are held to what they promise (0: never); where one breaks a promise, the step raises
        `BrokenPromiseError`. With `began_s`, seconds since 1970, the wall clock that plugins read goes on from there as
        the cluster's time does; without it, it is the machine's.
        """
        named = _by_name(plugins or ())
        registry = (registry or in_tree_registry()).merge(Registry(named, "a test"))
        if not isinstance(config, SchedulerConfiguration):
            enabled = {} if isinstance(plugins, Mapping) else Registry(named).implements()
            document = document_enabling(enabled) if config is None else dict(config)
            config = load_config(document, "a test's config", feature_gates(gates or {}))
        loaded = config
        self.now = 0.0
        self.rng = random.Random(seed)
        """The core's source of randomness."""
        self.config, self.registry = loaded, registry
        decisions = DecisionOptions(
            memos=memos,
            generation=None if generation is None else with_rules_of(loaded, generation),
            unschedulable_age_s=unschedulable_age_s,
            score_single_node=score_single_node,
            shards=shards,
            work_limit=work_limit,
        )
        watching = Instrumentation(instrument=instrument, stopwatch=stopwatch, check_promises=check_promises)
        clocks = Clocks(core=lambda: self.now)
        if began_s is not None:
            clocks = replace(clocks, wall=lambda: began_s + self.now)
        options = CoreOptions(rng=self.rng, decisions=decisions, clocks=clocks, instrumentation=watching)
        self._build = partial(build, loaded, registry, options)
        self.core = self._build()
        self.objects: dict[tuple[str, str], Any] = {}
        self.effects: list[Effect] = []
        """All effects of the core, oldest first."""
        self.requests: list[Request] = []
        """The requests that have not been answered yet."""
        self.answers_binds = True
        self.confirms_binds = True
        """Whether a successful binding is seen as a watch event at once."""
        self.answers_evictions = True
        self.evicts_at_once = True
        """Whether a victim is gone when its eviction is answered, or only on its way."""
        self.answers_reads = True
        """Whether the core is told at once where a pod is that it asks for."""
        self.stores_statuses = True
        """Whether what the core says of pods and groups is stored, and comes back as a watch event."""
        self.answer_api: Callable[[ApiCall], Answer] | None = ObjectCalls(self) if named else None
        """What carries out other calls to the API server; None leaves them in `requests` until `answer`. Where plugins
        are given, calls are carried out on `objects`. The ticket of the returned value is ignored.
        """
        self.answer_call: AnswerCall | None = None
        """What plays the extenders; None leaves their calls in `requests`."""
        self._refusals: deque[str] = deque()
        for obj in objects:
            self.put(obj)

    def put(self, obj: Any) -> None:
        """Create or replace an object.

        A pod or node given as a builder is also handed to plugins that follow pods or nodes in a form of their own.
        """
        if isinstance(obj, PodBuilder | NodeBuilder):
            custom = self.core.resources.of_manifest(obj.document)
            if custom is not None:
                self.put(custom.read(obj.document))
            obj = obj.build()
        kind, key = self.core.resources.name_of(obj), key_of(obj)
        known = self.objects.get((kind, key))
        self.objects[kind, key] = obj
        self.handle(ObjectEvent("ADDED" if known is None else "MODIFIED", kind, obj))

    def delete(self, kind: str, key: str) -> None:
        """Delete an object by `namespace/name` or name."""
        obj = self.objects.pop((kind, key))
        self.handle(ObjectEvent("DELETED", kind, obj))

    def restart(self) -> "VirtualCluster":
        """Put a new core, with new plugins, in the old one's place: it is told of all existing objects, pods last.

        Unanswered requests of the old one are forgotten, as when the process of a scheduler ends.
        """
        self.requests.clear()
        self.core = self._build()
        for (kind, _), obj in sorted(self.objects.items(), key=lambda item: item[0][0] == "Pod"):
            self.handle(ObjectEvent("ADDED", kind, obj))
        return self

    def pod(self, name: str, namespace: str = "default") -> Pod:
        """Return a pod as the API server has it."""
        found: Pod = self.objects["Pod", f"{namespace}/{name}"]
        return found

    def nodes_of(self) -> dict[str, str]:
        """Return the node of each pod by the pod's name; the empty string if it has none."""
        return {pod.metadata.name: pod.spec.node_name for (kind, _), pod in self.objects.items() if kind == "Pod"}

    def handle(self, event: ObjectEvent | ShardsHeld | Answer) -> None:
        """Give the core an event, and carry out its effects."""
        self._carry_out(self.core.handle(event, self.now))

    def step(self) -> None:
        """Let the core take one step, and carry out its effects."""
        self._carry_out(self.core.step(self.now))
        check = next(iter(self.core.profiles.values())).promise_check
        if check is not None and check.broken:
            told, check.broken = check.broken, []
            raise BrokenPromiseError("\n".join(map(str, told)))

    def bound(self, pod: Pod) -> None:
        """Hook: a pod has been bound to its node."""

    def bind_at_once(self, pod: PodInfo, node_name: str) -> Pod:
        """Store that a pod is bound to a node, and return the bound pod; for `Core.let_bind`."""
        bound = self.objects["Pod", pod.key] = _bound_to(self.objects["Pod", pod.key], node_name)
        self.bound(bound)
        return bound

    def evicted(self, pod: Pod, eviction: EvictPod) -> None:
        """Hook: a preempted pod is gone."""

    def carried_out(self, effect: Effect) -> None:
        """Record the core's effects; here all of them, for tests to look at."""
        self.effects.append(effect)

    def run(self) -> "VirtualCluster":
        """Step until there is nothing left to do now."""
        for _ in range(MAX_STEPS):
            self.step()
            deadline = self.core.next_deadline()
            if not self.core.has_work and (deadline is None or deadline > self.now):
                return self
        raise AssertionError(f"the core still has work after {MAX_STEPS} steps at {self.now} s")

    def advance(self, seconds: float) -> "VirtualCluster":
        """Let time pass, stepping at every deadline on the way."""
        until = self.now + seconds
        self.run()
        while (deadline := self.core.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.run()
        self.now = until
        return self.run()

    def refuse(self, *errors: str) -> None:
        """Make the next bindings fail with these errors."""
        self._refusals.extend(errors)

    def answer(self, request: Request, error: str = "", result: Any = None) -> None:
        """Answer a request that was held back; a binding without an error is carried out."""
        self.requests.remove(request)
        if isinstance(request.effect, Bind) and not error:
            self._bind(request.effect)
        if isinstance(request.effect, EvictPod) and not error:
            self._evict(request.effect)
        self.handle(Answer(request.ticket, result, error))

    def read(self, asked: ReadPod) -> PodRead:
        """Return where a pod is, as the API server would say."""
        pod: Pod | None = self.objects.get(("Pod", asked.pod.key))
        if pod is None or pod.metadata.uid != asked.pod.uid:
            return PodRead(is_gone=True)
        return PodRead(node_name=pod.spec.node_name, pod=pod)

    def events(self, reason: str) -> list[str]:
        """Return the notes of the Events with this reason, oldest first."""
        return [effect.note for effect in self.effects if isinstance(effect, EmitEvent) and effect.reason == reason]

    def patches(self, name: str) -> list[PatchPodStatus]:
        """Return the status patches of a pod, oldest first."""
        return [effect for effect in self.effects if isinstance(effect, PatchPodStatus) and effect.pod.name == name]

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.carried_out(effect)
        for effect in effects:
            if isinstance(effect, Request):
                self.requests.append(effect)
                if isinstance(effect.effect, Bind) and self.answers_binds:
                    self.answer(effect, self._refusals.popleft() if self._refusals else "")
                if isinstance(effect.effect, EvictPod) and self.answers_evictions:
                    self.answer(effect)
                if isinstance(effect.effect, ReadPod) and self.answers_reads:
                    self.answer(effect, result=self.read(effect.effect))
                if isinstance(effect.effect, ApiCall) and self.answer_api is not None:
                    answer = self.answer_api(effect.effect)
                    self.answer(effect, answer.error, answer.result)
                if isinstance(effect.effect, CallExtenders) and self.answer_call is not None:
                    self.answer(effect, result=answered(0, effect.effect, self.answer_call).result)
            elif isinstance(effect, PatchPodStatus) and self.stores_statuses:
                self._patch(effect)
            elif isinstance(effect, SetPodGroupCondition) and self.stores_statuses:
                self._set_group_condition(effect)

    def _bind(self, bind: Bind) -> None:
        pod = self.objects.get(("Pod", bind.pod.key))
        if pod is None or pod.metadata.uid != bind.pod.uid:
            return
        bound = _bound_to(pod, bind.node_name)
        if self.confirms_binds:
            self.put(bound)
        else:
            self.objects["Pod", bind.pod.key] = bound
        self.bound(bound)

    def _evict(self, eviction: EvictPod) -> None:
        pod = self.objects.get(("Pod", eviction.pod.key))
        if pod is None or pod.metadata.uid != eviction.pod.uid:
            return
        if self.evicts_at_once:
            self.delete("Pod", eviction.pod.key)
            self.evicted(pod, eviction)
            return
        disruption = PodCondition(
            type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message=eviction.message
        )
        status = msgspec.structs.replace(pod.status, conditions=(*pod.status.conditions, disruption))
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2030-01-01T00:00:00Z")
        self.put(msgspec.structs.replace(pod, status=status, metadata=metadata))

    def _patch(self, patch: PatchPodStatus) -> None:
        pod = self.objects.get(("Pod", patch.pod.key))
        if pod is None or pod.metadata.uid != patch.pod.uid:
            return
        status = pod.status
        if patch.condition_status is not None:
            condition = PodCondition(
                type="PodScheduled",
                status=patch.condition_status,
                reason=patch.reason,
                message=patch.message,
                observed_generation=patch.observed_generation,
            )
            others = tuple(known for known in status.conditions if known.type != "PodScheduled")
            status = msgspec.structs.replace(status, conditions=(*others, condition))
        if patch.nominated_node_name is not None:
            status = msgspec.structs.replace(status, nominated_node_name=patch.nominated_node_name)
        self.put(msgspec.structs.replace(pod, status=status))

    def _set_group_condition(self, effect: SetPodGroupCondition) -> None:
        group = self.objects.get(("PodGroup", f"{effect.namespace}/{effect.name}"))
        if group is None or group.metadata.uid != effect.uid:
            return
        condition = Condition(
            type="PodGroupScheduled",
            status=effect.condition_status,
            reason=effect.reason,
            message=effect.message,
            observed_generation=effect.observed_generation,
        )
        others = tuple(known for known in group.status.conditions if known.type != condition.type)
        status = msgspec.structs.replace(group.status, conditions=(*others, condition))
        self.put(msgspec.structs.replace(group, status=status))


def _bound_to(pod: Pod, node_name: str) -> Pod:
    assert not pod.spec.node_name, f"pod {pod.key} is bound a second time, to {node_name}"
    # Copied rather than `replace`d, which costs several times as much: this happens to every pod of every trial.
    spec, bound = shallow_copy(pod.spec), shallow_copy(pod)
    force_setattr(spec, "node_name", node_name)
    force_setattr(bound, "spec", spec)
    found: Pod = bound
    return found


def _by_name(plugins: Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    if isinstance(plugins, Mapping):
        return dict(plugins)
    classes: Iterable[Any] = plugins
    return {plugin.name: plugin for plugin in classes}
