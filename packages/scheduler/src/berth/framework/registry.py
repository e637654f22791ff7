"""The known plugins: the class behind each name, and what that class says about itself.

A `Registry` is a value: the in-tree one comes from `berth.plugins.registry`, one of out-of-tree plugins from
`berth.framework.loader`, and `merge` puts them together. The configuration asks it for extension points and args
types, `build.py` for the classes.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from berth.config.errors import ConfigError
from berth.config.plugin_args import ArgsTypes
from berth.config.types import ExtensionPoint
from berth.framework.interface import Plugin
from berth.framework.promises import promises_of

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
        ExtensionPoint.PRE_SCORE: ("pre_score", "narrow"),
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


class RegistryError(ConfigError):
    """A plugin that cannot be registered: which one, where it comes from, and what to do."""


class Registration(NamedTuple):
    """A plugin class and where it comes from, in words."""

    plugin_class: PluginClass
    origin: str


class Unusable(NamedTuple):
    """A plugin that was found but cannot be used: where it comes from, and each fault as the rest of a sentence."""

    origin: str
    faults: tuple[str, ...]

    def told(self, name: str) -> list[str]:
        """Return a sentence for each fault."""
        return [f"plugin {name!r} of {self.origin} {fault}" for fault in self.faults]


class Registry:
    """Plugin classes by name. Never changed once made."""

    __slots__ = ("_registrations", "unusable")

    def __init__(self, plugins: Mapping[str, type[Plugin]], origin: str = IN_TREE) -> None:
        self._registrations: Mapping[str, Registration] = {
            name: Registration(plugin, origin) for name, plugin in plugins.items()
        }
        self.unusable: Mapping[str, Unusable] = {}
        """Plugins that were found but cannot be used. Only a profile that enables one of them fails because of it."""

    @classmethod
    def of(cls, registrations: Mapping[str, Registration], unusable: Mapping[str, Unusable]) -> "Registry":
        """Return a registry of plugins from several places."""
        made = cls({})
        made._registrations = registrations
        made.unusable = {name: each for name, each in unusable.items() if name not in registrations}
        return made

    def __contains__(self, name: str) -> bool:
        return name in self._registrations

    def __len__(self) -> int:
        return len(self._registrations)

    @property
    def names(self) -> tuple[str, ...]:
        """The plugins' names, in the order they were registered."""
        return tuple(self._registrations)

    def factory(self, name: str) -> PluginClass:
        """Return the class of a plugin; asking for an unregistered one is a bug and raises KeyError."""
        return self._registrations[name].plugin_class

    def origin(self, name: str) -> str:
        """Return where a plugin comes from, in words, whether it can be used or not."""
        return self._registrations[name].origin if name in self else self.unusable[name].origin

    def registration(self, name: str) -> Registration:
        """Return a plugin and where it comes from."""
        return self._registrations[name]

    def merge(self, other: "Registry") -> "Registry":
        """Return a registry of both; raises `RegistryError` if a name is in both."""
        faults = [
            f"plugin {name!r} is registered twice: by {self.origin(name)} and by {other.origin(name)}; "
            "uninstall one of them or rename its plugin"
            for name in other.names
            if name in self
        ]
        if faults:
            raise RegistryError(faults)
        registrations = {name: each.registration(name) for each in (self, other) for name in each.names}
        return Registry.of(registrations, {**self.unusable, **other.unusable})

    def beside(self, other: "Registry") -> "Registry":
        """Return a registry of both, in which a name that is in both, usable or not, is unusable."""
        twice = {name for name in (*self.names, *self.unusable) if name in other or name in other.unusable}
        registrations = {
            name: each.registration(name) for each in (self, other) for name in each.names if name not in twice
        }
        shared = {
            name: Unusable(
                self.origin(name), (f"has the same name as a plugin of {other.origin(name)}; uninstall one of them",)
            )
            for name in twice
        }
        return Registry.of(registrations, {**self.unusable, **other.unusable, **shared})

    def out_of_tree(self) -> "Registry":
        """Return the plugins that are not Berth's own."""
        theirs = {name: self.registration(name) for name in self.names if self.origin(name) != IN_TREE}
        return Registry.of(theirs, self.unusable)

    def implements(self) -> Mapping[str, frozenset[ExtensionPoint]]:
        """Return the extension points of each plugin."""
        return {name: points_of(registered.plugin_class) for name, registered in self._registrations.items()}

    def args_types(self) -> ArgsTypes:
        """Return the args struct of each plugin that has one."""
        classes = ((name, registered.plugin_class) for name, registered in self._registrations.items())
        return {name: args for name, plugin in classes if (args := getattr(plugin, "args_type", None)) is not None}


def points_of(plugin_class: PluginClass) -> frozenset[ExtensionPoint]:
    """Return the extension points that a plugin has methods for, or the fewer that it limits itself to."""
    if isinstance(plugin_class, type) and (declared := promises_of(plugin_class).points) is not None:
        return declared
    return frozenset(point for point, names in METHODS.items() if any(fills(plugin_class, name) for name in names))


def fills(plugin_class: PluginClass, method: str) -> bool:
    """Say whether a class has a method, of its own or of a base.

    Methods inherited from a Protocol do not count: they are only declared, and would return None.
    """
    home = next((kind for kind in plugin_class.__mro__ if method in vars(kind)), None)
    return home is not None and not is_protocol(home)


def is_protocol(kind: type) -> bool:
    """Say whether a class itself is a Protocol, rather than an implementation of one."""
    return bool(vars(kind).get("_is_protocol", False))
