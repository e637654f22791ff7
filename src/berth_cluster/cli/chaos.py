"""`berth chaos`: let something go wrong in a running embedded cluster, and take it back.

It acts through the API like anybody else: on annotations of hollow nodes, which then play dead, and on a ConfigMap that
says how slow the API server is.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from berth.kube.http.client import HttpTransport

Json = dict[str, Any]
USUAL_KUBECONFIG = Path(".berth/kubeconfig")
MERGE_PATCH = "application/merge-patch+json"


@click.group("chaos", short_help="Let something go wrong in a cluster of `berth up`, and take it back.")
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help=f"The cluster; by default {USUAL_KUBECONFIG}, or the one that kubectl would use.",
)
@click.pass_context
def command(ctx: click.Context, kubeconfig: str) -> None:
    """Let something go wrong in a running embedded cluster, and take it back."""
    ctx.obj = kubeconfig or (str(USUAL_KUBECONFIG) if USUAL_KUBECONFIG.exists() else "")


at_once = click.option("--at-once", is_flag=True, help="As if it had been down for so long that it is given up now.")


@command.command("node-down")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@at_once
@click.pass_obj
def node_down(kubeconfig: str, names: Sequence[str], at_once: bool) -> None:
    """Stop the heartbeats of hollow nodes: nothing happens on them any more, and after 50 s they are given up."""
    _carry_out(kubeconfig, lambda transport: _mark(transport, names, _down_since(at_once)))


@command.command("node-up")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.pass_obj
def node_up(kubeconfig: str, names: Sequence[str]) -> None:
    """Let nodes that are down come back."""
    _carry_out(kubeconfig, lambda transport: _mark(transport, names, None))


@command.command("zone-down")
@click.argument("zone")
@at_once
@click.pass_obj
def zone_down(kubeconfig: str, zone: str, at_once: bool) -> None:
    """Stop the heartbeats of all hollow nodes of a zone."""
    _carry_out(kubeconfig, lambda transport: _mark_zone(transport, zone, _down_since(at_once)))


@command.command("zone-up")
@click.argument("zone")
@click.pass_obj
def zone_up(kubeconfig: str, zone: str) -> None:
    """Let all nodes of a zone come back."""
    _carry_out(kubeconfig, lambda transport: _mark_zone(transport, zone, None))


@command.command("slow-api")
@click.argument("milliseconds", type=click.IntRange(0, 60_000))
@click.pass_obj
def slow_api(kubeconfig: str, milliseconds: int) -> None:
    """Have each request to the API server wait before it is answered; 0 takes it back.

    The scheduler inside `berth up` waits, too; controllers and hollow nodes do not.
    """
    _carry_out(kubeconfig, lambda transport: _slow_down(transport, milliseconds))


def _down_since(at_once: bool) -> str:
    from berth_cluster.apimachinery.meta import format_time
    from berth_workloads.node_lifecycle import GRACE_S

    return format_time(time.time() - (GRACE_S if at_once else 0))


def _carry_out(kubeconfig: str, act: "Callable[[HttpTransport], Awaitable[str]]") -> None:
    from berth.api.errors import TransportError
    from berth.kube.credentials.access import load_access
    from berth.kube.credentials.kubeconfig import KubeconfigError
    from berth.kube.http.client import HttpTransport

    async def carried_out() -> str:
        transport = HttpTransport(load_access(kubeconfig))
        try:
            return await act(transport)
        finally:
            await transport.close()

    try:
        click.echo(asyncio.run(carried_out()))
    except (KubeconfigError, TransportError) as error:
        raise click.ClickException(str(error)) from None


async def _mark(transport: "HttpTransport", names: Sequence[str], since: str | None) -> str:
    """Say of nodes since when they are down, None for not at all; all are looked up before one is changed."""
    import msgspec

    from berth.api.resources import RESOURCES
    from berth_cluster.hollow.template import is_hollow
    from berth_workloads.node_lifecycle import DOWN_SINCE

    for name in names:
        if not is_hollow(msgspec.json.decode(await transport.get(RESOURCES["Node"], "", name))):
            raise click.ClickException(f"node {name} is not hollow: only the nodes of an embedded cluster play dead")
    patch = msgspec.json.encode({"metadata": {"annotations": {DOWN_SINCE: since}}})
    for name in names:
        await transport.patch(RESOURCES["Node"], "", name, patch, MERGE_PATCH)
    return f"{', '.join(names)} {'up' if since is None else 'down'}"


async def _mark_zone(transport: "HttpTransport", zone: str, since: str | None) -> str:
    import msgspec

    from berth.api.resources import RESOURCES

    body = await transport.list(RESOURCES["Node"], label_selector=f"topology.kubernetes.io/zone={zone}")
    names = [node["metadata"]["name"] for node in msgspec.json.decode(body)["items"]]
    if not names:
        raise click.ClickException(f"no node is in zone {zone}")
    return await _mark(transport, names, since)


async def _slow_down(transport: "HttpTransport", milliseconds: int) -> str:
    import msgspec

    from berth.api.errors import ApiError
    from berth.api.resources import RESOURCES
    from berth_cluster.serving.delay import KEY, NAME, NAMESPACE

    config_maps = RESOURCES["ConfigMap"]
    config_map = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": {KEY: str(milliseconds)}}
    body = msgspec.json.encode(config_map)
    try:
        await transport.patch(config_maps, NAMESPACE, NAME, body, MERGE_PATCH)
    except ApiError as error:
        if error.status != 404:
            raise
        await transport.create(config_maps, NAMESPACE, body)
    return f"each request waits {milliseconds} ms" if milliseconds else "requests do not wait"
