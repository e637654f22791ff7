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
    """Run an API server with an empty cluster, kept in memory; or with --dir, with the cluster that is kept there."""
    with server.serving():
        asyncio.run(_serve(server))


async def _serve(given: ServerOptions) -> None:
    from berth.cli.signals import go_on_after_hangup, stop_on_signals
    from berth_cluster.serving.directory_lock import DirectoryLock
    from berth_cluster.serving.server import ApiServer
    from berth_cluster.storage.object_file import ObjectFile
    from berth_cluster.storage.store import Store

    stopped = stop_on_signals()
    go_on_after_hangup()
    directory, host, port, token, minor, keeps_objects = given
    lock = DirectoryLock(directory)
    lock.acquire()
    kept = ObjectFile(directory) if keeps_objects else None
    if kept is not None:
        kept.on_failure = stopped.set
    store = Store(lambda: datetime.now(UTC), kept=kept)
    server = ApiServer(store, directory, host=host, port=port, token=token, kubernetes_minor=minor, lock=lock)
    await server.start()
    click.echo(f"API server ready at {server.url}")
    click.echo(f"  export KUBECONFIG={server.kubeconfig.absolute()}")
    click.echo("Ctrl-C ends it.")
    try:
        await stopped.wait()
    finally:
        await server.stop()
    if kept is not None and kept.failure is not None:
        raise kept.failure
