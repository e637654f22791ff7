"""Smaller requests that a guest plugin says would do: tried, and told with the quality of service kept."""

import copy

import pytest

from berth.api.codec import decode
from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth_plugins.numa.topology import TOPOLOGIES
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.simulation.cluster import SimulatedCluster
from tests.guests import registry_with_guests
from tests.workbench.planning.help.worlds import World

NAME = "NodeResourceTopologyMatch"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": NAME}]}}}],
}


def report(name, *cpus, scope="container"):
    attributes = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": scope}
    zones = [
        {"name": f"node-{number}", "type": "Node", "resources": [
            {"name": "cpu", "available": cpu}, {"name": "memory", "available": "64Gi"}]}
        for number, cpu in enumerate(cpus)
    ]  # fmt: skip
    listed = [{"name": key, "value": value} for key, value in attributes.items()]
    return TOPOLOGIES.read({"metadata": {"name": name, "uid": name}, "attributes": listed, "zones": zones})


def helped(pod, *reports):
    """What would help a pod on nodes of 16 CPU that report this, and the world that it is in."""
    nodes = [make_node(found.metadata.name).capacity(cpu="16", memory="128Gi") for found in reports]
    world = World(pod, *nodes)
    objects = [decode(each["kind"], copy.deepcopy(each)) for each in (*world.documents, world.pod)]
    config = load_config(CONFIG, "a test's config")
    cluster = SimulatedCluster([*reports, *objects], config=config, registry=registry_with_guests())
    return what_would_help(cluster, decode("Pod", copy.deepcopy(world.pod))), world


def container(*cpus):
    pod = make_pod("p")
    for cpu in cpus:
        amounts = {"cpu": cpu, "memory": "1Gi"}
        pod = pod.container(requests=amounts, limits=amounts)
    return pod


@pytest.mark.parametrize(
    ("cpus", "scope", "what"),
    [
        (("8",), "container", "request at most 6 CPU instead of 8 CPU"),
        (("4", "4"), "pod", "request at most 6 CPU instead of 8 CPU"),
        (("8", "2"), "container", "request at most 8 CPU instead of 10 CPU"),
    ],
)
def test_less_for_a_zone_is_offered_with_limits_lowered_too(cpus, scope, what):
    found, world = helped(container(*cpus), report("n1", "6", "4", scope=scope))
    (change,) = [change for change in found.changes if change.kind == "requests"]
    assert change.what == what
    assert change.fits_on == ("n1",)
    changed = world.after(change).pod
    for each in changed["spec"]["containers"]:
        assert each["resources"]["requests"] == each["resources"]["limits"], "it would not be Guaranteed any more"


def test_where_zones_are_full_nothing_smaller_is_offered():
    found, _ = helped(container("2"), report("n1", "0", "0"))
    assert [change for change in found.changes if "at most" in change.what] == []
