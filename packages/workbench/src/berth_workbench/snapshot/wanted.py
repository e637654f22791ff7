"""Custom resources that installed packages want in every snapshot, where a cluster has them.

A package names them by an entry point of the group `berth.resources` that leads to a tuple of `CustomResource`, as
Kueue's house does. Unlike those that plugins follow, they say nothing of how the scheduler is configured.
"""

from collections.abc import Iterator
from importlib.metadata import entry_points

from berth.api.custom import CustomResource

GROUP = "berth.resources"


def resources_wanted() -> tuple[CustomResource, ...]:
    """Return the resources, package by package; what is left of a package that cannot be imported is passed over."""
    return tuple(_named())


def _named() -> Iterator[CustomResource]:
    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        try:
            named = point.load()
        except Exception:  # a stranger's module may raise anything, and `berth --help` names it where it has commands
            continue
        yield from (each for each in named if isinstance(each, CustomResource))
