"""One run: a load, a configuration and a seed come to figures. The same three always come to the same."""

import msgspec

from berth.comparing.configurations import LoadedConfiguration
from berth.comparing.loads import Load
from berth.simulation.cluster import Progress, SimulatedCluster
from berth.simulation.measures import Measures, figures, measure
from berth.simulation.prices import Prices


class RunResult(msgspec.Struct, frozen=True, rename="camel"):
    """What came of a run."""

    figures: dict[str, float]
    """By dotted name; see `berth.simulation.measures.figures`."""
    placements: dict[str, str] = {}
    """The node of each pod that was to be placed, by `namespace/name`; empty where it has none."""
    measures: Measures | None = None


def run(
    load: Load,
    configuration: LoadedConfiguration,
    seed: int,
    *,
    prices: Prices | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Place the load's pods, all pending at once, by priority and then in their order, and measure the cluster.

    Raises `ConfigError`, `RegistryError`, `ChangeError`, `StuckError`.
    """
    cluster = SimulatedCluster(config=configuration.config, registry=configuration.registry, seed=seed)
    load.put_into(cluster, progress)
    placements = cluster.placements
    measures = measure(cluster, prices=prices)
    return RunResult(
        figures=figures(measures),
        placements={pod.key: placements.get(pod.key, "") for pod in load.pods},
        measures=measures,
    )
