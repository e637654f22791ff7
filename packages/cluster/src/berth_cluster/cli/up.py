"""`berth up`: an embedded cluster with hollow nodes and the scheduler, until Ctrl-C.

Options in; a kubeconfig in the directory and one block of text out. Heavy modules are imported only when the
command runs.
"""

import asyncio
import contextlib
import logging
import os
import string
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.core import ParameterSource

from berth.cli.decision_log_flags import DecisionLogOptions, decision_log_options, open_log
from berth.cli.option_rules import never_with, only_with
from berth.cli.recording_flags import RecordingOptions, recording_options, recording_to
from berth.cli.setup import config_option, gates_option, plugin_option, read_setup, warn
from berth.runtime.observing.logs import legible
from berth_cluster.cli.server_options import ServerOptions, server_options

if TYPE_CHECKING:
    from berth.core.options import Build
    from berth.framework.setup import Setup
    from berth.kube.trouble import InformerTrouble
    from berth_cluster.apimachinery.resource_types import ResourceKey
    from berth_cluster.cli.in_process import TypedSetup
    from berth_cluster.embedded import EmbeddedCluster
    from berth_cluster.hollow.pools import NodePool
    from berth_cluster.hollow.template import NodeTemplate
    from berth_cluster.restored import Restored
    from berth_workbench.snapshot.documents import Document

MAX_NODES = 100_000
MAX_DEVICES = 128  # what one ResourceSlice holds
CLEARED = "\r\x1b[K"
"""Has a terminal forget the line that it is in."""


@click.command("up", short_help="An embedded cluster with hollow nodes and the scheduler.")
@only_with(ui_port="with_page")
@never_with(
    "no_scheduler",
    *("scheduler_port", "decision_log_file", "decision_log_size", "with_page", "watch"),
    because="which leaves nobody to tell of pods",
)
@never_with("watch", "with_page", "record", because="which starts the scheduler in a process of its own")
@click.option(
    "--nodes", default=3, show_default=True, type=click.IntRange(0, MAX_NODES), help="Number of hollow nodes."
)
@click.option(
    "--from",
    "from_files",
    multiple=True,
    metavar="FILE",
    help="Begin with the objects of another cluster: a snapshot, or what kubectl get -o yaml|json printed; may be "
    "repeated, and may be a directory. --nodes then counts nodes beside these, by default none.",
)
@click.option("--no-scheduler", is_flag=True, help="Leave the scheduler out, to run one yourself.")
@click.option("--node-cpu", default="8", show_default=True, metavar="QUANTITY", help="CPUs of each node.")
@click.option("--node-memory", default="32Gi", show_default=True, metavar="QUANTITY", help="Memory of each node.")
@click.option("--node-pods", default=110, show_default=True, type=click.IntRange(1), help="Pods that a node holds.")
@click.option(
    "--pool",
    "pool_texts",
    multiple=True,
    metavar="NAME:COUNT,KEY=VALUE…",
    help="Nodes that are alike: cpu, memory, pods, zone, label, taint, and resources like nvidia.com/gpu; may be "
    "repeated. --nodes then counts nodes beside these, by default none.",
)
@click.option(
    "--pools",
    "pools_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML file of such pools; may be repeated.",
)
@click.option("--zones", default=3, show_default=True, type=click.IntRange(0), help="Zones the nodes are dealt out to.")
@click.option(
    "--devices-per-node",
    default=0,
    show_default=True,
    type=click.IntRange(0, MAX_DEVICES),
    help="Devices of class gpu.berth.dev (or resource berth.dev/gpu) on each node.",
)
@click.option(
    "--scheduler-port",
    default=None,
    type=click.IntRange(0, 65535),
    help="Loopback port of the scheduler's metrics and decisions, for those whom the cluster lets ask; 10259 or a free "
    "one by default, 0 for none.",
)
@config_option
@plugin_option
@gates_option
@click.option(
    "--watch",
    is_flag=True,
    help="Start the scheduler again, in a process of its own, as soon as a file of a plugin is saved.",
)
@decision_log_options
@recording_options
@click.option("--ui", "with_page", is_flag=True, help="Serve the page of `berth ui`, too; its link is printed.")
@click.option(
    "--ui-port",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the page; 0 takes a free one.",
)
@server_options
@click.pass_context
def command(
    ctx: click.Context,
    nodes: int,
    from_files: tuple[str, ...],
    no_scheduler: bool,
    node_cpu: str,
    node_memory: str,
    node_pods: int,
    pool_texts: tuple[str, ...],
    pools_files: tuple[Path, ...],
    zones: int,
    devices_per_node: int,
    scheduler_port: int | None,
    with_page: bool,
    ui_port: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    watch: bool,
    server: ServerOptions,
    decision_log: DecisionLogOptions,
    recording: RecordingOptions,
) -> None:
    """Run an embedded cluster: API server, controllers, hollow nodes and the scheduler in one process.

    Writes DIR/kubeconfig, with which kubectl and any client reach it. Everything else is kept in memory and is gone
    when the command ends, unless --dir says where to keep it; Ctrl-C ends it.
    """
    from berth.runtime.serving.options import PortTaken
    from berth_cluster.cli.in_process import TypedSetup
    from berth_cluster.embedded import ClusterSettings, EmbeddedCluster
    from berth_cluster.hollow.template import NodeTemplate
    from berth_cluster.restored import UnrestorableError

    if no_scheduler and (config_file or plugins or feature_gates or recording.directory):
        raise click.UsageError("--no-scheduler leaves nobody to obey --config, --plugin, --feature-gates or --record")
    if with_page:
        from berth_workbench.cli.ui import require_nicegui

        require_nicegui()
        if scheduler_port == 0:
            raise click.UsageError("--ui asks the scheduler where it serves; leave out --scheduler-port 0")
    setup = None if no_scheduler else read_setup(config_file, plugins, feature_gates)
    sources = list[tuple[Path, str]]()
    if watch and setup is not None:
        from berth_cluster.cli.watching import sources_of

        sources = sources_of(setup)
        if not sources:
            raise click.UsageError("--watch has no file to look at: add --plugin, or --config with a plugin of yours")
        if elsewhere := setup.config.client_connection.kubeconfig:
            raise click.UsageError(f"--watch: leave clientConnection.kubeconfig, {elsewhere}, out of {config_file}")
    documents = _documents_of(from_files)
    objects = [document.manifest for document in documents]
    if (from_files or pool_texts or pools_files) and ctx.get_parameter_source("nodes") is ParameterSource.DEFAULT:
        nodes = 0
    template = NodeTemplate(cpu=node_cpu, memory=node_memory, pods=node_pods, zones=zone_names(zones))
    pools = _pools(pool_texts, pools_files, template)
    directory, host, port, token, minor, keeps_objects = server
    settings = ClusterSettings(nodes, template, pools, devices_per_node=devices_per_node, kubernetes_minor=minor)
    nodes += sum(pool.nodes for pool in pools)
    page, logs = ui_port if with_page else None, (decision_log, directory)
    try:
        with server.serving():
            cluster = EmbeddedCluster(
                settings, directory, host=host, port=port, token=token, objects=objects, keeps_objects=keeps_objects
            )
        if setup is not None:
            cluster.store.idle.update(_passed_over_by(setup))
        if cluster.goes_on:
            click.echo(f"The cluster in {directory} goes on; what is said of nodes, and --from, are for a new one.")
        with recording_to(recording) as build, server.serving():
            asyncio.run(
                _run(
                    cluster,
                    nodes,
                    setup,
                    typed=TypedSetup(config_file, plugins, feature_gates),
                    scheduler_port=scheduler_port,
                    logs=logs,
                    build=build,
                    page_port=page,
                    watched=sources,
                )
            )
    except PortTaken as error:
        raise click.ClickException(f"{error}".replace("--secure-port", "--scheduler-port")) from None
    except UnrestorableError as error:
        raise click.ClickException(f"{documents[error.number].where}: {error}") from None


def _pools(texts: Sequence[str], files: Sequence[Path], usual: "NodeTemplate") -> "tuple[NodePool, ...]":
    """The pools of `--pool` and `--pools`, beside usual nodes."""
    from berth_cluster.hollow.pools import PoolError, check_node_amount, parse_pool, read_pools

    found: list[NodePool] = []
    source = ""
    try:
        check_node_amount("--node-cpu", usual.cpu)
        check_node_amount("--node-memory", usual.memory)
        for text in texts:
            source = "--pool: "
            found.append(parse_pool(text, usual))
        for file in files:
            source = f"--pools {file}: "
            found += read_pools(file.read_text(encoding="utf-8"), usual)
    except (PoolError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{source}{error}") from None
    names = [pool.template.name_prefix for pool in found]
    for name in names:
        if names.count(name) > 1 or name == usual.name_prefix:
            raise click.UsageError(
                f"there are two pools {name.removesuffix('-')}, whose nodes would have the same names"
            )
    return tuple(found)


def _documents_of(files: Sequence[str]) -> "Sequence[Document]":
    """The objects of `--from`."""
    if not files:
        return ()
    from berth_workbench.cli.cluster_input import read_cluster_given

    return read_cluster_given(files, option="--from").documents


def _passed_over_by(setup: "Setup") -> "dict[ResourceKey, tuple[str, ...]]":
    """The kinds that say what is placed together, where the scheduler does not read them, with what to say of that."""
    off = [gate for gate in ("GenericWorkload", "GangScheduling") if not setup.config.feature_gates.enabled(gate)]
    if not off:
        return {}
    how = f"feature gates of its scheduler are off (--feature-gates {','.join(f'{gate}=true' for gate in off)})"
    told = f"is stored, and nothing in this cluster acts on it: {how}"
    return {
        ("scheduling.k8s.io", plural): (f"{kind} {told}",)
        for plural, kind in (("podgroups", "PodGroup"), ("workloads", "Workload"))
    }


def _tell_of(restored: "Restored") -> None:
    """Say what is lacking in the objects that the cluster begins with."""
    if restored.unknown:
        warn(f"left out, since this cluster has no such kinds: {', '.join(restored.unknown)}")
    if restored.unusable:
        warn(f"left out, since they have neither a selector nor pods: {shortened(restored.unusable)}")
    if restored.invalid:
        warn(f"kept, but no change of them will be accepted until this is mended: {shortened(restored.invalid, 2)}")
    if restored.missing_nodes:
        warn(f"pods are on nodes that are not there, and will be removed: {shortened(sorted(restored.missing_nodes))}")


def shortened(names: Sequence[str], most: int = 5) -> str:
    """The first few of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def zone_names(count: int) -> tuple[str, ...]:
    """`zone-a`, `zone-b`, …; numbers once the letters are used up."""
    letters = string.ascii_lowercase
    return tuple(f"zone-{letters[i] if i < len(letters) else i}" for i in range(count))


def ready_text(
    cluster: "EmbeddedCluster",
    nodes: int,
    *,
    with_scheduler: bool,
    served: str = "",
    watched: Sequence[tuple[Path, str]] = (),
) -> str:
    """What `up` says when everything is there."""
    path = cluster.kubeconfig.absolute()
    scheduler = "scheduler running" if with_scheduler else "no scheduler"
    explain = "  berth explain POD\n" if served else ""
    watching = (
        f"  watching    {shortened([f'{directory}/{pattern}' for directory, pattern in watched])}\n" if watched else ""
    )
    return (
        f"Berth is up: {nodes} hollow node{'' if nodes == 1 else 's'}, {scheduler}, API server at {cluster.url}\n"
        f"  kubeconfig  {path}\n"
        f"  export KUBECONFIG={path}\n{explain}{watching}"
        "Ctrl-C ends it."
    )


async def _run(
    cluster: "EmbeddedCluster",
    nodes: int,
    setup: "Setup | None",
    *,
    typed: "TypedSetup",
    scheduler_port: int | None,
    logs: tuple[DecisionLogOptions, Path],
    build: "Build",
    page_port: int | None,
    watched: Sequence[tuple[Path, str]],
) -> None:
    """Bring everything up, with a scheduler if there is a setup; wait for a signal or for it to fail; end."""
    from berth.cli.local_record import ServedLocally, record_directory, recorded
    from berth.cli.signals import go_on_after_hangup, stop_on_signals
    from berth.controller import installed_controllers
    from berth.runtime.observing.logs import LegibleFormatter
    from berth.runtime.status_writer import StatusWriter
    from berth_cluster.apimachinery.resource_types import NODES
    from berth_cluster.cli.in_process import InProcessScheduler, on_definition, secure_port, usual_or_free_port
    from berth_cluster.cli.pod_census import PodCensus, tell
    from berth_cluster.cli.watching import command_of, keep_restarting
    from berth_cluster.serving.transport import StoreTransport
    from berth_workbench.cli.ui import LocalPage

    handler = _LinesOfTheirOwn()
    handler.setFormatter(LegibleFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("berth.scheduler.reload").setLevel(logging.INFO)
    served, place = "", None
    async with contextlib.AsyncExitStack() as ending:
        stop = stop_on_signals()
        kept = cluster.store.kept
        if kept is not None:
            kept.on_failure = stop.set
        go_on_after_hangup()
        ends: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
        ending.push_async_callback(_cancelled, ends[0])
        ending.push_async_callback(cluster.stop)
        await cluster.start()
        if cluster.restored is not None:
            _tell_of(cluster.restored)
            nodes += cluster.restored.counts.get("Node", 0)
        if cluster.goes_on:
            nodes = len(cluster.store.objects(NODES))
        log = None if setup is None else open_log(*logs, anew=not cluster.goes_on)
        if watched:
            if log is not None:  # the scheduler writes it
                log.keeper.log.close()
            port = usual_or_free_port() if scheduler_port is None else scheduler_port
            served = f"https://127.0.0.1:{port}" if port else ""
            command = command_of(cluster, typed, port, logs[0])
            ready = asyncio.Event()
            ends[0].add_done_callback(lambda _: ready.set())  # told to stop, nobody waits for it
            ends.append(asyncio.create_task(keep_restarting(command, watched, _said, ready), name="scheduler"))
            ending.push_async_callback(_cancelled, ends[-1])
            await ready.wait()
        elif setup is not None:
            url = cluster.url
            secure = secure_port(cluster.kubeconfig, scheduler_port)
            scheduler = InProcessScheduler(
                cluster.store, setup, secure=secure, kept=log, api_server=url, build=build, delay=cluster.delay
            )
            ending.push_async_callback(scheduler.stop)
            served = await scheduler.serve()
            if secure is not None:
                certificate = secure.certificates.certificate_pem.decode("ascii")
                place = ServedLocally(served, certificate, url, os.getpid())
                ending.enter_context(recorded(place, record_directory()))
            ends.append(scheduler.start())
            await scheduler.wait_until_ready()
            if typed.config_file:
                ending.push_async_callback(_cancelled, scheduler.follow(typed))
        if controllers := installed_controllers():
            writer = StatusWriter(StoreTransport(cluster.store), controllers, report=_untold)
            cluster.store.subscribe(on_definition(writer.ask_again))
            ends.append(asyncio.create_task(writer.run(), name="status controllers"))
            ending.push_async_callback(_cancelled, ends[-1])
        if page_port is not None:
            assert place is not None, "the scheduler is served where it has a page"
            page = LocalPage(place, str(cluster.kubeconfig), page_port)
            ending.push_async_callback(page.close)
            click.echo(await page.open())
        with_scheduler = setup is not None
        click.echo(ready_text(cluster, nodes, with_scheduler=with_scheduler, served=served, watched=watched))
        telling = asyncio.create_task(tell(PodCensus(cluster.store)), name="telling")
        ending.push_async_callback(_cancelled, telling)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if kept is not None and kept.failure is not None:
        raise kept.failure


class _LinesOfTheirOwn(logging.StreamHandler[TextIO]):
    """Logs to standard error; on a terminal not behind the line that says how the pods are."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream.isatty():
            self.stream.write(CLEARED)
        super().emit(record)


def _said(line: str) -> None:
    click.echo(f"{CLEARED if sys.stdout.isatty() else ''}{legible(line)}")


def _untold(_trouble: "InformerTrouble") -> None:
    """That a kind is not there is no news here: whoever wants it applies its definition."""


async def _cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
