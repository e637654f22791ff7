"""The engine in a program of your own: nodes and pods in, decisions with their reasons out.

`berth.Scheduler` is this module's `Scheduler`. It is the scheduler that `berth run` runs, without an API server: it has
a cluster in memory, binds at once, and decides with the same plugins, configuration and messages. Time is virtual and
nothing happens between two calls, so that the same calls with the same seed give the same decisions.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from berth.api.codec import KINDS, decode
from berth.api.pod import Pod
from berth.api.resources import RESOURCES
from berth.config.feature_gates import FeatureGates, feature_gates
from berth.config.load import document_enabling, load_config, load_config_file
from berth.config.types import SchedulerConfiguration
from berth.core.builders import ObjectBuilder
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.decision import Decision
from berth.cycle.instrument import Instrument
from berth.decisions.explanation import Said, summary
from berth.decisions.fit import Fit, fit
from berth.decisions.fit_question import read_question
from berth.framework.custom_resources import CustomResources
from berth.framework.effects import EvictPod, Request
from berth.framework.loader import plugins_given
from berth.state.lazy import lazy

Manifest = Mapping[str, Any]
"""An object as kubectl and YAML files have it, with `kind`, `metadata`, `spec`, `status`."""

Outcome = Literal["scheduled", "waiting", "unschedulable", "error", "gated"]

RETRY_S = 60.0
"""How long virtual time goes on for a pod whose victims have to leave; longer than any backoff."""

_CLUSTER_WIDE = frozenset(kind for kind, resource in RESOURCES.items() if not resource.namespaced)


class ScheduleResult:
    """What was decided for a pod, and why. The why is worked out when it is first read, of what was so then."""

    def __init__(
        self,
        pod: str,
        outcome: Outcome,
        node: str | None,
        message: str,
        decision: Decision | None,
        victims: tuple[str, ...] = (),
    ) -> None:
        """`decision` is None where the pod was not tried."""
        self.pod = pod
        """`namespace/name`."""
        self.outcome = outcome
        """`waiting`: a Permit plugin holds the pod back; `gated`: a PreEnqueue plugin keeps it out of the queue."""
        self.node = node
        """The node that the pod runs on or, while it waits, is to run on."""
        self.message = message
        """Why it has no node, in the words of its condition and event; empty where it has one."""
        self.victims = victims
        """The pods that were evicted for this one, as `namespace/name`."""
        self._decision = decision

    @lazy
    def summary(self) -> str:
        """One sentence: where it went and why, or why it went nowhere."""
        if self._decision is None:
            return f"{self.pod} {self.message}"
        if self.node is None and not self._decision.message:
            return f"{self.pod} was not bound: {self.message}"
        return summary(self._decision)

    @lazy
    def reasons(self) -> dict[str, tuple[Said, ...]]:
        """The reasons of each plugin that rejects a node, by the node's name."""
        return {} if self._decision is None else _reasons(self._decision)

    @lazy
    def scores(self) -> dict[str, dict[str, int]]:
        """The weighted scores of each node that fits, by plugin; empty where there was only one such node."""
        return {} if self._decision is None else _scores(self._decision)

    @lazy
    def totals(self) -> dict[str, int]:
        """Their sums, by node."""
        return {} if self._decision is None else _totals(self._decision)

    def as_dict(self) -> dict[str, Any]:
        """Return all that is known, each field by its name."""
        return {
            "pod": self.pod,
            "outcome": self.outcome,
            "node": self.node,
            "message": self.message,
            "summary": self.summary,
            "reasons": self.reasons,
            "scores": self.scores,
            "totals": self.totals,
            "victims": self.victims,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScheduleResult) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment] # it has maps, as a dict does

    def __repr__(self) -> str:
        return f"ScheduleResult({self.summary!r})"


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
        self._log = _DecisionLog()
        self._cluster = VirtualCluster(
            plugins=classes,
            config=_configuration(config, classes, feature_gates(gates or {})),
            seed=seed,
            instrument=self._log,
            check_promises=0,
        )

    @property
    def placements(self) -> dict[str, str | None]:
        """The node of every pod, by `namespace/name`; None where it has none."""
        pods = (obj for (kind, _), obj in self._cluster.objects.items() if kind == "Pod")
        return {pod.key: pod.spec.node_name or None for pod in pods}

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
        self._cluster.delete(kind, name if kind in wide else f"{namespace}/{name}")

    def schedule(self, pod: Any) -> ScheduleResult:
        """Add a pod, or newer state of a pending one, try to place it now, and return what came of it."""
        (struct,) = _structs(pod, self._cluster.core.resources)
        if not isinstance(struct, Pod):
            raise ValueError(f"expected a pod, got a {type(struct).__name__}")
        return self._try([struct])[0]

    def fit(self, manifest: Manifest | str | bytes) -> Fit:
        """Say whether a pod or workload fits now, and where, or why not; nothing is changed.

        The manifest may be YAML or JSON. Raises `FitManifestError`, a ValueError, for one that cannot be read.
        """
        question = read_question(manifest)
        return fit(self._cluster.core, question, all_nodes=True, replicas_s=math.inf)

    def schedule_all(self) -> list[ScheduleResult]:
        """Try to place every pending pod, and return what came of each, in the order in which they were added."""
        pods = [obj for (kind, _), obj in self._cluster.objects.items() if kind == "Pod" and not obj.spec.node_name]
        return self._try(pods)

    def _try(self, pods: list[Pod]) -> list[ScheduleResult]:
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
        return bool(victims) and any(
            pod.metadata.uid in victims and not self._cluster.objects["Pod", pod.key].spec.node_name for pod in pods
        )

    def _victims(self) -> dict[str, list[str]]:
        """Return the pods that were evicted since the call began, by the uid of the pod for which."""
        found: dict[str, list[str]] = {}
        for effect in self._cluster.effects:
            if isinstance(effect, Request) and isinstance(effect.effect, EvictPod):
                found.setdefault(effect.effect.preemptor.uid, []).append(effect.effect.pod.key)
        return found

    def _result(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> ScheduleResult:
        node = self._cluster.objects["Pod", pod.key].spec.node_name or None
        waiting = self._cluster.core.waiting.get(pod.metadata.uid)
        decision = self._log.decisions.get(pod.key)
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


class _DecisionLog(Instrument):
    """Keeps the last decision about each pod."""

    def __init__(self) -> None:
        self.decisions: dict[str, Decision] = {}

    def decided(self, decision: Decision, seconds: float) -> None:
        """An attempt has ended."""
        self.decisions[decision.pod.key] = decision


def _configuration(
    config: str | Path | Manifest | SchedulerConfiguration | None, plugins: Iterable[str], gates: FeatureGates
) -> SchedulerConfiguration:
    if isinstance(config, SchedulerConfiguration):
        return config
    if isinstance(config, str | Path):
        return load_config_file(config, gates)
    return load_config(document_enabling(plugins) if config is None else dict(config), gates=gates)


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
    if is_namespaced:
        metadata.setdefault("namespace", "default")
    key = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    metadata.setdefault("uid", key)
    found = {**manifest, "metadata": metadata}
    status = manifest.get("status") or {}
    if kind == "Node" and "capacity" in status and "allocatable" not in status:
        found["status"] = {**status, "allocatable": status["capacity"]}
    return found


def _reasons(decision: Decision) -> dict[str, tuple[Said, ...]]:
    """Return all that speaks against each node that was ruled out; what the pod's condition counts comes first."""
    found = {}
    for status, rows in decision.rejected:
        for row in rows.tolist():
            said = decision.statuses(row) if decision.looked_at[row] else [status]
            found[decision.names[row]] = tuple(Said(each.plugin, each.code.label, each.reasons) for each in said)
    return found


def _scores(decision: Decision) -> dict[str, dict[str, int]]:
    names = [decision.names[row] for row in decision.feasible.tolist()]
    found: dict[str, dict[str, int]] = {name: {} for name in names} if decision.scores else {}
    for scores in decision.scores:
        weighted = scores.weighted
        each = [weighted] * len(names) if isinstance(weighted, int) else weighted.tolist()
        for name, score in zip(names, each, strict=True):
            found[name][scores.plugin] = score
    return found


def _totals(decision: Decision) -> dict[str, int]:
    if decision.total is None:
        return {}
    names = (decision.names[row] for row in decision.feasible.tolist())
    return dict(zip(names, decision.total.tolist(), strict=True))
