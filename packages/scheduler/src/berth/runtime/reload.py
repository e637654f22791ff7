"""Watches a configuration file while the scheduler runs: a change is read, checked and put in force, or refused without
harm.

`ConfigFile` looks at the file every few seconds, and at once when told to. It compares contents, so that an editor that
writes a new file and a ConfigMap whose symlink is swapped are the same to it; a change counts once it is seen twice,
since a file may be half written. Loading and checking are the same as at the start. What happens between two cycles
when a new configuration is put in force is in `reconfiguration`.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from berth.config.errors import ConfigError
from berth.config.types import SchedulerConfiguration
from berth.extender.http_extender import kinds_sent_whole
from berth.runtime.observing.tallies import CounterTally

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
    """Return the new configuration as far as it can replace the old one, and the fields that cannot change.

    Raises `ConfigError` if the rest would not mean what the file says.
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


class ConfigFile(Collector):
    """One file: `load` reads and checks it, `apply` puts it in force and returns the fields that it could not change.

    Both raise `ConfigError`, `apply` also `ReloadPostponed`. Counts the outcome of each change.
    """

    def __init__(
        self,
        path: Path,
        load: Callable[[], SchedulerConfiguration],
        apply: Callable[[SchedulerConfiguration], Awaitable[list[str]]],
    ) -> None:
        self._path = path
        self._load = load
        self._apply = apply
        self._settled = self._seen = fingerprint(path)
        self._looking = asyncio.Lock()
        self.reloads = CounterTally(
            "berth_config_reloads", "[ALPHA] Changes of the configuration file, by what came of them.", ("result",)
        )

    def collect(self) -> Iterator[Metric]:
        """The counter."""
        yield from self.reloads.collect()

    async def run(self) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self, *, at_once: bool = False) -> None:
        """Put the file's content in force if it is new, and has been the same for two looks or `at_once`."""
        async with self._looking:
            found = await asyncio.to_thread(fingerprint, self._path)
            before, self._seen = self._seen, found
            if found != self._settled and (at_once or found == before):
                await self._reload(found)
            elif at_once:
                _log.info("%s has not changed", self._path)

    async def _reload(self, found: str) -> None:
        try:
            fixed = await self._apply(await asyncio.to_thread(self._load))
        except ConfigError as error:
            result = REFUSED
            problem = error.located(error.source or str(self._path))
            _log.error("the changed configuration is refused, and the old one stays in force: %s", problem)
        except ReloadPostponed as why:
            _log.warning("the changed configuration %s is not in force yet, and is tried again: %s", self._path, why)
            self.reloads.add((POSTPONED,))
            return
        else:
            result = APPLIED
            _log.info("the changed configuration %s is in force", self._path)
            if fixed:
                _log.warning("%s: %s cannot change without a restart", self._path, ", ".join(fixed))
        self._settled = found
        self.reloads.add((result,))


def fingerprint(path: Path) -> str:
    """Return a fingerprint of a file's content: a hash, or why it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
