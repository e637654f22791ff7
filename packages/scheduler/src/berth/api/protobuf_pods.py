"""Pods in Kubernetes' protobuf format, which an API server writes with a third of the work that JSON costs it.

Pods are most of what a scheduler reads, above all when it starts. Reflectors ask for them in this format, and read each
with `PodReader`, which makes of it the struct that `berth.api.codec` makes of the same pod's JSON.

`google.protobuf` parses a pod, in C, with the fields that our structs have and no others. Most pods are replicas of
one that came before, so a part is looked up by its bytes before anything is made of it, and is not even opened where
replicas have nothing of their own in it. A part that is new is put into words as JSON has them, for the codec to read.
So there is one place that knows what makes a struct.

The field numbers are those of generated.proto in k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1 of v1.36.
Quantities and times, which are texts in JSON, are messages there.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
from google.protobuf.message import DecodeError
from msgspec.structs import force_setattr

from berth.api.codec import ObjectError, check_quantities, object_name
from berth.api.meta import ObjectMeta, OwnerReference, Struct
from berth.api.pod import Pod, PodSpec, PodStatus
from berth.api.protobuf_messages import message_classes
from berth.api.quantity import QuantityError
from berth.api.read_only import EMPTY, ReadOnlyDict
from berth.api.shared_parts import RecentParts, shallow_copy
from berth.api.untrusted import UNREADABLE, problem_of

MAGIC = b"k8s\x00"
"""What every object in this format begins with."""

# `inline` is a message whose fields stand one level higher in JSON.
FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "Unknown": "2 raw bytes",
        "ListMeta": "2 resourceVersion string, 3 continueToken string",
        "PodList": "1 metadata ListMeta, 2 items []bytes",
        "WatchEvent": "1 type string, 2 object RawExtension",
        "RawExtension": "1 raw bytes",
        "Status": "2 status string, 3 message string, 4 reason string, 5 details StatusDetails, 6 code int32",
        "StatusDetails": "5 retryAfterSeconds int32",
        "StringEntry": "1 key string, 2 value string",
        "QuantityEntry": "1 key string, 2 value Quantity",
        "Quantity": "1 text string",
        "Time": "1 seconds int64",
        "Identified": "1 metadata Identity",
        "Identity": "1 name string, 3 namespace string, 5 uid string, 6 resourceVersion string, "
        "12 annotations []StringEntry",
        "Pod": "1 metadata ObjectMeta, 2 spec PodSpec, 3 status PodStatus",
        "ObjectMeta": "1 name string, 3 namespace string, 5 uid string, 6 resourceVersion string, 7 generation int64, "
        "8 creationTimestamp Time, 9 deletionTimestamp Time, 11 labels []StringEntry, 12 annotations []StringEntry, "
        "13 ownerReferences []OwnerReference, 14 finalizers []string",
        "OwnerReference": "1 kind string, 3 name string, 4 uid string, 5 apiVersion string, 6 controller bool",
        "PodSpec": "1 volumes []Volume, 2 containers []Container, 4 terminationGracePeriodSeconds int64, "
        "5 activeDeadlineSeconds int64, 7 nodeSelector []StringEntry, 10 nodeName string, 11 hostNetwork bool, "
        "14 securityContext PodSecurityContext, "
        "18 affinity Affinity, 19 schedulerName string, 20 initContainers []Container, 22 tolerations []Toleration, "
        "24 priorityClassName string, 25 priority int32, 29 runtimeClassName string, 31 preemptionPolicy string, "
        "32 overhead []QuantityEntry, "
        "33 topologySpreadConstraints []TopologySpreadConstraint, 37 hostUsers bool, "
        "38 schedulingGates []PodSchedulingGate, 39 resourceClaims []PodResourceClaim, "
        "40 resources ResourceRequirements, 43 schedulingGroup PodSchedulingGroup",
        "Affinity": "1 nodeAffinity NodeAffinity, 2 podAffinity PodAffinity, 3 podAntiAffinity PodAffinity",
        "NodeAffinity": "1 requiredDuringSchedulingIgnoredDuringExecution NodeSelector, "
        "2 preferredDuringSchedulingIgnoredDuringExecution []PreferredSchedulingTerm",
        "NodeSelector": "1 nodeSelectorTerms []NodeSelectorTerm",
        "NodeSelectorTerm": "1 matchExpressions []NodeSelectorRequirement, 2 matchFields []NodeSelectorRequirement",
        "NodeSelectorRequirement": "1 key string, 2 operator string, 3 values []string",
        "PreferredSchedulingTerm": "1 weight int32, 2 preference NodeSelectorTerm",
        "PodAffinity": "1 requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm, "
        "2 preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm",
        "PodAffinityTerm": "1 labelSelector LabelSelector, 2 namespaces []string, 3 topologyKey string, "
        "4 namespaceSelector LabelSelector, 5 matchLabelKeys []string, 6 mismatchLabelKeys []string",
        "WeightedPodAffinityTerm": "1 weight int32, 2 podAffinityTerm PodAffinityTerm",
        "LabelSelector": "1 matchLabels []StringEntry, 2 matchExpressions []LabelSelectorRequirement",
        "LabelSelectorRequirement": "1 key string, 2 operator string, 3 values []string",
        "Toleration": "1 key string, 2 operator string, 3 value string, 4 effect string, 5 tolerationSeconds int64",
        "TopologySpreadConstraint": "1 maxSkew int32, 2 topologyKey string, 3 whenUnsatisfiable string, "
        "4 labelSelector LabelSelector, 5 minDomains int32, 6 nodeAffinityPolicy string, 7 nodeTaintsPolicy string, "
        "8 matchLabelKeys []string",
        "Container": "1 name string, 2 image string, 6 ports []ContainerPort, 8 resources ResourceRequirements, "
        "15 securityContext SecurityContext, 24 restartPolicy string, 25 restartPolicyRules []ContainerRestartRule",
        "PodSecurityContext": "10 seccompProfile SeccompProfile",
        "SecurityContext": "11 seccompProfile SeccompProfile",
        "SeccompProfile": "1 type string, 2 localhostProfile string",
        "ContainerPort": "2 hostPort int32, 3 containerPort int32, 4 protocol string, 5 hostIP string",
        "ContainerRestartRule": "1 action string",
        "ResourceRequirements": "1 limits []QuantityEntry, 2 requests []QuantityEntry, 3 claims []ResourceClaim",
        "ResourceClaim": "1 name string, 2 request string",
        "PodSchedulingGate": "1 name string",
        "PodSchedulingGroup": "1 podGroupName string",
        "PodResourceClaim": "1 name string, 3 resourceClaimName string, 4 resourceClaimTemplateName string",
        "Volume": "1 name string, 2 inline VolumeSource",
        "VolumeSource": "3 gcePersistentDisk GCEPersistentDisk, 4 awsElasticBlockStore AWSElasticBlockStore, "
        "8 iscsi ISCSI, 10 persistentVolumeClaim PersistentVolumeClaim, 11 rbd RBD, 13 cinder Cinder, "
        "22 azureDisk AzureDisk, 28 csi CSI, 29 ephemeral Ephemeral, 30 image Image",
        "PersistentVolumeClaim": "1 claimName string, 2 readOnly bool",
        "Ephemeral": "1 volumeClaimTemplate PersistentVolumeClaimTemplate",
        "PersistentVolumeClaimTemplate": "1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec",
        "PersistentVolumeClaimSpec": "1 accessModes []string, 2 resources ResourceRequirements, 3 volumeName string, "
        "4 selector LabelSelector, 5 storageClassName string, 6 volumeMode string, 9 volumeAttributesClassName string",
        "GCEPersistentDisk": "1 pdName string, 4 readOnly bool",
        "AWSElasticBlockStore": "1 volumeID string, 4 readOnly bool",
        "RBD": "1 monitors []string, 2 image string, 4 pool string, 8 readOnly bool",
        "ISCSI": "1 targetPortal string, 2 iqn string, 3 lun int32, 6 readOnly bool",
        "AzureDisk": "1 diskName string, 2 diskURI string",
        "Cinder": "1 volumeID string",
        "CSI": "1 driver string",
        "Image": "1 reference string",
        "PodStatus": "1 phase string, 2 conditions []PodCondition, 4 reason string, 7 startTime Time, "
        "8 containerStatuses []ContainerStatus, 10 initContainerStatuses []ContainerStatus, "
        "11 nominatedNodeName string, 15 resourceClaimStatuses []PodResourceClaimStatus, "
        "18 extendedResourceClaimStatus ExtendedResourceClaimStatus, 19 allocatedResources []QuantityEntry, "
        "20 resources ResourceRequirements",
        "PodCondition": "1 type string, 2 status string, 5 reason string, 6 message string, 7 observedGeneration int64",
        "ContainerStatus": "1 name string, 10 allocatedResources []QuantityEntry, 11 resources ResourceRequirements",
        "PodResourceClaimStatus": "1 name string, 2 resourceClaimName string",
        "ExtendedResourceClaimStatus": "1 requestMappings []ContainerExtendedResourceRequest, "
        "2 resourceClaimName string",
        "ContainerExtendedResourceRequest": "1 containerName string, 2 resourceName string, 3 requestName string",
    }
)
"""The fields of each message that are read: number, name in JSON, type."""

_UNREADABLE = (*UNREADABLE, QuantityError, ValueError, OverflowError, OSError)  # the last three are those of dates
# Go writes a field that is not a pointer even where it is empty, and leaves it out of JSON. For most that is the same
# to us; in these an empty text stands for something else than the text that is meant where there is none.
_LEFT_OUT_WHEN_EMPTY = frozenset({"pool", "protocol", "schedulerName"})


_ENTRIES = frozenset({"QuantityEntry", "StringEntry"})

Part = TypeVar("Part", bound=Struct)


# What is looked into in each pod: for what differs between replicas, and for what is not read.
_OPENED = frozenset(
    {
        "conditions",
        "containers",
        "containerStatuses",
        "creationTimestamp",
        "deletionTimestamp",
        "initContainers",
        "initContainerStatuses",
        "inline",
        "metadata",
        "spec",
        "startTime",
        "status",
        "volumes",
    }
)


def message_class(name: str) -> Any:
    """The class of a message of the table."""
    return _classes()[name]


@cache
def _classes() -> dict[str, Any]:
    return message_classes("berth.pods", FIELDS)


@cache
def _lenient_classes() -> dict[str, Any]:
    """Classes that take texts as bytes, which need not be UTF-8."""
    return message_classes(
        "berth.lenient_pods", {name: told.replace("string", "bytes") for name, told in FIELDS.items()}
    )


@cache
def _shallow_classes() -> dict[str, Any]:
    """Classes that leave closed, as bytes, what is the same in all replicas."""
    return message_classes("berth.shallow_pods", {name: _closed(told) for name, told in FIELDS.items()})


def _closed(fields: str) -> str:
    said = []
    for field in fields.split(", "):
        number, name, kind = field.split()
        if kind.removeprefix("[]") in FIELDS and name not in _OPENED:
            kind = "[]bytes" if kind.startswith("[]") else "bytes"
        said.append(f"{number} {name} {kind}")
    return ", ".join(said)


class PodReader:
    """Reads the pods of one reflector, and shares their parts with those that came before."""

    __slots__ = ("_annotations", "_labels", "_namespaces", "_nodes", "_owners", "_parse", "_specs", "_statuses")

    def __init__(self) -> None:
        self._parse: Callable[[bytes], Any] = _shallow_classes()["Pod"].FromString
        self._specs: RecentParts[PodSpec] = RecentParts()
        self._statuses: RecentParts[PodStatus] = RecentParts()
        self._labels: RecentParts[Mapping[str, str]] = RecentParts()
        self._annotations: RecentParts[Mapping[str, str]] = RecentParts()
        self._owners: RecentParts[tuple[OwnerReference, ...]] = RecentParts()
        self._namespaces: RecentParts[str] = RecentParts()
        self._nodes: RecentParts[str] = RecentParts()

    def read(self, body: bytes) -> Pod:
        """Return the pod; raises `ObjectError` for one that is not as it should be, and `DecodeError` for no pod."""
        try:
            return self._read(self._parse(body))
        except DecodeError:
            # Nobody checks that texts are UTF-8 when a pod is written in this format. In JSON they are mended.
            return _mended(_lenient_classes()["Pod"].FromString(body))

    def _read(self, message: Any) -> Pod:
        metadata = message.metadata
        try:
            spec, status = self._spec(message.spec), self._status(message.status)
            return Pod(self._metadata(metadata), spec, status)
        except _UNREADABLE as error:
            raise ObjectError("Pod", f"{metadata.namespace}/{metadata.name}", problem_of(error)) from error

    def _spec(self, message: Any) -> PodSpec:
        node_name = message.nodeName
        if node_name:
            message.ClearField("nodeName")
        # Unknown fields are those that we do not read, of which the names of mounted tokens differ from pod to pod.
        message.DiscardUnknownFields()
        if volumes := message.volumes:
            _leave_out_other_volumes(volumes)
        key = message.SerializePartialToString()
        spec = self._specs.find(key)
        if spec is None:
            spec = _struct_of(message_class("PodSpec").FromString(key), PodSpec)
            check_quantities(Pod(spec=spec))
            self._specs.put(key, spec)
        if node_name:
            spec = shallow_copy(spec)
            force_setattr(spec, "node_name", self._nodes.same(node_name))
        return spec

    def _status(self, message: Any) -> PodStatus:
        start_time = _time_of(message.startTime) if message.HasField("startTime") else None
        message.ClearField("startTime")
        message.DiscardUnknownFields()
        key = message.SerializePartialToString()
        status = self._statuses.find(key)
        if status is None:
            status = _struct_of(message_class("PodStatus").FromString(key), PodStatus)
            check_quantities(Pod(status=status))
            self._statuses.put(key, status)
        if start_time is not None:
            status = shallow_copy(status)
            force_setattr(status, "start_time", start_time)
        return status

    def _metadata(self, message: Any) -> ObjectMeta:
        owners = message.ownerReferences
        return ObjectMeta(
            message.name,
            self._namespaces.same(message.namespace),
            message.uid,
            message.resourceVersion,
            message.generation,
            _time_of(message.creationTimestamp),
            _time_of(message.deletionTimestamp) if message.HasField("deletionTimestamp") else None,
            _mapping(message.labels, self._labels),
            _mapping(message.annotations, self._annotations),
            self._owners_of(owners) if owners else (),
            tuple(message.finalizers),
        )

    def _owners_of(self, entries: Any) -> tuple[OwnerReference, ...]:
        key = tuple(entries)
        owners = self._owners.find(key)
        if owners is None:
            parse = message_class("OwnerReference").FromString
            owners = tuple([_struct_of(parse(entry), OwnerReference) for entry in entries])
            self._owners.put(key, owners)
        return owners


def _mended(message: Any) -> Pod:
    """A pod whose texts are not all UTF-8, read in full."""
    said = _as_json(message)
    try:
        pod = msgspec.convert(said, Pod)
        check_quantities(pod)
    except _UNREADABLE as error:
        raise ObjectError("Pod", object_name(said), problem_of(error)) from error
    return pod


def _leave_out_other_volumes(volumes: Any) -> None:
    """Leave out the volumes whose source nobody looks at, as `PodSpec` does: their names would make each pod unique."""
    for index in reversed(range(len(volumes))):
        if not volumes[index].inline.ByteSize():
            del volumes[index]


def _mapping(entries: Any, known: RecentParts[Mapping[str, str]]) -> Mapping[str, str]:
    """Labels or annotations, by the bytes of their entries."""
    if not entries:
        return EMPTY
    key = tuple(entries)
    mapping = known.find(key)
    if mapping is None:
        parse = message_class("StringEntry").FromString
        mapping = ReadOnlyDict({entry.key: entry.value for entry in map(parse, entries)})
        known.put(key, mapping)
    return mapping


def _struct_of(message: Any, struct: type[Part]) -> Part:
    return msgspec.convert(_as_json(message), struct)


def _as_json(message: Any) -> dict[str, Any]:
    """What a message says in JSON."""
    said: dict[str, Any] = {}
    for field, value in message.ListFields():
        name = field.name
        if field.message_type is None:
            read = [_text(each) for each in value] if field.is_repeated else _text(value)
            if read != "" or name not in _LEFT_OUT_WHEN_EMPTY:
                said[name] = read
        elif field.message_type.name in _ENTRIES:
            said[name] = {_text(entry.key): _value(entry.value) for entry in value}
        elif field.is_repeated:
            said[name] = [_value(each) for each in value]
        elif name == "inline":
            said |= _as_json(value)
        else:
            said[name] = _value(value)
    return said


def _value(value: Any) -> Any:
    """The JSON of a message or of a text."""
    if isinstance(value, str | bytes):
        return _text(value)
    kind = value.DESCRIPTOR.name
    if kind == "Quantity":
        return _text(value.text) or "0"
    return _time_of(value) if kind == "Time" else _as_json(value)


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _time_of(message: Any) -> str | None:
    """RFC 3339, or None for no time."""
    return _rfc3339(message.seconds) if message.seconds else None


@lru_cache(maxsize=4096)
def _rfc3339(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- around pods -------------------------------------------------------------------------------------------


class PodPage(NamedTuple):
    """A page of a list; its items are for a `PodReader`."""

    resource_version: str
    continue_token: str
    items: Sequence[bytes]


def read_page(body: bytes) -> PodPage:
    """A list of pods; raises `DecodeError`."""
    page = message_class("PodList").FromString(_unwrapped(body))
    return PodPage(page.metadata.resourceVersion, page.metadata.continueToken, page.items)


def read_event(frame: bytes) -> tuple[str, bytes]:
    """The type of a watch event and what it is about: a pod, or the JSON of a status; raises `DecodeError`."""
    event = message_class("WatchEvent").FromString(frame)
    wrapped = event.object.raw
    return event.type, status_json(wrapped) if event.type == "ERROR" else _unwrapped(wrapped)


def status_json(body: bytes) -> bytes:
    """The JSON of a metav1.Status, which is what a server refuses with; raises `DecodeError`."""
    return msgspec.json.encode(_as_json(_lenient_classes()["Status"].FromString(_unwrapped(body))))


def identity_of(body: bytes) -> dict[str, Any]:
    """Who a pod is and at which version, in JSON's words; raises `DecodeError`."""
    found: dict[str, Any] = _as_json(_lenient_classes()["Identified"].FromString(body).metadata)
    return found


def _unwrapped(body: bytes) -> bytes:
    """Take an object out of its envelope, which names its type."""
    if not body.startswith(MAGIC):
        raise DecodeError("it does not begin as Kubernetes' protobuf format does")
    raw: bytes = message_class("Unknown").FromString(memoryview(body)[len(MAGIC) :]).raw
    return raw
