"""The tables of everything that is neither pod nor workload."""

from datetime import datetime
from typing import Any

from berth_cluster.apimachinery.meta import Object
from berth_cluster.serving.tables import humanize
from berth_cluster.serving.tables.columns import AGE, NAME, Column, at, number, selector_at, shown, text

_ROLE_PREFIX = "node-role.kubernetes.io/"
_OLD_ROLE = "kubernetes.io/role"
_MAX_ENDPOINTS = 3


def node_columns() -> list[Column]:
    """Nodes."""
    return [
        NAME,
        shown("Status", "The status of the node", _node_status),
        shown("Roles", "The roles of the node", _node_roles),
        AGE,
        text("Version", "status.nodeInfo.kubeletVersion"),
        shown("Internal-IP", "status.addresses", lambda node: _address(node, "InternalIP"), priority=1),
        shown("External-IP", "status.addresses", lambda node: _address(node, "ExternalIP"), priority=1),
        text("OS-Image", "status.nodeInfo.osImage", humanize.UNKNOWN, priority=1),
        text("Kernel-Version", "status.nodeInfo.kernelVersion", humanize.UNKNOWN, priority=1),
        text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", humanize.UNKNOWN, priority=1),
    ]


def _node_status(node: Object) -> str:
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = next((one for one in conditions if one.get("type") == "Ready"), None)
    words = [("Ready" if ready.get("status") == "True" else "NotReady") if ready else "Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles |= {labels[_OLD_ROLE]} if labels.get(_OLD_ROLE) else set()
    return ",".join(sorted(role for role in roles if role)) or humanize.NONE


def _address(node: Object, kind: str) -> str:
    for address in (node.get("status") or {}).get("addresses") or []:
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return humanize.NONE


def namespace_columns() -> list[Column]:
    """Namespaces."""
    return [NAME, shown("Status", "The status of the namespace", _phase), AGE]


def event_columns() -> list[Column]:
    """Events."""
    return [
        Column("Last Seen", _last_seen, doc="lastTimestamp"),
        text("Type", "type"),
        text("Reason", "reason"),
        shown("Object", "involvedObject", _event_object),
        text("Subobject", "involvedObject.fieldPath", priority=1),
        shown("Source", "source", _event_source, priority=1),
        shown("Message", "message", lambda event: str(event.get("message") or event.get("note") or "").strip()),
        Column("First Seen", _first_seen, priority=1, doc="firstTimestamp"),
        shown("Count", "count", _event_count, priority=1),
        NAME._replace(priority=1),
    ]


def _last_seen(event: Object, now: datetime) -> str:
    series = event.get("series") or {}
    moment = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    return humanize.age(moment or event.get("eventTime") or event["metadata"].get("creationTimestamp"), now)


def _first_seen(event: Object, now: datetime) -> str:
    moment = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp")
    return humanize.age(moment or event.get("eventTime") or event["metadata"].get("creationTimestamp"), now)


def _event_object(event: Object) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_source(event: Object) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(part for part in (component, host) if part)


def _event_count(event: Object) -> int:
    series = event.get("series") or {}
    return int(series.get("count") or event.get("count") or event.get("deprecatedCount") or 1)


def service_columns() -> list[Column]:
    """Services."""
    return [
        NAME,
        text("Type", "spec.type"),
        text("Cluster-IP", "spec.clusterIP", humanize.NONE),
        shown("External-IP", "spec.externalIPs", _external_ip),
        shown("Port(s)", "spec.ports", _service_ports),
        AGE,
        selector_at("spec.selector", is_map=True),
    ]


def _external_ip(service: Object) -> str:
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("externalIPs"):
        return ",".join(spec["externalIPs"])
    return "<pending>" if spec.get("type") == "LoadBalancer" else humanize.NONE


def _service_ports(service: Object) -> str:
    shown_ports = []
    for port in (service.get("spec") or {}).get("ports") or []:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown_ports.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(shown_ports) or humanize.NONE


def config_map_columns() -> list[Column]:
    """ConfigMaps."""
    return [NAME, shown("Data", "data", _data_count), AGE]


def secret_columns() -> list[Column]:
    """Secrets."""
    return [NAME, text("Type", "type"), shown("Data", "data", _data_count), AGE]


def _data_count(obj: Object) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def endpoints_columns() -> list[Column]:
    """Endpoints."""
    return [NAME, shown("Endpoints", "subsets", _endpoints), AGE]


def _endpoints(obj: Object) -> str:
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in obj.get("subsets") or []
        for port in subset.get("ports") or [{}]
        for address in subset.get("addresses") or []
    ]
    if not found:
        return humanize.NONE
    more = f" + {len(found) - _MAX_ENDPOINTS} more..." if len(found) > _MAX_ENDPOINTS else ""
    return ",".join(found[:_MAX_ENDPOINTS]) + more


def claim_columns() -> list[Column]:
    """PersistentVolumeClaims."""
    return [
        NAME,
        shown("Status", "status.phase", lambda obj: "Terminating" if _is_going(obj) else _phase(obj)),
        text("Volume", "spec.volumeName"),
        text("Capacity", "status.capacity.storage"),
        shown(
            "Access Modes",
            "status.accessModes",
            lambda obj: humanize.access_modes((obj.get("status") or {}).get("accessModes")),
        ),
        text("StorageClass", "spec.storageClassName")._replace(doc="StorageClass of the pvc"),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>")._replace(
            doc="VolumeAttributesClass of the pvc"
        ),
        AGE,
        text("VolumeMode", "spec.volumeMode", "<unset>", priority=1),
    ]


def volume_columns() -> list[Column]:
    """PersistentVolumes."""
    return [
        NAME,
        text("Capacity", "spec.capacity.storage"),
        shown(
            "Access Modes",
            "spec.accessModes",
            lambda obj: humanize.access_modes((obj.get("spec") or {}).get("accessModes")),
        ),
        text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        shown("Status", "status.phase", lambda obj: "Terminating" if _is_going(obj) else _phase(obj)),
        shown("Claim", "spec.claimRef", _claim),
        text("StorageClass", "spec.storageClassName")._replace(doc="StorageClass of the pv"),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>")._replace(
            doc="VolumeAttributesClass of the pv"
        ),
        text("Reason", "status.reason"),
        AGE,
        text("VolumeMode", "spec.volumeMode", "<unset>", priority=1),
    ]


def _is_going(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def _phase(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase", ""))


def _claim(obj: Object) -> str:
    claim = (obj.get("spec") or {}).get("claimRef") or {}
    return f"{claim.get('namespace', '')}/{claim['name']}" if claim.get("name") else ""


def storage_class_columns() -> list[Column]:
    """StorageClasses; the default one says so beside its name."""
    return [
        NAME._replace(cell=_storage_class_name),
        text("Provisioner", "provisioner"),
        text("ReclaimPolicy", "reclaimPolicy", "Delete"),
        text("VolumeBindingMode", "volumeBindingMode", "Immediate"),
        shown("AllowVolumeExpansion", "allowVolumeExpansion", lambda obj: bool(obj.get("allowVolumeExpansion"))),
        AGE,
    ]


def _storage_class_name(obj: Object, _now: datetime) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{obj['metadata']['name']} (default)" if is_default else str(obj["metadata"]["name"])


def disruption_budget_columns() -> list[Column]:
    """PodDisruptionBudgets."""
    return [
        NAME,
        shown(
            "Min Available",
            "The minimum number of pods that must be available.",
            lambda obj: _bound(obj, "minAvailable"),
        ),
        shown(
            "Max Unavailable",
            "The maximum number of pods that may be unavailable.",
            lambda obj: _bound(obj, "maxUnavailable"),
        ),
        number("Allowed Disruptions", "status.disruptionsAllowed")._replace(
            doc="Calculated number of pods that may be disrupted at this time."
        ),
        AGE,
    ]


def _bound(obj: Object, field: str) -> str:
    value: Any = (obj.get("spec") or {}).get(field)
    return "N/A" if value is None else str(value)


def priority_class_columns() -> list[Column]:
    """PriorityClasses."""
    return [
        NAME,
        number("Value", "value"),
        shown("Global-Default", "globalDefault", lambda obj: bool(obj.get("globalDefault")), "boolean"),
        AGE,
        text("PreemptionPolicy", "preemptionPolicy"),
    ]


def lease_columns() -> list[Column]:
    """Leases."""
    return [NAME, text("Holder", "spec.holderIdentity"), AGE]


def csi_node_columns() -> list[Column]:
    """CSINodes."""
    doc = "Drivers indicates the number of CSI drivers registered on the node"
    return [NAME, shown("Drivers", doc, lambda obj: len((obj.get("spec") or {}).get("drivers") or []), "integer"), AGE]


def volume_attachment_columns() -> list[Column]:
    """VolumeAttachments."""
    return [
        NAME,
        text("Attacher", "spec.attacher")._replace(format="name"),
        text("PV", "spec.source.persistentVolumeName"),
        text("Node", "spec.nodeName"),
        shown("Attached", "status.attached", lambda obj: bool((obj.get("status") or {}).get("attached")), "boolean"),
        AGE,
    ]


def resource_claim_columns() -> list[Column]:
    """ResourceClaims."""
    doc = "A summary of the current state (allocated, pending, reserved, etc.)."
    return [NAME, shown("State", doc, _claim_state), AGE]


def _claim_state(obj: Object) -> str:
    status = obj.get("status") or {}
    states = ["deleted"] if _is_going(obj) else []
    if status.get("allocation") is None:
        states.append("pending")
    else:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    return ",".join(states)


def resource_slice_columns() -> list[Column]:
    """ResourceSlices."""
    return [
        NAME,
        text("Node", "spec.nodeName"),
        text("Driver", "spec.driver"),
        text("Pool", "spec.pool.name"),
        AGE,
    ]


def quota_columns() -> list[Column]:
    """ResourceQuotas: what is used of what may be, requests and limits apart."""
    return [
        NAME,
        shown("Request", _REQUEST_DOC, lambda obj: _used(obj, of_limits=False)),
        shown("Limit", _LIMIT_DOC, lambda obj: _used(obj, of_limits=True)),
        AGE,
    ]


_REQUEST_DOC = "Request represents a minimum amount of cpu/memory that a container may consume."
_LIMIT_DOC = (
    "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."
)


def _used(quota: Object, *, of_limits: bool) -> str:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    names = [name for name in sorted(hard) if name.startswith("limits") is of_limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def endpoint_slice_columns() -> list[Column]:
    """EndpointSlices."""
    return [
        NAME,
        text("AddressType", "addressType"),
        shown("Ports", "ports", lambda obj: _some([one.get("port", "*") for one in obj.get("ports") or []], "<unset>")),
        shown("Endpoints", "endpoints", lambda obj: _some(_addresses(obj), "<unset>")),
        AGE,
    ]


def _addresses(obj: Object) -> list[str]:
    return [address for endpoint in obj.get("endpoints") or [] for address in endpoint.get("addresses") or []]


def _some(found: list[Any], none: str) -> str:
    """The first few, and how many more there are."""
    more = f" + {len(found) - _MAX_ENDPOINTS} more..." if len(found) > _MAX_ENDPOINTS else ""
    return ",".join(map(str, found[:_MAX_ENDPOINTS])) + more if found else none


def csi_driver_columns() -> list[Column]:
    """CSIDrivers."""
    return [
        NAME,
        Column("AttachRequired", at("spec.attachRequired", True), "boolean", doc="spec.attachRequired"),
        Column("PodInfoOnMount", at("spec.podInfoOnMount", False), "boolean", doc="spec.podInfoOnMount"),
        Column("StorageCapacity", at("spec.storageCapacity", False), "boolean", doc="spec.storageCapacity"),
        shown("TokenRequests", "spec.tokenRequests", _token_audiences),
        Column("RequiresRepublish", at("spec.requiresRepublish", False), "boolean", doc="spec.requiresRepublish"),
        shown("Modes", "spec.volumeLifecycleModes", _lifecycle_modes),
        AGE,
    ]


def _token_audiences(driver: Object) -> str:
    requests = (driver.get("spec") or {}).get("tokenRequests") or []
    return ",".join(str(one.get("audience", "")) for one in requests) or "<unset>"


def _lifecycle_modes(driver: Object) -> str:
    return ",".join((driver.get("spec") or {}).get("volumeLifecycleModes") or []) or humanize.NONE


def role_binding_columns() -> list[Column]:
    """RoleBindings."""
    return _binding_columns("roleBinding", "RoleRef can reference a Role in the current namespace or a ClusterRole in")


def cluster_role_binding_columns() -> list[Column]:
    """ClusterRoleBindings."""
    return _binding_columns("clusterRoleBinding", "RoleRef can only reference a ClusterRole in")


def _binding_columns(what: str, doc: str) -> list[Column]:
    doc += " the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error."
    kinds = (("Users", "User"), ("Groups", "Group"), ("ServiceAccounts", "ServiceAccount"))
    subjects = [
        shown(name, f"{name} in the {what}", lambda obj, kind=kind: _subjects(obj, kind), priority=1)  # type: ignore[misc]
        for name, kind in kinds
    ]
    return [NAME, shown("Role", doc, _role), AGE, *subjects]


def _role(binding: Object) -> str:
    role = binding.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def _subjects(binding: Object, kind: str) -> str:
    found = [one for one in binding.get("subjects") or [] if one.get("kind") == kind]
    prefix = kind == "ServiceAccount"
    return ", ".join(f"{one.get('namespace')}/{one['name']}" if prefix else str(one["name"]) for one in found)
