"""`berth ui`: a page that shows a cluster, its pending pods and the scheduler's decisions.

Options in; the address of the page out, with the token to open it. What is shown comes from a scheduler at work, found
as `berth explain` finds it, or from a cluster in a file (`--cluster`). Nothing is changed in either.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from berth.api.user_error import UserError
from berth.cli.option_rules import never_with, only_with
from berth.cli.scheduler_in_use import SchedulerAddress, SchedulerInUse, load, scheduler_options
from berth.cli.setup import config_option, gates_option, plugin_option

if TYPE_CHECKING:
    import ssl

    from berth.cli.local_record import ServedLocally
    from berth_workbench.comparison.configurations import ConfigurationSource
    from berth_workbench.page.access import Access
    from berth_workbench.snapshot.snapshot import Snapshot
    from berth_workbench.sources.recorded import RecordedHistory
    from berth_workbench.sources.source import Source
    from berth_workbench.sources.time_line import SimulatedTimeLine


Command = TypeVar("Command", bound=Callable[..., Any])


class TlsFiles(NamedTuple):
    """The files of a certificate; empty to have one made."""

    certificate: str
    key: str


MISSING = "the page needs NiceGUI, which is not installed: pip install 'berth-scheduler[ui]'"


def source_options(command: Command) -> Command:
    """What is looked at, received as `files`, and `given`: where the scheduler is, and the configuration for trials."""
    in_a_file = "which is all that is shown"
    for decorate in (
        never_with("files", "server", "certificate_authority", "lease", "kubeconfig", "context", because=in_a_file),
        gates_option,
        plugin_option,
        config_option,
        scheduler_options,
        click.option(
            "--cluster",
            "files",
            multiple=True,
            metavar="FILE",
            help="Show this cluster: a snapshot, or what `kubectl get -o yaml|json` printed; may be repeated.",
        ),
    ):
        command = decorate(command)
    return command


@click.command("ui", short_help="A page that shows the cluster and every decision.")
@only_with(tls_private_key_file="tls_cert_file")
@source_options
@never_with("recording", "files", "server", "lease", "timeline", because="which is all that is shown")
@click.option(
    "--timeline", default="", metavar="FILE", help="Show the simulation that `berth simulate --timeline` has written."
)
@click.option(
    "--recording", default="", metavar="PATH",
    help="Show the last hour of what `berth run --record` has recorded, a directory or a file.",
)  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to serve on.")
@click.option("--port", default=0, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one.")
@click.option("--host-name", "hosts", multiple=True, metavar="NAME", help="A name under which people ask for the page; "
              "may be repeated.")  # fmt: skip
@click.option("--tls-cert-file", default="", metavar="FILE", help="The certificate to serve with; by default one is "
              "made where the page is not on loopback.")  # fmt: skip
@click.option("--tls-private-key-file", default="", metavar="FILE", help="Its key.")
@click.option("--token", default="", envvar="BERTH_PAGE_TOKEN", metavar="TOKEN", help="The token that opens the "
              "page; by default a random one. Beyond loopback, tokens of the cluster open it.")  # fmt: skip
def command(
    files: tuple[str, ...],
    timeline: str,
    recording: str,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    tls_cert_file: str,
    tls_private_key_file: str,
    token: str,
    **given: Any,
) -> None:
    """Serve a page that shows the cluster, its pending pods and every decision, until Ctrl-C.

    On loopback a link with a random token is printed, which opens the page. On any other address the page is served
    over HTTPS, and whoever signs in needs a token of the cluster that may read the scheduler's endpoints.
    """
    import ipaddress

    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise click.BadParameter(f"{host!r} is not an address", param_hint="--host") from None
    require_nicegui()
    asyncio.run(
        _serve(
            Looked.of(files, given, recording),
            timeline,
            host,
            port,
            hosts,
            TlsFiles(tls_cert_file, tls_private_key_file),
            token,
        )
    )


def require_nicegui() -> None:
    """End the command with a clear line where the extra is not installed."""
    from importlib.util import find_spec

    if find_spec("nicegui") is None:
        raise click.ClickException(MISSING)


async def _serve(
    looked: "Looked",
    timeline: str,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    tls: TlsFiles,
    token: str,
) -> None:
    """Serve until a signal comes."""
    from berth.api.addresses import is_loopback
    from berth.cli.signals import stop_on_signals
    from berth_workbench.page.server import PageAddressTaken, PageServer

    line = _time_line(timeline)
    is_in_file = bool(looked.files or looked.recording or (timeline and not any(looked.address)))
    recorded = _recorded(looked) if looked.recording else None
    is_alone = is_in_file and not looked.files
    source = None if recorded is not None or (line is not None and is_alone) else await source_of(looked)
    is_local = is_loopback(host)
    certificates = None if is_local and not tls.certificate else _certificates(tls, host)
    access = _access(looked.address, token, is_local=is_local or is_in_file)
    page = PageServer(
        source, access, host=host, port=port, hosts=hosts, tls=certificates, time_line=line, recorded=recorded
    )
    stopped = stop_on_signals()
    try:
        await page.start()
        click.echo(f"{opening_text(page.address, access)}\nCtrl-C ends it.")
        await stopped.wait()
    except PageAddressTaken as error:
        raise click.ClickException(f"{error}; choose another --host or --port") from None
    finally:
        await page.stop()


def opening_text(address: str, access: "Access") -> str:
    """How to open the page."""
    from berth_workbench.page.access import OwnToken

    if isinstance(access, OwnToken):
        return f"The page is served; open it with\n  {address}/?token={access.token}"
    return f"The page is served at {address}/; sign in with a token of the cluster that may get the path /debug/nodes."


class Looked(NamedTuple):
    """What is looked at."""

    files: tuple[str, ...]
    address: SchedulerAddress
    configuration: "ConfigurationSource | None"
    """For trials; None for the one in use."""
    recording: str = ""
    plugins: tuple[str, ...] = ()

    @classmethod
    def of(cls, files: tuple[str, ...], given: dict[str, Any], recording: str = "") -> "Looked":
        """Take what `source_options` has received. Raises `BadConfigurationError`."""
        from berth_workbench.cli.load_input import read_configuration
        from berth_workbench.comparison.configurations import DEFAULT

        config_file, plugins, gates = (given.pop(name) for name in ("config_file", "plugins", "feature_gates"))
        is_given = bool(config_file or plugins or gates)
        configuration = read_configuration(config_file or DEFAULT, plugins, gates) if is_given else None
        return cls(files, SchedulerAddress(**given), configuration, recording, plugins)


async def source_of(looked: Looked) -> "Source":
    """Return what to show; ends the command if there is no such thing."""
    return _cluster_in(looked) if looked.files else await _scheduler_at(looked)


def local_source(scheduler: "ServedLocally", kubeconfig: str) -> "Source":
    """A scheduler of this machine that follows the cluster of a kubeconfig, asked with its credentials."""
    from berth.cli.connection import Answered, UnreachableError, ask_local
    from berth.kube.credentials.access import load_access
    from berth_workbench.sources.live import LiveSource

    access = load_access(kubeconfig)

    async def ask(path: str, body: bytes | None = None) -> Answered:
        return await ask_local(scheduler, path, access, body)

    refused = (UnreachableError, click.ClickException, UserError)
    return LiveSource(f"scheduler at {scheduler.url}", ask, refused, take=_taking(kubeconfig, ""), send=ask)


def _taking(kubeconfig: str, context: str) -> "Callable[[ConfigurationSource | None], Awaitable[Snapshot]]":
    """How to take a snapshot of the cluster that a kubeconfig leads to, with what a configuration's plugins follow."""
    from berth_workbench.cli.cluster_input import read_cluster_given
    from berth_workbench.planning.quotas import ELASTIC

    def take(configuration: "ConfigurationSource | None") -> "Snapshot":
        setup = None if configuration is None else configuration.load()
        return read_cluster_given((), kubeconfig, context, setup=setup, custom=[ELASTIC])

    return lambda configuration: asyncio.to_thread(take, configuration)


class LocalPage:
    """The page of a scheduler in this process, on loopback. Make it inside the event loop."""

    __slots__ = ("_page",)

    def __init__(self, scheduler: "ServedLocally", kubeconfig: str, port: int) -> None:
        from berth_workbench.page.access import OwnToken
        from berth_workbench.page.server import PageServer

        self._page = PageServer(local_source(scheduler, kubeconfig), OwnToken(), port=port)

    async def open(self) -> str:
        """Serve it; return how to open it. Raises `click.ClickException` where its port is taken."""
        from berth_workbench.page.server import PageAddressTaken

        try:
            await self._page.start()
        except PageAddressTaken as error:
            raise click.ClickException(f"{error}; choose another --ui-port") from None
        return opening_text(self._page.address, self._page.access)

    async def close(self) -> None:
        """Close the page; safe to call if it was never opened."""
        await self._page.stop()


async def _scheduler_at(looked: Looked) -> "Source":
    """The scheduler at work, once it has answered."""
    from berth.api.redaction import redact_url
    from berth.cli.connection import UnreachableError
    from berth_workbench.sources.live import LiveSource
    from berth_workbench.sources.source import SourceError

    address = looked.address
    scheduler = SchedulerInUse(address)

    title = f"scheduler at {redact_url(address.server)}" if address.server else "scheduler on this machine"
    if not address.server and scheduler.has_cluster:
        title = f"cluster at {redact_url(load(address).server)}"
    # A scheduler that is named need not be that of the kubeconfig in use, so only one that is named, too, is believed.
    take = None if address.server and not address.kubeconfig else _taking(address.kubeconfig, address.context)
    source = LiveSource(
        title,
        scheduler.reach,
        (UnreachableError, click.ClickException, UserError),
        take=take,
        configuration=looked.configuration,
        send=scheduler.reach,
    )
    try:
        await source.recent()
    except SourceError as error:
        raise click.ClickException(
            f"{error}; is `berth run` up? --server says where it serves, --cluster shows a cluster in a file"
        ) from None
    return source


def _cluster_in(looked: Looked) -> "Source":
    """The cluster of files."""
    from berth_workbench.cli.asked import configuration_of
    from berth_workbench.cli.cluster_input import read_cluster_given
    from berth_workbench.sources.cluster_file import ClusterFileSource

    title = f"cluster in {', '.join(Path(file).name for file in looked.files)}"
    snapshot = read_cluster_given(looked.files)
    return ClusterFileSource(title, snapshot, looked.configuration or configuration_of(snapshot))


def _recorded(looked: Looked) -> "RecordedHistory":
    """The last hour of a recording."""
    from berth.cli.setup import read_setup
    from berth.recording.errors import RecordingError
    from berth.recording.file_format import read_segments
    from berth_workbench.sources.recorded import read_history

    try:
        return read_history(read_segments(Path(looked.recording)), read_setup(plugins=looked.plugins).registry)
    except RecordingError as error:
        raise click.ClickException(f"--recording {looked.recording}: {error}") from None


def _time_line(path: str) -> "SimulatedTimeLine | None":
    """Return the simulation in a file; None if none is named."""
    from berth_workbench.sources.time_line import TimeLineError, read_time_line

    try:
        return read_time_line(path) if path else None
    except TimeLineError as error:
        raise click.ClickException(f"--timeline {error}") from None


def _certificates(tls: TlsFiles, host: str) -> "ssl.SSLContext":
    from berth.runtime.serving.certificates import ServingCertificates
    from berth.runtime.serving.options import TlsOptions

    made = ServingCertificates(TlsOptions(certificate_file=tls.certificate, key_file=tls.key), host)
    return made.context()


def _access(address: SchedulerAddress, token: str, *, is_local: bool) -> "Access":
    """Who may see the page: with a token given, or on loopback, its holder; else whom the cluster lets."""
    from berth.kube.http.client import HttpTransport
    from berth_workbench.page.access import OwnToken, ReviewedTokens

    return OwnToken(token) if token or is_local else ReviewedTokens(HttpTransport(load(address)))
