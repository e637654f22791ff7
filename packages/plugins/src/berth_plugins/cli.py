"""`berth-plugins`: what the guests need beside a scheduler, their definitions and their controllers."""

import logging
from importlib.resources import files

import click

from berth.controller import UserError, run_controllers
from berth_plugins.controllers import ElasticQuotaController, PodGroupController


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """What the guest plugins need in a cluster."""


@main.command()
@click.argument("kinds", nargs=-1, metavar="[PLURAL]...")
def crds(kinds: tuple[str, ...]) -> None:
    """Print the definitions of the resources that the plugins read, or of those named only.

    For `kubectl apply -f -`. They have what scheduling reads; fields that others use are kept as they are. Where
    upstream's own definitions are installed, leave those: the plugins read them as well.
    """
    found = definitions()
    if unknown := [kind for kind in kinds if kind not in found]:
        raise click.UsageError(f"there is no {unknown[0]}; there are {', '.join(found)}")
    for kind in kinds or found:
        click.echo(f"---\n{found[kind]}", nl=False)


def definitions() -> dict[str, str]:
    """Return the definitions as YAML, by the plural of what they define."""
    there = (each for each in files("berth_plugins").joinpath("crds").iterdir() if each.name.endswith(".yaml"))
    return {
        each.name.removesuffix(".yaml"): each.read_text("utf-8") for each in sorted(there, key=lambda each: each.name)
    }


@main.command()
@click.option("--kubeconfig", default="", metavar="FILE", help="By default $KUBECONFIG, the pod's, or ~/.kube/config.")
@click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use.")
@click.option("-v", "--verbose", is_flag=True, help="Say what is written.")
def controller(kubeconfig: str, context: str, verbose: bool) -> None:
    """Write the status of PodGroups and ElasticQuotas, until Ctrl-C.

    Needs `list` and `watch` on pods and on both kinds, and `patch` on their status. Several may run at a time without
    electing a leader: each writes what follows from the cluster, and only over what it has seen.
    """
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        run_controllers([ElasticQuotaController(), PodGroupController()], kubeconfig, context)
    except UserError as error:
        raise click.ClickException(str(error)) from None
