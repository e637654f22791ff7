"""What a kubelet does when the resources of a running pod change: grant them, defer them, or call them infeasible.

Pure functions over a pod as JSON and what its node has; called by `kubelet`. Reasons and messages are upstream's
(pkg/kubelet/allocation, v1.36). Nothing is restarted, whatever `resizePolicy` says, since nothing runs. A container's
status names its resources from the first resize on; before that, it has what its spec says.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from berth.api.pod_resources import Requests
from berth_cluster.apimachinery.meta import Object, format_time, set_condition

PENDING = "PodResizePending"
DEFERRED, INFEASIBLE = "Deferred", "Infeasible"
_COMPUTE = ("memory", "cpu")
_LISTS = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))

ContainerResources = Mapping[str, Any]
"""The `resources` of containers by name; the pod's own are under the empty name."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a resize is not carried out; a deferred one is tried again when room comes back."""

    reason: str
    message: str


def container_resources(spec: Object) -> ContainerResources:
    """The resources that a spec names."""
    found = {"": spec.get("resources") or {}}
    for section, _ in _LISTS:
        for container in spec.get(section) or []:
            found[container["name"]] = container.get("resources") or {}
    return found


def refusal(requests: Requests, allocatable: Mapping[str, int], used_by_others: Mapping[str, int]) -> Refusal | None:
    """Why the node cannot give the pod what it asks for now (in the scheduler's units); None if it can."""
    for name in _COMPUTE:
        asked, capacity = requests.get(name, 0), allocatable.get(name, 0)
        if asked > capacity:
            why = f"Node didn't have enough capacity: {name}, requested: {asked}, capacity: {capacity}"
            return Refusal(INFEASIBLE, why)
    for name in reversed(_COMPUTE):
        asked, used, capacity = requests.get(name, 0), used_by_others.get(name, 0), allocatable.get(name, 0)
        if asked > capacity - used:
            why = f"Node didn't have enough resource: {name}, requested: {asked}, used: {used}, capacity: {capacity}"
            return Refusal(DEFERRED, why)
    return None


def is_pending(pod: Object) -> bool:
    """Whether its status says that a resize was refused."""
    return any(one.get("type") == PENDING for one in _conditions(pod))


def resized_status(pod: Object, resources: ContainerResources, refused: Refusal | None, now_s: float) -> Object:
    """The status of a pod that has these resources, and of a resize that was refused."""
    conditions: Iterable[Object] = [one for one in _conditions(pod) if one.get("type") != PENDING]
    if refused is not None:
        new = {"type": PENDING, "status": "True", "reason": refused.reason, "message": refused.message}
        times = {"lastProbeTime": None, "lastTransitionTime": format_time(now_s)}
        conditions = set_condition(_conditions(pod), new | times)
    status = {**(pod.get("status") or {}), "conditions": list(conditions)}
    for _, field in _LISTS:
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


def _conditions(pod: Object) -> list[Object]:
    return (pod.get("status") or {}).get("conditions") or []
