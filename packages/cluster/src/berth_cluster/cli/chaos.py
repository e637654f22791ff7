"""`berth chaos`: let something go wrong in a running embedded cluster, and take it back.

It acts through the API like anybody else: on annotations of hollow nodes, which then play dead, and on a ConfigMap that
says how slow the API server is.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from berth.api.errors import ApiError, TransportError
from berth.api.near_names import nearest
from berth.api.resources import RESOURCES
from berth.kube.credentials.access import load_access
from berth.kube.credentials.kubeconfig import KubeconfigError
from berth.kube.credentials.sources import ClusterAccess
from berth.kube.http.client import HttpTransport
from berth_cluster.apimachinery.meta import format_time
from berth_cluster.hollow.template import is_hollow
from berth_workloads.node_lifecycle import DOWN_SINCE, GRACE_S

USUAL_KUBECONFIG = Path(".berth/kubeconfig")
LONGEST_MS = 60_000
ZONE = "topology.kubernetes.io/zone"
MERGE_PATCH = "application/merge-patch+json"


@click.command("chaos", short_help="Let something go wrong in a cluster of `berth up`, and take it back.")
@click.argument("what", type=click.Choice(("node-down", "node-up", "zone-down", "zone-up", "slow-api")))
@click.argument("targets", metavar="NAME... | MS", nargs=-1, required=True)
@click.option("--at-once", is_flag=True, help="As if nodes had been down for so long that they are given up now.")
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help=f"The cluster; by default that of {USUAL_KUBECONFIG}, or the one that kubectl would use.",
)
def command(what: str, targets: tuple[str, ...], at_once: bool, kubeconfig: str) -> None:
    """Let something go wrong in a running embedded cluster, and take it back.

    \b
    node-down NAME...  stop the nodes' heartbeats: nothing happens on them any
                       more, and after 50 seconds they are given up
    node-up NAME...    let them come back
    zone-down ZONE...  the same for all nodes of zones
    zone-up ZONE...
    slow-api MS        have each request to the API server wait before it is
                       answered; 0 takes it back
    """
    if what == "slow-api" and not (len(targets) == 1 and targets[0].isdecimal() and int(targets[0]) <= LONGEST_MS):
        raise click.UsageError(f"slow-api takes one number of milliseconds, up to {LONGEST_MS}")
    found = kubeconfig or (str(USUAL_KUBECONFIG) if USUAL_KUBECONFIG.exists() else "")
    try:
        click.echo(asyncio.run(_carry_out(load_access(found), what, targets, at_once=at_once)))
    except (KubeconfigError, TransportError) as error:
        raise click.ClickException(str(error)) from None


async def _carry_out(access: ClusterAccess, what: str, targets: Sequence[str], *, at_once: bool) -> str:
    transport = HttpTransport(access)
    try:
        if what == "slow-api":
            return await _slow_down(transport, int(targets[0]))
        names = await _nodes_of(transport, targets) if what.startswith("zone") else targets
        since = format_time(time.time() - (GRACE_S if at_once else 0))
        return await _mark(transport, names, since if what.endswith("down") else None)
    finally:
        await transport.close()


async def _mark(transport: HttpTransport, names: Sequence[str], since: str | None) -> str:
    """Say of nodes since when they are down, None for not at all; all are looked up before one is changed."""
    for name in names:
        if not is_hollow(await _node(transport, name)):
            raise click.ClickException(f"node {name} is not hollow: only the nodes of an embedded cluster play dead")
    patch = msgspec.json.encode({"metadata": {"annotations": {DOWN_SINCE: since}}})
    for name in names:
        await transport.patch(RESOURCES["Node"], "", name, patch, MERGE_PATCH)
    return f"{', '.join(names)} {'up' if since is None else 'down'}"


async def _nodes_of(transport: HttpTransport, zones: Sequence[str]) -> list[str]:
    selector = f"{ZONE} in ({','.join(zones)})"
    nodes = await _nodes(transport, selector)
    if not nodes:
        known = {(node["metadata"].get("labels") or {}).get(ZONE, "") for node in await _nodes(transport)} - {""}
        hints = (nearest(zone, known) for zone in zones)
        hint = next(filter(None, hints), f"; there are {', '.join(sorted(known))}" if known else "")
        raise click.ClickException(f"no node is in zone {' or '.join(zones)}{hint}")
    return [node["metadata"]["name"] for node in nodes]


async def _node(transport: HttpTransport, name: str) -> Any:
    try:
        return msgspec.json.decode(await transport.get(RESOURCES["Node"], "", name))
    except ApiError as error:
        if not error.is_not_found:
            raise
    known = [node["metadata"]["name"] for node in await _nodes(transport)]
    raise click.ClickException(f"there is no node {name}{nearest(name, known)}")


async def _nodes(transport: HttpTransport, selector: str = "") -> list[Any]:
    found: list[Any] = msgspec.json.decode(await transport.list(RESOURCES["Node"], label_selector=selector))["items"]
    return found


async def _slow_down(transport: HttpTransport, milliseconds: int) -> str:
    from berth_cluster.serving.delay import KEY, NAME, NAMESPACE

    metadata = {"name": NAME, "namespace": NAMESPACE}
    body = msgspec.json.encode({"metadata": metadata, "data": {KEY: str(milliseconds)}})
    try:
        await transport.patch(RESOURCES["ConfigMap"], NAMESPACE, NAME, body, MERGE_PATCH)
    except ApiError as error:
        if error.status != 404:
            raise
        await transport.create(RESOURCES["ConfigMap"], NAMESPACE, body)
    return f"each request waits {milliseconds} ms" if milliseconds else "requests do not wait"
