"""`berth version`: which version this is, and which one the scheduler in use has, where it can be reached."""

import sys

import click
import msgspec

from berth.cli.output import Output, console_for, is_structured, output_option, print_structured
from berth.cli.scheduler_in_use import SchedulerAddress, SchedulerInUse, scheduler_options
from berth.cli.table import wrapped
from berth.runtime.observing.logs import legible


class ClientVersion(msgspec.Struct, frozen=True, rename="camel"):
    """What runs here."""

    version: str
    python: str


class SchedulerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """What decides in the cluster."""

    version: str
    generation: str
    """The release of kube-scheduler as which it decides."""
    python: str


class Versions(msgspec.Struct, frozen=True, rename="camel"):
    """Who is of which version."""

    client: ClientVersion
    scheduler: SchedulerVersion | None = None
    """None where it was not asked, or does not answer."""
    problem: str = ""
    """Why it does not answer."""


@click.command("version", short_help="This version, and that of the scheduler in use.")
@click.option("--client", "only_client", is_flag=True, help="Ask no scheduler.")
@scheduler_options
@output_option
def command(
    only_client: bool,
    server: str,
    certificate_authority: str,
    kubeconfig: str,
    context: str,
    lease: str,
    output: Output,
) -> None:
    """Tell which version of Berth this is, and which one the scheduler in use has.

    That no scheduler answers is no error.
    """
    found = Versions(client())
    if not only_client:
        found = asked(SchedulerAddress(server, certificate_authority, kubeconfig, context, lease))
    if is_structured(output):
        print_structured(found, output)
        return
    click.echo(f"berth {found.client.version} (Python {found.client.python})")
    if found.scheduler is not None:
        told = found.scheduler
        click.echo(legible(f"scheduler {told.version}, as kube-scheduler {told.generation} (Python {told.python})"))
    elif found.problem:
        click.echo("\n".join(wrapped(legible(f"scheduler: {found.problem}"), console_for().width)))


def client() -> ClientVersion:
    """Return what runs here."""
    from berth import __version__

    return ClientVersion(__version__, sys.version.split()[0])


def asked(address: SchedulerAddress) -> Versions:
    """Return both versions."""
    try:
        answer = SchedulerInUse(address).ask("/debug/version", "its version")
        return Versions(client(), msgspec.convert(answer, SchedulerVersion))
    except click.ClickException as error:
        return Versions(client(), problem=error.message)
    except msgspec.ValidationError as error:
        return Versions(client(), problem=f"its answer cannot be read: {error}")
