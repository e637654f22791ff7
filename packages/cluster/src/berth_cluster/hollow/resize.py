"""What a kubelet does when the resources of a running pod change: grant them, defer them, or call them infeasible.

Pure functions over a pod as JSON and what its node has; called by `kubelet`. Reasons and messages are upstream's
(pkg/kubelet/allocation, v1.36). Nothing is restarted, whatever `resizePolicy` says, since nothing runs. A container's
status names its resources from the first resize on; before that, it has what its spec says.
"""

from collections.abc import Mapping
from typing import Any

from berth.api.pod_resources import Requests
from berth_cluster.apimachinery.meta import Object, find_condition, new_condition, with_condition
from berth_cluster.hollow.admission import Rejection, shortage
from berth_cluster.hollow.pod_status import CONTAINER_LISTS

PENDING = "PodResizePending"
DEFERRED, INFEASIBLE = "Deferred", "Infeasible"
_COMPUTE = ("memory", "cpu")

ContainerResources = Mapping[str, Any]
"""The `resources` of containers by name; the pod's own are under the empty name."""


def container_resources(spec: Object) -> ContainerResources:
    """The resources that a spec names."""
    found = {"": spec.get("resources") or {}}
    for section, _ in CONTAINER_LISTS:
        for container in spec.get(section) or []:
            found[container["name"]] = container.get("resources") or {}
    return found


def refusal(requests: Requests, allocatable: Mapping[str, int], used_by_others: Mapping[str, int]) -> Rejection | None:
    """Why the node cannot give the pod what it asks for now (in the scheduler's units); None if it can.

    What is deferred is tried again when room comes back.
    """
    for name in _COMPUTE:
        asked, capacity = requests.get(name, 0), allocatable.get(name, 0)
        if asked > capacity:
            why = f"Node didn't have enough capacity: {name}, requested: {asked}, capacity: {capacity}"
            return Rejection(INFEASIBLE, why)
    for name in reversed(_COMPUTE):
        asked, used, capacity = requests.get(name, 0), used_by_others.get(name, 0), allocatable.get(name, 0)
        if asked > capacity - used:
            return Rejection(DEFERRED, shortage(name, asked, used, capacity))
    return None


def is_pending(pod: Object) -> bool:
    """Whether its status says that a resize was refused."""
    return find_condition(pod, PENDING) is not None


def resized_status(pod: Object, resources: ContainerResources, refused: Rejection | None, now_s: float) -> Object:
    """The status of a pod that has these resources, and of a resize that was refused."""
    status = dict(pod.get("status") or {})
    if refused is None:
        status["conditions"] = [one for one in status.get("conditions") or [] if one["type"] != PENDING]
    else:
        status = with_condition(status, new_condition(PENDING, True, *refused, now_s) | {"lastProbeTime": None})
    for _, field in CONTAINER_LISTS:
        if status.get(field):
            status[field] = [_with_resources(one, resources.get(one["name"])) for one in status[field]]
    if resources.get(""):
        status |= {"resources": resources[""], "allocatedResources": resources[""].get("requests") or {}}
    return status


def _with_resources(state: Object, resources: Object | None) -> Object:
    if not resources:
        return state
    named = {key: resources[key] for key in ("requests", "limits") if resources.get(key)}
    return {**state, "resources": named, "allocatedResources": resources.get("requests") or {}}
