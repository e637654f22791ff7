"""The live scheduler beside an embedded cluster, in the same process and event loop, without sockets.

`berth up` and `berth demo` start and stop it here. It is the scheduler that `berth run` runs, except that
it needs no leader election: no other process can reach this store from inside.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from berth.cli.decision_log_flags import OpenLog
from berth.cli.reloading import follow_config
from berth.cli.setup import read_setup, registry_of, scheduler_configuration
from berth.config.types import SchedulerConfiguration
from berth.core.assembly import build_core
from berth.core.options import Build
from berth.decisions.explanation import Explanation, explain
from berth.framework.setup import Setup
from berth.kube.credentials.access import load_access
from berth.kube.http.client import HttpTransport
from berth.kube.trouble import Report
from berth.runtime.grouped_report import GroupedReport
from berth.runtime.observing.metrics_v1_20 import metrics_for
from berth.runtime.observing.several import Instruments
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.serving.options import ServingOptions
from berth.runtime.serving.secure import SecureServing
from berth.runtime.serving.server import HealthServer
from berth_cluster.apimachinery.resource_types import DEFINITIONS, ResourceType
from berth_cluster.serving.delay import ApiDelay
from berth_cluster.serving.transport import StoreTransport
from berth_cluster.storage.store import Store

STOP_WITHIN_S = 10.0
USUAL_PORT = 10259
READY_POLL_S = 0.005


class TypedSetup(NamedTuple):
    """What was typed of configuration and plugins."""

    config_file: str = ""
    plugins: tuple[str, ...] = ()
    feature_gates: str = ""


class InProcessScheduler:
    """A scheduler on a store; `task` ends only when it is stopped or has failed."""

    __slots__ = (
        "_keeper", "_keeping", "_live", "_metrics", "_server", "_stopping", "_transport", "task",
    )  # fmt: skip

    def __init__(
        self,
        store: Store,
        setup: Setup | None = None,
        *,
        secure: SecureServing | None = None,
        kept: OpenLog | None = None,
        api_server: str = "",
        build: Build = build_core,
        delay: ApiDelay | None = None,
    ) -> None:
        """`setup` is the configuration and the plugins, by default the default ones. Raises `ConfigError`.

        `secure` is where it is served, by default nowhere; `kept` the decision log, if there is one; `api_server` the
        address under which the store is served; `build` makes the core. `delay` is how slow the API server is.
        """
        config, registry = setup or read_setup()
        config = _alone(config)
        self._transport = StoreTransport(store)
        slowed = self._transport if delay is None else _slowed(self._transport, delay)
        metrics = metrics_for(config)
        observer = metrics if kept is None else Instruments(metrics, kept.collector)
        self._live = LiveScheduler(
            config, slowed, registry=registry, instrument=observer, build=build, report=_report()
        )
        store.subscribe(on_definition(self._live.following.ask_again))
        self._keeper = None if kept is None else kept.keeper
        self._keeping: asyncio.Task[None] | None = None
        metrics.observe(self._live)
        self._metrics = metrics
        self._server = HealthServer(
            self._live, metrics, config, port=0, secure=secure, decision_log=self._keeper, api_server=api_server
        )
        self._stopping = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def explanations(self) -> Mapping[str, Explanation]:
        """Why recent pods are where they are, by `namespace/name`; every node that fits is in it."""
        async with self._live.between_cycles(STOP_WITHIN_S) as core:
            return {key: explain(decision, top=decision.node_count) for key, decision in core.trace.items()}

    async def serve(self) -> str:
        """Serve metrics and decisions; return where, or the empty string. Raises `PortTaken`."""
        await self._server.start()
        return self._server.address

    def start(self) -> "asyncio.Task[None]":
        """Begin to schedule; the task fails when the scheduler does."""
        self.task = asyncio.create_task(self._live.run(self._stopping), name="scheduler")
        if self._keeper is not None:
            self._keeping = asyncio.create_task(self._keeper.run(self._live), name="decision log")
        return self.task

    def follow(self, typed: TypedSetup) -> "asyncio.Task[None]":
        """Put the configuration file in force whenever it has changed, until the task is cancelled."""
        _, named = registry_of(typed.plugins)

        def load() -> SchedulerConfiguration:
            return _alone(scheduler_configuration(typed.config_file, named, typed.feature_gates))

        return follow_config(self._live, self._metrics, typed.config_file, load)

    async def wait_until_ready(self) -> None:
        """Return when it has seen the whole cluster and schedules, or has failed."""
        while not self._live.is_leading and not (self.task is not None and self.task.done()):
            await asyncio.sleep(READY_POLL_S)

    async def stop(self) -> None:
        """End after the bindings in flight; raises what the scheduler failed with. Fine if it never started."""
        self._stopping.set()
        task, self.task = self.task, None
        try:
            if task is not None:
                async with asyncio.timeout(STOP_WITHIN_S):
                    await task
        finally:
            await self._server.stop()
            if self._keeper is not None:
                if self._keeping is not None:
                    self._keeping.cancel()
                await self._keeper.stop(self._live)
            await self._transport.close()


def _alone(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """The same without an election."""
    return msgspec.structs.replace(
        config, leader_election=msgspec.structs.replace(config.leader_election, leader_elect=False)
    )


def on_definition(ask_again: Callable[[], None]) -> Callable[..., None]:
    """What hears of changes in the store, and has somebody look for kinds when there may be a new one."""

    def told(_type: str, resource: ResourceType, *_: Any) -> None:
        if resource is DEFINITIONS:
            ask_again()

    return told


def _report() -> Report:
    """To the log, but that a kind is not there yet is no news: it is followed as soon as somebody defines it."""
    told = GroupedReport(logging.getLogger("berth.scheduler").warning)
    return lambda trouble: None if trouble.is_missing else told(trouble)


def _slowed(transport: StoreTransport, delay: ApiDelay) -> StoreTransport:
    """The transport, each of whose requests waits as one to the API server's port does."""

    class Slowed:
        def __getattr__(self, name: str) -> Any:
            act = getattr(transport, name)
            if name in ("watch", "close"):
                return act

            async def waits(*args: Any, **options: Any) -> Any:
                await delay.wait()
                return await act(*args, **options)

            return waits

    return cast("StoreTransport", Slowed())


def secure_port(kubeconfig: Path, port: int | None) -> SecureServing | None:
    """The port on loopback on which a scheduler is served to those whom the API server of a kubeconfig lets ask.

    Without a number it is the usual one, or another where that is taken; 0 is none.
    """
    if port == 0:
        return None
    reviews = HttpTransport(load_access(str(kubeconfig)), user_agent="berth-scheduler")
    options = ServingOptions(bind_address="127.0.0.1", port=port or usual_or_free_port())
    return SecureServing(options, reviews, reviews)


def usual_or_free_port() -> int:
    """The port on which schedulers usually are, or another if that is taken."""
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return 0
