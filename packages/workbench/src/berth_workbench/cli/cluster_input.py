"""Where commands get their cluster and their objects from: `--cluster`, `--kubeconfig`, `-f`, the same everywhere.

`@cluster_options` and `@manifests_option` are the flags; `read_cluster_given` and `read_manifests` turn what was typed
into a snapshot and into documents. What cannot be read ends the command with one line, exit code 1.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from berth.api.custom import CustomResource
    from berth.framework.setup import Setup
    from berth_workbench.snapshot.documents import Document
    from berth_workbench.snapshot.snapshot import Snapshot

FORBIDDEN = 403
"""To an API server: the caller is known, and may not."""

Command = TypeVar("Command", bound=Callable[..., Any])


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


def namespace_option(command: Command) -> Command:
    """`-n`, received as `namespace: str`."""
    decorate = click.option(
        "-n",
        "--namespace",
        default="default",
        show_default=True,
        callback=_checked_namespace,
        help="The namespace of -f where none is given.",
    )
    return decorate(command)


def _checked_namespace(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) is None:
        raise click.BadParameter(
            f"{name!r} is no name of a namespace: 1 to 63 lower-case letters, digits and dashes, no dash at either end"
        )
    return name


def read_cluster_given(
    cluster: Sequence[str],
    kubeconfig: str = "",
    context: str = "",
    *,
    option: str = "--cluster",
    setup: "Setup | None" = None,
    custom: "Sequence[CustomResource]" = (),
) -> "Snapshot":
    """Return the cluster of the files, or else the one that a kubeconfig leads to.

    Of the latter also what the plugins of `setup` follow, and `custom` resources; files hold what they hold.

    Raises `click.ClickException`, `UserError`.
    """
    from berth_workbench.snapshot.snapshot import read_cluster

    if cluster and (kubeconfig or context):
        raise click.UsageError("--cluster and --kubeconfig are two different clusters; name one")
    if not cluster:
        return _take(kubeconfig, context, (*followed_by(setup), *custom))
    return read_cluster([path if path == "-" else existing(path, option) for path in cluster])


def read_manifests(manifests: Sequence[str], namespace: str = "default") -> "list[Document]":
    """Return the objects that `-f` names, read strictly. Raises `click.ClickException`, `UserError`."""
    from berth_workbench.snapshot import documents

    return documents.read_manifests([path if path == "-" else existing(path, "-f") for path in manifests], namespace)


def existing(path: str, option: str) -> Path:
    """Return a path that was typed behind an option. Raises `click.ClickException` where nothing is there."""
    try:
        if Path(path).exists():
            return Path(path)
    except OSError as error:  # a name that is too long
        raise click.ClickException(f"{option} {path}: {error.strerror}") from None
    raise click.ClickException(f"{option} {path}: there is no such file or directory")


def _take(kubeconfig: str, context: str, custom: "Sequence[CustomResource]") -> "Snapshot":
    """Read the cluster that a kubeconfig leads to, and say what of it may not be read."""
    from berth.cli.setup import warn
    from berth_workbench.snapshot.header import MAY_NOT

    snapshot = take_cluster(kubeconfig, context, custom)
    missing = () if snapshot.header is None else snapshot.header.missing
    kinds = [each.kind for each in missing if each.reason == MAY_NOT]
    if kinds:
        count = "count" if len(kinds) > 1 else "counts"
        warn(f"{', '.join(kinds)} may not be listed, and {count} as none: the decisions may be others")
        warn(f"this grants the right to list them: {reader_role(kinds)}")
    return snapshot


def reader_role(kinds: Iterable[str] | None = None) -> str:
    """Return a line for a shell that grants the right to list objects of some kinds, or of all that a snapshot has."""
    import json

    from berth_workbench.snapshot.kept_fields import TAKEN

    by_group: dict[str, list[str]] = {}
    for kind in TAKEN if kinds is None else kinds:
        if kind in TAKEN:
            by_group.setdefault(TAKEN[kind].group, []).append(TAKEN[kind].plural)
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "berth-reader"},
        "rules": [{"apiGroups": [of], "resources": plurals, "verbs": ["list"]} for of, plurals in by_group.items()],
    }
    binding = "kubectl create clusterrolebinding berth-reader --clusterrole=berth-reader --user=WHO"
    return f"echo '{json.dumps(role)}' | kubectl apply -f - && {binding}"


def followed_by(setup: "Setup | None") -> "Sequence[CustomResource]":
    """Return what the plugins of a configuration follow. Raises `ConfigError`."""
    from berth_workbench.simulation.followed import resources_followed

    return () if setup is None else resources_followed(setup.config, setup.registry)


def take_cluster(kubeconfig: str, context: str, custom: "Sequence[CustomResource]" = ()) -> "Snapshot":
    """Return a snapshot of the cluster that a kubeconfig leads to, with `custom` resources.

    Raises `click.ClickException`, `UserError`."""
    import asyncio

    from berth.api.errors import ApiError, TransportError
    from berth.kube.credentials.access import load_access
    from berth.kube.credentials.kubeconfig import KubeconfigError
    from berth_workbench.cli.progress import working

    try:
        access = load_access(kubeconfig, context=context)
        with working("reading the cluster") as work:

            def told(_kind: str, count: int) -> None:
                if work.is_stopped:  # half of a cluster is of no use
                    raise click.Abort
                work.advance(count)

            return asyncio.run(_taken(access, told, custom))
    except KubeconfigError as error:
        raise click.ClickException(f"{error}; --cluster takes a snapshot instead") from None
    except TransportError as error:
        is_refused = isinstance(error, ApiError) and error.status == FORBIDDEN
        grant = f"; this grants the right to list all that is read: {reader_role()}" if is_refused else ""
        raise click.ClickException(f"the cluster cannot be read: {error}{grant}") from None


async def _taken(access: Any, told: Callable[[str, int], None], custom: "Sequence[CustomResource]") -> "Snapshot":
    from berth.kube.http.client import HttpTransport
    from berth_workbench.snapshot.wanted import resources_wanted
    from berth_workbench.snapshot.writer import taken_from_cluster

    transport = HttpTransport(access)
    try:
        return signed(await taken_from_cluster(transport, access.server, told, custom, resources_wanted()))
    finally:
        await transport.close()


def signed(snapshot: "Snapshot") -> "Snapshot":
    """Return a snapshot whose header says when it was made, and by which version of Berth."""
    from datetime import UTC, datetime
    from importlib.metadata import version

    import msgspec

    from berth_workbench.snapshot.header import Header
    from berth_workbench.snapshot.snapshot import Snapshot

    header = snapshot.header or Header()
    made = {"taken": header.taken or f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    header = msgspec.structs.replace(header, berth_version=version("berth-scheduler"), **made)
    return Snapshot(snapshot.documents, header)
