"""The API objects that a trace's records stand for: the pod that others of a workload are copies of, and the node."""

from typing import TYPE_CHECKING

from berth.api.codec import decode
from berth.api.node import Node
from berth.api.pod import Pod

if TYPE_CHECKING:
    from berth.traces.trace import NodeComes, PodShapeGiven


def pod_template(namespace: str, owner: str, kind: str, shape: "PodShapeGiven") -> Pod:
    """Return the pod that all pods of a workload are copies of, with its owner's name. Raises `ObjectError`."""
    requests = {"cpu": f"{shape.cpu}m", "memory": str(shape.memory)}
    requests |= {name: str(amount) for name, amount in shape.resources.items()}
    manifest = {
        "metadata": {
            "name": owner,
            "namespace": namespace,
            "labels": shape.labels,
            "ownerReferences": [
                {"kind": kind, "name": owner, "uid": f"{kind}/{namespace}/{owner}", "controller": True}
            ],
        },
        "spec": {
            "priority": shape.priority,
            **shape.spec,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
    }
    pod: Pod = decode("Pod", manifest)
    return pod


def node_object(node: "NodeComes") -> Node:
    """Return the node that a record brings. Raises `ObjectError`."""
    allocatable = {"cpu": f"{node.cpu}m", "memory": str(node.memory), "pods": str(node.pods)}
    allocatable |= {name: str(amount) for name, amount in node.resources.items()}
    manifest = {
        "metadata": {"name": node.name, "uid": f"node/{node.name}", "labels": node.labels},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }
    found: Node = decode("Node", manifest)
    return found
