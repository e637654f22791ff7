"""Finds and imports out-of-tree plugins, and checks them against the contract before anything is scheduled.

`installed_plugins` loads what distributions offer by an entry point in the group `berth.plugins` (the plugin's name =
its class), `plugins_named` what a command line names as `module:Class` or `FILE.py:Class`. Both return a `Registry`. It
does not include plugins with faults, but remembers them as `Unusable`, since they only matter to a profile that enables
them. All faults of a plugin are reported together, each with its origin, the class and the method.

The Protocols of `berth.framework.interface` define what a method must look like.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from berth.api.near_names import looks_like, nearest
from berth.framework import interface
from berth.framework.answers import shown
from berth.framework.blame import is_in_tree
from berth.framework.loaded import contradictions
from berth.framework.promises import NEVER_KEPT, promises_of
from berth.framework.registry import PluginClass, Registry, RegistryError, Unusable, fills, is_protocol, points_of

ENTRY_POINT_GROUP = "berth.plugins"

STEPWISE = frozenset({"post_filter", "pre_bind", "bind", "pod_group_post_filter"})
"""The methods that may be generators: they yield an effect and are sent its answer."""

_ATTRIBUTES = ("args_type", "promises")
"""The class attributes besides `name` that Berth reads, and that might be misspelt."""


def installed_plugins(found: Iterable[EntryPoint] | None = None) -> Registry:
    """Load what installed distributions offer. Never raises: unusable plugins are in the registry's `unusable`."""
    registry = Registry({})
    for entry in entry_points(group=ENTRY_POINT_GROUP) if found is None else found:
        registry = registry.beside(_loaded(entry))
    return registry


def plugins_named(names: Sequence[str]) -> Registry:
    """Load plugins by `module:Class` or `FILE.py:Class`. Raises `RegistryError` with all that is wrong with them."""
    registry = Registry({})
    faults: list[str] = []
    for name in dict.fromkeys(names):
        try:
            plugin, origin = _named(name)
            registry = registry.merge(Registry({plugin.name: plugin}, origin))
        except RegistryError as error:
            faults += error.errors
    if faults:
        raise RegistryError(faults)
    return registry


def plugins_given(plugins: Sequence[type | str]) -> dict[str, type]:
    """Return plugins by name, given as classes or as `plugins_named` takes them. Raises `RegistryError`."""
    named = plugins_named([plugin for plugin in plugins if isinstance(plugin, str)])
    found: dict[str, type] = {name: named.factory(name) for name in named.names}
    faults: list[str] = []
    for plugin in plugins:
        if not isinstance(plugin, str):
            faults += [f"plugin {getattr(plugin, '__qualname__', plugin)} {fault}" for fault in misfits(plugin)]
            found[getattr(plugin, "name", "")] = plugin
    if faults:
        raise RegistryError(faults)
    return found


def origin_of(entry: EntryPoint) -> str:
    """Return the distribution of an entry point, in words."""
    if entry.dist is None:
        return f"the entry point {entry.value}"
    return f"the distribution {entry.dist.name} {entry.dist.version} ({entry.value})"


def _loaded(entry: EntryPoint) -> Registry:
    """Return a registry of the one plugin, usable or not."""
    origin = origin_of(entry)
    distribution = entry.dist.name if entry.dist is not None else "the distribution that offers it"
    try:
        plugin = entry.load()
    except (Exception, SystemExit) as broken:  # whatever the module does while it is imported
        faults = [f"cannot be imported: {_reason(broken)}; repair or upgrade {distribution}, or uninstall it"]
    else:
        faults = [
            f"{fault}; tell the authors of {distribution}, or uninstall it" for fault in misfits(plugin, entry.name)
        ]
        if not faults:
            return Registry({entry.name: plugin}, origin)
    return Registry.of({}, {entry.name: Unusable(origin, tuple(faults))})


def _named(name: str) -> tuple[PluginClass, str]:
    """Return the class that a command line names, and where it comes from. Raises `RegistryError`."""
    where, _, attribute = name.rpartition(":")
    if not where or not attribute.isidentifier():
        raise RegistryError([f"{name!r} is not of the form MODULE:CLASS or FILE.py:CLASS"])
    is_file = where.endswith(".py") or "/" in where
    origin = f"the file {where}" if is_file else f"the module {where}"
    try:
        module = _module_of_file(Path(where)) if is_file else _module(where)
    except (Exception, SystemExit) as broken:  # whatever the module does while it is imported
        raise RegistryError([f"{origin} cannot be imported: {_reason(broken)}"]) from broken
    plugin = getattr(module, attribute, None)
    if plugin is None:
        classes = [each for each, value in vars(module).items() if isinstance(value, type)]
        raise RegistryError([f"{origin} has no class {attribute}{nearest(attribute, classes)}"])
    faults = [f"plugin {attribute} of {origin} {fault}" for fault in misfits(plugin)]
    if faults:
        raise RegistryError(faults)
    return plugin, f"{origin} ({attribute})"


def _module(name: str) -> ModuleType:
    """Import a module, also from the current directory, as `python -m` does."""
    _search(Path.cwd())
    return importlib.import_module(name)


def _module_of_file(path: Path) -> ModuleType:
    """Import a file as a module of its own; it may import its neighbours, as a script may."""
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    path = path.absolute()
    names = (path.stem, f"plugin_file_{path.stem}")
    for known in map(sys.modules.get, names):
        if known is not None and getattr(known, "__file__", None) == str(path):
            return known
    name = names[path.stem in sys.modules]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    _search(path.parent)
    sys.modules[name] = module  # msgspec and pickle look a class's module up by name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _search(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _reason(broken: BaseException) -> str:
    if isinstance(broken, SyntaxError):
        return f"SyntaxError in line {broken.lineno}: {broken.msg}"
    place = _last_frame(broken)
    return f"{type(broken).__name__}: {broken}" + (f" ({place})" if place else "")


def _last_frame(broken: BaseException) -> str:
    """Return file and line of the frame that raised, unless that is the import system or this module."""
    traceback, place = broken.__traceback__, ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith("<") and file != __file__ and not file.startswith(_IMPORTERS):
            place = f"{file}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


_IMPORTERS = tuple(str(Path(module.__file__).parent) for module in (importlib,) if module.__file__)


# --- what is wrong with a class ---------------------------------------------------------------------------------------


def misfits(plugin: Any, registered_as: str | None = None) -> list[str]:
    """Return everything that keeps a loaded object from being a plugin, each as the rest of a sentence about it."""
    if not isinstance(plugin, type):
        return [f"is {shown(plugin)}, not a class"]
    faults = [*_wrong_name(plugin, registered_as), *_misspelt(plugin), *_wrong_methods(plugin), *_wrong_init(plugin)]
    faults += list(contradictions(plugin)) or _never_kept(plugin)
    if not faults and not points_of(plugin):
        faults.append("has the method of no extension point (pre_filter, filter, score, …)")
    args_type = getattr(plugin, "args_type", None)
    if args_type is not None and not (isinstance(args_type, type) and issubclass(args_type, msgspec.Struct)):
        faults.append(f"has the args_type {args_type!r}, which is not a msgspec.Struct")
    return faults


def _never_kept(plugin: type) -> Iterable[str]:
    """Say which promises have no effect, since there is no `signature` under which to keep answers.

    Berth's own plugins make such promises for what-ifs, which other plugins need not know about.
    """
    if fills(plugin, "signature") or is_in_tree(plugin.__module__):
        return
    for name, depends_on in (
        ("filter_depends_on", promises_of(plugin).filter_depends_on),
        ("score_depends_on", promises_of(plugin).score_depends_on),
    ):
        if not depends_on & NEVER_KEPT:
            yield (
                f"promises {name}, but has no method signature, without which nothing is kept: write `def "
                "signature(self, pod)`, which returns what of the pod the answers depend on"
            )


def contract() -> Mapping[str, inspect.Signature]:
    """Return the methods that the framework calls, by name, with the signatures that the Protocols give them."""
    found: dict[str, inspect.Signature] = {}
    for protocol in vars(interface).values():
        if isinstance(protocol, type) and is_protocol(protocol) and _is_of_plugins(protocol):
            methods = {name: value for name, value in vars(protocol).items() if inspect.isfunction(value)}
            found |= {name: inspect.signature(value) for name, value in methods.items() if not name.startswith("_")}
    return found


def _is_of_plugins(protocol: type) -> bool:
    return protocol.__name__.endswith(("Plugin", "Extensions"))


def _wrong_name(plugin: type, registered_as: str | None) -> Iterable[str]:
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        expected = plugin.__name__ if registered_as is None else registered_as
        yield f"has no name; write `name = {expected!r}` into the class"
    elif registered_as is not None and name != registered_as:
        yield f"calls itself {name!r}; its `name` and the entry point's must be the same"


def _misspelt(plugin: type) -> Iterable[str]:
    """Return methods that look like a misspelt one of the contract; a leading underscore marks one as intended."""
    methods = contract()
    for name in sorted(set(dir(plugin)) - set(dir(object)) - set(methods)):
        if name.startswith("_"):
            continue
        words = methods if callable(getattr(plugin, name)) else _ATTRIBUTES
        meant = next((word for word in words if looks_like(name, word) and not fills(plugin, word)), None)
        if meant is not None and name != meant:
            yield (
                f"has a method {name}, which nobody calls; did you mean {meant}? If not, begin its name with an "
                "underscore"
                if words is methods
                else f"has {name}, which nobody reads; did you mean {meant}?"
            )


def _wrong_methods(plugin: type) -> Iterable[str]:
    for name, signature in contract().items():
        method = getattr(plugin, name, None)
        if method is None or not fills(plugin, name):
            continue
        if not callable(method):
            yield f"has {name} = {method!r}, which is not a method"
        elif inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            hint = "write a generator that yields what it waits for" if name in STEPWISE else "write a plain `def`"
            yield f"has the method {name} as `async def`, but the framework does not await it; {hint}"
        elif inspect.isgeneratorfunction(method) and name not in STEPWISE and name != "events_to_register":
            yield f"has the method {name} as a generator (it has a `yield`); it must return its answer"
        elif (fault := _wrong_parameters(plugin, name, signature)) is not None:
            yield fault


def _wrong_parameters(plugin: type, name: str, expected: inspect.Signature) -> str | None:
    """Say whether a method can be called with as many arguments as the contract passes it."""
    wanted = [parameter for parameter in expected.parameters if parameter != "self"]
    try:
        signature = inspect.signature(getattr(plugin, name))
    except (TypeError, ValueError):  # made in C: nothing is known of its parameters
        return None
    is_bound = isinstance(inspect.getattr_static(plugin, name), staticmethod | classmethod)
    passed = wanted if is_bound else ["self", *wanted]
    try:
        signature.bind(*passed)
    except TypeError:
        has = ", ".join(str(parameter).split(":")[0] for parameter in signature.parameters.values())
        return f"has the method {name}({has}), but it is called as {name}({', '.join(passed)})"
    return None


def _wrong_init(plugin: PluginClass) -> Iterable[str]:
    # The `__init__` that comes with a Protocol takes anything and hands it on to that of `object`, which takes nothing.
    is_made_by_object = not fills(plugin, "__init__") and plugin.__new__ is object.__new__
    try:
        inspect.signature(object if is_made_by_object else plugin).bind(None, None)
    except TypeError:
        yield f"cannot be made as {plugin.__name__}(args, handle); write `def __init__(self, args, handle)`"
    except ValueError:  # made in C
        return
