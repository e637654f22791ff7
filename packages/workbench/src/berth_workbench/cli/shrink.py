"""`berth shrink`: which workloads request more than they use, and what shrinking them would free."""

import asyncio
from typing import Any

import click
import msgspec

from berth.cli.output import Output, output_option
from berth.cli.setup import config_option, gates_option, plugin_option
from berth_workbench.cli.asked import read_asked
from berth_workbench.cli.asking import answered, asks, request_values, tell
from berth_workbench.cli.cluster_input import cluster_options
from berth_workbench.planning.usage import Usage, of_metrics, read_usage
from berth_workbench.questions.shrink import QUESTION, ShrinkRequest
from berth_workbench.simulation.situation import Situation


@asks(
    QUESTION,
    cluster_options,
    click.option(
        "--usage",
        "usage_files",
        multiple=True,
        metavar="FILE",
        help="What pods or workloads use: YAML, JSON or CSV; may be repeated, and the highest counts. Without it the "
        "cluster's metrics.k8s.io is asked.",
    ),
    config_option,
    plugin_option,
    gates_option,
    output_option,
)
def command(
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    usage_files: tuple[str, ...],
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
    **typed: Any,
) -> None:
    """Hold usage against requests."""
    if cluster and not usage_files:
        raise click.UsageError("--usage: a cluster in a file has no metrics; give what its pods use")
    usage = read_usage(usage_files) if usage_files else take_usage(kubeconfig, context)
    snapshot, _, setup, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
    request = ShrinkRequest(usage, **request_values(QUESTION, typed))
    found = answered(QUESTION, Situation(snapshot, setup), request)
    tell(QUESTION, request, found, output, assumed=assumed)


def take_usage(kubeconfig: str, context: str) -> Usage:
    """Ask the cluster's metrics.k8s.io. Raises `click.ClickException`, `UserError`."""
    from berth.api.errors import TransportError
    from berth.kube.credentials.access import load_access
    from berth.kube.credentials.kubeconfig import KubeconfigError

    try:
        body = asyncio.run(_taken(load_access(kubeconfig, context=context)))
        items = msgspec.json.decode(body).get("items") or ()
    except KubeconfigError as error:
        raise click.ClickException(f"{error}; --cluster and --usage take files instead") from None
    except TransportError as error:
        raise click.ClickException(f"metrics.k8s.io cannot be read: {error}; --usage takes a file instead") from None
    except (msgspec.MsgspecError, AttributeError):
        raise click.ClickException("what metrics.k8s.io answers is no list; --usage takes a file instead") from None
    usage: Usage = {}
    of_metrics(items, usage, "metrics.k8s.io")
    return usage


async def _taken(access: "object") -> bytes:
    from berth.api.resources import Resource
    from berth.kube.http.client import HttpTransport

    transport = HttpTransport(access)  # type: ignore[arg-type]
    try:
        return await transport.list(Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True))
    finally:
        await transport.close()
