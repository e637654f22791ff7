"""Compares two configurations on the same pods: decision by decision, and each on its own to the end.

The first says which pods go elsewhere and why (`berth_workbench.comparison.decisions`). In the second, each
configuration places everything on its own, with several seeds, since ties are broken at random; the measures of both
are put side by side, with how far their difference varies with the seed.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal

import msgspec

from berth.agreement.report import FigureCompared
from berth.framework.setup import Setup
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.decisions import Decisions, decide
from berth_workbench.comparison.decisions_over_time import decide_over_time
from berth_workbench.comparison.loads import ClusterLoad, DrawnLoad, Load
from berth_workbench.comparison.run import RunResult, run
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.measures import better
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.processes import may_fork, spread
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch
from berth_workbench.traces.generator import daily_pattern

NAMES = ("a", "b")


class ConfigurationsCompared(msgspec.Struct, frozen=True, rename="camel"):
    """Two configurations on the same pods."""

    a: str
    b: str
    decisions: Decisions
    """Decision by decision, with A's choices standing; of a workload over time, about some of the pods."""
    causes: dict[str, int]
    """By plugin, how many of the changes it causes, alone or with others."""
    measures: tuple[FigureCompared, ...]
    """Each on its own to the end."""
    seeds: tuple[int, ...]
    """The seeds that both have run with."""
    notes: tuple[str, ...] = ()
    """What has to be known to read this right."""
    is_complete: bool = True
    """False if it was stopped before the end."""


def compare(
    load: Load,
    a: ConfigurationSource,
    b: ConfigurationSource,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    prices: Prices | None = None,
    watch: WorkWatch = UNWATCHED,
) -> ConfigurationsCompared:
    """Return what differs. If it is stopped, what is done by then is returned.

    Raises `StoppedError` if that is nothing, `ConfigError`, `RegistryError`, `PluginBrokenError`, `StuckError`.
    """
    loaded = [each.load() for each in (a, b)]
    within = watch.within()
    standing = _standing(load, loaded, watch)

    def part(at: int) -> Decisions | RunResult:
        if not at:
            return _decisions(load, loaded[0], loaded[1], seeds[0], standing, within)
        side, number = (at - 1) % 2, (at - 1) // 2
        stands = standing[side] if standing else None
        return run(load, loaded[side], seeds[number], standing=stands, prices=prices, watch=within)

    parts: dict[int, Any] = {}
    watch.begin("comparing decisions and runs", 1 + 2 * len(seeds))
    for at, result in spread(part, 1 + 2 * len(seeds), watch, is_each_alone=bool(standing)):
        parts[at] = result
        watch.advance()
        watch.offer(lambda: _put_together(a, b, loaded, seeds, parts, is_complete=False))
    if not parts:
        raise StoppedError
    is_complete = len(parts) == 1 + 2 * len(seeds) and not watch.is_stopped
    return _put_together(a, b, loaded, seeds, parts, is_complete=is_complete)


def _standing(load: Load, loaded: Sequence[Setup], watch: WorkWatch) -> list[SimulatedCluster]:
    """Return the cluster without its pending pods for each configuration, if every part can get a copy by a fork.

    Otherwise each part loads it anew: it cannot be restored, since plugins may keep anything.
    """
    if not isinstance(load, ClusterLoad) or not may_fork():
        return []
    watch.begin("loading the cluster", len(loaded) * len(load.standing))
    return [load.stand(each, watch) for each in loaded]


def _put_together(
    a: ConfigurationSource,
    b: ConfigurationSource,
    loaded: Sequence[Setup],
    seeds: Sequence[int],
    parts: Mapping[int, Any],
    *,
    is_complete: bool,
) -> ConfigurationsCompared:
    """Return what the decisions and the runs that there are come to; of a seed, both runs are needed."""
    decisions: Decisions = parts.get(0, Decisions(0, (), {}))
    ended = list(takewhile(lambda number: {1 + 2 * number, 2 + 2 * number} <= parts.keys(), range(len(seeds))))
    first, second = ([parts[1 + side + 2 * number].figures for number in ended] for side in (0, 1))
    blamed: Counter[str] = Counter()
    for change in decisions.changes:
        blamed.update(change.plugins)
    return ConfigurationsCompared(
        a=a.name,
        b=b.name,
        decisions=decisions,
        causes=dict(blamed.most_common()),
        measures=compared(first, second),
        seeds=tuple(seeds[number] for number in ended),
        notes=tuple(_notes(a, b, loaded)),
        is_complete=is_complete,
    )


def _decisions(
    load: Load, a: Setup, b: Setup, seed: int, standing: Sequence[SimulatedCluster], watch: WorkWatch
) -> Decisions:
    if isinstance(load, ClusterLoad):
        return decide(load, a, b, standing=standing, watch=watch)
    trace = daily_pattern(load.pattern, seed) if isinstance(load, DrawnLoad) else load
    return decide_over_time(trace, a, b, seed=seed, watch=watch)


def compared(a: Sequence[dict[str, float]], b: Sequence[dict[str, float]]) -> tuple[FigureCompared, ...]:
    """Return the figures of both side by side; each has those of all its seeds, in the same order."""
    names = dict.fromkeys(name for figures in (*a, *b) for name in figures)
    return tuple(
        compared_figure(name, [each.get(name) for each in a], [each.get(name) for each in b], better(name))
        for name in names
    )


def compared_figure(name: str, a: Sequence[float | None], b: Sequence[float | None], better_way: int) -> FigureCompared:
    """Return one figure of both, with the same seeds in the same order, and which way it is better."""
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    differences = [y - x for x, y in pairs]
    means = (_mean([x for x in a if x is not None]), _mean([y for y in b if y is not None]))
    verdict: Literal["a", "b", ""] = ""
    if differences and better_way:
        gains = [difference * better_way for difference in differences]
        verdict = "b" if min(gains) > 0 else "a" if max(gains) < 0 else ""
    return FigureCompared(
        name=name,
        a=means[0],
        b=means[1],
        difference=_mean(differences),
        deviation=statistics.stdev(differences) if len(differences) > 1 else None,
        better=verdict,
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _notes(a: ConfigurationSource, b: ConfigurationSource, loaded: Sequence[Setup]) -> list[str]:
    found = []
    if any(source.asks_extenders for source in (a, b)):
        found.append("extenders are not asked; the configurations are compared without them")
    sampled = [
        each.name
        for each, made in zip((a, b), loaded, strict=True)
        if any(_percentage(made, index) not in (None, 100) for index in range(len(made.config.profiles)))
    ]
    if sampled:
        told = " and ".join(sampled)
        found.append(f"{told}: decisions are compared with every node looked at; the measures have the percentage")
    return found


def _percentage(made: Setup, index: int) -> int | None:
    own = made.config.profiles[index].percentage_of_nodes_to_score
    return made.config.percentage_of_nodes_to_score if own is None else own
