"""What every Kubernetes component reports besides its own metrics: version, gates, lease, process, work queues.

The health server appends it to the scheduler's own metrics. Names, labels and stability: k8s.io/component-base/metrics
of v1.36. Everything is read when scraped.
"""

import platform
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth import __version__
from berth.config.feature_gates import GATES_BY_GENERATION, FeatureGates
from berth.config.kubernetes_gates import Stage
from berth.runtime.observing.work_queues import WorkQueues

BUILD_LABELS = (
    "build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version", "major", "minor", "platform",
)  # fmt: skip


class LeaseState(NamedTuple):
    """The lease by which a leader is elected, and whether it is ours."""

    name: str
    is_ours: bool


class ComponentMetrics(Collector):
    """The families that are not the scheduler's own."""

    def __init__(self, features: FeatureGates) -> None:
        self._features = features
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self._lease: LeaseState | None = None
        self._queues: WorkQueues | None = None

    def add(self, more: Collector) -> None:
        """Include the metrics of another collector."""
        self._registry.register(more)

    def exposition(self, lease: LeaseState | None, queues: WorkQueues) -> bytes:
        """Everything in Prometheus' text format; `lease` is None where no leaders are elected."""
        self._lease, self._queues = lease, queues
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """All families but those of the process."""
        yield build_info(self._features.generation)
        yield feature_enabled(self._features)
        yield master_status(self._lease)
        if self._queues is not None:
            yield from self._queues.collect()


def build_info(generation: str) -> Metric:
    """One sample that says which Kubernetes' scheduler this stands for, and what runs it."""
    major, minor = generation.removeprefix("v").split(".")
    values = {
        "compiler": platform.python_implementation().lower(),
        "git_version": f"{generation}.0+berth.{__version__}",
        "go_version": f"python{platform.python_version()}",
        "major": major,
        "minor": minor,
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    text = "[BETA] Always 1; the labels say which version of Kubernetes this stands for and what runs it."
    family = GaugeMetricFamily("kubernetes_build_info", text, labels=BUILD_LABELS)
    family.add_metric([values.get(label, "") for label in BUILD_LABELS], 1)
    return family


def feature_enabled(features: FeatureGates) -> Metric:
    """Each gate of the generation: 1 where it is on. The stage of generally available ones is empty, as upstream."""
    text = "[BETA] Whether a feature gate is on, by its stage."
    family = GaugeMetricFamily("kubernetes_feature_enabled", text, labels=("name", "stage"))
    for name, gate in GATES_BY_GENERATION[features.generation].items():
        stage = "" if gate.stage is Stage.GA else gate.stage.value
        family.add_metric((name, stage), int(features.enabled(name)))
    return family


def master_status(lease: LeaseState | None) -> Metric:
    """Whether the lease is ours; no sample where there is none."""
    text = "[ALPHA] 1 where this process holds the lease of that name, 0 where it stands by."
    family = GaugeMetricFamily("leader_election_master_status", text, labels=("name",))
    if lease is not None:
        family.add_metric((lease.name,), int(lease.is_ours))
    return family
