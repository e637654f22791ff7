"""A picture of headroom: how many more pods fit in each pool, and how much of what is free they can use."""

from pathlib import Path
from typing import TYPE_CHECKING

from berth_workbench.planning.capacity import Capacity
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
    """Draw headroom by pool on the left, and free resources on the right."""
    pools, resources = figure.subplots(1, 2)
    _draw_pools(found, pools)
    _draw_resources(found, resources)


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
    free = {name: each for name, each in found.fragmentation.items() if each.free}
    names = list(free)
    usable = [each.usable / each.free for each in free.values()]
    axes.barh(names, usable, color=COLOURS[2], label="they can use")
    axes.barh(names, [1 - share for share in usable], left=usable, color=COLOURS[1], label="stranded")
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of what is free")
    axes.grid(axis="y", visible=False)
    if names:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
