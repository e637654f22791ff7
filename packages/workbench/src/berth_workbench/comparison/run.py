"""One run turns a load, a configuration and a seed into figures. The same three always give the same figures."""

import math
from collections import defaultdict
from typing import Any

import msgspec
import numpy as np

from berth.decisions.node_columns import utilisation
from berth.framework.setup import Setup
from berth_workbench.comparison.loads import ClusterLoad, DrawnLoad, Load
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.measures import (
    EVICTED_AGAIN_AND_AGAIN,
    cost_of,
    figures,
    fragmentation,
    measure,
    usual_requests,
)
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch
from berth_workbench.traces.generator import daily_pattern
from berth_workbench.traces.result import SimulatedTime
from berth_workbench.traces.run import TraceRun
from berth_workbench.traces.trace import NodeComes, TimedWorkload

SAMPLE_S = 900.0
"""How often a workload over time is measured, in its own time."""


class RunResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a run."""

    figures: dict[str, float]
    """By dotted name; see `berth_workbench.simulation.measures.figures`."""
    placements: dict[str, str] = {}
    """The node of each pod that was to be placed, by `namespace/name`; empty where it has none. Not over time."""


def run(
    load: Load,
    configuration: Setup,
    seed: int,
    *,
    standing: SimulatedCluster | None = None,
    prices: Prices | None = None,
    watch: WorkWatch = UNWATCHED,
) -> RunResult:
    """Place a load's pods and measure the cluster, or live through a workload over time.

    A cluster's pods are pending all at once, and go by priority and then in their order; `standing` is what the load's
    `stand` gives for the configuration, where it is at hand, and is used up. Over time, measures are means over the
    samples. Raises `ConfigError`, `RegistryError`, `ChangeError`, `StuckError`.
    """
    if isinstance(load, ClusterLoad):
        cluster = standing or load.stand(configuration, watch)
        return _run_cluster(load, cluster, seed, prices, watch)
    trace = daily_pattern(load.pattern, seed) if isinstance(load, DrawnLoad) else load
    return RunResult(_run_trace(trace, configuration, seed, prices, watch))


def _run_cluster(
    load: ClusterLoad,
    cluster: SimulatedCluster,
    seed: int,
    prices: Prices | None,
    watch: WorkWatch,
) -> RunResult:
    cluster.rng.seed(seed)  # what stands was taken in without a lot
    load.place(cluster, watch)
    placements = cluster.placements
    return RunResult(
        figures=figures(measure(cluster, prices=prices)),
        placements={pod.key: placements.get(pod.key, "") for pod in load.pods},
    )


class MeasuredRun(TraceRun):
    """A run through a trace that is measured as clusters are: what is free, and what the used nodes cost."""

    def __init__(self, trace: TimedWorkload, prices: Prices | None, **options: Any) -> None:
        super().__init__(trace, sample_s=trace.header.sample_s or SAMPLE_S, **options)
        self._node_prices = prices or _prices_of(trace)
        self._figures: defaultdict[str, list[float]] = defaultdict(list)

    def sampled(self, at: float) -> None:
        """Measure the cluster."""
        table = self.cluster.core.cache.table
        used = np.flatnonzero(table.valid & (table.pod_count > 0))
        self._note("nodesUsed", len(used))
        self._note("nodes", len(table))
        self._note("pendingMean", len(self._arrived))
        for name, shares in (
            ("utilisation", utilisation(table, table.rows())),
            ("packing", utilisation(table, used)),
            ("fragmentation", fragmentation(table, usual_requests(table))),
        ):
            for resource, share in shares.items():
                self._note(f"{name}.{resource}", share)
        if self._node_prices is not None:
            self._note("cost", cost_of(table, used, self._node_prices)[0])

    def _note(self, name: str, value: float) -> None:
        self._figures[name].append(value)

    def figures(self, result: SimulatedTime) -> dict[str, float]:
        """Return the means over the samples, and the final figures."""
        found = {name: math.fsum(values) / len(values) for name, values in self._figures.items()}
        found |= {
            "pending": result.waiting,
            "neverPlaced": result.never_placed,
            "bound": result.bound,
            "preemptions": result.preempted,
            "fairness": result.fairness,
        }
        if result.evicted_again_and_again:
            found[EVICTED_AGAIN_AND_AGAIN] = result.evicted_again_and_again
        waits = msgspec.structs.asdict(result.waits)
        return found | {f"waiting.{name}": value for name, value in waits.items() if name != "count"}


def _prices_of(trace: TimedWorkload) -> Prices | None:
    """Return the prices of nodes that a trace itself has; None if it has none."""
    found = {record.name: record.price for record in trace.records if isinstance(record, NodeComes) and record.price}
    return Prices(nodes=found) if found else None


def _run_trace(
    trace: TimedWorkload,
    configuration: Setup,
    seed: int,
    prices: Prices | None,
    watch: WorkWatch,
) -> dict[str, float]:
    measured = MeasuredRun(trace, prices, config=configuration.config, registry=configuration.registry, seed=seed)
    result = measured.live(watch)
    if watch.is_stopped:
        raise StoppedError
    return measured.figures(result)
