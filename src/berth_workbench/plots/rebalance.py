"""A plan of moves as a picture: how full each node is before and after, and what the moves lead to."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from berth_workbench.planning.rebalance.plan import NodeFill, RebalancePlan
from berth_workbench.plots.picture import COLOURS, write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NODES = 40
"""Bars of more nodes than this could not be told apart; those that change the most are drawn."""


def plot_plan(plan: RebalancePlan, path: str | Path) -> None:
    """Draw a plan into a file. Raises `PictureError`."""
    fills = _shown(plan)
    before, after = plan.before, plan.after
    description = (
        f"{plan.moves} moves for {plan.goal}. Nodes used: {before.nodes_used} before, {after.nodes_used} after. "
        f"Fullest node: {before.highest:.0%} before, {after.highest:.0%} after. "
        f"Pods that break rules of their own: {before.violations} before, {after.violations} after."
    )
    height = max(3.0, 1.5 + 0.28 * len(fills))
    write_picture(
        path,
        partial(_draw, fills),
        title=f"{plan.goal}: {plan.moves} moves",
        description=description,
        size=(8.0, height),
    )


def _shown(plan: RebalancePlan) -> list[NodeFill]:
    """The nodes that change the most, by name."""
    by_change = sorted(
        plan.fills,
        key=lambda each: (
            -abs(each.cpu_after - each.cpu_before) - abs(each.memory_after - each.memory_before), each.node
        ),
    )  # fmt: skip
    return sorted(by_change[:MOST_NODES], key=lambda each: each.node)


def _draw(fills: list[NodeFill], figure: "Figure") -> None:
    cpu, memory = figure.subplots(1, 2, sharey=True)
    _draw_bars(cpu, "CPU", [(each.cpu_before, each.cpu_after) for each in fills], [each.node for each in fills])
    _draw_bars(memory, "memory", [(each.memory_before, each.memory_after) for each in fills], None)
    figure.legend(*cpu.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)


def _draw_bars(axes: Any, what: str, shares: list[tuple[float, float]], names: list[str] | None) -> None:
    places = np.arange(len(shares))
    axes.barh(places - 0.2, [100 * before for before, _ in shares], height=0.38, color=COLOURS[5], label="before")
    axes.barh(places + 0.2, [100 * after for _, after in shares], height=0.38, color=COLOURS[0], label="after")
    axes.set_xlabel(f"{what} requested, % of the node")
    axes.set_xlim(0, 100 * max([1.0, *(share for pair in shares for share in pair)]))
    axes.grid(visible=False, axis="y")
    if names is not None:
        axes.set_yticks(places, [_plain(name) for name in names])
        axes.invert_yaxis()


def _plain(name: str) -> str:
    """A name without the character by which matplotlib begins a formula."""
    return name.replace("$", r"\$")
