"""LoadVariationRiskBalancing: prefers nodes whose load is low and varies little.

Upstream plugin `LoadVariationRiskBalancing`. For cpu and memory each, the risk is the mean of two parts from 0 to 1:
what the node uses on average with the pod's request added, and margin times the deviation's root (of the degree of
the sensitivity). The worse of both decides; where only one is measured, that one.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, final

import msgspec
import numpy as np

from berth.plugin import (
    Dependency,
    Handle,
    Node,
    NodeView,
    Objects,
    PodInfo,
    Promises,
    ScoreExplainingPlugin,
    Scores,
    SignaturePlugin,
)
from berth_plugins.trimaran.metrics import (
    CPU,
    LOAD_WATCHER,
    MEMORY,
    NOT_MEASURED,
    Floats,
    ScoringByLoad,
    WatcherArgs,
    rounded,
    usage_in_words,
    usage_of,
)
from berth_plugins.trimaran.requests import Amount, amount_of, effective_requests


class LoadVariationRiskBalancingArgs(WatcherArgs, frozen=True, rename="camel"):
    """The load watcher, and how much a deviation counts."""

    safe_variance_margin: float = 1.0
    safe_variance_sensitivity: float = 1.0

    def defaulted(self) -> "LoadVariationRiskBalancingArgs":
        """Put 1 in the place of numbers below 0."""
        margin, sensitivity = self.safe_variance_margin, self.safe_variance_sensitivity
        return msgspec.structs.replace(
            self,
            safe_variance_margin=1.0 if margin < 0 else margin,
            safe_variance_sensitivity=1.0 if sensitivity < 0 else sensitivity,
        )


class Figures(NamedTuple):
    """What is known of a node, or of many in arrays: of each resource how much there is, and what is used of it."""

    has_cpu: Any
    cpu: Any
    cpu_mean: Any
    cpu_deviation: Any
    has_memory: Any
    memory: Any
    memory_mean: Any
    memory_deviation: Any


@final
class LoadVariationRiskBalancing(ScoringByLoad[Figures], SignaturePlugin, ScoreExplainingPlugin):
    """Score."""

    name: ClassVar[str] = "LoadVariationRiskBalancing"
    args_type: ClassVar[type[msgspec.Struct]] = LoadVariationRiskBalancingArgs
    promises: ClassVar[Promises] = Promises(score_depends_on=frozenset({Dependency.NODE, Objects((LOAD_WATCHER,))}))

    def __init__(self, args: LoadVariationRiskBalancingArgs, handle: Handle) -> None:
        self._follow(handle, args.watcher_address or "")
        self._margin = args.safe_variance_margin
        sensitivity = args.safe_variance_sensitivity
        self._exponent = 1 / sensitivity if sensitivity else np.inf

    def signature(self, pod: PodInfo) -> Amount:
        """Pods that request the same get the same scores."""
        return effective_requests(pod)

    def _scores(self, pod: PodInfo, of: Figures) -> Scores:
        asked = effective_requests(pod)
        cpu = np.where(of.has_cpu, self._safety(asked.cpu_milli, of.cpu, of.cpu_mean, of.cpu_deviation), 0.0)
        memory = self._safety(asked.memory_bytes, of.memory, of.memory_mean, of.memory_deviation)
        memory = np.where(of.has_memory, memory, 0.0)
        both = of.has_cpu & of.has_memory
        return rounded(np.where(both, np.minimum(cpu, memory), np.maximum(cpu, memory)))

    def _safety(self, asked: int, capacity: Floats, mean: Floats, deviation: Floats) -> Floats:
        """Return 100 for no risk, 0 for the highest, and 0 where there is nothing of the resource."""
        is_there = capacity > 0
        divisor = np.where(is_there, capacity, 1.0)
        used = np.clip(mean * capacity / 100, 0, capacity)
        mu = np.clip((used + max(asked, 0)) / divisor, 0, 1)
        sigma = np.clip(np.clip(deviation * capacity / 100, 0, capacity) / divisor, 0, 1)
        sigma = np.clip(np.power(sigma, self._exponent) * self._margin, 0, 1)
        return np.where(is_there, (1 - (mu + sigma) / 2) * 100, 0.0)

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]:
        """Return the measured load, its age, and the risk of each resource with the pod's request added."""
        metrics, there = self._watcher.metrics_of(node.name), amount_of(node.node.status.allocatable)
        asked, said = effective_requests(pod), []
        for kind, request, capacity in (
            (CPU, asked.cpu_milli, there.cpu_milli),
            (MEMORY, asked.memory_bytes, there.memory_bytes),
        ):
            usage = usage_of(metrics, kind)
            if usage is not None and capacity:
                mean, deviation, whole = (np.array([float(each)]) for each in (*usage, capacity))
                risk = 1 - float(self._safety(request, whole, mean, deviation)[0]) / 100
                then = min(usage.mean + 100 * request / capacity, 100)
                said.append(f"{usage_in_words(kind, usage)}, {then:.4g} % with the pod: a risk of {risk:.2f}")
        return [*said, f"measured {self._watcher.age}; the higher risk counts"] if said else [NOT_MEASURED]

    def _figures_of(self, node: Node) -> Figures:
        metrics, there = self._watcher.metrics_of(node.metadata.name), amount_of(node.status.allocatable)
        cpu, memory = usage_of(metrics, CPU), usage_of(metrics, MEMORY)
        return Figures(
            cpu is not None,
            float(there.cpu_milli),
            *(cpu or (0.0, 0.0)),
            memory is not None,
            float(there.memory_bytes),
            *(memory or (0.0, 0.0)),
        )
