"""The guests of `packages/plugins`, by the entry points that their distribution offers, without installing it."""

import tomllib
from importlib.metadata import EntryPoint

from berth.framework.loader import ENTRY_POINT_GROUP, installed_plugins
from berth.framework.registry import Registry
from berth.plugins.registry import in_tree_registry
from tests.paths import GUESTS


def entry_points() -> dict[str, str]:
    """Return what the distribution offers: the class behind the name of each plugin."""
    with (GUESTS / "pyproject.toml").open("rb") as file:
        found: dict[str, str] = tomllib.load(file)["project"]["entry-points"][ENTRY_POINT_GROUP]
    return found


def guests() -> Registry:
    """Return a registry of the guests alone, loaded and checked as installed plugins are."""
    return installed_plugins([EntryPoint(name, value, ENTRY_POINT_GROUP) for name, value in entry_points().items()])


def registry_with_guests() -> Registry:
    """Return the registry of a Berth beside which the guests are installed."""
    return in_tree_registry().merge(guests())
