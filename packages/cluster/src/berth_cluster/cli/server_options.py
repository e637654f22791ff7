"""The options of the commands that serve a cluster: `berth up` and `berth apiserver`."""

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

Command = TypeVar("Command", bound=Callable[..., Any])


SERVER = ("directory", "host", "port", "token", "kubernetes_minor")


class ServerOptions(NamedTuple):
    """Where an API server is, what its clients have to show, and which release 1.x it serves."""

    directory: Path
    host: str
    port: int
    token: str
    kubernetes_minor: int
    keeps_objects: bool
    """Whether objects outlive the command: in a directory that it was told of."""

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Explain where the address, or the directory, cannot be had."""
        try:
            yield
        except OSError as error:
            raise click.ClickException(
                f"cannot serve on {self.host}:{self.port} with files in {self.directory}: {error.strerror or error}; "
                "choose another --host, --port or --dir"
            ) from None


def server_options(command: Command) -> Command:
    """`--dir`, `--host`, `--port`, `--token` and `--kubernetes-version`, received as `server: ServerOptions`."""

    @wraps(command)
    def with_options(**options: Any) -> Any:
        is_told = click.get_current_context().get_parameter_source("directory") is not ParameterSource.DEFAULT
        given = ServerOptions(**{name: options.pop(name) for name in SERVER}, keeps_objects=is_told)
        return command(server=given, **options)

    decorated: Any = with_options
    for decorate in (
        click.option(
            "--kubernetes-version",
            "kubernetes_minor",
            default="1.36",
            show_default=True,
            metavar="VERSION",
            callback=_minor_of,
            help="Release whose API is served: 1.30 to 1.37.",
        ),
        click.option(
            "--token", default="", envvar="BERTH_TOKEN", help="Bearer token for clients; by default a random one."
        ),
        click.option(
            "--port", default=0, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one."
        ),
        click.option("--host", default="127.0.0.1", show_default=True, help="Address the API server listens on."),
        click.option(
            "--dir",
            "directory",
            default=Path(".berth"),
            show_default=True,
            type=click.Path(file_okay=False, path_type=Path),
            help="Where kubeconfig and CA are kept. If it is given, so are the objects: a cluster kept there goes on.",
        ),
    ):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]  # click's decorators return what they are given


def _minor_of(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    """The minor version in `1.36`, `v1.36` or `1.36.2`."""
    from berth_cluster.apimachinery.releases import NEWEST_MINOR, OLDEST_MINOR

    found = re.fullmatch(r"v?1\.(\d{1,3})(\.\d+)?", text)
    if found is None or not OLDEST_MINOR <= int(found[1]) <= NEWEST_MINOR:
        raise click.BadParameter(f"{text!r} is none of 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}")
    return int(found[1])
