"""`--plot FILE`: the flag, and the call that a command makes with its result."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def plot_option(command: Command) -> Command:
    """`--plot`, received as `plot: str`; a name that no picture can have is refused before the work begins."""
    decorate = click.option(
        "--plot",
        default="",
        metavar="FILE.svg|png|html",
        callback=checked_plot,
        help="Draw the result into this file.",
    )
    return decorate(command)


def checked_plot(_context: click.Context, _param: click.Parameter, path: str) -> str:
    """Return a file's name; a usage error says why no picture can have it."""
    from berth_workbench.showing.picture import check_picture

    if path:
        check_picture(path)
    return path
