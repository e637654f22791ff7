"""`berth apiserver`: the embedded API server alone, for any scheduler to be run against.

No nodes, no controllers, no scheduler: what is created stays as it is until somebody changes it.
"""

import asyncio
from datetime import UTC, datetime

import click

from berth_cluster.cli.server_options import ServerOptions, server_options


@click.command(name="apiserver")
@server_options
def command(server: ServerOptions) -> None:
    """Run an API server with an empty cluster, kept in memory."""
    with server.serving():
        asyncio.run(_serve(server))


async def _serve(given: ServerOptions) -> None:
    from berth.cli.signals import stop_on_signals
    from berth_cluster.serving.server import ApiServer
    from berth_cluster.storage.store import Store

    stopped = stop_on_signals()
    server = ApiServer(Store(lambda: datetime.now(UTC)), **given._asdict())
    await server.start()
    click.echo(f"API server ready at {server.url}")
    click.echo(f"  export KUBECONFIG={server.kubeconfig.absolute()}")
    click.echo("Ctrl-C ends it.")
    try:
        await stopped.wait()
    finally:
        await server.stop()
