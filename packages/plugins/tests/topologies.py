"""What tests of NodeResourceTopologyMatch are made of: reports about nodes, pods, and clusters with the plugin."""

from berth.testing import VirtualCluster, make_node, make_pod
from berth_plugins.numa.fingerprint import ATTRIBUTE, fingerprint
from berth_plugins.numa.node_resource_topology_match import NodeResourceTopologyMatch
from berth_plugins.numa.topology import TOPOLOGIES

NAME = NodeResourceTopologyMatch.name
GPU = "example.com/gpu"


def report(name, *zones, policy="single-numa-node", scope="container", pods=None, version=1, **attributes):
    """A report about a node whose zones have this much free, and that includes these pods, by namespace and name."""
    attributes = {"topologyManagerPolicy": policy, "topologyManagerScope": scope, **attributes}
    if pods is not None:
        attributes[ATTRIBUTE] = fingerprint(pods)
    listed = [{"name": f"node-{number}", "type": "Node", "resources": free(zone)} for number, zone in enumerate(zones)]
    return TOPOLOGIES.read(
        {
            "metadata": {"name": name, "uid": name, "resourceVersion": str(version)},
            "attributes": [{"name": key, "value": value} for key, value in attributes.items()],
            "zones": listed,
        }
    )


def free(amounts):
    """The resources of a zone."""
    return [
        {"name": key, "capacity": "64", "allocatable": "64", "available": str(value)} for key, value in amounts.items()
    ]


def zone(cpu, memory="8Gi", gpu=None):
    """What is free in a zone."""
    return {"cpu": cpu, "memory": memory} | ({} if gpu is None else {GPU: gpu})


def node(name, cpu="16", memory="64Gi", gpu=8):
    """A node that has enough of everything as a whole."""
    return make_node(name).capacity({GPU: str(gpu)}, cpu=cpu, memory=memory)


def guaranteed(name, cpu="1", memory="1Gi", gpu=None, containers=1):
    """A Guaranteed pod whose containers all ask for this much."""
    amounts = {"cpu": cpu, "memory": memory} | ({} if gpu is None else {GPU: str(gpu)})
    pod = make_pod(name)
    for _ in range(containers):
        pod = pod.container(requests=amounts, limits=amounts)
    return pod


def cluster(config, *objects, **args):
    """A cluster whose scheduler has the plugin with these args."""
    found = VirtualCluster(plugins={NAME: NodeResourceTopologyMatch}, config=config(NAME, args=args or None))
    for obj in objects:
        found.put(obj)
    return found


def plugin_of(found):
    """The plugin of a cluster's scheduler."""
    return next(each.plugin for each in found.core.profiles["default-scheduler"].plugins if each.name == NAME)


def told(found, words):
    """Whether a pod was told this."""
    return any(words in note for note in found.events("FailedScheduling"))
