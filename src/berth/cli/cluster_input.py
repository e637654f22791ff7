"""Where commands get their cluster and their objects from: `--cluster`, `--kubeconfig`, `-f`, the same everywhere.

`@cluster_options` and `@manifests_option` are the flags; `read_cluster_given` and `read_manifests` turn what was typed
into a snapshot and into documents. What cannot be read ends the command with one line, exit code 1.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from berth.api.resources import Resource
    from berth.snapshot.documents import Document
    from berth.snapshot.snapshot import Snapshot

Command = TypeVar("Command", bound=Callable[..., Any])

PAGE = 500
"""How many objects are asked for at a time, as kubectl does."""


def cluster_options(command: Command) -> Command:
    """`--cluster`, `--kubeconfig`, `--context`, received as `cluster: tuple[str, ...]`, `kubeconfig`, `context`."""
    for decorate in (
        click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use."),
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help="The cluster to look at, where --cluster is not given; by default the one that kubectl would use.",
        ),
        click.option(
            "--cluster",
            multiple=True,
            metavar="FILE",
            help="The cluster, as `berth snapshot` or `kubectl get -o yaml|json` has written it; may be repeated, and "
            "may be a directory.",
        ),
    ):
        command = decorate(command)
    return command


def manifests_option(command: Command) -> Command:
    """`-f`, received as `manifests: tuple[str, ...]`."""
    decorate = click.option(
        "-f",
        "--filename",
        "manifests",
        multiple=True,
        metavar="FILE",
        help="Manifests: YAML or JSON, a file, a directory, or - for standard input; may be repeated.",
    )
    return decorate(command)


def read_cluster_given(cluster: Sequence[str], kubeconfig: str = "", context: str = "") -> "Snapshot":
    """Return the cluster of the files, or else the one that a kubeconfig leads to. Raises `click.ClickException`."""
    from berth.snapshot.documents import SnapshotError
    from berth.snapshot.snapshot import read_cluster

    if cluster and (kubeconfig or context):
        raise click.UsageError("--cluster and --kubeconfig are two different clusters; name one")
    if not cluster:
        return _take(kubeconfig, context)
    try:
        return read_cluster([_existing(path, "--cluster") for path in cluster])
    except SnapshotError as error:
        raise click.ClickException(str(error)) from None


def read_manifests(manifests: Sequence[str]) -> "list[Document]":
    """Return the objects that `-f` names. Raises `click.ClickException`."""
    from berth.snapshot.documents import SnapshotError, read_documents

    try:
        return read_documents([path if path == "-" else _existing(path, "-f") for path in manifests])
    except SnapshotError as error:
        raise click.ClickException(str(error)) from None


def _existing(path: str, option: str) -> Path:
    if not Path(path).exists():
        raise click.ClickException(f"{option} {path}: there is no such file or directory")
    return Path(path)


def _take(kubeconfig: str, context: str) -> "Snapshot":
    """Read the cluster that a kubeconfig leads to."""
    from berth.api.errors import TransportError
    from berth.kube.credentials.access import load_access
    from berth.kube.credentials.kubeconfig import KubeconfigError

    try:
        access = load_access(kubeconfig, context=context)
        return asyncio.run(_taken(access))
    except KubeconfigError as error:
        raise click.ClickException(f"{error}; --cluster takes a snapshot instead") from None
    except TransportError as error:
        raise click.ClickException(f"the cluster cannot be read: {error}") from None


async def _taken(access: Any) -> "Snapshot":
    from berth.api.errors import ApiError
    from berth.api.resources import RESOURCES
    from berth.cli.setup import warn
    from berth.kube.http.client import HttpTransport
    from berth.snapshot.snapshot import Snapshot

    documents: list[Document] = []
    transport = HttpTransport(access)
    try:
        for resource in RESOURCES.values():
            if resource.kind in ("Lease", "Event", "ConfigMap"):
                continue
            try:
                documents += await _listed(transport, resource, access.server)
            except ApiError as error:
                if error.status == 404:
                    continue
                if resource.kind in ("Node", "Pod") or error.status != 403:
                    raise
                warn(f"{resource.plural} may not be listed, and count as none: {error}")
    finally:
        await transport.close()
    return Snapshot(documents)


async def _listed(transport: Any, resource: "Resource", server: str) -> "list[Document]":
    import msgspec

    from berth.snapshot.documents import Document

    class Page(msgspec.Struct):
        items: list[msgspec.Raw] = []
        metadata: dict[str, Any] = {}

    found: list[Document] = []
    token = ""
    while True:
        page = msgspec.json.decode(await transport.list(resource, limit=PAGE, continue_token=token), type=Page)
        found += [Document(resource.kind, bytes(item), f"{server} {resource.plural}") for item in page.items]
        token = str(page.metadata.get("continue") or "")
        if not token:
            return found
