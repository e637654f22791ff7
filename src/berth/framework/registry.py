"""Which plugins there are: by name, what makes them, and what that says about them.

A `Registry` is a value: the in-tree one comes from `berth.plugins.registry`, one of other people's plugins from
`out_of_tree_plugins` here, and `merge` puts them together. The configuration asks it for extension points and args
types, `build.py` for the classes.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth.config.errors import ConfigError
from berth.config.plugin_args import ArgsTypes
from berth.config.types import ExtensionPoint

ENTRY_POINT_GROUP = "berth.plugins"
IN_TREE = "Berth itself"

PluginClass = Any
"""Called as `plugin_class(args, handle)`; has a `name` and the methods of the points it takes part in."""

METHODS: Mapping[ExtensionPoint, tuple[str, ...]] = MappingProxyType(
    {
        ExtensionPoint.PRE_ENQUEUE: ("pre_enqueue",),
        ExtensionPoint.QUEUE_SORT: ("less",),
        ExtensionPoint.PRE_FILTER: ("pre_filter",),
        ExtensionPoint.FILTER: ("filter", "filter_columns"),
        ExtensionPoint.POST_FILTER: ("post_filter",),
        ExtensionPoint.PRE_SCORE: ("pre_score",),
        ExtensionPoint.SCORE: ("score", "score_columns"),
        ExtensionPoint.RESERVE: ("reserve",),
        ExtensionPoint.PERMIT: ("permit",),
        ExtensionPoint.PRE_BIND: ("pre_bind",),
        ExtensionPoint.BIND: ("bind",),
        ExtensionPoint.POST_BIND: ("post_bind",),
        ExtensionPoint.PLACEMENT_GENERATE: ("placement_generate",),
        ExtensionPoint.PLACEMENT_SCORE: ("placement_score",),
    }
)
"""A plugin takes part in a point if it has any of these methods."""

COMPANIONS: Mapping[str, str] = MappingProxyType({"reserve": "unreserve", "filter_columns": "filter"})
"""Methods that are of no use without another: what is taken must be given back; what-ifs ask node by node."""


class RegistryError(ConfigError):
    """A plugin that cannot be registered: which one, where it comes from, and what to do."""


class Registration(NamedTuple):
    """A plugin class and where it comes from, in words."""

    plugin_class: PluginClass
    origin: str


class Registry:
    """Plugin classes by name. Never changed once made."""

    __slots__ = ("_registrations",)

    def __init__(self, plugins: Mapping[str, PluginClass], origin: str = IN_TREE) -> None:
        self._registrations = {name: Registration(plugin, origin) for name, plugin in plugins.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._registrations

    def __len__(self) -> int:
        return len(self._registrations)

    @property
    def names(self) -> tuple[str, ...]:
        """The plugins' names, in the order they were registered."""
        return tuple(self._registrations)

    def factory(self, name: str) -> PluginClass:
        """Return what makes a plugin; asking for one that is not registered is a bug and a KeyError."""
        return self._registrations[name].plugin_class

    def origin(self, name: str) -> str:
        """Return where a plugin comes from, in words."""
        return self._registrations[name].origin

    def merge(self, other: "Registry") -> "Registry":
        """Return a registry of both; raises `RegistryError` where both have a name."""
        faults = [
            f"plugin {name!r} is registered twice: by {self.origin(name)} and by {other.origin(name)}; "
            "uninstall one of them or rename its plugin"
            for name in other.names
            if name in self
        ]
        if faults:
            raise RegistryError(faults)
        merged = Registry({})
        merged._registrations.update(self._registrations)
        merged._registrations.update(
            {name: Registration(other.factory(name), other.origin(name)) for name in other.names}
        )
        return merged

    def out_of_tree(self) -> "Registry":
        """Return the plugins that others have brought."""
        others = Registry({})
        others._registrations.update(
            {name: found for name, found in self._registrations.items() if found.origin != IN_TREE}
        )
        return others

    def implements(self) -> Mapping[str, frozenset[ExtensionPoint]]:
        """Return the extension points of each plugin."""
        return {name: points_of(registered.plugin_class) for name, registered in self._registrations.items()}

    def args_types(self) -> ArgsTypes:
        """Return the args struct of each plugin that has one."""
        classes = ((name, registered.plugin_class) for name, registered in self._registrations.items())
        return {name: args for name, plugin in classes if (args := getattr(plugin, "args_type", None)) is not None}


def points_of(plugin_class: PluginClass) -> frozenset[ExtensionPoint]:
    """Return the extension points that a plugin has methods for, or the fewer that it declares as its `points`.

    Plugins of older generations declare them where they inherit methods that their releases did not have.
    """
    declared: frozenset[ExtensionPoint] | None = getattr(plugin_class, "points", None)
    if declared is not None:
        return declared
    return frozenset(point for point, names in METHODS.items() if any(hasattr(plugin_class, name) for name in names))


def out_of_tree_plugins(found: Iterable[EntryPoint] | None = None) -> Registry:
    """Load the plugins that installed distributions offer; raises `RegistryError` with all that cannot be used.

    A distribution offers one by an entry point in the group `berth.plugins`: the plugin's name = its class.
    """
    registry = Registry({})
    faults: list[str] = []
    for entry in entry_points(group=ENTRY_POINT_GROUP) if found is None else found:
        try:
            plugin = _load(entry)
            registry = registry.merge(Registry({entry.name: plugin}, origin_of(entry)))
        except RegistryError as error:
            faults += error.errors
    if faults:
        raise RegistryError(faults)
    return registry


def origin_of(entry: EntryPoint) -> str:
    """Return the distribution of an entry point, in words."""
    if entry.dist is None:
        return f"the entry point {entry.value}"
    return f"the distribution {entry.dist.name} {entry.dist.version} ({entry.value})"


def _load(entry: EntryPoint) -> PluginClass:
    where = f"plugin {entry.name!r} of {origin_of(entry)}"
    distribution = entry.dist.name if entry.dist is not None else "the distribution that offers it"
    try:
        plugin = entry.load()
    except Exception as broken:  # whatever the module does while it is imported
        reason = f"{type(broken).__name__}: {broken}"
        remedy = f"repair or upgrade {distribution}, or uninstall it"
        raise RegistryError([f"{where} cannot be imported: {reason}; {remedy}"]) from broken
    faults = [
        f"{where} {fault}; tell the authors of {distribution}, or uninstall it" for fault in _misfits(entry, plugin)
    ]
    if faults:
        raise RegistryError(faults)
    return plugin


def _misfits(entry: EntryPoint, plugin: PluginClass) -> Iterable[str]:
    """Say what keeps an object that was loaded from being a plugin."""
    if not callable(plugin):
        yield f"is {plugin!r}, not a class"
        return
    name = getattr(plugin, "name", None)
    if name != entry.name:
        yield f"calls itself {name!r}; its `name` and the entry point's must be the same"
    if not points_of(plugin):
        yield "has the method of no extension point (pre_filter, filter, score, …)"
    args_type = getattr(plugin, "args_type", None)
    if args_type is not None and not (isinstance(args_type, type) and issubclass(args_type, msgspec.Struct)):
        yield f"has the args_type {args_type!r}, which is not a msgspec.Struct"
    for method, companion in COMPANIONS.items():
        if hasattr(plugin, method) and not hasattr(plugin, companion):
            yield f"has the method {method} but not {companion}, which goes with it"
