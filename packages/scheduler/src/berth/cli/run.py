"""`berth run`: the scheduler as a process, against the API server of a kubeconfig or of the pod it runs in.

kube-scheduler's flags and configuration file in; exit code out: 0 when told to stop, 1 when it cannot go on or has lost
its lease, 2 when the configuration cannot be used. Faults are reported in words, not with tracebacks.
"""

import asyncio
import contextlib
import gc
import importlib
import logging
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from berth.api.redaction import redact
from berth.cli import print_version
from berth.cli.decision_log_flags import DecisionLogOptions, OpenLog, decision_log_options, open_log, state_directory
from berth.cli.flags import SchedulerFlags, load_configuration, scheduler_flags, warnings_of
from berth.cli.recording_flags import RecordingOptions, recording_options, recording_to
from berth.cli.reloading import follow_config, on_signal
from berth.cli.setup import EXIT_BAD_CONFIGURATION, plugin_option, read_registry, tell_odd_plugins, warn
from berth.config.errors import ConfigError
from berth.config.types import LeaderElection, SchedulerConfiguration
from berth.framework.setup import Setup
from berth.runtime.serving.options import AuthenticationLookupError, ServingOptions

if TYPE_CHECKING:
    from berth.agreement.observer import Observing
    from berth.config.load import NamedPlugins
    from berth.core.options import Build
    from berth.cycle.instrument import Instrument
    from berth.framework.registry import Registry
    from berth.kube.credentials.sources import ClusterAccess
    from berth.kube.http.client import HttpTransport
    from berth.runtime.observing.metrics import Metrics
    from berth.runtime.observing.rest_client import RestClientMetrics
    from berth.runtime.observing.tracing.exporter import Tracing
    from berth.runtime.scheduler import LiveScheduler
    from berth.runtime.serving.secure import SecureServing

_log = logging.getLogger("berth.run")

EXIT_FAILURE = 1
MOST_SHARDS = 64
"""The most shards: each scheduler looks at every shard's lease about once a second."""
PODS_A_CHECK = 1000
"""With `--check-promises`, one attempt in this many is used for the check."""

LONGEST_WITHOUT_COLLECTION_S = 60.0
"""How long garbage is not collected at the start: a scheduler that cannot read the cluster for this long has piled up
failures rather than objects.
"""

REVIEW_QPS, REVIEW_BURST = 50.0, 100
"""The rate at which strangers can have us ask the API server who they are; the scheduler's requests have their own."""


class Secure(NamedTuple):
    """The secure port, and the access with which it asks the API server who a client is, and what it may do."""

    options: ServingOptions
    authentication: "ClusterAccess"
    authorization: "ClusterAccess"
    cluster: str
    """The address of the API server whose pods are scheduled."""


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed, by the names of the parameters: a flag of our own is an option of `command` and a field here."""

    flags: SchedulerFlags
    context: str
    plugins: tuple[str, ...]
    decision_log: DecisionLogOptions
    recording: RecordingOptions
    shards: int = 1
    tracing_config_file: str = ""
    check_promises: bool = False


class RunSettings(NamedTuple):
    """What a process is started with."""

    started: Started
    setup: Setup
    named: "NamedPlugins"
    """The plugins of `--plugin`."""
    access: "ClusterAccess"
    secure: Secure
    tracing: "Tracing | None"
    build: "Build"
    """Makes the core, recorded if that is asked for."""
    kept: OpenLog | None = None
    """The decision log."""
    observing: "Observing | None" = None
    """How to look on, where nothing is to be scheduled."""


@click.command("run", short_help="The scheduler, against a real API server.")
@click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use.")
@click.option(
    "--version",
    is_flag=False,
    flag_value="true",
    type=click.Choice(["true", "false", "raw"]),
    expose_value=False,
    is_eager=True,
    callback=lambda ctx, param, value: print_version(ctx, param, value in ("true", "raw")),
    help="Show the version.",
)
@click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    default=1,
    show_default=True,
    help="Share the cluster's namespaces out among all schedulers started with this number; see docs/several.md.",
)
@click.option(
    "--tracing-config-file",
    default="",
    metavar="FILE",
    help="A TracingConfiguration, as kube-apiserver takes it: where to send traces of pods. Needs the extra otel.",
)
@click.option(
    "--check-promises",
    is_flag=True,
    help="Ask other people's plugins once more about one pod in a thousand, and warn where they break a promise.",
)
@decision_log_options
@recording_options
@plugin_option
@scheduler_flags
def command(**typed: Any) -> None:
    """Schedule the pods of a cluster.

    Takes kube-scheduler's flags and configuration files. Without --kubeconfig: $KUBECONFIG, the service account of the
    pod that this runs in, or ~/.kube/config. Health, metrics and decisions are served with TLS on --secure-port, to
    whoever the API server says may read them.
    """
    serve(Started(**typed))


def serve(started: Started, observing: "Observing | None" = None) -> None:
    """Schedule, or look on and judge, until told to stop; ends the process where that cannot be."""
    gc.disable()  # until all is read: see `_settle`
    try:
        _serve(started, observing)
    finally:
        gc.enable()


def _serve(started: Started, observing: "Observing | None") -> None:
    from berth.runtime.observing import logs

    flags = started.flags
    logs.set_up(flags.get("logging-format", "text"), flags.verbosity)
    registry, named = read_registry(started.plugins)
    try:
        config = load_configuration(flags, named)
        if observing is not None:
            config = msgspec.structs.replace(config, leader_election=LeaderElection(leader_elect=False))
        if target := flags.get("write-config-to"):
            if config.client_connection.kubeconfig or flags.get("master", ""):
                _access(config, flags, started.context)
            _write_configuration(config, registry, Path(target))
            return
        if started.shards > 1 and not config.leader_election.leader_elect:
            raise _Unusable("--shards needs leader election: each shard is scheduled by whoever holds its lease")
        access = _access(config, flags, started.context)
        serving = flags.serving()
        reviewers = _reviewers(serving, access)
        tracing = _tracing(started.tracing_config_file)
    except (ConfigError, _Unusable) as error:
        _fail(str(error), EXIT_BAD_CONFIGURATION)
    for warning in [*warnings_of(flags, config), *_warnings(config)]:
        warn(warning)
    tell_odd_plugins(config, registry, named)
    try:
        with recording_to(started.recording) as build, asyncio.Runner(loop_factory=_event_loop) as runner:
            build = _checking_promises(build) if started.check_promises else build
            secure = Secure(serving, *reviewers, access.server)
            kept = open_log(started.decision_log, state_directory(access.server))
            settings = RunSettings(
                started=started,
                setup=Setup(config, registry),
                named=named,
                access=access,
                secure=secure,
                tracing=tracing,
                build=build,
                kept=kept,
                observing=observing,
            )
            runner.run(_run(settings))
    except _Unusable as error:
        _fail(str(error), EXIT_BAD_CONFIGURATION)
    except ConfigError as error:
        where = error.source or flags.get("config", "") or "the configuration"
        _fail(str(error.located(where)), EXIT_BAD_CONFIGURATION)
    except _Ended as error:
        if error.is_stuck:
            _end_at_once(str(error))
        _fail(str(error), EXIT_FAILURE)


class _Unusable(Exception):  # noqa: N818 - it is only ever shown
    """The cluster access cannot be used."""


class _Ended(Exception):  # noqa: N818 - it is only ever shown
    """The scheduler cannot go on; `is_stuck` where its thread is still at work, so that nothing can wait for it."""

    def __init__(self, message: str, *, is_stuck: bool) -> None:
        super().__init__(message)
        self.is_stuck = is_stuck


def _fail(message: str, code: int) -> None:
    click.echo(f"berth {click.get_current_context().info_name}: {redact(message)}", err=True)
    sys.exit(code)


def _end_at_once(message: str) -> None:
    """End the process although a thread of it is at work, which nothing but this can end."""
    click.echo(f"berth {click.get_current_context().info_name}: {message}", err=True)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(EXIT_FAILURE)


def _write_configuration(config: SchedulerConfiguration, registry: "Registry", target: Path) -> None:
    import yaml

    from berth.config.dump import dump_config
    from berth.core.assembly import build_core
    from berth.core.options import CoreOptions

    if config.generation != "v1.36":
        raise _Unusable(f"--write-config-to: the configuration is of {config.generation}, only v1.36's can be written")
    build_core(config, registry, CoreOptions(rng=random.Random(0)))  # raises for whatever `run` would refuse
    text = yaml.safe_dump(dump_config(config, registry.args_types()), sort_keys=True)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _Unusable(f"--write-config-to: cannot write {target}: {error.strerror}") from None
    click.echo(f"configuration written to {target}")


def _access(config: SchedulerConfiguration, flags: SchedulerFlags, context: str) -> "ClusterAccess":
    from berth.kube.credentials.access import load_access
    from berth.kube.credentials.kubeconfig import KubeconfigError

    try:
        return load_access(config.client_connection.kubeconfig, context=context, master=flags.get("master", ""))
    except KubeconfigError as error:
        raise _Unusable(str(error)) from None


def _reviewers(serving: ServingOptions, own: "ClusterAccess") -> tuple["ClusterAccess", "ClusterAccess"]:
    """The access with which tokens are reviewed, and that with which permissions are: by the flags, or our own."""
    from berth.kube.credentials.access import load_access
    from berth.kube.credentials.kubeconfig import KubeconfigError

    found = {"": own}
    for flag, options in (("authentication", serving.authentication), ("authorization", serving.authorization)):
        if options.kubeconfig not in found:
            try:
                found[options.kubeconfig] = load_access(options.kubeconfig)
            except KubeconfigError as error:
                raise _Unusable(f"--{flag}-kubeconfig: {error}") from None
    return found[serving.authentication.kubeconfig], found[serving.authorization.kubeconfig]


def _tracing(path: str) -> "Tracing | None":
    """Return tracing at work, if a file asks for it. Raises `ConfigError`, `_Unusable`."""
    if not path:
        return None
    from berth.config.tracing import load_tracing_file

    config = load_tracing_file(path)
    if not config.sampling_rate_per_million:
        warn(f"--tracing-config-file: no pod is traced, since {path} sets no samplingRatePerMillion")
    try:
        from berth.runtime.observing.tracing.exporter import start_tracing
    except ModuleNotFoundError as missing:
        raise _Unusable(
            f"--tracing-config-file: {missing.name} is not installed; pip install 'berth-scheduler[otel]' has it"
        ) from None
    try:
        return start_tracing(config, identity=socket.gethostname())
    except ConfigError as error:
        raise error.located(path) from None


def _warnings(config: SchedulerConfiguration) -> list[str]:
    """Return a sentence for each setting that has no effect."""
    found = []
    if config.delay_cache_until_active:
        found.append("delayCacheUntilActive has no effect: a standby keeps its caches filled, to take over at once")
    return found


def _event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, which is faster, else the standard one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def _run(settings: RunSettings) -> None:
    """Run everything that lives in the event loop, from the first connection to the last."""
    from berth.cli.signals import stop_on_signals
    from berth.kube.http.client import HttpTransport
    from berth.kube.http.rate_limit import RateLimit
    from berth.runtime.observing import logs
    from berth.runtime.observing.rest_client import RestClientMetrics
    from berth.runtime.policy_map import with_policy_of_cluster

    stop = stop_on_signals()
    setup, tracing = settings.setup, settings.tracing
    client = setup.config.client_connection
    if "protobuf" in client.content_type:
        _log.log(
            logs.level(2), "requests are sent as JSON, not as %s; every API server takes both", client.content_type
        )
    requests = RestClientMetrics()
    transport = HttpTransport(
        settings.access, rate_limit=RateLimit(client.qps, client.burst), user_agent="berth-scheduler", watcher=requests
    )
    try:
        setup = setup._replace(config=await with_policy_of_cluster(setup.config, transport))
        await _schedule(settings._replace(setup=setup), transport, stop, requests)
    finally:
        if tracing is not None:
            await asyncio.to_thread(tracing.stop)
        await transport.close()


async def _schedule(
    settings: RunSettings, transport: "HttpTransport", stop: asyncio.Event, requests: "RestClientMetrics"
) -> None:
    """Schedule and serve until told to stop. The cluster is asked for first."""
    from berth.runtime.observing.metrics_v1_20 import metrics_for
    from berth.runtime.observing.several import Instruments
    from berth.runtime.scheduler import CycleStuck, LeadershipLost, LiveScheduler
    from berth.runtime.serving.options import PortTaken

    (config, registry), flags = settings.setup, settings.started.flags
    metrics = metrics_for(config)
    observers: list[Instrument] = [metrics]
    if settings.tracing is not None:
        observers.append(settings.tracing.instrument)
    if settings.kept is not None:
        observers.append(settings.kept.collector)
    keeper = None if settings.kept is None else settings.kept.keeper
    scheduler = LiveScheduler(
        config,
        transport,
        registry=registry,
        instrument=Instruments(*observers) if len(observers) > 1 else metrics,
        unschedulable_age_s=flags.pod_max_in_unschedulable_pods_s,
        shards=settings.started.shards,
        build=_builder(settings),
        writes=settings.observing is None,
        refused=transport.refusals.problem,
        call_off=transport.call_off,
    )
    metrics.observe(scheduler)
    _debug_on_signal(scheduler)
    helpers = [asyncio.create_task(_settle(scheduler), name="settling")]
    if path := flags.get("config"):
        helpers.append(follow_config(scheduler, metrics, path, lambda: load_configuration(flags, settings.named)))
    if keeper is not None:
        helpers.append(asyncio.create_task(keeper.run(scheduler), name="decision log"))
    try:
        async with _at_work(scheduler, stop) as at_work, _served(settings, scheduler, metrics, requests):
            await at_work
    except AuthenticationLookupError as error:
        raise _Unusable(str(error)) from None
    except (LeadershipLost, CycleStuck, PortTaken) as error:
        raise _Ended(str(error), is_stuck=scheduler.is_at_work) from None
    finally:
        for helper in helpers:
            helper.cancel()
        if keeper is not None:
            await keeper.stop(scheduler)


@contextlib.asynccontextmanager
async def _at_work(scheduler: "LiveScheduler", stop: asyncio.Event) -> AsyncIterator[asyncio.Task[None]]:
    """Have the scheduler at work; whatever becomes of the rest, it is told to stop at the end, and waited for."""
    at_work = asyncio.create_task(scheduler.run(stop), name="scheduler")
    try:
        yield at_work
    finally:
        stop.set()
        await asyncio.wait({at_work})


@contextlib.asynccontextmanager
async def _served(
    settings: RunSettings, scheduler: "LiveScheduler", metrics: "Metrics", requests: "RestClientMetrics"
) -> AsyncIterator[None]:
    """Serve health, metrics and decisions.

    What serves is imported beside the event loop, where the API server is at work on its first answers meanwhile.
    Raises `PortTaken`, `AuthenticationLookupError`, `_Unusable`.
    """
    await asyncio.to_thread(importlib.import_module, "berth.runtime.serving.secure")
    from berth.runtime.serving.server import HealthServer, Listener

    flags, config = settings.started.flags, settings.setup.config
    is_default = "port" not in flags.given
    serving = _secure_serving(settings.secure)
    server = HealthServer(
        scheduler,
        metrics,
        config,
        port=0,
        also=Listener(flags.insecure_address, flags.insecure_port(config), "--port", is_optional=is_default),
        requests=requests,
        secure=serving,
        flags=flags.shown(),
        decision_log=None if settings.kept is None else settings.kept.keeper,
        api_server=settings.access.server,
    )
    try:
        await server.start()
        where = " and ".join(server.addresses) or "no port"
        for_whom = settings.access.description
        what = "scheduling" if settings.observing is None else "looking on, and writing nothing,"
        _log.info("%s as %s for %s; serving health and metrics at %s", what, config.generation, for_whom, where)
        with _told_on_this_machine(settings.secure, serving):
            yield
    finally:
        await server.stop()


def _checking_promises(build: "Build") -> "Build":
    """Return what makes cores whose plugins are held to what they promise."""
    from berth.core.options import CoreOptions, with_changed_options

    def checked(options: CoreOptions) -> CoreOptions:
        return replace(options, instrumentation=replace(options.instrumentation, check_promises=PODS_A_CHECK))

    return with_changed_options(build, checked)


def _builder(settings: RunSettings) -> "Build":
    """Return what makes cores: those that schedule, or those that look on."""
    if settings.observing is None:
        return settings.build
    from berth.agreement.settings import build_observer

    return partial(build_observer, observing=settings.observing, build=settings.build)


def _told_on_this_machine(secure: Secure, serving: "SecureServing | None") -> contextlib.AbstractContextManager[None]:
    """Let `berth explain` on this machine know where to ask, and which certificate to expect."""
    from berth.cli.local_record import ServedLocally, local_url, record_directory, recorded

    if serving is None:
        return contextlib.nullcontext()
    url = local_url(secure.options.bind_address, secure.options.port)
    certificate = serving.certificates.certificate_pem.decode("ascii", "replace")
    return recorded(ServedLocally(url, certificate, secure.cluster, os.getpid()), record_directory())


def _secure_serving(secure: Secure) -> "SecureServing | None":
    """The secure port, which asks the API server with connections and a rate of its own; None for port 0."""
    if not secure.options.port:
        return None
    from berth.kube.http.client import HttpTransport
    from berth.kube.http.rate_limit import RateLimit
    from berth.runtime.serving.certificates import ServingCertificateError
    from berth.runtime.serving.secure import SecureServing

    transports = {
        access: HttpTransport(access, rate_limit=RateLimit(REVIEW_QPS, REVIEW_BURST), user_agent="berth-scheduler")
        for access in (secure.authentication, secure.authorization)
    }
    try:
        return SecureServing(secure.options, transports[secure.authentication], transports[secure.authorization])
    except ServingCertificateError as error:
        raise _Unusable(str(error)) from None


async def _settle(scheduler: "LiveScheduler") -> None:
    """Leave what is read at the start out of garbage collections, which would pause the scheduler to walk it all.

    While it is read, no collection is made either: nearly all that is new stays, and hardly any of it is a cycle. The
    first collection comes after the freeze, or it would walk everything at once, on the event loop.
    """
    gc.disable()
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WITHOUT_COLLECTION_S):
                await scheduler.synced.wait()
                gc.freeze()
    finally:
        gc.enable()
    await scheduler.synced.wait()
    gc.freeze()


def _debug_on_signal(scheduler: "LiveScheduler") -> None:
    """On SIGUSR2, log what is in cache and queue, and where the API server disagrees."""
    from berth.runtime.observing.cache_debugger import debug_between_cycles

    on_signal(signal.SIGUSR2, lambda: debug_between_cycles(scheduler))
