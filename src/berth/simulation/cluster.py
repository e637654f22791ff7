"""A cluster in memory that things are tried on: the scheduler's own core, in virtual time, with a cluster's objects.

It is made of a snapshot or of any structs. Objects come, change and go; `settle` lets the scheduler place what it can,
and whatever it decides happens at once: bindings, evictions, volumes. The same objects and the same seed give the same
placements. `berth.simulation.judging` asks about pods without changing anything.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from berth.api.meta import Struct
from berth.api.node import Node, PodDisruptionBudget, PriorityClass
from berth.api.pod import Pod
from berth.api.storage import PersistentVolumeClaim, StorageClass
from berth.config.types import SchedulerConfiguration
from berth.cycle.instrument import Instrument
from berth.framework.effects import Effect, EvictPod, PatchPodStatus
from berth.framework.registry import Registry
from berth.plugins.registry import full_registry
from berth.simulation.admission import with_priority
from berth.simulation.api_calls import ApiCalls
from berth.simulation.budgets import SCALED_KINDS, BudgetKeeper, scale_in
from berth.simulation.claims import claims_again, has_own_claims, released
from berth.simulation.volumes import with_default_class
from berth.state.objects import key_of
from berth.testing.virtual import VirtualCluster

BACKOFF_S = 10.0
"""The longest backoff of the default configuration: a pod that is not placed within it waits for another change."""
STEPS_A_POD = 64
"""More steps than this for each pod, without time going on, are a loop between plugins."""

Progress = Callable[[int], None]
"""Is told how many pods have been tried since it was told last."""


class Eviction(msgspec.Struct, frozen=True):
    """A pod that had to leave."""

    pod: str
    """`namespace/name`."""
    node: str
    by: str
    """The pod it made way for, as `namespace/name`."""


class StuckError(RuntimeError):
    """Plugins keep waking each other's pods, so that the simulation does not come to rest."""


class SimulatedCluster(VirtualCluster):
    """A core and the objects that it decides about.

    A preempted pod that has a controller comes back as a pending pod of the same name, as its controller would replace
    it; one without is gone for good. `evictions` has both.
    """

    def __init__(
        self,
        objects: Iterable[Struct] = (),
        *,
        config: SchedulerConfiguration | None = None,
        registry: Registry | None = None,
        seed: int = 0,
        memos: bool = True,
        instrument: Instrument | None = None,
    ) -> None:
        """Take the objects in, nodes and all before pods. Raises `ConfigError`, `RegistryError`."""
        super().__init__(
            registry=registry or full_registry(), config=config, seed=seed, memos=memos, instrument=instrument
        )
        self._api_calls = ApiCalls(self)
        self.answer_api = self._api_calls
        self.evictions: list[Eviction] = []
        self.messages: dict[str, str] = {}
        """Why each pending pod that was tried has no node, by `namespace/name`."""
        self.changes = 0
        """How many pods were bound or evicted so far."""
        self.budgets = BudgetKeeper(scale_in(self.objects))
        """What the cluster's PodDisruptionBudgets allow; their status is brought up to date before pods are placed."""
        self._keys: dict[str, dict[str, None]] = {}
        """The keys of the objects of each kind."""
        self._returning: list[Pod] = []
        self._own_claims: dict[str, tuple[Pod, list[Struct]]] = {}
        self.add(objects)

    # -- objects -----------------------------------------------------------------------------------------------------

    def add(self, objects: Iterable[Struct]) -> None:
        """Take objects in; pods last, since what they are admitted with depends on the others."""
        pods = []
        for obj in objects:
            if isinstance(obj, Pod):
                pods.append(obj)
            else:
                self.put(obj)
        classes = self.priority_classes
        for pod in pods:
            self.put(with_priority(pod, classes))

    def create(self, objects: Iterable[Struct]) -> None:
        """Take new objects in as `add` does; claims get the default class, and a volume where none waits for a pod."""
        given = list(objects)
        self.add(each for each in given if not isinstance(each, Pod | PersistentVolumeClaim))
        for obj in given:
            if isinstance(obj, PersistentVolumeClaim):
                claim = with_default_class(obj, self.of(StorageClass))
                self.put(claim)
                self._api_calls.provide(claim)
        self.add(each for each in given if isinstance(each, Pod))

    @property
    def priority_classes(self) -> Mapping[str, PriorityClass]:
        """The cluster's priority classes, by name."""
        return {each.metadata.name: each for each in self.of(PriorityClass)}

    def of(self, struct: type[Any]) -> Iterator[Any]:
        """Yield the objects of one struct's kind."""
        kind = struct.__name__
        return (self.objects[kind, key] for key in self._keys.get(kind, ()))

    @property
    def nodes(self) -> dict[str, Node]:
        """The nodes, by name."""
        return {node.metadata.name: node for node in self.of(Node)}

    @property
    def pods(self) -> dict[str, Pod]:
        """The pods, by `namespace/name`."""
        return {pod.key: pod for pod in self.of(Pod)}

    @property
    def placements(self) -> dict[str, str]:
        """The node of each pod, by `namespace/name`; empty where it has none."""
        return {pod.key: pod.spec.node_name for pod in self.of(Pod)}

    def put(self, obj: Any) -> None:
        """Create an object, or put a newer state in its place."""
        super().put(obj)
        self._keys.setdefault(self.core.resources.name_of(obj), {})[key_of(obj)] = None
        if isinstance(obj, Pod):
            self.budgets.note(obj)
        elif isinstance(obj, PodDisruptionBudget):
            self.budgets.note_budget(obj)
        elif isinstance(obj, SCALED_KINDS):
            self.budgets.note_scale(obj)

    def publish_budgets(self) -> None:
        """Store the status of the budgets that changes of pods have made out of date."""
        for budget in self.budgets.publish(lambda: self.of(Pod)):
            self.put(budget)

    def delete(self, kind: str, key: str) -> None:
        """Delete an object by `namespace/name` or name; a pod frees its claims."""
        obj = self.objects[kind, key]
        self._keys[kind].pop(key, None)
        if isinstance(obj, Pod):
            self.budgets.forget(obj)
        elif isinstance(obj, PodDisruptionBudget):
            self.budgets.forget_budget(obj)
        if not isinstance(obj, Pod) or not (obj.spec.volumes or obj.spec.resource_claims):
            super().delete(kind, key)
            return

        def lookup(of_kind: str, name: str) -> Struct | None:
            found: Struct | None = self.objects.get((of_kind, name))
            return found

        if has_own_claims(obj) and _is_replaced(obj):
            self._own_claims[key] = claims_again(obj, pending_again(obj), lookup)
        super().delete(kind, key)
        given_up = released(obj, lookup)
        for other in given_up.deleted:
            self.delete(*other)
        for changed in given_up.changed:
            self.put(changed)

    def send_back(self, key: str) -> None:
        """Evict a pod by `namespace/name`: its controller replaces it by a pending one, without one it is gone."""
        pod: Pod = self.objects["Pod", key]
        self.delete("Pod", key)
        self._note_return(pod)
        self._return()

    # -- time --------------------------------------------------------------------------------------------------------

    def settle(self, *, patience_s: float = 120.0, progress: Progress | None = None) -> None:
        """Let the scheduler work until nothing more can come of it, for at most `patience_s` of virtual time.

        Pods are pending afterwards because they fit nowhere, or wait for something that does not happen by itself.
        Raises `StuckError`.
        """
        until, changes, changed_at = self.now + patience_s, self.changes, self.now
        self.work(progress)
        while (deadline := self.core.next_deadline()) is not None and deadline <= until:
            if self.changes != changes:
                changes, changed_at = self.changes, self.now
            elif deadline > changed_at + BACKOFF_S and not len(self.core.waiting):
                break
            self.now = max(self.now, deadline)
            self.work(progress)
        self.publish_budgets()

    def work(self, progress: Progress | None = None) -> None:
        """Step until nothing is left to do at this time. Raises `StuckError`."""
        self.publish_budgets()
        steps, limit = 0, STEPS_A_POD * (len(self.core.queue) + 16)
        while True:
            self.step()
            steps += 1
            if self._returning:
                self._return()
                limit += STEPS_A_POD
                self.publish_budgets()
            if progress is not None:
                progress(1)
            deadline = self.core.next_deadline()
            if not self.core.has_work and (deadline is None or deadline > self.now):
                return
            if steps > limit:
                raise StuckError(f"the scheduler still has work after {steps} attempts at one moment")

    # -- what the core does ------------------------------------------------------------------------------------------

    def carried_out(self, effect: Effect) -> None:
        """Remember why a pod has no node; nothing else is kept."""
        if isinstance(effect, PatchPodStatus) and effect.condition_status == "False":
            self.messages[effect.pod.key] = effect.message

    def bound(self, pod: Pod) -> None:
        """Take note that a pod has got its node."""
        self.changes += 1
        self.messages.pop(pod.key, None)

    def evicted(self, pod: Pod, eviction: EvictPod) -> None:
        """Take note that a preempted pod is gone."""
        self.changes += 1
        self.evictions.append(Eviction(pod.key, pod.spec.node_name, eviction.preemptor.key))
        self._note_return(pod)

    def _note_return(self, pod: Pod) -> None:
        if _is_replaced(pod):
            self._returning.append(pod)

    def _return(self) -> None:
        returning, self._returning = self._returning, []
        for pod in returning:
            replacement, claims = self._own_claims.pop(pod.key, (pending_again(pod), []))
            if claims:
                self.create(claims)
            self.put(replacement)


def _is_replaced(pod: Pod) -> bool:
    """Say whether a controller makes another pod in place of one that is gone; a kubelet restarts its own."""
    return any(owner.controller and owner.kind != "Node" for owner in pod.metadata.owner_references)


def pending_again(pod: Pod) -> Pod:
    """Return the pod that a controller makes in place of one that was evicted; it keeps the name, for people's sake."""
    metadata = msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.uid}'", deletion_timestamp=None)
    return Pod(metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=""))
