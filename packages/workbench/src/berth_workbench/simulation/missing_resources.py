"""Resources that pods request and no node has: mostly a slip of the keyboard, of which "Insufficient" says too little.

Everything that answers about pods without a place says so in its notes: `capacity`, `whatif`, `autoscale`, `wait` and
`explain --what-would-help`.
"""

from collections.abc import Iterable, Iterator

from berth.api.dra import DeviceClass
from berth.api.near_names import alike, meant
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.pod_resources import pod_requests
from berth.plugins.resources.names import DEVICE_CLASS_PREFIX
from berth_workbench.simulation.cluster import SimulatedCluster


def missing_resources(cluster: SimulatedCluster, pods: Iterable[Pod], models: Iterable[Node] = ()) -> Iterator[str]:
    """Yield a sentence for each resource that one of the pods requests and that no node has.

    `models` are nodes that may be added. A resource that devices stand for is not missing.
    """
    known: set[str] = set()
    for node in (*cluster.nodes.values(), *models):
        known.update(node.status.allocatable)
    if not known:
        return
    known.update(each.spec.extended_resource_name or "" for each in cluster.of(DeviceClass))
    wanting: dict[str, list[str]] = {}
    for pod in pods:
        for name in _named(pod) - known:
            if not name.startswith(DEVICE_CLASS_PREFIX) and pod_requests(pod).get(name):
                wanting.setdefault(name, []).append(pod.key)
    for name, keys in sorted(wanting.items()):
        who = f"{keys[0]} requests" if len(keys) == 1 else f"{len(keys)} pods request"
        near = alike(name, known) or [each for each in sorted(known) if each.endswith(f"/{name.rpartition('/')[2]}")]
        yield f"no node has {name}, which {who}{meant(near)}"


def _named(pod: Pod) -> set[str]:
    """The resources that a pod names; most pods name few, and what they add up to takes longer to say."""
    spec = pod.spec
    found = {name for each in (*spec.containers, *spec.init_containers) for name in each.resources.requests}
    return found.union(spec.overhead, spec.resources.requests if spec.resources is not None else ())
