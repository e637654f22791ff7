"""A cluster in memory that things are tried on: the scheduler's own core, in virtual time, with a cluster's objects.

It is made of a snapshot or of any structs. Objects come, change and go; `settle` lets the scheduler place what it can,
and whatever it decides happens at once: bindings, evictions, volumes. The same objects and the same seed give the same
placements. `berth.core.questions` asks about pods without changing anything.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from berth.api.dra import ResourceClaim
from berth.api.meta import Struct
from berth.api.node import Node, PodDisruptionBudget, PriorityClass
from berth.api.pod import Pod
from berth.api.resources import RESOURCES
from berth.api.storage import PersistentVolumeClaim, StorageClass
from berth.api.user_error import UserError
from berth.config.types import SchedulerConfiguration
from berth.core.assembly import build_core
from berth.core.options import Build
from berth.core.undoable import UndoableCluster
from berth.cycle.instrument import Instrument
from berth.framework.effects import Effect, EvictPod, PatchPodStatus
from berth.framework.registry import Registry
from berth.plugins.registry import full_registry
from berth.state.objects import key_of
from berth.state.ordering import OrderedKeys
from berth.state.pod_info import PodInfo
from berth_workbench.simulation.admission import Admission, AdmissionRules, with_priority
from berth_workbench.simulation.api_calls import ApiCalls
from berth_workbench.simulation.budgets import SCALED_KINDS, BudgetKeeper, is_active, owner_of, scale_in
from berth_workbench.simulation.claims import claims_again, has_own_claims, released
from berth_workbench.simulation.comebacks import AGAIN_AND_AGAIN, Comebacks
from berth_workbench.simulation.followed import take_followed
from berth_workbench.simulation.volumes import with_default_class
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch
from berth_workbench.snapshot.documents import Document

BACKOFF_S = 10.0
"""The longest backoff of the default configuration: a pod that is not placed within it waits for another change."""
STEPS_A_POD = 64
"""More steps than this for each pod, without time going on, are a loop between plugins."""


class Eviction(msgspec.Struct, frozen=True):
    """A pod that had to leave."""

    pod: str
    """`namespace/name`."""
    node: str
    by: str
    """The pod it made way for, as `namespace/name`."""


class RefusedPod(msgspec.Struct, frozen=True):
    """A pod that the API server does not let be made; its controller, if it has one, tries again and again."""

    pod: Pod
    why: str
    """As the API server says it."""
    claims: tuple[Struct, ...] = ()
    """What is to be made together with it."""


EXTENDERS_LEFT_OUT = "the extenders of the configuration were not asked"


class _Remembered(NamedTuple):
    """What a simulated cluster remembers beside its objects, at some moment."""

    next_places: dict[str, int]
    """Of the objects of each kind, the number of the one that would have come next."""
    departed: int
    """How many objects had gone since the first trial that is under way began."""
    messages: dict[str, str]
    evictions: int
    changes: int
    comebacks: Comebacks
    returning: tuple[Pod, ...]
    own_claims: dict[str, tuple[Pod, list[Struct]]]
    calls_made: int
    rules: AdmissionRules
    refused: dict[str, RefusedPod]


class StuckError(UserError, RuntimeError):
    """Plugins keep waking each other's pods, so that the simulation does not come to rest."""


class SimulatedCluster(UndoableCluster):
    """A core and the objects that it decides about.

    A preempted pod that has a controller comes back as a pending pod of the same name, as its controller would replace
    it; one without is gone for good. `evictions` has both. One that would be evicted again and again is pending, too,
    but the core does not hear of it until its preemptor has a node (`berth_workbench.simulation.comebacks`).
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
        build: Build = build_core,
    ) -> None:
        """Take the objects in, nodes and all before pods. Raises `ConfigError`, `RegistryError`.

        `build` makes the core, as `build_core` does.

        Extenders are left out of the configuration: nobody answers for them, and pods would wait for that for ever.
        """
        self.leaves_out_extenders = config is not None and bool(config.extenders)
        """Whether the configuration names extenders, whom nobody asks here."""
        if config is not None:
            config = msgspec.structs.replace(config, extenders=())
        super().__init__(
            registry=registry or full_registry(),
            config=config,
            seed=seed,
            memos=memos,
            instrument=instrument,
            check_promises=0,
            build=build,
        )
        self._api_calls = ApiCalls(self)
        self.answer_api = self._api_calls
        self.core.let_bind(self.bind_at_once)
        self.evictions: list[Eviction] = []
        self.messages: dict[str, str] = {}
        """Why each pending pod that was tried has no node, by `namespace/name`."""
        self.changes = 0
        """How many pods were bound or evicted so far."""
        self.budgets = BudgetKeeper(scale_in(self.objects))
        """What the cluster's PodDisruptionBudgets allow; their status is brought up to date before pods are placed."""
        self.admission = Admission(self.objects, self.of)
        """What the API server makes of what is created, and what it refuses."""
        self.refused: dict[str, RefusedPod] = {}
        """The pods that are not made, since the API server refuses them, by `namespace/name`."""
        self._keys: dict[str, OrderedKeys] = {}
        """The keys of the objects of each kind."""
        self._departed: list[tuple[str, str, int]] = []
        """The objects that have gone while a trial is under way: kind, key, and where it stood."""
        self._without_node: dict[str, None] = {}
        """The pods that have no node, by `namespace/name`."""
        self._placed: dict[str, str] = {}
        self._returning: list[Pod] = []
        self._comebacks = Comebacks()
        self._own_claims: dict[str, tuple[Pod, list[Struct]]] = {}
        self.add(objects, are_stored=True)

    # -- objects -----------------------------------------------------------------------------------------------------

    def add(self, objects: Iterable[Struct], *, are_stored: bool = False) -> None:
        """Take objects in; pods last, since what they are admitted with depends on the others.

        What `are_stored` in the cluster already is not refused any more. Raises `UnknownPriorityClassError`.
        """
        pods = []
        for obj in objects:
            if isinstance(obj, Pod):
                pods.append(obj)
            else:
                self.put(obj)
        classes = self.priority_classes
        given = (with_priority(pod, classes, is_stored=are_stored) for pod in pods)
        for pod in given if self._keys.get("Pod") or self.is_tried_on else self._loaded(given):
            self.put(pod)

    def _loaded(self, pods: Iterable[Pod]) -> list[Pod]:
        """Take in those of the first pods that have a node; return the others, and those of a name that was there."""
        placed: dict[str, Pod] = {}
        left: list[Pod] = []
        for pod in pods:
            key = pod.key
            if not pod.spec.node_name or key in placed:
                left.append(pod)
            else:
                placed[key] = pod
        self.objects.load({("Pod", key): pod for key, pod in placed.items()})
        self._keys.setdefault("Pod", OrderedKeys()).add(*placed)
        for pod in placed.values():
            self.budgets.note(pod)
            self.admission.quotas.note(pod)
        self.core.load(placed)
        return left

    def add_followed(self, documents: Iterable[Document], namespace: str = "default") -> list[Document]:
        """Take in, out of a snapshot's or manifests' documents, what plugins follow; return the rest of them.

        See `take_followed`. Raises `ObjectError`.
        """
        return take_followed(documents, self.core.resources, self.put, namespace)

    def create(self, objects: Iterable[Struct]) -> None:
        """Have the API server make new objects: what it fills in is filled in, and what it refuses is not made.

        Claims get the default class, and a volume where none waits for a pod. The pods that are refused stand in
        `refused`; a StatefulSet's pod waits for its claims, other claims are made once their pod is there.
        """
        given = list(objects)
        claims = [each for each in given if isinstance(each, PersistentVolumeClaim | ResourceClaim)]
        pods = [each for each in given if isinstance(each, Pod)]
        uids = {each.metadata.uid for each in pods}
        own: dict[str, list[Struct]] = {}
        self.add(each for each in given if not isinstance(each, Pod | PersistentVolumeClaim | ResourceClaim))
        lacking: dict[str, tuple[Struct, str]] = {}
        for claim in claims:
            owner = next((each.uid for each in claim.metadata.owner_references if each.uid in uids), None)
            if owner is not None:
                own.setdefault(owner, []).append(claim)
            elif why := self.make_claim(claim):
                lacking[key_of(claim)] = claim, why
        for pod in pods:
            missing = [lacking[key] for key in _claims_before(pod) if key in lacking]
            self._make(pod, own.get(pod.metadata.uid, ()), missing)

    def _make(self, pod: Pod, own: Sequence[Struct], missing: Sequence[tuple[Struct, str]]) -> None:
        """Make a new pod and then what is its own, unless it is refused or lacks what its controller makes before."""
        why = missing[0][1] if missing else ""
        if not why:
            pod, why = self.admission.complete(pod)
        why = why or self.admission.quotas.refusal(pod)
        if why:
            self.refused[pod.key] = RefusedPod(pod, why, (*(claim for claim, _ in missing), *own))
            return
        self.refused.pop(pod.key, None)
        for claim in own:
            self.make_claim(claim)
        self.put(pod)

    def make_claim(self, claim: Any) -> str:
        """Make a new claim, or say why it is refused."""
        if isinstance(claim, PersistentVolumeClaim):
            claim = with_default_class(claim, self.of(StorageClass))
        why = self.admission.claim_refusal(claim)
        if why:
            plural = RESOURCES[type(claim).__name__].plural
            return f'{plural} "{claim.metadata.name}" is forbidden: {why}'
        self.put(claim)
        if isinstance(claim, PersistentVolumeClaim):
            self._api_calls.provide(claim)
        return ""

    def refused_in_words(self) -> Iterator[str]:
        """Yield a sentence for each reason for which the API server refuses pods, for answers that are about others."""
        keys: dict[str, list[str]] = {}
        for key, each in self.refused.items():
            keys.setdefault(each.why, []).append(key)
        for why, names in keys.items():
            who = f"pod {names[0]}" if len(names) == 1 else f"{len(names)} pods such as {names[0]}"
            yield f"the API server refuses {who}: {why}"

    def forget_refused(self, owners: Iterable[tuple[str, str]]) -> None:
        """Have controllers, by kind and `namespace/name`, try no more to make the pods that were refused."""
        kept = set(owners)
        for key in [key for key, each in self.refused.items() if owner_of(each.pod) in kept]:
            del self.refused[key]

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
        """The nodes, by name, as they are now: one is looked up in `objects`."""
        return {node.metadata.name: node for node in self.of(Node)}

    @property
    def pods(self) -> dict[str, Pod]:
        """The pods, by `namespace/name`, as they are now: one is looked up in `objects`."""
        return {key: self.objects["Pod", key] for key in self._keys.get("Pod", ())}

    @property
    def without_node(self) -> list[Pod]:
        """The pods that have no node, ended ones among them, by name."""
        return [self.objects["Pod", key] for key in sorted(self._without_node)]

    @property
    def placements(self) -> dict[str, str]:
        """The node of each pod, by `namespace/name`; empty where it has none."""
        return {key: pod.spec.node_name for key, pod in self.pods.items()}

    @property
    def circles(self) -> list[tuple[str, str]]:
        """The pods that would come back and be evicted again and again, and by whom, as `namespace/name`."""
        return list(self._comebacks.circles)

    def put(self, obj: Any) -> None:
        """Create an object, or put a newer state in its place."""
        if isinstance(obj, Pod) and obj.key in self._comebacks:
            self._comebacks.forget(obj.key)
            del self.objects["Pod", obj.key]  # the core has not heard of it: to it, this is a new pod
        super().put(obj)
        self._note(obj)

    def _note(self, obj: Any) -> None:
        kind = self.core.resources.name_of(obj)
        keys = self._keys.get(kind)
        if keys is None:
            keys = self._keys[kind] = OrderedKeys()
        keys.add(key_of(obj))
        if isinstance(obj, Pod):
            if obj.spec.node_name:
                self._without_node.pop(obj.key, None)
            else:
                self._without_node[obj.key] = None
            self.budgets.note(obj)
            self.admission.quotas.note(obj)
        elif isinstance(obj, PersistentVolumeClaim | ResourceClaim):
            self.admission.quotas.note(obj)
        elif isinstance(obj, PodDisruptionBudget):
            self.budgets.note_budget(obj)
        elif isinstance(obj, SCALED_KINDS):
            self.budgets.note_scale(obj)

    def take_placed(self) -> list[tuple[str, str]]:
        """Return who was placed since this was asked last, and where, in this order; by `namespace/name`."""
        found, self._placed = self._placed, {}
        return list(found.items())

    def again(self, objects: Iterable[Struct] | None = None, *, seed: int = 0) -> "SimulatedCluster":
        """Return another cluster under the same configuration: with these objects, or those that are here."""
        given = list(self.objects.values()) if objects is None else objects
        found = SimulatedCluster(given, config=self.config, registry=self.registry, seed=seed)
        found.admission.rules = self.admission.rules
        return found

    def publish_budgets(self) -> None:
        """Store the status of the budgets that changes of pods have made out of date."""
        for budget in self.budgets.publish(lambda: self.of(Pod)):
            self.put(budget)

    def delete(self, kind: str, key: str) -> None:
        """Delete an object by `namespace/name` or name; a pod frees its claims."""
        obj = self.objects[kind, key]
        self._note_departure(kind, key)
        if isinstance(obj, Pod):
            self.budgets.forget(obj)
        elif isinstance(obj, PodDisruptionBudget):
            self.budgets.forget_budget(obj)
        if isinstance(obj, Pod | PersistentVolumeClaim | ResourceClaim):
            self.admission.quotas.forget(obj)
        if not isinstance(obj, Pod):
            super().delete(kind, key)
            return
        if not (obj.spec.volumes or obj.spec.resource_claims):
            self._delete_pod(key)
            return

        def lookup(of_kind: str, name: str) -> Struct | None:
            found: Struct | None = self.objects.get((of_kind, name))
            return found

        if has_own_claims(obj) and is_replaced(obj):
            self._own_claims[key] = claims_again(obj, pending_again(obj), lookup)
        self._delete_pod(key)
        given_up = released(obj, lookup)
        for other in given_up.deleted:
            self.delete(*other)
        for changed in given_up.changed:
            self.put(changed)

    def _note_departure(self, kind: str, key: str) -> None:
        place = self._keys[kind].remove(key)
        if place is not None and self.is_tried_on:
            self._departed.append((kind, key, place))

    def _delete_pod(self, key: str) -> None:
        self._without_node.pop(key, None)
        if key in self._comebacks:
            self._comebacks.forget(key)
            del self.objects["Pod", key]
        else:
            super().delete("Pod", key)
        self._comebacks.begins_anew(key)

    def withdraw(self, key: str) -> None:
        """Take out a pending pod by `namespace/name` as if it were yet to be created: its claims stay as they are."""
        self._note_departure("Pod", key)
        self.budgets.forget(self.objects["Pod", key])
        self.admission.quotas.forget(self.objects["Pod", key])
        self._delete_pod(key)

    def send_back(self, key: str) -> None:
        """Evict a pod by `namespace/name`: its controller replaces it by a pending one, without one it is gone."""
        pod: Pod = self.objects["Pod", key]
        self.delete("Pod", key)
        if is_replaced(pod):
            self._returning.append(self._replacement(pod))
        self._return()

    def _remember(self) -> _Remembered:
        self.publish_budgets()
        return _Remembered(
            {kind: keys.next_place for kind, keys in self._keys.items()},
            len(self._departed),
            dict(self.messages),
            len(self.evictions),
            self.changes,
            self._comebacks.copied(),
            tuple(self._returning),
            dict(self._own_claims),
            self._api_calls.made,
            self.admission.rules,
            dict(self.refused),
        )

    def _take_off(self, pod: PodInfo) -> None:
        super()._take_off(pod)
        self._without_node[pod.key] = None
        self.budgets.note(pod.pod)

    def _put_back(self, obj: Any, others: _Remembered) -> None:
        if isinstance(obj, Pod) and obj.key in others.comebacks:  # it stayed away, and the core is not to hear of it
            self.objects["Pod", obj.key] = obj
            self._note(obj)
        else:
            self.put(obj)

    def _recall(self, others: _Remembered) -> None:
        # The first departure of a key counts: what goes a second time had come back in the trial, to another place.
        for kind, key, place in reversed(self._departed[others.departed :]):
            if place < others.next_places.get(kind, 0):
                self._keys[kind].put_back(key, place)
        del self._departed[others.departed :]
        for kind, place in others.next_places.items():
            self._keys[kind].next_place = place
        self.messages.clear()
        self.messages.update(others.messages)
        del self.evictions[others.evictions :]
        self.changes, self._comebacks = others.changes, others.comebacks
        self._returning, self._own_claims = list(others.returning), others.own_claims
        self._api_calls.made = others.calls_made
        self.admission.rules = others.rules
        self.refused.clear()
        self.refused.update(others.refused)

    def _kept_all(self) -> None:
        self._departed.clear()

    # -- time --------------------------------------------------------------------------------------------------------

    def settle(self, *, patience_s: float = 120.0, watch: WorkWatch = UNWATCHED) -> None:
        """Let the scheduler work until nothing more can come of it, for at most `patience_s` of virtual time.

        Pods are pending afterwards because they fit nowhere, or wait for something that does not happen by itself.
        `watch` is told of each pod that is tried. Raises `StuckError`, `StoppedError`.
        """
        until, changes, changed_at = self.now + patience_s, self.changes, self.now
        self.work(watch)
        while (deadline := self.core.next_deadline()) is not None and deadline <= until:
            if not self.core.cache.table.node_count and not len(self.core.waiting):
                break  # a pod that fails without a node is tried again after each backoff, for which nothing changes
            if self.changes != changes:
                changes, changed_at = self.changes, self.now
            elif deadline > changed_at + BACKOFF_S and not len(self.core.waiting):
                break
            self.now = max(self.now, deadline)
            self.work(watch)
        self.publish_budgets()

    def work(self, watch: WorkWatch = UNWATCHED) -> None:
        """Step until nothing is left to do at this time. Raises `StuckError`, `StoppedError`."""
        self._return()
        self.publish_budgets()
        if self._is_at_rest:
            return
        steps, pods, returned = 0, len(self.core.queue) + 16, set[str]()
        seen, has_let_back = len(self.evictions), False
        while True:
            changes = self.changes
            self.step()
            steps += 1
            if self._returning or self._comebacks.are_due or self._frees_refused:
                returned |= self._return()  # each pod once: those that keep evicting each other must not go on for ever
                self.publish_budgets()
            watch.step(max(1, self.changes - changes))  # alike pods are placed many in a step
            if steps > STEPS_A_POD * (pods + len(returned)):
                raise StuckError(self._what_is_stuck(steps, self.evictions[seen:]))
            if self.core.has_work:
                continue
            deadline = self.core.next_deadline()
            if deadline is not None and deadline <= self.now:
                continue
            if has_let_back or not len(self._comebacks):
                return
            # Once only: pods that are evicted yet again stay away until time goes on, or something changes.
            has_let_back = True
            self._comebacks.let_back(self._waits_in_vain)

    @property
    def _frees_refused(self) -> bool:
        """Whether something has gone where quotas have refused pods."""
        return bool(self.refused) and bool(self.admission.quotas.freed)

    @property
    def _is_at_rest(self) -> bool:
        """Whether a step would do nothing, as after most events; the first one sets clocks."""
        core = self.core
        if core.takes_many or core.has_work or len(self._comebacks):
            return False
        deadline = core.next_deadline()
        return deadline is None or deadline > self.now

    def _waits_in_vain(self, key: str) -> bool:
        """Whether a pod stays pending unless something else happens, so that nobody need make way for it."""
        pod: Pod | None = self.objects.get(("Pod", key))
        if pod is None:
            return True
        queue = self.core.queue
        return queue.find(pod.metadata.uid) is not None and not queue.is_to_be_tried(pod.metadata.uid)

    def _what_is_stuck(self, steps: int, evictions: Iterable[Eviction]) -> str:
        most = Counter((each.pod, each.by) for each in evictions).most_common(1)
        told = "".join(f"; {pod} was evicted {times} times by {by}" for (pod, by), times in most if times > 1)
        return f"the scheduler still has work after {steps} attempts at one moment{told}"

    # -- what the core does ------------------------------------------------------------------------------------------

    def carried_out(self, effect: Effect) -> None:
        """Remember why a pod has no node; nothing else is kept."""
        if isinstance(effect, PatchPodStatus) and effect.condition_status == "False":
            self.messages[effect.pod.key] = effect.message

    def bind_at_once(self, pod: PodInfo, node_name: str) -> Pod:
        """Store that a pod is bound to a node."""
        bound = super().bind_at_once(pod, node_name)
        self._without_node.pop(pod.key, None)
        self.budgets.note(bound)
        return bound

    def bound(self, pod: Pod) -> None:
        """Take note that a pod has got its node."""
        self.changes += 1
        self._placed[pod.key] = pod.spec.node_name
        self.messages.pop(pod.key, None)
        self._comebacks.begins_anew(pod.key)

    def evicted(self, pod: Pod, eviction: EvictPod) -> None:
        """Take note that a preempted pod is gone."""
        self.changes += 1
        by = eviction.preemptor.key
        self.evictions.append(Eviction(pod.key, pod.spec.node_name, by))
        if not is_replaced(pod):
            return
        replacement = self._replacement(pod)
        if not self._comebacks.is_to_stay_away(pod, by):
            self._returning.append(replacement)
            return
        self._comebacks.stay_away(replacement, by)
        self.objects["Pod", replacement.key] = replacement
        self._note(replacement)
        self.messages[pod.key] = AGAIN_AND_AGAIN.format(by=by)

    def _replacement(self, pod: Pod) -> Pod:
        own = self._own_claims.get(pod.key)
        return pending_again(pod) if own is None else own[0]

    def _return(self) -> set[str]:
        """Put the pods back that come back now, with claims of their own; return who they are."""
        returning, self._returning = [*self._returning, *self._comebacks.due()], []
        for pod in returning:
            _, claims = self._own_claims.pop(pod.key, (pod, []))
            why = self.admission.refusal(pod)
            if why:
                self.refused[pod.key] = RefusedPod(pod, why, tuple(claims))
                continue
            if claims:
                self.create(claims)
            self.put(pod)
        tried = self._try_refused()
        return {pod.key for pod in returning} | tried

    def _try_refused(self) -> set[str]:
        """Have controllers make the pods that quotas refused where something has gone since; return who they are."""
        freed = self.admission.quotas.freed
        if not freed:
            return set()
        again = [each for each in self.refused.values() if each.pod.metadata.namespace in freed]
        freed.clear()
        for each in again:
            if owner_of(each.pod) is not None:
                self.create([*each.claims, each.pod])
        return {each.pod.key for each in again} - self.refused.keys()


def _claims_before(pod: Pod) -> Iterator[str]:
    """Yield the claims that a StatefulSet makes before it makes a pod; others are made once there is the pod."""
    owner = owner_of(pod)
    if owner is not None and owner[0] == "StatefulSet":
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                yield f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"


def is_replaced(pod: Pod) -> bool:
    """Say whether a controller makes another pod in place of one that is gone; a kubelet restarts its own.

    In place of one that has ended, or is being deleted, there is another already.
    """
    return is_active(pod) and any(owner.controller and owner.kind != "Node" for owner in pod.metadata.owner_references)


def pending_again(pod: Pod) -> Pod:
    """Return the pod that a controller makes in place of one that was evicted; it keeps the name, for people's sake."""
    metadata = msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.uid}'", deletion_timestamp=None)
    return Pod(metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=""))
