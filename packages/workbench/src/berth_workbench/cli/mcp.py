"""`berth mcp`: agents ask the questions over the Model Context Protocol; nothing can be changed through it."""

import asyncio
import secrets
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.cli.option_rules import never_with, only_with
from berth.cli.setup import config_option, gates_option, plugin_option
from berth_workbench.cli.cluster_input import cluster_options

if TYPE_CHECKING:
    from berth_workbench.comparison.configurations import WhoDecides
    from berth_workbench.mcp.followed import FollowedCluster
    from berth_workbench.mcp.server import McpServer
    from berth_workbench.mcp.state import StateAsked

MISSING = "berth mcp needs the Model Context Protocol's SDK, which is not installed: pip install 'berth-scheduler[mcp]'"


@click.command("mcp", short_help="Have agents ask the questions, over the Model Context Protocol.")
@cluster_options
@config_option
@plugin_option
@gates_option
@click.option("--http", is_flag=True, help="Serve streamable HTTP on 127.0.0.1 instead of standard input and output.")
@click.option("--port", default=0, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one.")
@click.option("--token", default="", envvar="BERTH_MCP_TOKEN", metavar="TOKEN", help="The token that clients have to "
              "show; by default a random one.")  # fmt: skip
@click.option("--skill", is_flag=True, help="Print a skill file, which tells an agent when to ask what, and end.")
@only_with(port="http", token="http")
@never_with("skill", "http", "cluster", "kubeconfig", "context", "config_file", because="which only prints")
def command(http: bool, port: int, token: str, skill: bool, cluster: tuple[str, ...], **given: Any) -> None:
    """Serve the questions as tools for agents, and nodes, workloads and what is pending as resources.

    A client starts this command itself and talks to it over standard input and output. With --http it is served on
    loopback, to those who show the token. Nothing is ever written to the cluster.
    """
    if skill:
        click.echo((files("berth_workbench.mcp") / "SKILL.md").read_text("utf-8"), nl=False)
        return
    if find_spec("mcp") is None:
        raise click.ClickException(MISSING)
    from berth_workbench.cli.asked import who_decides
    from berth_workbench.comparison.configurations import WhoDecides
    from berth_workbench.simulation.site import Site
    from berth_workbench.snapshot.snapshot import EMPTY

    if "-" in cluster:
        raise click.UsageError("--cluster -: standard input is the client's; give a file")
    # Before anything is served: a client could not be told what is wrong with a file.
    found = _state_of_files(cluster, given) if cluster else who_decides(None, **given)
    Site.of(EMPTY, (found if isinstance(found, WhoDecides) else found.decides).setup)  # plugins check their settings
    asyncio.run(_serve(found, given, port if http else None, token or secrets.token_urlsafe(32)))


def _state_of_files(cluster: tuple[str, ...], given: dict[str, Any]) -> "StateAsked":
    from berth_workbench.cli.asked import read_asked
    from berth_workbench.comparison.configurations import WhoDecides
    from berth_workbench.mcp.state import state_of_file

    asked = read_asked(cluster, **given)
    source = f"the cluster in {', '.join(Path(file).name for file in cluster)}"
    return state_of_file(asked.snapshot, WhoDecides(asked.configuration, asked.setup, asked.assumed), source)


async def _serve(found: "StateAsked | WhoDecides", given: dict[str, Any], port: int | None, token: str) -> None:
    """Serve a state that does not change, or a live cluster; at a port, or on standard input and output."""
    from berth_workbench.mcp.server import McpServer
    from berth_workbench.mcp.state import StateAsked

    followed = None if isinstance(found, StateAsked) else _followed(found, given)

    async def unchanged() -> StateAsked:
        assert isinstance(found, StateAsked)
        return found

    try:
        server = McpServer(unchanged if followed is None else followed.state)
        await (server.serve_stdio() if port is None else _serve_http(server, port, token))
    finally:
        if followed is not None:
            await followed.close()


def _followed(decides: "WhoDecides", given: dict[str, Any]) -> "FollowedCluster":
    from berth.kube.credentials.access import load_access
    from berth.kube.http.client import HttpTransport
    from berth_workbench.cli.asked import who_decides
    from berth_workbench.cli.cluster_input import followed_by
    from berth_workbench.mcp.followed import FollowedCluster
    from berth_workbench.mcp.refusals import CallRefused

    def ask_again() -> "WhoDecides":
        try:
            return who_decides(None, **given)
        except click.ClickException as error:
            raise CallRefused("unreadable", error.format_message()) from None

    access = load_access(given["kubeconfig"], context=given["context"])
    return FollowedCluster(HttpTransport(access), access.server, decides, ask_again, followed_by(decides.setup))


async def _serve_http(server: "McpServer", port: int, token: str) -> None:
    from berth.cli.signals import stop_on_signals
    from berth.serving.acceptor import listening_at
    from berth_workbench.mcp.server import PATH
    from berth_workbench.page.asgi_server import AsgiServer

    stopped = stop_on_signals()
    try:
        listening = listening_at("127.0.0.1", port)
    except OSError as error:
        raise click.ClickException(f"127.0.0.1:{port}: {error.strerror}; choose another --port") from None
    http = AsgiServer()
    try:
        await http.start(server.http_application(token), listening)
        click.echo(
            f"Served at http://127.0.0.1:{listening.getsockname()[1]}{PATH} with the header\n"
            f"  Authorization: Bearer {token}\nCtrl-C ends it."
        )
        await stopped.wait()
    finally:
        await http.stop()
