"""The engine in a program of your own: nodes and pods in, decisions with their reasons out.

`berth.Scheduler` is this module's `Scheduler`. It is the scheduler that `berth run` runs, without an API server: it has
a cluster in memory, binds at once, and decides with the same plugins, configuration and messages. Time is virtual and
nothing happens between two calls, so that the same calls with the same seed give the same decisions.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from berth.api.codec import KINDS, decode
from berth.api.pod import Pod
from berth.api.resources import RESOURCES
from berth.config.feature_gates import FeatureGates, feature_gates
from berth.config.load import document_enabling, load_config, load_config_file
from berth.config.types import SchedulerConfiguration
from berth.core.builders import ObjectBuilder
from berth.core.questions import find, search_beside
from berth.core.undoable import UndoableCluster
from berth.cycle.decision import Decision
from berth.cycle.instrument import Instrument
from berth.decisions.fit import Fit, fit
from berth.decisions.fit_question import read_question
from berth.decisions.node_columns import copy_columns, utilisation
from berth.framework.custom_resources import CustomResources
from berth.framework.effects import EvictPod, Request
from berth.framework.loader import plugins_given
from berth.framework.registry import Registry
from berth.library.result import Outcome, ScheduleResult
from berth.library.tables import DataTable, as_html, paragraph
from berth.state.label_index import Mask
from berth.state.table import Int64

Manifest = Mapping[str, Any]
"""An object as kubectl and YAML files have it, with `kind`, `metadata`, `spec`, `status`."""

RETRY_S = 60.0
"""How long virtual time goes on for a pod whose victims have to leave; longer than any backoff."""

_CLUSTER_WIDE = frozenset(kind for kind, resource in RESOURCES.items() if not resource.namespaced)


class Scheduler:
    """A scheduler with a cluster in memory.

    `config` is a configuration as a path, a mapping or a `SchedulerConfiguration`; without one, today's default profile
    applies, with `plugins` enabled beside the default ones. `plugins` are classes, or text as `--plugin` takes it.
    Raises `ConfigError` with everything that is wrong with either.
    """

    def __init__(
        self,
        config: str | Path | Manifest | SchedulerConfiguration | None = None,
        plugins: Iterable[type | str] = (),
        *,
        seed: int = 0,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        classes = plugins_given(list(plugins))
        self._plugins = classes
        self._log = _DecisionLog()
        self._cluster = UndoableCluster(
            plugins=classes,
            config=_configuration(config, classes, feature_gates(gates or {})),
            seed=seed,
            instrument=self._log,
            check_promises=0,
        )
        self._cluster.core.let_bind(self._cluster.bind_at_once, in_runs=False)

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def placements(self) -> dict[str, str | None]:
        """The node of every pod, by `namespace/name`; None where it has none."""
        return {pod.key: pod.spec.node_name or None for pod in self._pods()}

    def nodes(self) -> DataTable:
        """Return the nodes: of each resource what a node has and what its pods request, CPU in thousandths."""
        found = copy_columns(self._cluster.core.cache.table).columns()
        columns: dict[str, Sequence[Any]] = {
            "node": found.names,
            "pool": [found.pools.names[at] for at in found.pools.of],
            "zone": [found.zones.names[at] for at in found.zones.of],
        }
        for each in found.resources:
            columns |= {each.name: each.allocatable, f"{each.name} requested": each.requested}
        pods = {"pods": found.pods, "pods allowed": found.allowed_pods}
        return DataTable(columns | pods | {"cordoned": found.unschedulable, "tainted": found.tainted})

    def pods(self) -> DataTable:
        """Return the pods, in the order in which they were added: where each is, and what it requests."""
        infos = [self._cluster.core.intake.info(pod) for pod in self._pods()]
        resources = sorted({"cpu": 0, "memory": 0}.keys() | {name for pod in infos for name in pod.requests})
        columns: dict[str, Sequence[Any]] = {
            "namespace": [pod.namespace for pod in infos],
            "pod": [pod.name for pod in infos],
            "node": [pod.pod.spec.node_name or None for pod in infos],
            "priority": [pod.priority for pod in infos],
        }
        return DataTable(columns | {name: [pod.requests.get(name, 0) for pod in infos] for name in resources})

    def measures(self) -> dict[str, float]:
        """Return how many nodes and pods there are, and by resource what share of the nodes' is requested.

        `packing` is the same of those nodes only that run a pod.
        """
        table = self._cluster.core.cache.table
        rows = table.rows()
        used = rows[table.pod_count[rows] > 0]
        counts = {"nodes": len(rows), "nodes_used": len(used), "pods": int(table.pod_count[rows].sum())}
        counts["pending"] = sum(not pod.spec.node_name for pod in self._pods())
        shares = {f"utilisation {name}": share for name, share in utilisation(table, rows).items()}
        return counts | shares | {f"packing {name}": share for name, share in utilisation(table, used).items()}

    @property
    def node_names(self) -> tuple[str, ...]:
        """The node of each row of the arrays below; empty for a row that no node has."""
        table = self._cluster.core.cache.table
        return tuple(name if is_one else "" for name, is_one in zip(table.names, table.valid.tolist(), strict=True))

    def capacity(self, resource: str = "cpu") -> Int64:
        """Return what each row has of a resource, CPU in thousandths, as a view: it changes with the cluster."""
        return self._view(self._cluster.core.cache.table.allocatable, resource)

    def requested(self, resource: str = "cpu") -> Int64:
        """Return what the pods of each row request of it, as a view; it holds until a node or a resource comes."""
        return self._view(self._cluster.core.cache.table.requested, resource)

    def _view(self, columns: Int64, resource: str) -> Int64:
        known = self._cluster.core.cache.table.resource_index
        if resource not in known:
            raise KeyError(f"no node and no pod names the resource {resource!r}; known are {', '.join(sorted(known))}")
        view: Int64 = columns[known[resource]].view()
        view.flags.writeable = False
        return view

    def feasible(self, pod: Any) -> Mask:
        """Say of each row whether the pod fits there now, by every filter; nothing is changed."""
        core = self._cluster.core
        attempt = find(core, self._pod_of(pod), search=search_beside(core))
        if attempt.outcome.error:
            raise ValueError(f"pod {attempt.pod.key}: {attempt.outcome.error}")
        nodes = attempt.found.nodes
        return np.zeros(core.cache.table.capacity, dtype=np.bool_) if nodes is None else nodes.mask.copy()

    def requests_of(self, pod: Any) -> Mapping[str, int]:
        """Return what a pod requests by resource, as the scheduler counts it: CPU in thousandths."""
        return self._cluster.core.intake.info(self._pod_of(pod)).requests

    def __contains__(self, pod: object) -> bool:
        """Say whether there is a pod of this `namespace/name`."""
        return ("Pod", pod) in self._cluster.objects

    def _pods(self) -> list[Pod]:
        return [obj for obj in self._cluster.objects.in_order() if isinstance(obj, Pod)]

    # -- changes -----------------------------------------------------------------------------------------------------

    def add(self, *objects: Any) -> None:
        """Take objects in, or newer states of them: manifests (also of kind List), builders or structs.

        A pod with `spec.nodeName` runs there; others are pending until `schedule` or `schedule_all`. Raises
        `ObjectError` for an object that cannot be read, and ValueError for one that the scheduler has no use for.
        """
        for obj in objects:
            for each in _structs(obj, self._cluster.core.resources):
                self._cluster.put(each)

    def remove(self, kind: str, name: str, namespace: str = "default") -> None:
        """Take an object out; raises KeyError where it is not there.

        The kind of a custom resource that a plugin follows is its name, as in `foos.v1.example.com`.
        """
        wide = {each.name for each in self._cluster.core.resources if not each.namespaced} | _CLUSTER_WIDE
        key = name if kind in wide else f"{namespace}/{name}"
        if (kind, key) not in self._cluster.objects:
            raise KeyError(f"there is no {kind} {key!r}")
        self._cluster.delete(kind, key)

    def schedule(self, pod: Any) -> ScheduleResult:
        """Add a pod, or newer state of a pending one, try to place it now, and return what came of it."""
        return self._try([self._pod_of(pod)])[0]

    def bind(self, pod: Any, node: str) -> None:
        """Overrule the scheduler: let a pod run on a node, whether it fits there or not.

        The pod is a manifest, a builder or a struct as for `add`, or the name of a pending one as `namespace/name`; no
        plugin is asked, so that volumes and devices are not provided. Raises KeyError where pod or node is not there,
        and ValueError for a pod that runs already.
        """
        objects = self._cluster.objects
        if ("Node", node) not in objects:
            raise KeyError(f"there is no node {node!r}")
        key = pod if isinstance(pod, str) else self._pod_of(pod).key
        known: Pod | None = objects.get(("Pod", key)) if isinstance(pod, str) else self._pod_of(pod)
        if known is None:
            raise KeyError(f"there is no pod {key!r}")
        if where := (objects.get(("Pod", key)) or known).spec.node_name:
            raise ValueError(f"pod {key} runs on {where} already")
        spec = msgspec.structs.replace(known.spec, node_name=node)
        self._cluster.put(msgspec.structs.replace(known, spec=spec))
        self._run()

    def copy(self) -> "Scheduler":
        """Return another scheduler that decides from here on as this one would, lots among equals included.

        Takes as long as adding all objects did. Raises ValueError while pods wait for Permit.
        """
        self._refuse_waiting("copied")
        other = Scheduler(self._cluster.config, self._plugins.values())
        self._cluster.copy_into(other._cluster)
        return other

    def checkpoint(self) -> None:
        """Remember this moment, for `rollback` or `keep`; one may follow another. Raises ValueError as `copy` does.

        Costs as little however large the cluster is, unless nodes have come or gone since the last one.
        """
        self._refuse_waiting("remembered")
        self._cluster.begin()

    def rollback(self) -> None:
        """Let everything be as it was at the last checkpoint, which ends; as long as what happened since took."""
        self._end(self._cluster.undo)

    def keep(self) -> None:
        """End the last checkpoint, and leave everything as it is."""
        self._end(self._cluster.keep)

    def _end(self, how: Callable[[], None]) -> None:
        if not self._cluster.is_tried_on:
            raise ValueError("there is no checkpoint to go back to: call checkpoint() first")
        how()

    def _refuse_waiting(self, what: str) -> None:
        waiting = [each.pod.key for each in self._cluster.core.waiting]
        if waiting:
            raise ValueError(f"the cluster cannot be {what} while {', '.join(waiting)} waits for Permit")

    def _pod_of(self, pod: Any) -> Pod:
        (struct,) = _structs(pod, self._cluster.core.resources)
        if not isinstance(struct, Pod):
            raise ValueError(f"expected a pod, got a {type(struct).__name__}")
        return struct

    # -- decisions ---------------------------------------------------------------------------------------------------

    def fit(self, manifest: Manifest | str | bytes) -> Fit:
        """Say whether a pod or workload fits now, and where, or why not; nothing is changed.

        The manifest may be YAML or JSON. Raises `FitManifestError`, a ValueError, for one that cannot be read.
        """
        question = read_question(manifest)
        return fit(self._cluster.core, question, all_nodes=True, replicas_s=math.inf)

    def schedule_all(self, *, explain: bool = True) -> list[ScheduleResult]:
        """Try to place every pending pod, and return what came of each, in the order in which they were added.

        The decisions are the same without `explain`, and cheaper by far where many pods are alike; only why a pod went
        where it did is not kept then. Why one has no node is.
        """
        pods = [pod for pod in self._pods() if not pod.spec.node_name]
        if explain:
            return self._try(pods)
        self._cluster.core.let_bind(self._cluster.bind_at_once, in_runs=True)
        try:
            return self._try(pods, explain=False)
        finally:
            self._cluster.core.let_bind(self._cluster.bind_at_once, in_runs=False)

    def _try(self, pods: list[Pod], *, explain: bool = True) -> list[ScheduleResult]:
        cluster = self._cluster
        self._log.decisions.clear()
        cluster.effects.clear()
        for pod in pods:
            if cluster.objects.get(("Pod", pod.key)) is not pod:
                cluster.put(pod)
            cluster.core.queue.activate(pod.metadata.uid, cluster.now)
        self._run()
        until = cluster.now + RETRY_S
        while self._makes_room(pods) and (at := cluster.core.next_deadline()) is not None and at <= until:
            cluster.now = max(cluster.now, at)
            self._run()
        if not explain:
            decisions = self._log.decisions.items()
            self._log.decisions = {key: decision for key, decision in decisions if decision.chosen is None}
        victims = self._victims()
        return [self._result(pod, victims) for pod in pods]

    def _run(self) -> None:
        """Step until nothing is left to do at this time."""
        cluster = self._cluster
        cluster.step()
        while cluster.core.has_work:
            cluster.step()

    def _makes_room(self, pods: list[Pod]) -> bool:
        """Say whether a pod for which others had to leave is still without a node."""
        victims = self._victims()
        return any(
            pod.metadata.uid in victims and not self._cluster.objects["Pod", pod.key].spec.node_name
            for pod in pods
            if victims and ("Pod", pod.key) in self._cluster.objects
        )

    def _victims(self) -> dict[str, list[str]]:
        """Return the pods that were evicted since the call began, by the uid of the pod for which."""
        found: dict[str, list[str]] = {}
        for effect in self._cluster.effects:
            if isinstance(effect, Request) and isinstance(effect.effect, EvictPod):
                found.setdefault(effect.effect.preemptor.uid, []).append(effect.effect.pod.key)
        return found

    def _result(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> ScheduleResult:
        if ("Pod", pod.key) not in self._cluster.objects:  # placed, and evicted in the same call
            told = f"it was evicted for {', '.join(uid for uid, gone in victims.items() if pod.key in gone)}"
            return ScheduleResult(pod.key, "unschedulable", None, told, None)
        node = self._cluster.objects["Pod", pod.key].spec.node_name or None
        waiting = self._cluster.core.waiting.get(pod.metadata.uid)
        decision = self._log.decisions.get(pod.key)
        if decision is None and node is not None:
            return ScheduleResult(pod.key, "scheduled", node, "", None, tuple(victims.get(pod.metadata.uid, ())))
        if decision is None:
            status = self._cluster.core.queue.find(pod.metadata.uid)
            message = "; ".join(sorted(status.rejectors)) if status is not None else ""
            told = f"held back before the queue by {message}" if message else "was not tried"
            return ScheduleResult(pod.key, "gated", node, told, None)
        outcome: Outcome = "scheduled" if node else decision.outcome  # type: ignore[assignment]
        message = decision.message
        if waiting is not None:
            outcome, node = "waiting", waiting.node_name
            message = f"waiting on permit of {', '.join(waiting.pending_plugins)}"
        elif node is None and not message:  # it was found a node and turned away later
            patch = next((each for each in reversed(self._cluster.patches(pod.metadata.name)) if each.message), None)
            outcome = "error" if patch is not None and patch.reason == "SchedulerError" else "unschedulable"
            message = patch.message if patch is not None else "it was not bound"
        told = "" if outcome == "scheduled" else message
        return ScheduleResult(pod.key, outcome, node, told, decision, tuple(victims.get(pod.metadata.uid, ())))

    def __repr__(self) -> str:
        pods = self._pods()
        pending = sum(not pod.spec.node_name for pod in pods)
        nodes = len(self._cluster.core.cache.table)
        return f"<berth.Scheduler: {nodes:,} nodes, {len(pods):,} pods, {pending:,} of them pending>"

    def _repr_html_(self) -> str:
        nodes = self.nodes()
        return paragraph(repr(self)[1:-1], "font-weight:bold") + as_html("Nodes", tuple(nodes), nodes.rows)


class _DecisionLog(Instrument):
    """Keeps the last decision about each pod."""

    leaves_out_plain = True

    def __init__(self) -> None:
        self.decisions: dict[str, Decision] = {}

    def decided(self, decision: Decision, seconds: float) -> None:
        """An attempt has ended."""
        self.decisions[decision.pod.key] = decision


def _configuration(
    config: str | Path | Manifest | SchedulerConfiguration | None, plugins: Mapping[str, type], gates: FeatureGates
) -> SchedulerConfiguration:
    if isinstance(config, SchedulerConfiguration):
        return config
    if isinstance(config, str | Path):
        return load_config_file(config, gates)
    return load_config(
        document_enabling(Registry(plugins).implements()) if config is None else dict(config), gates=gates
    )


def _structs(obj: Any, resources: CustomResources) -> list[Any]:
    """Return what was given, in any of the accepted forms, as structs."""
    if isinstance(obj, ObjectBuilder):
        return [obj.build()]  # type: ignore[attr-defined]
    if not isinstance(obj, Mapping):
        if resources.name_of(obj) == type(obj).__name__ not in KINDS:
            raise ValueError(f"expected a manifest, a builder or a struct, got a {type(obj).__name__}")
        return [obj]
    kind = obj.get("kind")
    if kind == "List":
        return [struct for item in obj.get("items") or () for struct in _structs(item, resources)]
    found = []
    if (custom := resources.of_manifest(obj)) is not None:
        found = [custom.read(_completed(str(kind), obj, is_namespaced=custom.namespaced))]
        if custom.group or kind not in KINDS:
            return found
    if kind not in KINDS:
        raise ValueError(f"the scheduler reads no objects of kind {kind!r}; those it reads are {', '.join(KINDS)}")
    return [*found, decode(str(kind), _completed(str(kind), obj, is_namespaced=kind not in _CLUSTER_WIDE))]


def _completed(kind: str, manifest: Manifest, *, is_namespaced: bool) -> dict[str, Any]:
    """Return a manifest with what the API server or the kubelet would have filled in: namespace, uid, allocatable."""
    metadata = dict(manifest.get("metadata") or {})
    if not metadata.get("name"):
        raise ValueError(f"a {kind} has no metadata.name")
    if is_namespaced:
        metadata.setdefault("namespace", "default")
    key = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    metadata.setdefault("uid", key)
    found = {**manifest, "metadata": metadata}
    status = manifest.get("status") or {}
    if kind == "Node" and "capacity" in status and "allocatable" not in status:
        found["status"] = {**status, "allocatable": status["capacity"]}
    return found
