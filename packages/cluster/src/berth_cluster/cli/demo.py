"""`berth demo`: brings a cluster up, applies a sample of workloads, shows where every pod went and why, and ends.

Everything happens in this process, on a temporary directory. The workloads are in `demo.yaml`, next to this file.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from time import monotonic
from typing import Any

import click
import yaml
from rich.console import Console

from berth.cli.output import console_for
from berth.cli.setup import plugin_option, read_setup
from berth.cli.table import Table, TableColumn
from berth.decisions.explanation import Explanation
from berth.framework.setup import Setup
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.cli.placement_table import placement_table
from berth_cluster.embedded import ClusterSettings, EmbeddedCluster, create_nodes
from berth_cluster.hollow.template import NodeTemplate

JsonObject = dict[str, Any]
SETTLE_S = 20.0
POLL_S = 0.05
ZONE, SHOWS = "topology.kubernetes.io/zone", "berth.dev/shows"


@click.command("demo", short_help="See where a sample of workloads goes, and why.")
@plugin_option
def command(plugins: tuple[str, ...]) -> None:
    """Bring up an embedded cluster, schedule a sample of workloads, show where every pod went and why, and end.

    Nothing is left behind. To play with such a cluster yourself, use `berth up` and kubectl.
    """
    setup = read_setup(plugins=plugins)
    console = console_for()
    with tempfile.TemporaryDirectory(prefix="berth-demo-") as directory:
        settled = asyncio.run(_demo(console, Path(directory), setup))
    if not settled:
        raise click.ClickException(
            f"the workloads did not settle within {SETTLE_S:.0f} s; the table shows how far they came"
        )


async def _demo(console: Console, directory: Path, setup: Setup) -> bool:
    """The whole demonstration; True when every workload came to rest."""
    from berth_cluster.cli.in_process import InProcessScheduler  # the scheduler, which --help need not wait for

    cluster = EmbeddedCluster(ClusterSettings(nodes=0), directory)
    await cluster.start()
    scheduler = InProcessScheduler(cluster.store, setup=setup)
    try:
        _create_nodes(cluster)
        _show_nodes(console, cluster)
        documents = sample()
        _apply(cluster, documents)
        _show_workloads(console, documents)
        await _until(lambda: _pods_are_there(cluster, documents))
        scheduler.start()
        settled = await _until(lambda: _is_settled(cluster))
        _show_placements(console, cluster, await scheduler.explanations())
        return settled
    finally:
        await scheduler.stop()
        await cluster.stop()


def sample() -> list[JsonObject]:
    """The sample's objects, in order."""
    text = files("berth_cluster.cli").joinpath("demo.yaml").read_text(encoding="utf-8")
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def _create_nodes(cluster: EmbeddedCluster) -> None:
    """Four plain nodes, two with an SSD, one with a GPU and a taint."""
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    plain = NodeTemplate(cpu="4", memory="8Gi")
    ssd = NodeTemplate(cpu="4", memory="8Gi", name_prefix="ssd-", labels={"disk": "ssd"})
    gpu = NodeTemplate(
        cpu="8", memory="32Gi", name_prefix="gpu-", extra_resources={"example.com/gpu": "1"}, taints=(taint,)
    )
    create_nodes(cluster.store, plain, 4)
    create_nodes(cluster.store, ssd, 2, first=4)
    create_nodes(cluster.store, gpu, 1, first=6)


def _apply(cluster: EmbeddedCluster, documents: list[JsonObject]) -> None:
    for document in documents:
        resource = resource_of(document["kind"])
        cluster.store.create(resource, "default" if resource.namespaced else "", document)


async def _until(is_so: Callable[[], bool]) -> bool:
    """Wait until something is so; False when it took too long."""
    deadline = monotonic() + SETTLE_S
    while not is_so():
        if monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def _objects(cluster: EmbeddedCluster, kind: str) -> list[JsonObject]:
    return cluster.store.objects(resource_of(kind))


def _pods_are_there(cluster: EmbeddedCluster, documents: list[JsonObject]) -> bool:
    """The controllers have made the pods that the sample asks for at first."""
    expected = sum(_first_pods(document) for document in documents)
    return len(_objects(cluster, "Pod")) >= expected


def _first_pods(document: JsonObject) -> int:
    """How many pods a workload has before any of them has run."""
    fields = {"Deployment": "replicas", "Job": "parallelism"}
    if document["kind"] in fields:
        return int(document["spec"][fields[document["kind"]]])
    return int(document["kind"] == "Pod")


def _is_settled(cluster: EmbeddedCluster) -> bool:
    """Every pod runs, has ended or was told why it cannot run, and every Job has ended."""
    jobs_done = all((job.get("status") or {}).get("completionTime") for job in _objects(cluster, "Job"))
    return jobs_done and all(_has_come_to_rest(pod) for pod in _objects(cluster, "Pod"))


def _has_come_to_rest(pod: JsonObject) -> bool:
    status = pod.get("status") or {}
    if pod["spec"].get("nodeName"):
        return status.get("phase") in ("Running", "Succeeded", "Failed")
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in status.get("conditions") or [])


# --- what people see -----------------------------------------------------------------------------------------------


def _show_nodes(console: Console, cluster: EmbeddedCluster) -> None:
    amounts = (TableColumn("CPU", "number"), TableColumn("Memory", "number"))
    title = "The cluster: hollow nodes, which only pretend to run pods"
    table = Table("Node", "Zone", *amounts, TableColumn("Special", "text"), title=title)
    for node in sorted(_objects(cluster, "Node"), key=lambda one: one["metadata"]["labels"]["kubernetes.io/hostname"]):
        labels, offered = node["metadata"]["labels"], node["status"]["allocatable"]
        special = [f"disk={labels['disk']}"] if "disk" in labels else []
        special += [f"{name}: {amount}" for name, amount in offered.items() if "/" in name]
        special += [f"taint {one['key']}={one['value']}:{one['effect']}" for one in node["spec"].get("taints") or []]
        table.add(node["metadata"]["name"], labels[ZONE], offered["cpu"], offered["memory"], ", ".join(special))
    table.print(console)
    console.print()


def _show_workloads(console: Console, documents: list[JsonObject]) -> None:
    table = Table("Kind", "Name", TableColumn("Shows", "text"), title="The workloads")
    for document in documents:
        shows = (document["metadata"].get("annotations") or {}).get(SHOWS)
        if shows:
            table.add(document["kind"], document["metadata"]["name"], shows)
    table.print(console)
    console.print()


def _show_placements(console: Console, cluster: EmbeddedCluster, explanations: Mapping[str, Explanation]) -> None:
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in _objects(cluster, "Node")}
    pods = sorted(_objects(cluster, "Pod"), key=lambda pod: (not pod["spec"].get("nodeName"), pod["metadata"]["name"]))
    placement_table(pods, explanations, zones).print(console)
    placed = sum(bool(pod["spec"].get("nodeName")) for pod in pods)
    console.print(f"{placed} of {len(pods)} pods have a node. For a cluster of your own to play with: berth up")
