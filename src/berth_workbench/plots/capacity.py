"""A picture of headroom: how many more pods fit in each pool, and how much of what is free they can use."""

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from berth_workbench.planning.capacity import Capacity, amount
from berth_workbench.plots.picture import COLOURS, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POOLS_SHOWN = 20


def plot_capacity(path: str | Path, found: Capacity) -> None:
    """Draw headroom into a file. Raises `PictureError`."""
    write_picture(path, lambda figure: draw(found, figure), title=title_of(found), description=description_of(found))


def title_of(found: Capacity) -> str:
    """Return what the picture shows."""
    if len(found.shapes) == 1:
        return f"{found.fits} more of {found.shapes[0].shape} fit"
    return f"{found.fits} more sets of {len(found.shapes)} shapes fit"


def description_of(found: Capacity) -> str:
    """Return the picture in words."""
    pools = ", ".join(f"{name or 'no pool'}: {pool.fits} on {pool.nodes} nodes" for name, pool in found.by_pool.items())
    limits = ", ".join(f"{each.reason} on {each.nodes} nodes" for each in found.limited_by) or "nothing"
    return f"{title_of(found)}. By pool: {pools}. What limits them: {limits}."


def draw(found: Capacity, figure: "Figure") -> None:
    """Draw on the left headroom by pool, or what keeps even one away, and on the right the free resources."""
    left, resources = figure.subplots(1, 2)
    if found.fits:
        _draw_pools(found, left)
    else:
        _draw_limits(found, left)
    _draw_resources(found, resources)


def _draw_limits(found: Capacity, axes: "Axes") -> None:
    """Where none fits, an axis of zeros would say nothing: on how many nodes which reason stands against it."""
    from matplotlib.ticker import MaxNLocator

    shown = found.limited_by[:POOLS_SHOWN]
    bars = axes.barh([fill(each.reason, 26) for each in shown], [each.nodes for each in shown], color=COLOURS[1])
    axes.bar_label(bars, padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("nodes that do not take it, by reason")
    axes.grid(axis="y", visible=False)


def _draw_pools(found: Capacity, axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    shown = sorted(found.by_pool.items(), key=lambda each: -each[1].fits)[:POOLS_SHOWN]
    names = [name or "(no pool)" for name, _ in shown]
    bars = axes.barh(names, [pool.fits for _, pool in shown], color=COLOURS[0])
    axes.bar_label(bars, padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlim(0, max(axes.get_xlim()[1], 1))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("more pods" if len(shown) == len(found.by_pool) else f"more pods, the {len(shown)} largest pools")
    axes.grid(axis="y", visible=False)


def _draw_resources(found: Capacity, axes: "Axes") -> None:
    """What is free of each resource, with the largest hole, and the part of it that such pods can use."""
    free = {name: each for name, each in found.fragmentation.items() if each.free}
    names = list(free)
    usable = [each.usable / each.free for each in free.values()]
    holes = [min(1.0, each.largest_hole / each.free) for each in free.values()]
    axes.barh(names, [1] * len(names), height=0.5, color="#e8e8e8", label="free")
    axes.barh(names, usable, height=0.5, color=COLOURS[2], label="they can use it")
    axes.barh(names, holes, height=0.12, color=COLOURS[0], label="the largest hole")
    for at, each in enumerate(free.values()):
        told = f"{amount(each.free)} free, {amount(each.usable)} usable; largest hole {amount(each.largest_hole)}"
        axes.text(0.01, at - 0.36, told, fontsize=8, va="center")
    axes.set_ylim(max(1, len(names)) - 0.5, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of what is free")
    axes.grid(axis="y", visible=False)
    if names:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False, fontsize=8)
