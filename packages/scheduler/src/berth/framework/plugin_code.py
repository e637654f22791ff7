"""The code of other people's plugins, as it was loaded, and how changed code is loaded afresh beside it.

`PluginCode` holds the registry in force and, of each plugin in it, the modules that it comes from with a hash of each
source. `load` makes another registry: modules that have changed since are imported anew, with all that belongs to them,
everything else stays as it is. The old classes live on with whoever holds them, so a scheduler can go back to them.
`sys.modules` has the one or the other set, never a mixture: `Loaded.undo` puts the old one back.

What belongs to a plugin is its own package, or where its module is in no package, the modules beside it that it
imports. Berth's own modules, the standard library and other installed packages are never loaded again: objects of
theirs are everywhere in the process, and what they were made of must stay.
"""

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

from berth.framework.registry import Registry

OURS = frozenset({"berth", "berth_cluster", "berth_workbench", "berth_workloads"})
"""Packages that are never loaded again."""

Hashes = Mapping[str, str]
"""Names of modules with a hash of the source of each; empty where it cannot be read."""


class Loaded(NamedTuple):
    """A registry that was loaded, and what it takes to put it in force or to go back."""

    registry: Registry
    changed: tuple[str, ...]
    """The modules that were loaded afresh, sorted."""
    keep: Callable[[], None]
    """Makes it the one in force."""
    undo: Callable[[], None]
    """Puts the modules back that were there before, whether it was kept or not."""


class PluginCode:
    """The plugins in force, and the sources that they were loaded from."""

    __slots__ = ("_hashes", "_load", "registry")

    def __init__(self, registry: Registry, load: Callable[[], Registry]) -> None:
        """`load` returns all plugins there are now; it imports what is not imported. It raises `RegistryError`."""
        self.registry = registry
        self._load = load
        self._hashes = hashes_of(modules_of(registry, registry.out_of_tree().names))

    def has_changed(self, names: Iterable[str]) -> bool:
        """Say whether the code of any of these plugins has changed since it was loaded."""
        return bool(self._changed(names))

    def load(self, names: Iterable[str]) -> Loaded:
        """Load the plugins anew, the changed modules of these ones afresh. Raises what the loader raises.

        Then everything is as before, as it is after `undo`.
        """
        before, hashes, old = dict(sys.modules), self._hashes, self.registry
        changed = self._changed(names)
        for name in changed:
            sys.modules.pop(name, None)

        def undo() -> None:
            for name in set(sys.modules) - set(before):
                if _top(name) in tops:
                    del sys.modules[name]
            sys.modules.update({name: before[name] for name in changed})
            for name in changed:
                _bind(name, before[name])
            self.registry, self._hashes = old, hashes

        tops = {_top(name) for name in changed}
        try:
            with read_from_source(tops):
                registry = self._load()
            new = hashes_of(modules_of(registry, registry.out_of_tree().names))
        except BaseException:
            undo()
            raise
        # What was not loaded again is still the source that was hashed first, whatever its file says by now.
        merged = {**new, **{name: known for name, known in hashes.items() if name not in changed}}

        def keep() -> None:
            self.registry, self._hashes = registry, merged

        return Loaded(registry, tuple(sorted(changed)), keep, undo)

    def _changed(self, names: Iterable[str]) -> set[str]:
        """Return the modules that are to be loaded again: where one has changed, all that belong together."""
        found: set[str] = set()
        known = [name for name in names if name in self.registry]
        for name in known:
            own = modules_of(self.registry, [name])
            now = hashes_of(own)
            if any(self._hashes.get(module, now[module]) != now[module] for module in now):
                found |= set(own)
        return found


def modules_of(registry: Registry, names: Iterable[str]) -> dict[str, ModuleType]:
    """Return the modules that plugins of other people come from, by name."""
    found: dict[str, ModuleType] = {}
    theirs = registry.out_of_tree()
    for name in names:
        if name in theirs:
            home = sys.modules.get(str(theirs.factory(name).__module__))
            if home is not None:
                _gather(home, found)
    return found


def hashes_of(modules: Mapping[str, ModuleType]) -> dict[str, str]:
    """Return a hash of the source of each module that has one."""
    return {name: _hash(Path(str(file))) for name, each in modules.items() if (file := getattr(each, "__file__", None))}


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _gather(module: ModuleType, found: dict[str, ModuleType]) -> None:
    """Add a module and all that belong to it."""
    name = module.__name__
    if name in found or _top(name) in OURS or getattr(module, "__file__", None) is None:
        return
    package = _package(name)
    if package:
        found.update({each: known for each, known in tuple(sys.modules.items()) if _is_within(each, package)})
        return
    found[name] = module
    directory = Path(str(module.__file__)).parent
    if str(directory) in _shared_directories():  # beside it stand the modules of others
        return
    for other in _imported(module):
        file = getattr(other, "__file__", None)
        if file is not None and Path(file).parent == directory and "." not in other.__name__:
            _gather(other, found)


def _package(name: str) -> str:
    """Return the outermost package with code of its own that a module is in; empty where it is in none."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        module = sys.modules.get(".".join(parts[:end]))
        if module is not None and getattr(module, "__file__", None) and hasattr(module, "__path__"):
            return ".".join(parts[:end])
    return ""


def _imported(module: ModuleType) -> Iterator[ModuleType]:
    """Yield the modules that a module has names of, or of something in them."""
    for value in tuple(vars(module).values()):
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        known = sys.modules.get(name) if isinstance(name, str) else None
        if known is not None and known is not module:
            yield known


def _shared_directories() -> frozenset[str]:
    """Return where the interpreter's and installed packages' modules are."""
    paths = sysconfig.get_paths()
    found = [paths[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    return frozenset([*found, *site.getsitepackages(), site.getusersitepackages()])


def _top(name: str) -> str:
    return name.partition(".")[0]


def _is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _bind(name: str, module: ModuleType) -> None:
    """Have a package's attribute name the module that is in `sys.modules`."""
    package, _, last = name.rpartition(".")
    if package in sys.modules:
        setattr(sys.modules[package], last, module)


# --- importing what the file says now ---------------------------------------------------------------------------------


@contextmanager
def read_from_source(tops: Iterable[str]) -> Iterator[None]:
    """Have modules under these names compiled from their files while the context lasts.

    Compiled files are found by the time and size of their source: one that was changed twice within a second, to the
    same length, would be taken for what it was before.
    """
    finder = _SourceFinder(frozenset(tops))
    importlib.invalidate_caches()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _SourceFinder(importlib.abc.MetaPathFinder):
    """Finds what the other finders find, and has it read from its source."""

    def __init__(self, tops: frozenset[str]) -> None:
        self._tops = tops

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where a module is; None for one that is not to be read afresh."""
        if _top(name) not in self._tops:
            return None
        for finder in sys.meta_path:
            if finder is not self and (found := finder.find_spec(name, path, target)) is not None:
                if type(found.loader) is importlib.machinery.SourceFileLoader:
                    found.loader = SourceLoader(name, found.loader.path)
                return found
        return None


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles a module's source, whatever was compiled before."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of a module."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code
