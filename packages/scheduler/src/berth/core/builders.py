"""Fluent builders for pods and nodes, and functions that make the objects around them.

State only what matters to the test:

    pod = make_pod("web-1").request(cpu="100m").label("app", "web").build()
    node = make_node("n1").capacity(cpu="4", memory="8Gi").label("zone", "a").taint("gpu", "yes").build()

A builder collects the object's JSON (`document`), so `build()` gives exactly what an answer of the API server would be
decoded to; `info()` gives a pod as plugins see it. Builders are mutable; `copy()` makes an independent one.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

from berth.api.codec import decode
from berth.api.node import Namespace, Node, ReplicaSet, ReplicationController, Service, StatefulSet
from berth.api.pod import Pod
from berth.api.scheduling import PodGroup
from berth.state.pod_info import PodInfo

Json = dict[str, Any]


class ObjectBuilder:
    """What pods and nodes have in common: metadata, spec and status."""

    def __init__(self, kind: str, name: str, namespace: str = "") -> None:
        uid = f"{namespace}/{name}" if namespace else name
        meta: Json = {"name": name, "uid": uid}
        if namespace:
            meta["namespace"] = namespace
        self.document: Json = {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": {}, "status": {}}

    @property
    def metadata(self) -> Json:
        """The metadata under construction."""
        return cast("Json", self.document["metadata"])

    @property
    def spec(self) -> Json:
        """The spec under construction, for fields that have no method here."""
        return cast("Json", self.document["spec"])

    @property
    def status(self) -> Json:
        """The status under construction."""
        return cast("Json", self.document["status"])

    def copy(self) -> Self:
        """Return an independent copy of the builder."""
        return copy.deepcopy(self)

    def uid(self, uid: str) -> Self:
        """Set metadata.uid, which is otherwise derived from namespace and name."""
        self.metadata["uid"] = uid
        return self

    def label(self, key: str, value: str) -> Self:
        """Add a label."""
        return self.labels({key: value})

    def labels(self, labels: Mapping[str, str]) -> Self:
        """Add labels."""
        self.metadata.setdefault("labels", {}).update(labels)
        return self

    def annotation(self, key: str, value: str) -> Self:
        """Add an annotation."""
        self.metadata.setdefault("annotations", {})[key] = value
        return self

    def created(self, timestamp: str) -> Self:
        """Set metadata.creationTimestamp (RFC 3339)."""
        self.metadata["creationTimestamp"] = timestamp
        return self

    def terminating(self, timestamp: str = "2030-01-01T00:00:00Z") -> Self:
        """Set metadata.deletionTimestamp."""
        self.metadata["deletionTimestamp"] = timestamp
        return self

    def owned_by(self, kind: str, name: str, *, api_version: str = "apps/v1", uid: str = "") -> Self:
        """Add a controlling owner."""
        owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid or f"{kind}/{name}"}
        self.metadata.setdefault("ownerReferences", []).append({**owner, "controller": True})
        return self

    def set_spec(self, **fields: Any) -> Self:
        """Set fields of spec by their names in JSON."""
        self.spec.update(fields)
        return self

    def set_status(self, **fields: Any) -> Self:
        """Set fields of status by their names in JSON."""
        self.status.update(fields)
        return self


class PodBuilder(ObjectBuilder):
    """Builds a pod; see `make_pod`."""

    def build(self) -> Pod:
        """Return the pod as the API structs have it."""
        return cast("Pod", decode("Pod", copy.deepcopy(self.document)))

    def info(self) -> PodInfo:
        """Return the pod as plugins see it."""
        return PodInfo.of(self.build())

    def request(self, amounts: Mapping[str, str] | None = None, **more: str) -> Self:
        """Add a container with these requests; names that are not Python identifiers go into the mapping."""
        return self.container(requests={**(amounts or {}), **more})

    def container(
        self,
        image: str = "",
        *,
        requests: Mapping[str, str] | None = None,
        limits: Mapping[str, str] | None = None,
        ports: Sequence[Json] = (),
    ) -> Self:
        """Add a regular container."""
        return self._container("containers", image, requests, limits, ports)

    def init_container(
        self,
        image: str = "",
        *,
        requests: Mapping[str, str] | None = None,
        sidecar: bool = False,
        ports: Sequence[Json] = (),
    ) -> Self:
        """Add an init container, or a sidecar."""
        self._container("initContainers", image, requests, None, ports)
        if sidecar:
            self.spec["initContainers"][-1]["restartPolicy"] = "Always"
        return self

    def host_port(self, port: int, protocol: str = "TCP", host_ip: str = "") -> Self:
        """Add a container that uses a port of the node."""
        wanted = {"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": host_ip}
        return self.container(ports=[wanted])

    def overhead(self, amounts: Mapping[str, str] | None = None, **more: str) -> Self:
        """Set spec.overhead."""
        return self.set_spec(overhead={**(amounts or {}), **more})

    def pod_level(self, amounts: Mapping[str, str] | None = None, **more: str) -> Self:
        """Set spec.resources.requests."""
        return self.set_spec(resources={"requests": {**(amounts or {}), **more}})

    def node(self, name: str) -> Self:
        """Set spec.nodeName: the pod is bound."""
        return self.set_spec(nodeName=name)

    def nominated(self, node_name: str) -> Self:
        """Set status.nominatedNodeName."""
        return self.set_status(nominatedNodeName=node_name)

    def phase(self, phase: str) -> Self:
        """Set status.phase."""
        return self.set_status(phase=phase)

    def scheduler(self, name: str) -> Self:
        """Set spec.schedulerName."""
        return self.set_spec(schedulerName=name)

    def priority(self, priority: int, preemption_policy: str | None = None) -> Self:
        """Set the resolved priority, and whether the pod may preempt."""
        return self.set_spec(priority=priority, preemptionPolicy=preemption_policy)

    def gate(self, *names: str) -> Self:
        """Add scheduling gates."""
        self.spec.setdefault("schedulingGates", []).extend({"name": name} for name in names)
        return self

    def group(self, name: str) -> Self:
        """Set the pod group that the pod is scheduled with."""
        return self.set_spec(schedulingGroup={"podGroupName": name})

    def tolerate(self, key: str = "", value: str = "", *, operator: str = "", effect: str = "") -> Self:
        """Add a toleration; without an operator a value means Equal and no value Exists."""
        operator = operator or ("Equal" if value else "Exists")
        toleration = {"key": key, "operator": operator, "value": value, "effect": effect}
        self.spec.setdefault("tolerations", []).append(toleration)
        return self

    def node_selector(self, labels: Mapping[str, str]) -> Self:
        """Set spec.nodeSelector."""
        return self.set_spec(nodeSelector=dict(labels))

    def require_node(self, *expressions: Json, fields: Sequence[Json] = ()) -> Self:
        """Add a term (an alternative) of required node affinity; see `expression`."""
        required = self._affinity("nodeAffinity").setdefault(_REQUIRED, {"nodeSelectorTerms": []})
        required["nodeSelectorTerms"].append(_node_term(expressions, fields))
        return self

    def prefer_node(self, weight: int, *expressions: Json, fields: Sequence[Json] = ()) -> Self:
        """Add a preferred node affinity term."""
        preferred = {"weight": weight, "preference": _node_term(expressions, fields)}
        self._affinity("nodeAffinity").setdefault(_PREFERRED, []).append(preferred)
        return self

    def pod_affinity(self, topology_key: str, labels: Mapping[str, str] | Json | None = None, **more: Any) -> Self:
        """Add a required pod affinity term: labels to match, or a whole labelSelector; more fields by JSON name."""
        self._affinity("podAffinity").setdefault(_REQUIRED, []).append(_pod_term(topology_key, labels, more))
        return self

    def pod_anti_affinity(self, topology_key: str, labels: Mapping[str, str] | Json | None = None, **more: Any) -> Self:
        """Add a required pod anti-affinity term."""
        self._affinity("podAntiAffinity").setdefault(_REQUIRED, []).append(_pod_term(topology_key, labels, more))
        return self

    def prefer_pod_affinity(
        self, weight: int, topology_key: str, labels: Mapping[str, str] | Json | None = None, **more: Any
    ) -> Self:
        """Add a preferred pod affinity term."""
        return self._prefer_pods("podAffinity", weight, _pod_term(topology_key, labels, more))

    def prefer_pod_anti_affinity(
        self, weight: int, topology_key: str, labels: Mapping[str, str] | Json | None = None, **more: Any
    ) -> Self:
        """Add a preferred pod anti-affinity term."""
        return self._prefer_pods("podAntiAffinity", weight, _pod_term(topology_key, labels, more))

    def spread(
        self,
        topology_key: str,
        labels: Mapping[str, str] | Json | None = None,
        *,
        max_skew: int = 1,
        when: str = "DoNotSchedule",
        **more: Any,
    ) -> Self:
        """Add a topology spread constraint; more fields by JSON name (minDomains, nodeTaintsPolicy, …)."""
        constraint = {"topologyKey": topology_key, "maxSkew": max_skew, "whenUnsatisfiable": when}
        constraint |= {"labelSelector": _label_selector(labels), **more}
        self.spec.setdefault("topologySpreadConstraints", []).append(constraint)
        return self

    def volume(self, name: str, **source: Any) -> Self:
        """Add a volume: `volume("data", persistentVolumeClaim={"claimName": "c"})`."""
        self.spec.setdefault("volumes", []).append({"name": name, **source})
        return self

    def claim(self, claim_name: str) -> Self:
        """Add a volume from a PersistentVolumeClaim."""
        return self.volume(claim_name, persistentVolumeClaim={"claimName": claim_name})

    def resource_claim(self, name: str, claim_name: str = "") -> Self:
        """Add a resource claim (of devices)."""
        entry = {"name": name, "resourceClaimName": claim_name or name}
        self.spec.setdefault("resourceClaims", []).append(entry)
        return self

    def _prefer_pods(self, kind: str, weight: int, term: Json) -> Self:
        preferred = {"weight": weight, "podAffinityTerm": term}
        self._affinity(kind).setdefault(_PREFERRED, []).append(preferred)
        return self

    def _affinity(self, kind: str) -> Json:
        return cast("Json", self.spec.setdefault("affinity", {}).setdefault(kind, {}))

    def _container(
        self,
        where: str,
        image: str,
        requests: Mapping[str, str] | None,
        limits: Mapping[str, str] | None,
        ports: Sequence[Json],
    ) -> Self:
        containers = self.spec.setdefault(where, [])
        resources = {name: dict(amounts) for name, amounts in (("requests", requests), ("limits", limits)) if amounts}
        prefix = "c" if where == "containers" else "init"
        container = {"name": f"{prefix}{len(containers)}", "image": image, "resources": resources, "ports": list(ports)}
        containers.append(container)
        return self


class NodeBuilder(ObjectBuilder):
    """Builds a node; see `make_node`."""

    def build(self) -> Node:
        """Return the node as the API structs have it."""
        return cast("Node", decode("Node", copy.deepcopy(self.document)))

    def capacity(self, amounts: Mapping[str, str | int] | None = None, **more: str | int) -> Self:
        """Set capacity and allocatable, with room for 110 pods unless given."""
        amounts = {"pods": "110", **(amounts or {}), **more}
        as_text = {name: str(amount) for name, amount in amounts.items()}
        return self.set_status(capacity=as_text, allocatable=dict(as_text))

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        """Add a taint."""
        self.spec.setdefault("taints", []).append({"key": key, "value": value, "effect": effect})
        return self

    def unschedulable(self) -> Self:
        """Set spec.unschedulable: the node is cordoned."""
        return self.set_spec(unschedulable=True)

    def image(self, *names: str, size_bytes: int) -> Self:
        """Add an image that is present on the node, under all its names."""
        self.status.setdefault("images", []).append({"names": list(names), "sizeBytes": size_bytes})
        return self

    def zone(self, zone: str, region: str = "") -> Self:
        """Set the zone label, and the region label if given."""
        if region:
            self.label("topology.kubernetes.io/region", region)
        return self.label("topology.kubernetes.io/zone", zone)


def make_pod(name: str = "pod", namespace: str = "default") -> PodBuilder:
    """Start a pod."""
    return PodBuilder("Pod", name, namespace)


def make_node(name: str = "node") -> NodeBuilder:
    """Start a node; without `capacity` nothing is allocatable on it."""
    return NodeBuilder("Node", name).label("kubernetes.io/hostname", name)


def expression(key: str, operator: str, *values: str) -> Json:
    """Return a requirement as in matchExpressions and matchFields."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def make_object(manifest: Mapping[str, Any]) -> Any:
    """Make an object of a kind that the scheduler reads and that has no function here. Raises `ObjectError`."""
    return decode(str(manifest.get("kind", "")), manifest)


def make_namespace(name: str, labels: Mapping[str, str] | None = None) -> Namespace:
    """Make a namespace with labels."""
    return cast(
        "Namespace", decode("Namespace", {"metadata": {"name": name, "uid": name, "labels": dict(labels or {})}})
    )


def make_service(name: str, selector: Mapping[str, str], namespace: str = "default") -> Service:
    """Make a service."""
    return cast(
        "Service", decode("Service", {"metadata": _meta(name, namespace), "spec": {"selector": dict(selector)}})
    )


def make_replication_controller(
    name: str, selector: Mapping[str, str], namespace: str = "default"
) -> ReplicationController:
    """Make a replication controller."""
    document = {"metadata": _meta(name, namespace), "spec": {"selector": dict(selector)}}
    return cast("ReplicationController", decode("ReplicationController", document))


def make_replica_set(name: str, labels: Mapping[str, str] | Json, namespace: str = "default") -> ReplicaSet:
    """Make a replica set from labels to match, or from a whole labelSelector."""
    document = {"metadata": _meta(name, namespace), "spec": {"selector": _label_selector(labels)}}
    return cast("ReplicaSet", decode("ReplicaSet", document))


def make_stateful_set(name: str, labels: Mapping[str, str] | Json, namespace: str = "default") -> StatefulSet:
    """Make a stateful set from labels to match, or from a whole labelSelector."""
    document = {"metadata": _meta(name, namespace), "spec": {"selector": _label_selector(labels)}}
    return cast("StatefulSet", decode("StatefulSet", document))


def make_pod_group(
    name: str, min_count: int | None = None, *, namespace: str = "default", topology: str = "", **spec: Any
) -> PodGroup:
    """Make a pod group: with the gang policy if there is a `min_count`, otherwise basic; `topology` is the label to
    share.
    """
    policy: Json = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    document = {"metadata": _meta(name, namespace), "spec": {"schedulingPolicy": policy, **spec}}
    return cast("PodGroup", decode("PodGroup", document))


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _meta(name: str, namespace: str) -> Json:
    return {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}


def _node_term(expressions: Sequence[Json], fields: Sequence[Json]) -> Json:
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def _pod_term(topology_key: str, labels: Mapping[str, str] | Json | None, more: Mapping[str, Any]) -> Json:
    return {"topologyKey": topology_key, "labelSelector": _label_selector(labels), **more}


def _label_selector(labels: Mapping[str, Any] | None) -> Json | None:
    """Turn labels to match into a labelSelector; a labelSelector is passed through, and None stays None."""
    if labels is None or labels.keys() & {"matchLabels", "matchExpressions"}:
        return None if labels is None else dict(labels)
    return {"matchLabels": dict(labels)}
