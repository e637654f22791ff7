"""A configuration file that changes while the scheduler runs: read, checked and put in force, or refused without harm.

`ConfigFile` looks at the file every few seconds, and at once when it is told to. It goes by content, so that an editor
that writes a new file and a ConfigMap whose symlink is swapped are the same to it; a change counts when it is seen
twice, since a file may be half written. Loading and checking are those of the start. With the file, and whenever it is
told to look at once, changed code of plugins is loaded too. What happens between two cycles when a new configuration is
put in force is in `reconfiguration`.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from berth.config.errors import ConfigError, errors_in
from berth.config.profiles import names_enabled
from berth.config.types import SchedulerConfiguration
from berth.extender.http_extender import kinds_sent_whole
from berth.framework.plugin_code import Loaded, PluginCode, modules_of
from berth.framework.registry import Registry
from berth.runtime.observing.tallies import CounterTally

Reconfigure = Callable[[SchedulerConfiguration, Registry], Awaitable[list[str]]]
"""Puts a configuration in force together with plugins."""

Setup = TypeVar("Setup")
"""What is loaded, and put in force."""

LOOK_EVERY_S = 3.0
APPLIED, REFUSED, POSTPONED = "applied", "refused", "postponed"

FIXED_FIELDS = {
    "leader_election": "leaderElection",
    "client_connection": "clientConnection",
    "feature_gates": "featureGates",
    "enable_profiling": "enableProfiling",
    "enable_contention_profiling": "enableContentionProfiling",
    "delay_cache_until_active": "delayCacheUntilActive",
    "healthz_bind_address": "healthzBindAddress",
    "metrics_bind_address": "metricsBindAddress",
}
"""What is settled when the process starts, by the name that documents have for it."""

_log = logging.getLogger("berth.scheduler.reload")


class ReloadPostponed(RuntimeError):  # noqa: N818 - it says what happened
    """Bindings under way did not end in time, so the configuration was not changed. It can be tried again."""


def adjusted(old: SchedulerConfiguration, new: SchedulerConfiguration) -> tuple[SchedulerConfiguration, list[str]]:
    """Return the new configuration as far as it can take the old one's place, and the fields that it cannot change.

    Raises `ConfigError` where the rest would not mean what the file says.
    """
    faults = []
    if new.generation != old.generation:
        faults.append(f"apiVersion: a document of {new.generation} cannot replace one of {old.generation}: restart")
    if new.policy_config_map is not None:
        faults.append("algorithmSource: a Policy in a ConfigMap is read at the start only: restart")
    if set(kinds_sent_whole(new.extenders)) - set(kinds_sent_whole(old.extenders)):
        faults.append("extenders: whole pods or nodes are sent only if some extender wanted them at the start: restart")
    if faults:
        raise ConfigError(faults)
    was, wanted = msgspec.structs.asdict(old), msgspec.structs.asdict(new)
    fixed = {field: was[field] for field in FIXED_FIELDS if was[field] != wanted[field]}
    return msgspec.structs.replace(new, **fixed), [FIXED_FIELDS[field] for field in fixed]


class NewSetup(NamedTuple):
    """What a changed file asks for: a configuration, and the plugins with their code as it is now."""

    config: SchedulerConfiguration
    code: Loaded


class SetupReader:
    """Reads configuration and plugins, and puts both in force; `ConfigFile` is told to use it."""

    __slots__ = ("_code", "_in_force", "_read", "_reconfigure")

    def __init__(
        self,
        read: Callable[[], SchedulerConfiguration],
        code: PluginCode,
        reconfigure: Reconfigure,
        in_force: Callable[[], SchedulerConfiguration],
    ) -> None:
        """`reconfigure` is that of the live scheduler; `in_force` returns its configuration."""
        self._read = read
        self._code = code
        self._reconfigure = reconfigure
        self._in_force = in_force

    def load(self) -> NewSetup:
        """Read both as at the start; the changed modules of the plugins that are enabled are imported afresh.

        Raises `ConfigError` with what is wrong with the code alone, before anything is made of it: what follows from
        that would be a second complaint about the same fault. Then the modules are those of before.
        """
        config = self._read()
        names = names_enabled(config)
        _parse(self.files())
        with errors_in("plugin code"):
            code = self._code.load(names)
            unusable = code.registry.unusable
            if faults := [told for name in unusable if name in names for told in unusable[name].told(name)]:
                code.undo()
                raise ConfigError(faults)
        return NewSetup(config, code)

    def files(self) -> list[Path]:
        """Return the sources of the plugins in force, sorted."""
        modules = modules_of(self._code.registry, names_enabled(self._in_force()))
        return sorted({Path(file) for each in modules.values() if (file := each.__file__)})

    async def apply(self, new: NewSetup) -> list[str]:
        """Put both in force. Raises `ConfigError` and `ReloadPostponed`; then the modules are those of before."""
        try:
            fixed = await self._reconfigure(new.config, new.code.registry)
        except BaseException:
            new.code.undo()
            raise
        new.code.keep()
        if new.code.changed:
            _log.info("plugin code was loaded afresh: %s", ", ".join(new.code.changed))
        return fixed

    def has_new_code(self) -> bool:
        """Say whether the code of a plugin that the configuration in force enables has changed."""
        return self._code.has_changed(names_enabled(self._in_force()))


def _parse(files: Iterable[Path]) -> None:
    """Raise `ConfigError` for the first source that is no Python, with its place in it."""
    for file in files:
        try:
            compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
        except SyntaxError as error:
            raise ConfigError([f"SyntaxError: {error.msg}"], f"{file}:{error.lineno}") from None
        except (OSError, ValueError):  # the loader says what is wrong, if it still wants the file
            continue


class ConfigFile(Collector, Generic[Setup]):
    """One file: `load` reads and checks it, `apply` puts it in force and returns the fields that it could not change.

    Both raise `ConfigError`, `apply` also `ReloadPostponed`. `has_more` is asked when we are told to look, and says
    whether there is something new although the file is the same. Counts what came of each change.
    """

    def __init__(
        self,
        path: Path | None,
        load: Callable[[], Setup],
        apply: Callable[[Setup], Awaitable[list[str]]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        has_more: Callable[[], bool] = lambda: False,
        more: Callable[[], Iterable[Path]] = tuple,
    ) -> None:
        """Without a `path` there is only what `has_more` tells of; `more` are the files that it looks at."""
        self._path = path
        self._load = load
        self._apply = apply
        self._sleep = sleep
        self._has_more = has_more
        self._more = more
        self._settled = self._seen = fingerprint(path)
        self._looking = asyncio.Lock()
        self.reloads = CounterTally(
            "berth_config_reloads", "[ALPHA] Changes of the configuration file, by what came of them.", ("result",)
        )

    def collect(self) -> Iterator[Metric]:
        """The counter."""
        yield from self.reloads.collect()

    def sources(self) -> list[Path]:
        """Return all files that matter, for whoever wants to know when to look.

        After a refusal these are also the files beside them: one that is not loaded yet may be what is wrong.
        """
        files = list(self._more())
        if self._has_more():
            files = sorted({*files, *(each for file in files for each in file.parent.glob("*.py"))})
        return files if self._path is None else [self._path, *files]

    async def run(self) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await self._sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self, *, at_once: bool = False) -> None:
        """Put the file's content in force if it is new, and has been the same for two looks or `at_once`."""
        async with self._looking:
            found = await asyncio.to_thread(fingerprint, self._path)
            before, self._seen = self._seen, found
            is_new = found != self._settled and (at_once or found == before)
            if is_new or (at_once and await asyncio.to_thread(self._has_more)):
                await self._reload(found)
            elif at_once:
                _log.info("%s has not changed", self._what)

    @property
    def _what(self) -> str:
        return "the code of the plugins" if self._path is None else str(self._path)

    @property
    def _change(self) -> str:
        return "the changed code of the plugins" if self._path is None else f"the changed configuration {self._path}"

    async def _reload(self, found: str) -> None:
        try:
            fixed = await self._apply(await asyncio.to_thread(self._load))
        except ConfigError as error:
            result = REFUSED
            problem = error.located(error.source or ("" if self._path is None else str(self._path)))
            what = self._change if self._path is None else "the changed configuration"
            _log.error("%s is refused, and the old one stays in force: %s", what, problem)
        except ReloadPostponed as why:
            _log.warning("%s is not in force yet, and is tried again: %s", self._change, why)
            self.reloads.add((POSTPONED,))
            return
        else:
            result = APPLIED
            _log.info("%s is in force", self._change)
            if fixed:
                _log.warning("%s: %s cannot change without a restart", self._what, ", ".join(fixed))
        self._settled = found
        self.reloads.add((result,))


def fingerprint(path: Path | None) -> str:
    """Return what stands for a file's content: a hash, or why it cannot be read; nothing where there is no file."""
    if path is None:
        return ""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
