"""Draws what a pod's cost grows with: nodes, pods that run, and pods that wait for their turn.

    python benchmarks/growth.py [--runs 1] [--pods 1000] [--to docs/pictures/growth.svg]

Each point is a workload of scenarios.py through `berth bench` in a process of its own, and the CPU time of that a pod:
loading is not part of it. Of several runs the least counts, since whatever else the machine does can only add to it.
Running pods are like those that are to be scheduled, and lie evenly on the nodes. Prints the points as a table in
Markdown. Takes a few minutes, and needs matplotlib.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.scenarios import write  # noqa: E402 - runs from any directory
from berth_workbench.showing.picture import COLOURS, write_picture  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.figure import Figure

USUAL_NODES = 5000


class Panel(NamedTuple):
    """One picture: a workload's cost along one number, the others as usual."""

    along: str
    title: str
    at: tuple[int, ...]
    scenarios: tuple[str, ...]


# Of mixed pods one in six keeps away from its like, so that no more than six for each node have a place.
PANELS = (
    Panel("nodes", "nodes", (500, 1000, 2000, 5000, 10_000, 20_000, 50_000), ("basic", "mixed", "unique", "affinity")),
    Panel("running", "pods that run, on 5,000 nodes", (0, 10_000, 30_000, 100_000), ("basic", "unique", "affinity")),
    Panel("pods", "pods that are to be scheduled, on 5,000 nodes", (500, 2000, 10_000),
          ("basic", "unique", "affinity")),
)  # fmt: skip


def with_running(lines: list[str], running: int) -> Iterable[str]:
    """Yield a workload whose first so many pods run already."""
    nodes = sum(json.loads(line)["kind"] == "Node" for line in lines) if running else 0
    left = running
    for line in lines:
        if not left or (document := json.loads(line))["kind"] != "Pod":
            yield line
            continue
        left -= 1
        document["spec"]["nodeName"] = f"node-{left % nodes:05d}"
        document["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        yield json.dumps(document) + "\n"


def cost_ms(scenario: str, *, nodes: int, pods: int, running: int, runs: int) -> float:
    """The least CPU that a pod of the workload took, in milliseconds."""
    with tempfile.TemporaryDirectory() as directory:
        workload = Path(directory) / "workload.jsonl"
        with workload.open("w") as out:
            write(scenario, nodes, pods + running, out)
        if running:
            workload.write_text("".join(with_running(workload.read_text().splitlines(keepends=True), running)))
        command = [sys.executable, "-m", "berth", "bench", str(workload), "--json"]
        found = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(runs)]
    for figures in found:
        if (figures["nodes"], figures["pods"], figures["failed"]) != (nodes, pods, 0):
            raise SystemExit(f"{scenario} with {nodes} nodes, {running} running pods: {figures}")
    return min(1000 * figures["cpu_s"] / pods for figures in found)


def measured(panel: Panel, pods: int, runs: int) -> dict[str, list[float]]:
    """The costs of a panel by scenario; prints them while it goes."""
    print(f"\n| {panel.title} | " + " | ".join(panel.scenarios) + " |\n| --- |" + " --- |" * len(panel.scenarios))
    found: dict[str, list[float]] = {scenario: [] for scenario in panel.scenarios}
    for at in panel.at:
        size = {"nodes": USUAL_NODES, "pods": pods, "running": 0} | {panel.along: at}
        for scenario, costs in found.items():
            costs.append(cost_ms(scenario, **size, runs=runs))
        print(f"| {at:,} | " + " | ".join(f"{costs[-1]:.3f}" for costs in found.values()) + " |", flush=True)
    return found


def draw(found: list[tuple[Panel, dict[str, list[float]]]], figure: "Figure") -> None:
    """Draw the panels side by side, on one scale of costs."""
    names = list(dict.fromkeys(name for _, costs in found for name in costs))
    for axes, (panel, costs) in zip(figure.subplots(1, len(found), sharey=True), found, strict=True):
        for name, values in costs.items():
            axes.plot(panel.at, values, marker="o", color=COLOURS[names.index(name)], label=name)
        axes.set_xscale("symlog" if 0 in panel.at else "log", **({"linthresh": 5000} if 0 in panel.at else {}))
        axes.set_xticks([at for at in panel.at if str(at)[0] in "0125" or at == panel.at[-1]])
        axes.xaxis.set_major_formatter(lambda at, _position: f"{at / 1000:g}k" if at >= 1000 else f"{at:g}")
        axes.minorticks_off()
        axes.set_xlabel(panel.title)
        axes.set_ylim(bottom=0)
    first: Any = figure.axes[0]
    first.set_ylabel("ms of CPU a pod")
    first.legend(frameon=False)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--pods", type=int, default=1000, help="how many are scheduled where that is not the question")
    parser.add_argument("--to", type=Path, default=HERE.parent / "docs/pictures/growth.svg")
    asked = parser.parse_args()
    found = [(panel, measured(panel, asked.pods, asked.runs)) for panel in PANELS]
    told = (
        f"{panel.title} {panel.at[0]:,} to {panel.at[-1]:,}: "
        + ", ".join(f"{name} {values[0]:.2f} to {values[-1]:.2f} ms" for name, values in costs.items())
        for panel, costs in found
    )
    write_picture(
        asked.to,
        lambda figure: draw(found, figure),
        title="What a pod costs the engine",
        description="; ".join(told),
        size=(12.0, 4.0),
    )


if __name__ == "__main__":
    main()
