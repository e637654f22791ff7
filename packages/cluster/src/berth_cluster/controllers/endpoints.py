"""The endpoints controller: which pods stand behind a Service, as EndpointSlices, and as Endpoints for older readers.

Driven by changes of Services and pods. Services without a selector are left to whoever made them. Upstream:
pkg/controller/endpointslice and pkg/controller/endpoint.
"""

from collections.abc import Iterable, Iterator, Mapping

from berth.api.selectors import NOTHING
from berth_cluster.apimachinery.meta import (
    Object,
    is_being_deleted,
    key_of,
    labels_of,
    new_controller_reference,
    uid_of,
)
from berth_cluster.apimachinery.resource_types import PODS
from berth_cluster.apimachinery.selection import selector_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import is_terminal, node_of, ready_since
from berth_cluster.controllers.selecting import SelectorBook
from berth_workloads.pods import containers_of, objects_in

KIND, SLICE = "Service", "EndpointSlice"
MANAGED_BY = {SLICE: "endpointslice.kubernetes.io/managed-by", "Endpoints": "endpoints.kubernetes.io/managed-by"}
MANAGER = {SLICE: "endpointslice-controller.k8s.io", "Endpoints": "endpoint-controller"}
SERVICE_NAME = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"
ZONE = "topology.kubernetes.io/zone"
MOST_IN_SLICE = 100

Ports = tuple[tuple[str, str, int], ...]  # (name, protocol, port)


class EndpointsController(KeyedController):
    """EndpointSlices and Endpoints for Services."""

    __slots__ = ("_selectors",)

    name = "endpoints-controller"
    kinds = frozenset({KIND, "Pod"})

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._selectors = SelectorBook()

    def handle(self, change: ObjectChange) -> None:
        """Look at changed Services, and at those that select a changed pod."""
        if change.kind == KIND:
            if change.type == "DELETED":
                self._selectors.drop(change.obj)
            else:
                self._selectors.put(change.obj, selector_of(change.obj))
            self.look_at(change.obj)
        elif keys := self._selectors.concerned(change):
            for key in keys if change.type == "DELETED" or _shown(change.old) != _shown(change.obj) else ():
                self.look_up(KIND, key)

    def sync_gone(self, kind: str, key: str, now_s: float) -> None:
        """Delete the Endpoints of a Service that is gone; the slices go with it."""
        endpoints = self.index.get("Endpoints", key)
        if endpoints is not None and MANAGED_BY["Endpoints"] in labels_of(endpoints):
            self.client.delete("Endpoints", endpoints)

    def sync(self, obj: Object, now_s: float) -> None:
        """Bring the slices and the Endpoints of one Service up to date."""
        service, selector = obj, selector_of(obj)
        if is_being_deleted(service):
            self.sync_gone(KIND, key_of(service), now_s)
            return
        if selector is NOTHING or service["spec"].get("type") == "ExternalName":
            return
        by_ports: dict[Ports, list[Object]] = {}
        for pod in self.client.store.objects(PODS, service["metadata"]["namespace"]):
            has_address = (pod.get("status") or {}).get("podIP") and not is_terminal(pod)
            if has_address and selector.matches(labels_of(pod)):
                by_ports.setdefault(tuple(_ports(service, pod)), []).append(self._endpoint(service, pod))
        self._write_slices(service, list(_slices(by_ports)))
        subsets = [one for ports, found in by_ports.items() if (one := _subset(ports, found))]
        wanted: Object = {"metadata": _meta(service, "Endpoints"), "subsets": subsets}
        endpoints = self.index.get("Endpoints", key_of(service))
        if endpoints is None:
            self.client.create("Endpoints", wanted)
        elif endpoints.get("subsets", []) != subsets or labels_of(endpoints) != wanted["metadata"]["labels"]:
            self.client.update("Endpoints", {**endpoints, **wanted})

    def _endpoint(self, service: Object, pod: Object) -> Object:
        spec, meta, going = pod["spec"], pod["metadata"], is_being_deleted(pod)
        serving = ready_since(pod) is not None
        ready = bool(service["spec"].get("publishNotReadyAddresses")) or (serving and not going)
        node = self.index.get("Node", node_of(pod))
        made = {
            "addresses": [pod["status"]["podIP"]],
            "conditions": {"ready": ready, "serving": serving, "terminating": going},
            "targetRef": {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": uid_of(pod)},
            "nodeName": node_of(pod),
        }
        if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
            made["hostname"] = spec["hostname"]
        if node is not None and ZONE in labels_of(node):
            made["zone"] = labels_of(node)[ZONE]
        return made

    def _write_slices(self, service: Object, wanted: list[Object]) -> None:
        known = [one for one in self.index.controlled(uid_of(service), SLICE) if MANAGED_BY[SLICE] in labels_of(one)]
        meta = _meta(service, SLICE)
        for made, found in zip(wanted, known, strict=False):
            if {**found, **made} != found or labels_of(found) != meta["labels"]:
                self.client.update(
                    SLICE, {**found, **made, "metadata": {**found["metadata"], "labels": meta["labels"]}}
                )
        for made in wanted[len(known) :]:
            self.client.create(SLICE, {"metadata": meta, "addressType": "IPv4", **made})
        for surplus in known[len(wanted) :]:
            self.client.delete(SLICE, surplus)


def _shown(pod: Object | None) -> object:
    """What a Service's endpoints tell of a pod."""
    if pod is None:
        return None
    address = (pod.get("status") or {}).get("podIP")
    return labels_of(pod), address, ready_since(pod) is not None, is_being_deleted(pod), is_terminal(pod)


def _meta(service: Object, kind: str) -> Object:
    meta = service["metadata"]
    labels = {**labels_of(service), MANAGED_BY[kind]: MANAGER[kind]}
    if service["spec"].get("clusterIP") == "None":
        labels[HEADLESS] = ""
    if kind == "Endpoints":
        return {"name": meta["name"], "namespace": meta["namespace"], "labels": labels}
    owners = [new_controller_reference(service)]
    labels[SERVICE_NAME] = meta["name"]
    return {
        "generateName": f"{meta['name']}-", "namespace": meta["namespace"], "labels": labels, "ownerReferences": owners
    }  # fmt: skip


def _ports(service: Object, pod: Object) -> Iterator[tuple[str, str, int]]:
    """The Service's ports as this pod has them; a name that none of its containers has is left out."""
    for port in objects_in(service["spec"], "ports"):
        protocol, target = port.get("protocol", "TCP"), port.get("targetPort") or port.get("port")
        if isinstance(target, str):
            held = (each for container in containers_of(pod["spec"]) for each in objects_in(container, "ports"))
            same = (each for each in held if (each.get("name"), each.get("protocol", "TCP")) == (target, protocol))
            target = next((each["containerPort"] for each in same), None)
        if target:
            yield port.get("name", ""), protocol, target


def _slices(by_ports: Mapping[Ports, list[Object]]) -> Iterator[Object]:
    """What the slices hold: so many endpoints each, all of which have the same ports; an empty one for none at all."""
    for ports, found in by_ports.items():
        shown = [{"name": name, "protocol": protocol, "port": port} for name, protocol, port in ports]
        for start in range(0, len(found), MOST_IN_SLICE):
            yield {"endpoints": found[start : start + MOST_IN_SLICE], "ports": shown}
    if not by_ports:
        yield {"endpoints": [], "ports": []}


def _subset(ports: Ports, found: Iterable[Object]) -> Object:
    """One subset of the Endpoints; pods that are being deleted are left out."""
    subset: Object = {}
    for one in found:
        if one["conditions"]["terminating"] and not one["conditions"]["ready"]:
            continue
        field = "addresses" if one["conditions"]["ready"] else "notReadyAddresses"
        kept: Object = {name: one[name] for name in ("hostname", "nodeName", "targetRef") if name in one}
        subset.setdefault(field, []).append({"ip": one["addresses"][0], **kept})
    if subset and ports:
        shown: list[Object] = [{"name": name, "port": port, "protocol": protocol} for name, protocol, port in ports]
        subset["ports"] = [{key: value for key, value in one.items() if value} for one in shown]
    return subset
