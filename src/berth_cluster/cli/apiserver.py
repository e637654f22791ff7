"""`berth apiserver`: the embedded API server alone, for any scheduler to be run against.

No nodes, no controllers, no scheduler: what is created stays as it is until somebody changes it.
"""

import asyncio
import re
import signal
from datetime import UTC, datetime
from pathlib import Path

import click
from click.core import ParameterSource


def kubernetes_minor_of(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    """The minor version in `1.36`, `v1.36` or `1.36.2`; also used by `berth up`."""
    from berth_cluster.apimachinery.releases import NEWEST_MINOR, OLDEST_MINOR

    found = re.fullmatch(r"v?1\.(\d{1,3})(\.\d+)?", text)
    if found is None or not OLDEST_MINOR <= int(found[1]) <= NEWEST_MINOR:
        raise click.BadParameter(f"{text!r} is none of 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}")
    return int(found[1])


def keeps_objects(context: click.Context) -> bool:
    """Whether objects outlive the command: in a directory that it was told of; also used by `berth up`."""
    return context.get_parameter_source("directory") is not ParameterSource.DEFAULT


kubernetes_version_option = click.option(
    "--kubernetes-version",
    "kubernetes_minor",
    default="1.36",
    show_default=True,
    metavar="VERSION",
    callback=kubernetes_minor_of,
    help="Release whose API is served: 1.30 to 1.37.",
)


@click.command(name="apiserver")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".berth"),
    show_default=True,
    help="Where kubeconfig and CA are kept; with the objects, if it is given.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port; 0 takes a free one.")
@click.option("--token", default="", envvar="BERTH_TOKEN", help="Bearer token for clients; by default a random one.")
@kubernetes_version_option
@click.pass_context
def command(ctx: click.Context, directory: Path, host: str, port: int, token: str, kubernetes_minor: int) -> None:
    """Run an API server with an empty cluster, kept in memory; or with --dir, with the cluster that is kept there."""

    try:
        asyncio.run(_serve(directory, keeps_objects(ctx), host, port, token, kubernetes_minor))
    except OSError as error:
        raise click.ClickException(
            f"cannot serve on {host}:{port} with files in {directory}: {error.strerror or error}; "
            "choose another --host, --port or --dir"
        ) from None


async def _serve(directory: Path, is_kept: bool, host: str, port: int, token: str, kubernetes_minor: int) -> None:
    from berth_cluster.serving.directory_lock import DirectoryLock
    from berth_cluster.serving.server import ApiServer
    from berth_cluster.storage.object_file import ObjectFile
    from berth_cluster.storage.store import Store

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    lock = DirectoryLock(directory)
    lock.acquire()
    kept = ObjectFile(directory) if is_kept else None
    if kept is not None:
        kept.on_failure = stopped.set
    store = Store(lambda: datetime.now(UTC), kept=kept)
    server = ApiServer(
        store, directory, host=host, port=port, token=token, kubernetes_minor=kubernetes_minor, lock=lock
    )
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
