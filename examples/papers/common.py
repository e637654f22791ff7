"""What the experiments here have in common: seeds, sweeps, confidence intervals, tables in Markdown, and figures."""

import argparse
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.loads import packed
from berth_workbench.comparison.results import ResultsDirectory
from berth_workbench.comparison.sweep import Sweep, carry_out_sweep
from berth_workbench.traces.trace import TimedWorkload

T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045)  # fmt: skip
"""Student's t for 95 % on both sides, by degrees of freedom from 1 on; 1.96 beyond."""


def arguments(document: str, seeds: int) -> argparse.ArgumentParser:
    """Return a parser of what each experiment takes."""
    parser = argparse.ArgumentParser(description=document.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=seeds, help=f"how many workloads are drawn (default: {seeds})")
    parser.add_argument("--figure", type=Path, help="draw the figure into this file, .svg or .png")
    return parser


def swept(
    workloads: Sequence[TimedWorkload], configurations: Sequence[ConfigurationSource]
) -> dict[str, dict[str, list[float]]]:
    """Live through every workload with every configuration, as `berth sweep` does; return the values of each measure.

    They are by configuration and measure, in the order of the workloads.
    """
    contents = {f"workload {number}": packed(workload) for number, workload in enumerate(workloads)}
    with tempfile.TemporaryDirectory() as directory:
        result = carry_out_sweep(Sweep(contents, configurations, [0]), ResultsDirectory(directory))
    if not result.is_complete:
        raise SystemExit(f"runs failed: {result.failed}")
    found: dict[str, dict[str, list[float]]] = {}
    for each in result.summaries:  # one seed each: its mean is the value
        found.setdefault(each.configuration, {}).setdefault(each.measure, []).append(each.mean)
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean, and how far its 95 % confidence interval reaches on either side; nan for one value."""
    if len(values) < 2:
        return statistics.fmean(values), math.nan
    t = T_95[len(values) - 2] if len(values) - 2 < len(T_95) else 1.96
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values))


def told(values: Sequence[float], digits: int = 2, sign: str = "") -> str:
    """Return mean and interval in words."""
    mean, reach = interval(values)
    return f"{mean:{sign}.{digits}f}" if math.isnan(reach) else f"{mean:{sign}.{digits}f} ± {reach:.{digits}f}"


def better(values: Sequence[float], others: Sequence[float], digits: int = 2) -> str:
    """Return by how much values are larger than others, workload by workload."""
    return told([value - other for value, other in zip(values, others, strict=True)], digits, "+")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(file: Path, label: str, bars: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Draw bars with intervals: by group, by name in it, the values of which mean and interval are shown."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for group in bars.values() for name in group))
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    for place, (group, values) in enumerate(bars.items()):
        at = [names.index(name) + (place + 0.5) / len(bars) * 0.8 - 0.4 for name in values]
        means, reaches = zip(*(interval(each) for each in values.values()), strict=True)
        axes.bar(at, means, 0.75 / len(bars), yerr=None if math.isnan(reaches[0]) else reaches, capsize=3, label=group)
    lows = [interval(values)[0] for group in bars.values() for values in group.values()]
    if min(lows) > 0.7 * max(lows):
        axes.set_ylim(bottom=min(lows) - (max(lows) - min(lows)) - 0.01 * max(lows))
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_ylabel(label)
    if len(bars) > 1:
        axes.legend()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "the same bytes each time"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
