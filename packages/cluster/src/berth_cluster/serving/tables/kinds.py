"""Which columns each kind's table has, as upstream prints them, and how their cells are computed."""

from datetime import datetime
from itertools import zip_longest
from types import MappingProxyType

from berth_cluster.apimachinery.meta import Object, controller_reference, find_condition, is_being_deleted, value_at
from berth_cluster.apimachinery.resource_types import ResourceKey
from berth_cluster.serving.tables import humanize, pods
from berth_cluster.serving.tables.columns import (
    AGE,
    NAME,
    Column,
    containers_of,
    counted,
    flag,
    joined,
    number,
    selector_at,
    shown,
    since,
    text,
    written,
)

_ROLE_PREFIX = "node-role.kubernetes.io/"
_OLD_ROLE = "kubernetes.io/role"
_TEMPLATE = "spec.template.spec"
_REFERENCE = ("kind", "name")
_READY_DOC = "Number of the pod with ready state"
_RESTARTS_DOC = (
    "The number of times the containers in this pod have been restarted and when the last container in this pod has "
    "restarted."
)
_LIMIT_DOC = (
    "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."
)
_GLOBAL = " the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error."


def _node_status(node: Object) -> str:
    ready = find_condition(node, "Ready")
    word = ("Ready" if ready.get("status") == "True" else "NotReady") if ready else "Unknown"
    return f"{word},SchedulingDisabled" if value_at(node, "spec.unschedulable") else word


def _node_roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted(role for role in roles | {labels.get(_OLD_ROLE)} if role)) or humanize.NONE


def _address(node: Object, kind: str) -> str:
    addresses = value_at(node, "status.addresses") or ()
    return next((str(one.get("address", "")) for one in addresses if one.get("type") == kind), humanize.NONE)


def _seen(event: Object, now: datetime, *paths: str) -> str:
    """The time since the first moment that an event knows, of those at the paths and those that all events have."""
    moments = (value_at(event, path) for path in (*paths, "eventTime", "metadata.creationTimestamp"))
    return humanize.age(next(filter(None, moments), None), now)


def _last_seen(event: Object, now: datetime) -> str:
    return _seen(event, now, "series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp")


def _first_seen(event: Object, now: datetime) -> str:
    return _seen(event, now, "firstTimestamp", "deprecatedFirstTimestamp")


def _event_object(event: Object) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_source(event: Object) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(part for part in (component, host) if part)


def _event_count(event: Object) -> int:
    return int(value_at(event, "series.count") or event.get("count") or event.get("deprecatedCount") or 1)


def _external_ip(service: Object) -> str:
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("externalIPs"):
        return ",".join(spec["externalIPs"])
    return "<pending>" if spec.get("type") == "LoadBalancer" else humanize.NONE


def _service_port(port: Object) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


def _data_count(obj: Object) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def _endpoints(obj: Object) -> str:
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in obj.get("subsets") or []
        for port in subset.get("ports") or [{}]
        for address in subset.get("addresses") or []
    ]
    return humanize.first_few(found, humanize.NONE)


def _slice_addresses(obj: Object) -> str:
    endpoints = obj.get("endpoints") or []
    found = [address for endpoint in endpoints for address in endpoint.get("addresses") or []]
    return humanize.first_few(found, "<unset>")


def _volume_phase(obj: Object) -> str:
    return "Terminating" if is_being_deleted(obj) else str(value_at(obj, "status.phase") or "")


def _claim(obj: Object) -> str:
    claim = value_at(obj, "spec.claimRef") or {}
    return f"{claim.get('namespace', '')}/{claim['name']}" if claim.get("name") else ""


def _class_columns(what: str) -> tuple[Column, Column]:
    return (
        text("StorageClass", "spec.storageClassName", doc=f"StorageClass of the {what}"),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>",
             doc=f"VolumeAttributesClass of the {what}"),
    )  # fmt: skip


def _storage_class_name(obj: Object, _now: datetime) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{obj['metadata']['name']} (default)" if is_default else str(obj["metadata"]["name"])


def _bound(name: str, path: str, doc: str) -> Column:
    return written(name, path, lambda bound: "N/A" if bound is None else str(bound), doc=doc)


def _claim_state(obj: Object) -> str:
    is_allocated = value_at(obj, "status.allocation") is not None
    states = ["deleted"] if is_being_deleted(obj) else []
    states += ["allocated"] if is_allocated else ["pending"]
    return ",".join([*states, *(["reserved"] if is_allocated and value_at(obj, "status.reservedFor") else [])])


def _used(quota: Object, *, of_limits: bool) -> str:
    """What is used of what may be, requests and limits apart."""
    hard, used = value_at(quota, "status.hard") or {}, value_at(quota, "status.used") or {}
    names = [name for name in sorted(hard) if name.startswith("limits") is of_limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def _binding_columns(what: str, doc: str) -> tuple[Column, ...]:
    return (
        NAME,
        shown("Role", doc + _GLOBAL, lambda obj: "/".join(value_at(obj, f"roleRef.{key}") or "" for key in _REFERENCE)),
        AGE,
        shown("Users", f"Users in the {what}", lambda obj: _subjects(obj, "User"), priority=1),
        shown("Groups", f"Groups in the {what}", lambda obj: _subjects(obj, "Group"), priority=1),
        shown("ServiceAccounts", f"ServiceAccounts in the {what}", lambda obj: _subjects(obj, "ServiceAccount"),
              priority=1),
    )  # fmt: skip


def _subjects(binding: Object, kind: str) -> str:
    found = [one for one in binding.get("subjects") or [] if one.get("kind") == kind]
    prefix = kind == "ServiceAccount"
    return ", ".join(f"{one.get('namespace')}/{one['name']}" if prefix else str(one["name"]) for one in found)


def _metrics(scaler: Object) -> str:
    """`cpu: 40%/50%` for each metric on a resource."""
    found = []
    metrics, known = value_at(scaler, "spec.metrics") or (), value_at(scaler, "status.currentMetrics") or ()
    pair: tuple[Object, Object]
    for pair in zip_longest(metrics, known, fillvalue={}):
        source, status = (one.get("resource") or one.get("containerResource") or {} for one in pair)
        wanted, current = source.get("target") or {}, status.get("current") or {}
        unit, field = ("%", "averageUtilization") if "averageUtilization" in wanted else ("", "averageValue")
        now = f"{current[field]}{unit}" if field in current else humanize.UNKNOWN
        found.append(f"{source.get('name', '')}: {now}/{wanted.get(field, '')}{unit}")
    return ", ".join(found) or humanize.NONE


def _controller(obj: Object) -> str:
    owner = controller_reference(obj)
    if owner is None:
        return humanize.NONE
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind'].lower()}{f'.{group}' if group else ''}/{owner['name']}"


def _ready_replicas(obj: Object) -> str:
    return f"{value_at(obj, 'status.readyReplicas') or 0}/{value_at(obj, 'spec.replicas') or 0}"


def _job_status(job: Object) -> str:
    conditions = value_at(job, "status.conditions") or []
    true = {one.get("type") for one in conditions if one.get("status") == "True"}
    if is_being_deleted(job):
        true |= {"Terminating"}
    words = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((word for word in words if word in true), "Running")


def _completions(job: Object) -> str:
    succeeded, wanted = value_at(job, "status.succeeded") or 0, value_at(job, "spec.completions")
    parallelism = value_at(job, "spec.parallelism") or 0
    if wanted is None:
        wanted = f"1 of {parallelism}" if parallelism > 1 else "1"
    return f"{succeeded}/{wanted}"


def _job_duration(job: Object, now: datetime) -> str:
    start, end = (humanize.parse_time(value_at(job, f"status.{name}")) for name in ("startTime", "completionTime"))
    return "" if start is None else humanize.duration(((end or now) - start).total_seconds())


_REPLICAS = (
    NAME,
    number("Desired", "spec.replicas"),
    number("Current", "status.replicas"),
    number("Ready", "status.readyReplicas"),
    AGE,
    *containers_of(_TEMPLATE),
)
_EVENTS = (
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
)
_NAME_AND_AGE = (NAME, AGE)

# A resource that is not here shows its name and when it was created.
COLUMNS: MappingProxyType[ResourceKey, tuple[Column, ...]] = MappingProxyType(
    {
        ("", "configmaps"): (NAME, shown("Data", "data", _data_count), AGE),
        ("", "endpoints"): (NAME, shown("Endpoints", "subsets", _endpoints), AGE),
        ("", "events"): _EVENTS,
        ("", "namespaces"): (NAME, text("Status", "status.phase", doc="The status of the namespace"), AGE),
        ("", "nodes"): (
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
        ),
        ("", "persistentvolumeclaims"): (
            NAME,
            shown("Status", "status.phase", _volume_phase),
            text("Volume", "spec.volumeName"),
            text("Capacity", "status.capacity.storage"),
            written("Access Modes", "status.accessModes", humanize.access_modes),
            *_class_columns("pvc"),
            AGE,
            text("VolumeMode", "spec.volumeMode", "<unset>", priority=1),
        ),
        ("", "persistentvolumes"): (
            NAME,
            text("Capacity", "spec.capacity.storage"),
            written("Access Modes", "spec.accessModes", humanize.access_modes),
            text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
            shown("Status", "status.phase", _volume_phase),
            shown("Claim", "spec.claimRef", _claim),
            *_class_columns("pv"),
            text("Reason", "status.reason"),
            AGE,
            text("VolumeMode", "spec.volumeMode", "<unset>", priority=1),
        ),
        ("", "pods"): (
            NAME,
            shown("Ready", "The aggregate readiness state of this pod for accepting traffic.", pods.ready),
            shown("Status", "The aggregate status of the containers in this pod.", pods.status_word),
            Column("Restarts", pods.restarts, doc=_RESTARTS_DOC),
            AGE,
            text("IP", "status.podIP", humanize.NONE, priority=1),
            text("Node", "spec.nodeName", humanize.NONE, priority=1),
            text("Nominated Node", "status.nominatedNodeName", humanize.NONE, priority=1),
            shown("Readiness Gates", "spec.readinessGates", pods.readiness_gates, priority=1),
        ),
        ("", "resourcequotas"): (
            NAME,
            shown("Request", "Request represents a minimum amount of cpu/memory that a container may consume.",
                  lambda obj: _used(obj, of_limits=False)),
            shown("Limit", _LIMIT_DOC, lambda obj: _used(obj, of_limits=True)),
            AGE,
        ),
        ("", "replicationcontrollers"): (*_REPLICAS, selector_at("spec.selector")),
        ("", "secrets"): (NAME, text("Type", "type"), shown("Data", "data", _data_count), AGE),
        ("", "serviceaccounts"): _NAME_AND_AGE,
        ("", "services"): (
            NAME,
            text("Type", "spec.type"),
            text("Cluster-IP", "spec.clusterIP", humanize.NONE),
            shown("External-IP", "spec.externalIPs", _external_ip),
            written("Port(s)", "spec.ports", lambda ports: ",".join(map(_service_port, ports or ())) or humanize.NONE),
            AGE,
            selector_at("spec.selector"),
        ),
        ("apps", "controllerrevisions"): (
            NAME, shown("Controller", "Controller of the object", _controller), text("Revision", "revision", 0), AGE
        ),
        ("apps", "daemonsets"): (
            NAME,
            number("Desired", "status.desiredNumberScheduled"),
            number("Current", "status.currentNumberScheduled"),
            number("Ready", "status.numberReady"),
            number("Up-to-date", "status.updatedNumberScheduled"),
            number("Available", "status.numberAvailable"),
            written("Node Selector", f"{_TEMPLATE}.nodeSelector", humanize.selector),
            AGE,
            *containers_of(_TEMPLATE),
            selector_at("spec.selector"),
        ),
        ("apps", "deployments"): (
            NAME,
            shown("Ready", _READY_DOC, _ready_replicas),
            text("Up-to-date", "status.updatedReplicas", 0),
            text("Available", "status.availableReplicas", 0),
            AGE,
            *containers_of(_TEMPLATE),
            selector_at("spec.selector"),
        ),
        ("apps", "replicasets"): (*_REPLICAS, selector_at("spec.selector")),
        ("apps", "statefulsets"): (NAME, shown("Ready", _READY_DOC, _ready_replicas), AGE, *containers_of(_TEMPLATE)),
        ("autoscaling", "horizontalpodautoscalers"): (
            NAME,
            shown("Reference", "", lambda obj: "/".join(
                value_at(obj, f"spec.scaleTargetRef.{key}") or "" for key in _REFERENCE)),
            shown("Targets", "Targets", _metrics),
            number("MinPods", "spec.minReplicas"),
            number("MaxPods", "spec.maxReplicas"),
            number("Replicas", "status.currentReplicas"),
            AGE,
        ),
        ("batch", "cronjobs"): (
            NAME,
            text("Schedule", "spec.schedule"),
            text("Timezone", "spec.timeZone", humanize.NONE),
            written("Suspend", "spec.suspend", lambda found: str(bool(found)), "boolean"),
            counted("Active", "status.active"),
            since("Last Schedule", "status.lastScheduleTime", humanize.NONE),
            AGE,
            *containers_of("spec.jobTemplate.spec.template.spec"),
            selector_at("spec.jobTemplate.spec.selector"),
        ),
        ("batch", "jobs"): (
            NAME,
            shown("Status", "Status of the job.", _job_status),
            shown("Completions", "status.succeeded", _completions),
            Column("Duration", _job_duration, doc="Time required to complete the job."),
            AGE,
            *containers_of(_TEMPLATE),
            selector_at("spec.selector"),
        ),
        ("coordination.k8s.io", "leases"): (NAME, text("Holder", "spec.holderIdentity"), AGE),
        ("discovery.k8s.io", "endpointslices"): (
            NAME,
            text("AddressType", "addressType"),
            written("Ports", "ports", lambda ports: humanize.first_few(
                [one.get("port", "*") for one in ports or ()], "<unset>")),
            shown("Endpoints", "endpoints", _slice_addresses),
            AGE,
        ),
        ("events.k8s.io", "events"): _EVENTS,
        ("policy", "poddisruptionbudgets"): (
            NAME,
            _bound("Min Available", "spec.minAvailable", "The minimum number of pods that must be available."),
            _bound("Max Unavailable", "spec.maxUnavailable", "The maximum number of pods that may be unavailable."),
            number("Allowed Disruptions", "status.disruptionsAllowed",
                   doc="Calculated number of pods that may be disrupted at this time."),
            AGE,
        ),
        ("rbac.authorization.k8s.io", "clusterrolebindings"): _binding_columns(
            "clusterRoleBinding", "RoleRef can only reference a ClusterRole in"
        ),
        ("rbac.authorization.k8s.io", "rolebindings"): _binding_columns(
            "roleBinding", "RoleRef can reference a Role in the current namespace or a ClusterRole in"
        ),
        ("resource.k8s.io", "deviceclasses"): _NAME_AND_AGE,
        ("resource.k8s.io", "resourceclaims"): (
            NAME,
            shown("State", "A summary of the current state (allocated, pending, reserved, etc.).", _claim_state),
            AGE,
        ),
        ("resource.k8s.io", "resourceclaimtemplates"): _NAME_AND_AGE,
        ("resource.k8s.io", "resourceslices"): (
            NAME, text("Node", "spec.nodeName"), text("Driver", "spec.driver"), text("Pool", "spec.pool.name"), AGE
        ),
        ("scheduling.k8s.io", "podgroups"): _NAME_AND_AGE,
        ("scheduling.k8s.io", "priorityclasses"): (
            NAME,
            number("Value", "value"),
            flag("Global-Default", "globalDefault"),
            AGE,
            text("PreemptionPolicy", "preemptionPolicy"),
        ),
        ("scheduling.k8s.io", "workloads"): _NAME_AND_AGE,
        ("storage.k8s.io", "csidrivers"): (
            NAME,
            flag("AttachRequired", "spec.attachRequired", default=True),
            flag("PodInfoOnMount", "spec.podInfoOnMount"),
            flag("StorageCapacity", "spec.storageCapacity"),
            written("TokenRequests", "spec.tokenRequests", lambda found: joined(found, "audience") or "<unset>"),
            flag("RequiresRepublish", "spec.requiresRepublish"),
            written("Modes", "spec.volumeLifecycleModes", lambda modes: ",".join(modes or ()) or humanize.NONE),
            AGE,
        ),
        ("storage.k8s.io", "csinodes"): (
            NAME,
            counted("Drivers", "spec.drivers", "Drivers indicates the number of CSI drivers registered on the node"),
            AGE,
        ),
        ("storage.k8s.io", "storageclasses"): (
            NAME._replace(cell=_storage_class_name),
            text("Provisioner", "provisioner"),
            text("ReclaimPolicy", "reclaimPolicy", "Delete"),
            text("VolumeBindingMode", "volumeBindingMode", "Immediate"),
            text("AllowVolumeExpansion", "allowVolumeExpansion", False),
            AGE,
        ),
        ("storage.k8s.io", "volumeattachments"): (
            NAME,
            text("Attacher", "spec.attacher")._replace(format="name"),
            text("PV", "spec.source.persistentVolumeName"),
            text("Node", "spec.nodeName"),
            flag("Attached", "status.attached"),
            AGE,
        ),
    }
)  # fmt: skip
