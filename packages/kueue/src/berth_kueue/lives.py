"""Queues that live: objects come and change, time passes, and cycles are carried out.

`Queues` is the engine as a library. It plays the parts around the scheduler that decide anything: the event handlers of
Kueue's controllers (which change asks for a retry, what goes into a queue or counts as usage), the Workload controller
(conditions outside a cycle, evictions from stopped queues), and what carries a cycle's decisions out (admissions,
evictions, conditions, Kubernetes events). After each step everything settles: changed workloads are handled and all are
reconciled, by name, until nothing changes; then retries are carried out.

Sources: `pkg/controller/core` (workload_controller.go, clusterqueue_controller.go, localqueue_controller.go,
resourceflavor_controller.go, cohort_controller.go), `pkg/controller/tas`, `pkg/workload/evict`, and what
`pkg/scheduler/scheduler.go` writes. `../shared/decisions/kueue/README.md` tells the steps.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from berth.api.codec import ObjectError, object_name
from berth.api.meta import Struct
from berth.api.quantity import QuantityError
from berth.api.selectors import SelectorError
from berth.api.untrusted import UNREADABLE, problem_of
from berth.api.user_error import UserError
from berth_kueue.amounts import written
from berth_kueue.cycle import CycleEntry, admissibility_problem, run_cycle
from berth_kueue.model import (
    ADMITTED,
    EVICTED,
    FINISHED,
    GATES,
    PENDING,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    ClusterQueueSpec,
    CohortSpec,
    FlavorSpec,
    KueueSpec,
    KueueWorkload,
    LocalQueueSpec,
    PodSetAdmission,
    QuotaAdmission,
    TopologySpec,
    read,
    seconds_of,
)
from berth_kueue.preemption import WORDS, PreemptionTarget
from berth_kueue.queues import PendingQueues
from berth_kueue.snapshot import CycleSnapshot
from berth_kueue.topology.tree import HOSTNAME
from berth_kueue.world import KueueWorld, QueueNode

_SPECS: dict[str, type[Struct]] = {
    "ClusterQueue": ClusterQueueSpec,
    "Cohort": CohortSpec,
    "LocalQueue": LocalQueueSpec,
    "ResourceFlavor": FlavorSpec,
    "Topology": TopologySpec,
}
KINDS = ("Namespace", "Node", "Topology", "ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue", "Pod", "Workload")
"""The kinds that count, in the order in which they are loaded."""
_BY_SCHEDULER = frozenset(
    {
        "WaitingForQuota",
        "NoMatchingFlavor",
        "ExceedsMaxQuota",
        "TopologyPlacementFailed",
        "WaitingForPreemptedWorkloads",
        "WaitingForPodsReady",
        "PendingEvaluation",
    }
)
"""Reasons that the scheduler gave, and that stay until it gives another."""
_BYPASSED_AFTER = frozenset({"Deactivated", "PendingEvaluation", "Suspended", "Pending", ""})
"""Reasons after which a condition may come to say that an equivalent workload failed."""
_NEEDED: dict[str, dict[str, Any]] = {
    "cycle": {},
    "add": {"object": dict},
    "update": {"object": dict},
    "delete": {},
    "finish": {"workload": str},
    "evictDone": {"workload": str},
    "nodeFails": {"node": str},
    "advance": {"seconds": (int, float)},
}
"""The fields of each kind of step, with their types; `delete` names an object or a workload."""
_MAX_EVENT, _CUT = 1024, " ..."


class QueueStepError(UserError, ValueError):
    """A step that cannot be carried out; the message says which, and what is wrong with it."""


class QueueEvent(NamedTuple):
    """A Kubernetes event about a workload (`namespace/name`)."""

    workload: str
    type: str
    reason: str
    message: str


class CycleResult(NamedTuple):
    """What a cycle did: entries in the order of processing, those set aside, and the heads (ClusterQueue, workload)."""

    processed: list[CycleEntry]
    aside: list[CycleEntry]
    heads: list[tuple[str, str]]


class _Seen(NamedTuple):
    """A workload as the controllers saw it last."""

    phase: int
    spec: KueueSpec
    reclaimable: Mapping[str, int]


class Queues:
    """Kueue's queues in memory, to be stepped, copied and asked.

    Objects are JSON documents of `kueue.x-k8s.io/v1beta2`; other kinds that count are Namespace, Node and Pod. `now` is
    in seconds since 1970.
    """

    def __init__(self, objects: Iterable[Mapping[str, Any]] = (), config: Mapping[str, Any] | None = None) -> None:
        """Load objects and let them settle.

        `config` has `start` (a timestamp), `fairSharing` (absent: off), `preemptionStrategies` and `featureGates`.
        Raises `ObjectError` for an object that cannot be read.
        """
        config = config or {}
        self.gates = {**GATES, **(config.get("featureGates") or {})}
        self.strategies: tuple[str, ...] | None = None
        if config.get("fairSharing"):
            self.strategies = tuple(config.get("preemptionStrategies") or ())
        self.now = seconds_of(config.get("start"))
        self.world = KueueWorld(self.gates)
        self.pending = PendingQueues(self.world)
        self.workloads: dict[str, KueueWorkload] = {}
        self.events: list[QueueEvent] = []
        self.cycles = 0
        self.local_queues: dict[str, LocalQueueSpec] = {}
        self.nodes: dict[str, Mapping[str, Any]] = {}
        self.pod_nodes: dict[str, str] = {}
        self.flavors: dict[str, Mapping[str, Any]] = {}
        self.cohorts: set[str] = set()
        self.seen: dict[str, _Seen] = {}
        self.changed: dict[str, None] = {}
        self.unsettled: set[str] = set()
        self.restless: set[str] = set()
        by_kind: dict[str, list[Mapping[str, Any]]] = {}
        for document in objects:
            by_kind.setdefault(str(document.get("kind")), []).append(document)
        for kind in KINDS:
            for document in by_kind.get(kind, ()):
                self.put(document)
        self.settle()

    def copy(self) -> "Queues":
        """Return the same queues, to be changed on their own."""
        made = Queues.__new__(Queues)
        made.gates, made.strategies, made.now, made.cycles = self.gates, self.strategies, self.now, self.cycles
        made.workloads = {key: workload.copy() for key, workload in self.workloads.items()}
        made.world = self.world.copy(made.workloads)
        made.pending = self.pending.copy(made.world, made.workloads)
        made.events = list(self.events)
        made.local_queues, made.nodes = dict(self.local_queues), dict(self.nodes)
        made.pod_nodes, made.flavors = dict(self.pod_nodes), dict(self.flavors)
        made.cohorts, made.seen, made.changed = set(self.cohorts), dict(self.seen), dict(self.changed)
        made.unsettled, made.restless = set(self.unsettled), set(self.restless)
        return made

    # Steps.

    def step(self, step: Mapping[str, Any]) -> CycleResult | None:
        """Carry out a step (`op` and its fields) and let everything settle; a cycle's result is returned.

        Raises `QueueStepError` for a step that is unknown or lacks a field, and `ObjectError` for an unreadable object.
        """
        op = step.get("op")
        for field, type_ in _needed(op).items():
            if not isinstance(step.get(field), type_):
                raise QueueStepError(f"step {op}: {field} is missing, or not what it should be")
        if op == "advance":
            self.advance(step["seconds"])
            return None
        if op == "cycle":
            return self.cycle()
        if op in ("add", "update"):
            self.put(self._as_update(step["object"]))
        elif op == "delete":
            document = step.get("object") or {"kind": "Workload", "metadata": _named(step.get("workload"))}
            meta, _, _ = read(document)
            self.delete(str(document.get("kind")), meta.namespace, meta.name)
        elif op == "finish":
            self.finish(step["workload"])
        elif op == "evictDone":
            self.evict_done(step["workload"])
        else:
            self.fail_node(step["node"])
        self.settle()
        return None

    def _as_update(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an object as an API server takes it over; the status of a Node that exists is not part of it."""
        old = self.nodes.get(str((document.get("metadata") or {}).get("name")))
        if document.get("kind") != "Node" or old is None:
            return document
        return {**document, "status": old.get("status") or {}}

    def advance(self, seconds: float) -> None:
        """Let time pass; second passes come due."""
        self.now += seconds
        self.pending.fire_timers(self.now)

    def put(self, document: Mapping[str, Any]) -> None:
        """Add an object, or replace the one of that name; kinds that do not count are passed over.

        Raises `ObjectError` for an object that cannot be read.
        """
        kind = str(document.get("kind"))
        if kind in KINDS:
            try:
                self._put(kind, document)
            except (QuantityError, SelectorError, *UNREADABLE) as error:
                raise ObjectError(kind, object_name(document), problem_of(error)) from error

    def _put(self, kind: str, document: Mapping[str, Any]) -> None:
        if kind == "Workload":
            self._put_workload(document)
            return
        meta, spec, _ = read(document, _SPECS.get(kind))
        if kind not in ("Node", "Pod"):
            self.unsettled.update(self.workloads)
        if kind == "Namespace":
            self._put_namespace(meta.name, meta.labels)
        elif kind == "Topology":
            self.world.forest.set_topology(document)
            self.pending.ask_retry(self.world.update_readiness())
        elif kind == "ResourceFlavor":
            self._put_flavor(meta.name, spec, document)
        elif kind == "Cohort":
            self._put_cohort(meta.name, spec)
        elif kind == "ClusterQueue":
            self._put_queue(meta.name, spec)
        elif kind == "LocalQueue":
            self._put_local_queue(f"{meta.namespace}/{meta.name}", spec)
        elif kind == "Node":
            self._put_node(meta.name, document)
        else:
            self._put_pod(f"{meta.namespace}/{meta.name}", document)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; nothing happens where it is not there."""
        key = f"{namespace}/{name}"
        if kind not in ("Node", "Pod", "Workload"):
            self.unsettled.update(self.workloads)
        if kind == "Workload":
            if self.workloads.pop(key, None) is not None:
                self.changed.pop(key, None)
                self.seen.pop(key, None)
                self.unsettled.discard(key)
                self.restless.discard(key)
                self.world.delete_workload(key)
                self.pending.ask_retry_beside(key)
                self.pending.forget(key)
        elif kind == "Pod":
            node = self.pod_nodes.pop(key, None)
            self.world.forest.delete_pod(namespace, name)
            if node is not None:
                self._ask_retry_on(node)
        elif kind == "Node":
            self.world.forest.delete_node(name)
            self._ask_topology_retry(self.nodes.pop(name, {}))
        elif kind == "LocalQueue" and self.local_queues.pop(key, None) is not None:
            self.pending.close_line(key)
        elif kind == "ResourceFlavor" and self.flavors.pop(name, None) is not None:
            self.pending.ask_retry(self.world.set_flavor(name, None))
        elif kind == "Cohort" and name in self.cohorts:
            self.cohorts.remove(name)
            self.world.delete_cohort(name)
        elif kind == "ClusterQueue" and name in self.world.queues:
            for info in list(self.world.queues[name].workloads.values()):
                self.world.delete_workload(info.key)
            self.world.delete_queue(name)
            self.pending.queues.pop(name, None)

    def finish(self, key: str) -> None:
        """Let a workload be finished."""
        workload = self.workloads.get(key)
        if workload is not None and workload.phase != FINISHED:
            workload.set("Finished", True, "Succeeded", "Job finished successfully", self.now)
            self.changed[key] = None

    def evict_done(self, key: str) -> None:
        """Let evicted workloads (one, or `*`) give their quota back, as their jobs have no more running pods."""
        for name in sorted(self.workloads) if key == "*" else [key]:
            workload = self.workloads.get(name)
            if workload is None or not workload.has(QUOTA_RESERVED) or not workload.has(EVICTED):
                continue
            evicted = workload.conditions[EVICTED]
            workload.unreserve("PendingEvaluation", evicted.message, self.now)
            comes_back = evicted.reason in ("Preempted", "NodeFailures")
            workload.set(REQUEUED, comes_back, evicted.reason, evicted.message, self.now)
            self.changed[name] = None

    def fail_node(self, name: str) -> None:
        """Let a node be not ready, with what that means for the workloads that have pods placed there.

        Its capacity goes on counting, as in the records: Kueue leaves it out at the next change of its status.
        """
        if name not in self.nodes:
            return
        self._ask_topology_retry(self.nodes[name])
        for key in sorted(self.workloads):
            workload = self.workloads[key]
            if workload.phase == FINISHED or workload.has(EVICTED) or not _is_placed_on(workload, name):
                continue
            if name in workload.unhealthy:
                continue
            if workload.unhealthy:
                nodes = ", ".join((*workload.unhealthy, name))
                words = f"Workload eviction triggered due to multiple TAS assigned node failures, including: {nodes}"
                self._evict(workload, "NodeFailures", words)
            else:
                workload.unhealthy = (name,)
                self.changed[key] = None

    # Objects.

    def _put_workload(self, document: Mapping[str, Any]) -> None:
        new = KueueWorkload(document)
        old = self.workloads.get(new.key)
        if old is None:
            self.workloads[new.key] = new
        else:
            old.generation += 1
            if new.spec.pod_sets:
                old.set_spec(new.spec)
            if "reclaimablePods" in (document.get("status") or {}):
                old.reclaimable = new.reclaimable
        self.changed[new.key] = None

    def _put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        before, self.pending.namespaces[name] = self.pending.namespaces.get(name), labels
        if before is not None:
            queues = self.world.queues.values()
            self.pending.ask_retry(
                queue.name for queue in queues if queue.selector.matches(labels) and not queue.selector.matches(before)
            )

    def _put_flavor(self, name: str, spec: FlavorSpec, document: Mapping[str, Any]) -> None:
        old = self.world.flavors.get(name)
        self.flavors[name] = document
        self.world.forest.set_flavor(document)
        retries = self.world.set_flavor(name, spec)
        if old is not None and (old.node_labels, old.node_taints, old.tolerations) != (
            spec.node_labels,
            spec.node_taints,
            spec.tolerations,
        ):
            retries |= self.world.queues_using(name)
            if spec.topology_name is not None:
                retries |= {queue for queue in self.world.queues if self.world.is_active(queue)}
        self.pending.ask_retry(sorted(retries))

    def _put_cohort(self, name: str, spec: CohortSpec) -> None:
        self.cohorts.add(name)
        self.world.set_cohort(name, spec)
        self.pending.ask_retry_of_cohort(name)

    def _put_queue(self, name: str, spec: ClusterQueueSpec) -> None:
        old = self.world.queues.get(name)
        before = old.spec if old is not None else None
        self.world.set_queue(name, spec)
        if before is None:
            self.pending.add_queue(name)
            for workload in self.workloads.values():
                if workload.admission is not None and workload.admission.cluster_queue == name:
                    self.world.set_workload(workload)
        elif before != spec:
            self.pending.ask_retry((name,))

    def _put_local_queue(self, key: str, spec: LocalQueueSpec) -> None:
        old, self.local_queues[key] = self.local_queues.get(key), spec
        if spec.stop_policy == "None":
            if old is not None and old.stop_policy == "None":
                self.pending.move_line(key, spec.cluster_queue)
                return
            namespace, name = key.split("/", 1)
            waiting = [w for w in self.workloads.values() if w.namespace == namespace and w.spec.queue_name == name]
            self.pending.open_line(key, spec.cluster_queue, waiting)
        elif old is not None and old.stop_policy != spec.stop_policy:
            self.pending.close_line(key)

    def _put_node(self, name: str, document: Mapping[str, Any]) -> None:
        old, self.nodes[name] = self.nodes.get(name, {}), document
        self.world.forest.set_node(document)
        self._ask_topology_retry(old, document)

    def _put_pod(self, key: str, document: Mapping[str, Any]) -> None:
        node = (document.get("spec") or {}).get("nodeName")
        if (document.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            freed = self.pod_nodes.pop(key, None)
            if freed is not None:
                self._ask_retry_on(freed)
        elif node:
            self.pod_nodes[key] = node
        self.world.forest.set_pod(document)

    def _ask_topology_retry(self, *nodes: Mapping[str, Any]) -> None:
        """Ask for a retry in every active ClusterQueue, if one of the nodes belongs to a topology."""
        if any(next(self._flavors_of(node), None) for node in nodes):
            self.pending.ask_retry(name for name in sorted(self.world.queues) if self.world.is_active(name))

    def _ask_retry_on(self, name: str) -> None:
        """Ask for a retry in the ClusterQueues of topologies' flavors, as a pod has left a node."""
        for flavor in self._flavors_of(self.nodes.get(name, {})):
            self.pending.ask_retry(sorted(self.world.queues_using(flavor)))

    def _flavors_of(self, node: Mapping[str, Any]) -> Iterator[str]:
        """Yield the flavors with a topology that a node belongs to."""
        labels = (node.get("metadata") or {}).get("labels") or {}
        for name, flavor in sorted(self.world.flavors.items()):
            if (
                self.world.forest.knows(name)
                and flavor.node_labels.items() <= labels.items()
                and all(level in labels for level in self.world.forest.levels(name))
            ):
                yield name

    # Settling.

    def settle(self) -> None:
        """Let controllers do their part until nothing changes, then carry out retries.

        A workload is reconciled when it has changed, or something that its reconciling reads: its queues and whether
        they can work, namespaces, and for `restless` ones whether others of their shape were tried in vain.
        """
        while True:
            changed, self.changed = sorted(self.changed), {}
            for key in changed:
                self._handle(self.workloads[key])
            keys, self.unsettled = sorted({*changed, *self.unsettled, *self.restless}), set()
            for key in keys:
                workload = self.workloads[key]
                if self._reconcile(workload):
                    self.changed[key] = None
                condition = workload.conditions.get(QUOTA_RESERVED)
                if condition is not None and not condition.is_true and condition.reason in _BYPASSED_AFTER:
                    self.restless.add(key)
                else:
                    self.restless.discard(key)
            if not self.changed:
                break
        self.pending.run_retries()

    def _handle(self, workload: KueueWorkload) -> None:
        """Do what the Workload controller's event handler does with a new or changed workload."""
        key, phase = workload.key, workload.phase
        old = self.seen.get(key)
        self.seen[key] = _Seen(phase, workload.spec, workload.reclaimable)
        if old is None:
            if phase == FINISHED:
                return
            if workload.is_admissible:
                self.pending.add_or_update(workload)
                return
            self.world.set_workload(workload)
        elif phase == FINISHED or not workload.spec.active:
            self.pending.delete(key)
            self.world.delete_workload(key)
            self.pending.ask_retry_beside(key)
        elif phase == PENDING and old.phase == PENDING:
            self.pending.add_or_update(workload)
        elif old.phase == PENDING:
            self.pending.delete(key)
            self.world.set_workload(workload)
        elif phase == PENDING:
            self.world.delete_workload(key)
            self.pending.add_or_update(workload)
            self.pending.drop_second_pass(key)
            self.pending.ask_retry_beside(key)
        else:
            self.world.set_workload(workload)
            both_admitted = old.phase == ADMITTED and phase == ADMITTED
            if (both_admitted and old.reclaimable != workload.reclaimable) or _priority_changed(
                old.spec, workload.spec
            ):
                self.pending.ask_retry_beside(key)
        self.pending.ask_second_pass(workload, 0, self.now)

    def _reconcile(self, workload: KueueWorkload) -> bool:
        """Do what the Workload controller does with a workload as it is; say whether it was changed."""
        if workload.has("Finished"):
            return False
        requeued = workload.conditions.get(REQUEUED)
        held_for = requeued.reason if requeued is not None and not requeued.is_true else ""
        if not workload.spec.active:
            if not workload.has(EVICTED):
                self._evict(workload, "Deactivated", "The workload is deactivated")
                return True
        elif held_for == "Deactivated":
            return self._let_back(workload, "Reactivated", "The workload was reactivated")
        elif held_for in ("PodsReadyTimeout", "AdmissionCheck"):
            return self._let_back(workload, "BackoffFinished", "The workload backoff was finished")
        local = self.local_queues.get(f"{workload.namespace}/{workload.spec.queue_name}")
        policy = local.stop_policy if local is not None else "None"
        if local is not None and policy == "None" and held_for == "LocalQueueStopped":
            return self._let_back(workload, "LocalQueueRestarted", "The LocalQueue was restarted after being stopped")
        name = self.pending.queue_name(workload)
        queue = self.world.queues.get(name) if name is not None else None
        if queue is not None and queue.spec.stop_policy == "None" and held_for == "ClusterQueueStopped":
            return self._let_back(
                workload, "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"
            )
        changed = False
        if not workload.has("Admitted"):
            if not workload.has(QUOTA_RESERVED):
                reason, message = self._waiting_for(workload, local, name, queue)
                if reason:
                    changed = workload.set(QUOTA_RESERVED, False, reason, message, self.now)
            changed = workload.sync_admitted(self.now) or changed
        if workload.has(QUOTA_RESERVED) and workload.has("Admitted") and not workload.has(EVICTED):
            if policy == "HoldAndDrain":
                self._evict(workload, "LocalQueueStopped", "The LocalQueue is stopped")
                return True
            if queue is not None and queue.spec.stop_policy == "HoldAndDrain":
                self._evict(workload, "ClusterQueueStopped", "The ClusterQueue is stopped")
                return True
        return changed

    def _let_back(self, workload: KueueWorkload, reason: str, message: str) -> bool:
        return workload.set(REQUEUED, True, reason, message, self.now)

    def _waiting_for(
        self, workload: KueueWorkload, local: LocalQueueSpec | None, name: str | None, queue: QueueNode | None
    ) -> tuple[str, str]:
        """Return reason and message of a QuotaReserved condition that is false; no reason where it stays as it is."""
        condition = workload.conditions.get(QUOTA_RESERVED)
        if not workload.spec.active:
            return "Deactivated", "The workload is deactivated"
        if local is None:
            return "Misconfigured", f"LocalQueue {workload.spec.queue_name} doesn't exist"
        if local.stop_policy != "None":
            return "Suspended", f"LocalQueue {workload.spec.queue_name} is inactive"
        if queue is None:
            return "Misconfigured", f"ClusterQueue {name or ''} doesn't exist"
        if not self.world.is_active(queue.name):
            return "Suspended", f"ClusterQueue {queue.name} is inactive"
        problem = admissibility_problem(queue, workload.namespace, self.pending.namespaces)
        if problem:
            return "Misconfigured", problem
        if condition is None:
            return "", ""
        if condition.reason in _BYPASSED_AFTER:
            bypassed = self.pending.why_bypassed(workload)
            if bypassed is not None:
                words = "Bypassed scheduling evaluation because an equivalent workload recently failed"
                return bypassed, words
        if condition.reason in _BY_SCHEDULER:
            return condition.reason, condition.message
        return "PendingEvaluation", "Workload is pending evaluation in the scheduling queue"

    def _evict(self, workload: KueueWorkload, reason: str, message: str) -> None:
        workload.set(EVICTED, True, reason, message, self.now)
        workload.unhealthy = ()
        self.changed[workload.key] = None
        if workload.admission is not None:
            self._tell(workload.key, "Normal", f"EvictedDueTo{reason}", message)

    def _tell(self, key: str, type_: str, reason: str, message: str) -> None:
        cut = message if len(message) <= _MAX_EVENT else message[: _MAX_EVENT - len(_CUT)] + _CUT
        self.events.append(QueueEvent(key, type_, reason, cut))

    # Cycles.

    def cycle(self) -> CycleResult:
        """Run one scheduling cycle, carry out what it decided, and let everything settle."""
        self.cycles += 1
        heads = self.pending.heads()
        taken = [(info.cluster_queue, info.key) for info, _ in heads]
        snapshot = CycleSnapshot(self.world, cycle=self.cycles, now=self.now, strategies=self.strategies)
        processed, aside = run_cycle(snapshot, heads, self.pending.namespaces)
        snapshot.close()
        for entry in processed:
            if entry.result == "admitted":
                self._admit(entry)
            elif entry.result == "preempting":
                for target in entry.targets:
                    self._preempt(entry, target)
            elif entry.result == "evicted":
                workload = self.workloads[entry.info.key]
                nodes = ",".join(entry.info.workload.unhealthy)
                words = f"Workload was evicted as there was no replacement for unhealthy node(s): {nodes}"
                self._evict(workload, "NodeFailures", words)
        for entry in (*processed, *aside):
            if entry.result not in ("admitted", "evicted"):
                self._requeue(entry)
        self.settle()
        return CycleResult(processed, aside, taken)

    def _admit(self, entry: CycleEntry) -> None:
        workload = self.workloads[entry.info.key]
        had_quota, was_on_failed_node = entry.holds_quota, bool(entry.info.workload.unhealthy)
        queue = entry.queue
        admission = QuotaAdmission(
            queue,
            tuple(
                PodSetAdmission(
                    pod_set.name,
                    {resource: choice.name for resource, choice in pod_set.flavors.items()},
                    {resource: written(resource, amount) for resource, amount in pod_set.used().items()},
                    pod_set.count,
                    pod_set.topology,
                )
                for pod_set in entry.assignment.pod_sets
            ),
        )
        workload.reserve(admission, self.now)
        workload.unhealthy = ()
        self.world.set_workload(workload)
        self.changed[workload.key] = None
        if not had_quota:
            requeued = workload.conditions.get(REQUEUED)
            waited = self.now - (requeued.since if requeued is not None else workload.created)
            considered = entry.assignment.considered
            words = f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited:.0f}s"
            words += f"; Flavors considered: {considered}" if considered else ""
            self._tell(workload.key, "Normal", "QuotaReserved", words)
        if not was_on_failed_node:
            words = f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"
            self._tell(workload.key, "Normal", "Admitted", words)

    def _preempt(self, entry: CycleEntry, target: PreemptionTarget) -> None:
        if target.info.is_evicted:
            return
        preemptor, victim = self.workloads[entry.info.key], self.workloads[target.info.key]
        message = (
            f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'}, "
            f"JobUID: {preemptor.job_uid or 'UNKNOWN'}) due to {WORDS[target.reason]}; "
            f"preemptor path: {self._path(entry.queue)}; preemptee path: {self._path(target.info.cluster_queue)}"
        )
        victim.set(PREEMPTED, True, target.reason, message, self.now)
        self._evict(victim, "Preempted", message)
        own, other = entry.info.priority, target.info.priority
        priorities = (
            f"; preemptor effective priority: {own} (base: {own}, boost: 0); "
            f"preemptee effective priority: {other} (base: {other}, boost: 0)"
        )
        self.events.append(QueueEvent(victim.key, "Normal", "Preempted", message + priorities))
        words = f"Preempted workload {victim.key} (UID: {victim.uid}) in ClusterQueue {target.info.cluster_queue}"
        self.events.append(QueueEvent(preemptor.key, "Normal", "PreemptedWorkload", words + priorities))

    def _path(self, name: str) -> str:
        queue = self.world.queues[name]
        return "/" + "/".join(reversed([queue.name, *(cohort.name for cohort in queue.path())]))

    def _requeue(self, entry: CycleEntry) -> None:
        workload = self.workloads[entry.info.key]
        if self.pending.ask_second_pass(entry.info.workload, entry.info.pass_iteration, self.now):
            self._tell(workload.key, "Warning", "SecondPassFailed", entry.message)
            return
        entry.info.workload = workload
        self.pending.requeue(entry.info, entry.requeue_reason, entry.reason)
        # An API server takes no condition without a reason, nor an event: then everything stays as it was.
        if entry.reason:
            requests = [(pod_set.name, pod_set.requests) for pod_set in entry.info.pod_sets]
            is_told = workload.told_requests == requests
            workload.told_requests = requests
            if workload.unreserve(entry.reason, entry.message, self.now) or not is_told:
                self.changed[workload.key] = None
            self._tell(workload.key, "Warning", entry.reason, entry.message)


def _needed(op: Any) -> Mapping[str, Any]:
    needed = _NEEDED.get(op) if isinstance(op, str) else None
    if needed is None:
        raise QueueStepError(f"a step's op is one of {', '.join(_NEEDED)}, not {op!r}")
    return needed


def _named(key: Any) -> dict[str, str]:
    namespace, slash, name = str(key).partition("/")
    if not slash:
        raise QueueStepError("step delete: name an object, or a workload as namespace/name")
    return {"namespace": namespace, "name": name}


def _priority_changed(old: KueueSpec, new: KueueSpec) -> bool:
    """Say whether a workload's priority changed in the eyes of the controller: only by a WorkloadPriorityClass."""
    before, after = old.priority_class_ref or {}, new.priority_class_ref or {}
    if before.get("kind") == "PriorityClass" or after.get("kind") != "WorkloadPriorityClass":
        return False
    return before.get("name") != after.get("name") or old.priority != new.priority


def _is_placed_on(workload: KueueWorkload, node: str) -> bool:
    if workload.admission is None or not workload.has(QUOTA_RESERVED):
        return False
    return any(
        values[-1] == node
        for given in workload.admission.pod_set_assignments
        if given.topology_assignment is not None and given.topology_assignment.levels[-1] == HOSTNAME
        for values, _ in given.topology_assignment.domains
    )
