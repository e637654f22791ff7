"""Extended resources backed by devices: requests like `example.com/gpu: 2` become a claim.

A pod and the device classes go in, a claim for one node comes out, with a note of which container gets which of its
requests. The claim exists only here until PreBind creates it. Called by the plugin. Source: the plugin's
extendeddynamicresources.go, v1.36.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

import msgspec

from berth.api.dra import DeviceClaim, DeviceClass, DeviceRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec
from berth.api.meta import ObjectMeta, OwnerReference
from berth.api.pod import Container
from berth.api.quantity import value
from berth.framework.readers import ObjectReader
from berth.plugins.dra.ledger import Ledger
from berth.plugins.resources.devices import KIND as DEVICE_CLASS
from berth.plugins.resources.devices import resources_of
from berth.plugins.resources.names import PLAIN_RESOURCES, may_be_devices
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo

IN_MEMORY = "<extended-resources>"
"""The name of a claim that the API server does not know yet; no claim there can have it."""

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"

STALE_CLAIM = "cannot schedule extended resource claim"
CANNOT_FIT = "cannot fit resource"

MAY_BE_DEVICES = "resources that may be devices"
"""The fragment of a pod with the names of those that it requests."""

NOTHING: Mapping[str, int] = MappingProxyType({})


class Mapped(NamedTuple):
    """Which request of the claim a container's resource comes from."""

    container: str
    resource: str
    request: str


class NodeClaim(NamedTuple):
    """The claim as it is for one node, and what the containers get of it."""

    claim: ResourceClaim
    mappings: tuple[Mapped, ...]


class ResourceClasses:
    """Which device class backs an extended resource, as of now."""

    __slots__ = ("_by_resource", "_enabled", "_objects", "_version")

    def __init__(self, objects: ObjectReader, enabled: bool) -> None:
        self._enabled = enabled
        self._objects = objects
        self._version = -1
        self._by_resource: dict[str, DeviceClass] = {}

    def get(self, resource: str) -> DeviceClass | None:
        """Return the class: of several that name one resource, the youngest, then the first by name."""
        if not self._enabled or resource in PLAIN_RESOURCES or not may_be_devices(resource):
            return None
        version = self._objects.version(DEVICE_CLASS)
        if version != self._version:
            self._version = version
            classes = sorted(self._objects.list(DEVICE_CLASS), key=lambda c: c.metadata.name, reverse=True)
            classes.sort(key=lambda c: c.metadata.creation_timestamp or "")
            self._by_resource = {name: found for found in classes for name in resources_of(found)}
        return self._by_resource.get(resource)

    def backed(self, pod: PodInfo) -> Mapping[str, int]:
        """Return what the pod requests of resources that may be devices; empty where no class backs any."""
        if not self._enabled:
            return NOTHING
        names = cast("tuple[str, ...] | None", pod.fragments.get(MAY_BE_DEVICES))
        if names is None:
            names = tuple(name for name, amount in pod.requests.items() if amount and may_be_devices(name))
            pod.fragments[MAY_BE_DEVICES] = names
        if not names or all(self.get(name) is None for name in names):
            return NOTHING
        return {name: pod.requests[name] for name in names}


def claim_for(pod: PodInfo, ledger: Ledger) -> ResourceClaim:
    """Return the claim that an earlier attempt has made for the pod, or a new one without requests."""
    for claim in ledger.claims():
        if claim.metadata.annotations.get(ANNOTATION) == "true" and _is_owner(pod, claim):
            return claim
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    meta = ObjectMeta(
        name=IN_MEMORY,
        namespace=pod.namespace,
        uid=f"{IN_MEMORY}/{pod.uid}",
        annotations={ANNOTATION: "true"},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=meta)


def _is_owner(pod: PodInfo, claim: ResourceClaim) -> bool:
    owners = claim.metadata.owner_references
    return any(owner.controller and (owner.name, owner.uid) == (pod.name, pod.uid) for owner in owners)


def is_in_memory(claim: ResourceClaim) -> bool:
    """Say whether the API server does not know a claim for extended resources yet."""
    return claim.metadata.name == IN_MEMORY


def unfit_reason(wanted: Mapping[str, int], classes: ResourceClasses, node: NodeView) -> str:
    """Return why a node cannot run the pod whatever devices it has, or the empty string."""
    for resource in wanted:
        by_devices = classes.get(resource) is not None and not node.allocatable.get(resource, 0)
        if not by_devices and resource not in node.allocatable:
            return CANNOT_FIT
    return ""


def from_devices(wanted: Mapping[str, int], classes: ResourceClasses, node: NodeView) -> dict[str, str]:
    """Return the resources that a node can only offer by devices, with the classes of these."""
    found: dict[str, str] = {}
    for resource in sorted(wanted):
        device_class = classes.get(resource)
        if device_class is not None and not node.allocatable.get(resource, 0):
            found[resource] = device_class.metadata.name
    return found


def node_claim(claim: ResourceClaim, pod: PodInfo, resources: Mapping[str, str]) -> NodeClaim:
    """Return the claim with requests for these resources (and classes)."""
    requests: list[DeviceRequest] = []
    mappings: list[Mapped] = []
    for resource in sorted(resources):
        asked, mapped = _requests(pod, resource, resources[resource])
        requests += asked
        mappings += mapped
    spec = ResourceClaimSpec(DeviceClaim(tuple(sorted(requests, key=lambda request: request.name))))
    return NodeClaim(msgspec.structs.replace(claim, spec=spec), tuple(mappings))


def _requests(pod: PodInfo, resource: str, class_name: str) -> tuple[list[DeviceRequest], list[Mapped]]:
    """Return one resource's requests: one for each container that lasts, and one that init containers share."""
    init, main = pod.spec.init_containers, pod.spec.containers
    containers = (*init, *main)
    passing = [index for index, container in enumerate(init) if container.restart_policy != "Always"]
    lasting: dict[int, DeviceRequest] = {}
    mappings: list[Mapped] = []
    for index in sorted(set(range(len(containers))) - set(passing)):
        request, mapped = _request(index, containers[index], resource, class_name, ())
        mappings += mapped
        if request is not None:
            lasting[index] = request
    largest: DeviceRequest | None = None
    shared: list[Mapped] = []
    own_names: set[str] = set()
    for index in passing:
        later = [request for at, request in lasting.items() if at >= index]
        request, mapped = _request(index, containers[index], resource, class_name, later)
        shared += mapped
        if request is not None:
            own_names.add(request.name)
            if largest is None or _count(largest) < _count(request):
                largest = request
    if largest is None:
        return list(lasting.values()), mappings + shared
    # Init containers run one after the other: the largest of their requests serves them all.
    name = largest.name
    renamed = [mapped._replace(request=name) if mapped.request in own_names else mapped for mapped in shared]
    return [largest, *lasting.values()], mappings + renamed


def _request(
    index: int, container: Container, resource: str, class_name: str, reusable: Sequence[DeviceRequest]
) -> tuple[DeviceRequest | None, list[Mapped]]:
    """Return what one container needs beyond the devices of others that it may use before them."""
    asked = container.resources.requests
    amount = value(asked[resource]) if resource in asked else 0
    if not amount:
        return None, []
    have, mappings = 0, []
    for other in reusable:
        have += _count(other)
        mappings.append(Mapped(container.name, resource, other.name))
        if have >= amount:
            return None, mappings
    name = f"container-{index}-request-{sorted(asked).index(resource)}"
    mappings.append(Mapped(container.name, resource, name))
    return DeviceRequest(name, ExactDeviceRequest(device_class_name=class_name, count=amount - have)), mappings


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0
