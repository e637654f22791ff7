"""A pod with what scheduling derives from it once: requests, ports, affinity terms.

A `PodInfo` is made for each pod object that arrives; plugins receive it as "the pod". Its `metadata`, `spec` and
`status` are the API object's own; the rest is derived from them, never changes, and is shared by all pods of one
`PodShape`: the replicas of a workload.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import force_setattr

from berth.api.meta import ObjectMeta
from berth.api.pod import (
    Affinity,
    ContainerStatus,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    WeightedPodAffinityTerm,
)
from berth.api.pod_resources import (
    ALL_COUNTS,
    Counting,
    Requests,
    pod_requests,
    resize_is_infeasible,
    scoring_requests,
)
from berth.api.qos import QosClass, qos_class
from berth.api.read_only import ReadOnlyDict, make_read_only
from berth.api.recent import LARGE_BYTES, Recent
from berth.api.selectors import Selector, compile_selector
from berth.api.shared_parts import shallow_copy
from berth.state.lazy import lazy


class HostPort(NamedTuple):
    """A port of the node that a pod uses."""

    ip: str
    protocol: str
    port: int

    def conflicts_with(self, other: "HostPort") -> bool:
        """Say whether both cannot be used on one node: same protocol and port, same address or either wildcard."""
        if self.protocol != other.protocol or self.port != other.port:
            return False
        return self.ip == other.ip or self.ip == WILDCARD_IP or other.ip == WILDCARD_IP


WILDCARD_IP = "0.0.0.0"


class Labelled(Protocol):
    """What selectors see of a pod."""

    @property
    def namespace(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


class AffinityTerm(NamedTuple):
    """A pod (anti-)affinity term in canonical form: equal terms of different pods are equal values."""

    selector: Selector
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(self, pod: Labelled, namespace_labels: Mapping[str, str]) -> bool:
        """Say whether the term selects `pod`, whose namespace has these labels."""
        if pod.namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(pod.labels)


class WeightedAffinityTerm(NamedTuple):
    """A preferred term and its weight, 1 to 100."""

    term: AffinityTerm
    weight: int


MAX_SHAPES = 4096
"""How many shapes are kept; also the number of specs, and of families."""
REQUESTS, LABELS = "requests", "labels"
"""What the pods of a family may differ in: what they request (overhead included), and their labels."""


class PodFamily:
    """What profiles have prepared for pods that are equal except in what is `ignored`, by profile and point.

    Families are nested: the pods of a `wider` one may differ in more.
    """

    __slots__ = ("_wider", "ignored", "plans")

    def __init__(self, ignored: frozenset[str] = frozenset(), wider: "PodFamily | None" = None) -> None:
        self.ignored = ignored
        self.plans: dict[object, Any] = {}
        self._wider = wider

    @property
    def wider(self) -> "PodFamily | None":
        """The family in which this one is nested; None for the widest."""
        return self._wider


class PodShape(PodFamily):
    """What is derived from a pod's namespace, labels, owners, spec and resizes alone, whichever node it runs on.

    Pods that differ in none of these share one shape, so all this is computed once per workload.
    """

    def __init__(
        self,
        pod: Pod,
        counting: Counting = ALL_COUNTS,
        family: "_Family | None" = None,
        size: int | None = None,
        *,
        is_read_only: bool = False,
    ) -> None:
        """`family` finds the family, if there is one; `size` is the size of all this in bytes of JSON, if known."""
        super().__init__()
        if not is_read_only:
            make_read_only(pod)
        self._pod = pod
        self._known_size = size
        self._family = family
        self.counting = counting
        """Which requests count, as the feature gates say."""
        self._spec = pod.spec
        self.fragments: dict[object, Hashable] = {}
        """What plugins read of the pod (`signature`), by plugin."""

    @property
    def wider(self) -> PodFamily | None:
        """The family, looked up on first use: running pods never need it."""
        if self._family is not None:
            self._wider, self._family = self._family(self._pod), None
        return self._wider

    @property
    def spec(self) -> PodSpec:
        """The spec; without the node where the pod was placed."""
        return self._spec

    @property
    def beside_labels(self) -> tuple[object, ...]:
        """What the shape is made of besides its spec and labels."""
        return self._pod.metadata.namespace, self._pod.metadata.owner_references, self._pod.status

    @property
    def parts(self) -> tuple[str, int, int]:
        """The key under which the shape is found by the identity of its parts."""
        return self._pod.metadata.namespace, id(self._spec.containers), id(self._pod.metadata.labels)

    def takes(self, pod: Pod, *, is_placed: bool) -> bool:
        """Say whether this is the shape of a pod without a relevant status, and if so, let it share the parts.

        Nothing is encoded for that: identical parts compare equal at once.
        """
        meta, own = pod.metadata, self._pod.metadata
        if own.labels is not meta.labels or own.owner_references != meta.owner_references:
            return False
        spec = self._spec
        if is_placed:
            spec = shallow_copy(spec)
            force_setattr(spec, "node_name", pod.spec.node_name)
        if spec != pod.spec:
            return False
        force_setattr(meta, "owner_references", own.owner_references)  # as in `share_parts`
        force_setattr(pod, "spec", spec)
        return True

    def takes_equal(self, pod: Pod) -> bool:
        """The same for a pod on a node whose labels are equal but need not be identical."""
        force_setattr(pod.metadata, "labels", self._pod.metadata.labels)
        return self.takes(pod, is_placed=True)

    def is_like(self, other: "PodShape") -> bool:
        """Say whether pods of the two shapes differ at most in labels, like those of an indexed Job.

        Shapes with equal specs share one as long as it is remembered; if they do not, they count as different.
        """
        return self is other or (self._spec is other.spec and self.beside_labels == other.beside_labels)

    def beside(self, pod: Pod, family: "_Family") -> "PodShape | None":
        """Return the shape of a pod on a node that differs from this shape's pods only in labels and node affinity.

        The pods of a DaemonSet or an indexed Job all differ in this way; what their containers add up to is computed
        once. None if more differs. The pod, which must have no relevant status, shares the other parts.
        """
        meta, own, spec = pod.metadata, self._pod.metadata, shallow_copy(self._spec)
        mine, its = self._spec.affinity or _NO_AFFINITY, pod.spec.affinity or _NO_AFFINITY
        # Identical, not just equal, since the terms of this one are read-only and others may not be.
        if its.pod_affinity is not mine.pod_affinity or its.pod_anti_affinity is not mine.pod_anti_affinity:
            return None
        force_setattr(spec, "affinity", pod.spec.affinity)
        force_setattr(spec, "node_name", pod.spec.node_name)
        if spec != pod.spec or meta.namespace != own.namespace or meta.owner_references != own.owner_references:
            return None
        if type(meta.labels) is dict:
            force_setattr(meta, "labels", ReadOnlyDict(meta.labels))
        force_setattr(meta, "owner_references", own.owner_references)
        force_setattr(pod, "spec", spec)
        if pod.spec.affinity is self._spec.affinity:
            spec = self._spec
        else:
            spec = shallow_copy(spec)
            force_setattr(spec, "node_name", self._spec.node_name)
        found = PodShape(_shared_part(pod, spec), self.counting, family, is_read_only=True)
        found.__dict__.update(requests=self.requests, scoring_requests=self.scoring_requests)
        if meta.labels is own.labels:
            found.__dict__.update(label_key=self.label_key)
        return found

    def share_parts(self, pod: Pod, spec: PodSpec) -> None:
        """Let a pod of this shape share its labels and owners, and a spec that is equal except perhaps for the node."""
        meta, own = pod.metadata, self._pod.metadata
        # This writes to an object that an informer handed out, but replaces each part by an equal one, since the keys
        # of `PodShapes` cover all of them: a holder of the object sees no difference.
        force_setattr(meta, "labels", own.labels)
        force_setattr(meta, "owner_references", own.owner_references)
        node_name = pod.spec.node_name
        is_equal = spec.node_name == node_name
        force_setattr(pod, "spec", spec if is_equal else msgspec.structs.replace(spec, node_name=node_name))

    @lazy
    def requests(self) -> Requests:
        """What the pod asks of a node, overhead included."""
        return ReadOnlyDict(pod_requests(self._pod, self.counting))

    @lazy
    def scoring_requests(self) -> tuple[int, int]:
        """CPU in milli-units and memory in bytes, with defaults where containers ask for nothing."""
        return scoring_requests(self._pod, self.requests, self.counting)

    @lazy
    def qos_class(self) -> QosClass:
        """The quality of service that the pod gets."""
        return qos_class(self._pod, pod_level=self.counting.pod_level)

    @lazy
    def host_ports(self) -> tuple[HostPort, ...]:
        """The node's ports that regular containers and sidecars want."""
        sidecars = (c for c in self._spec.init_containers if c.restart_policy == "Always")
        return tuple(
            HostPort(port.host_ip or WILDCARD_IP, port.protocol or "TCP", port.host_port)
            for container in (*self._spec.containers, *sidecars)
            for port in container.ports
            if port.host_port > 0
        )

    @lazy
    def required_affinity_terms(self) -> tuple[AffinityTerm, ...]:
        """Terms of required pod affinity. Raises `SelectorError`."""
        affinity = self._spec.affinity and self._spec.affinity.pod_affinity
        return self._terms(affinity.required) if affinity else ()

    @lazy
    def required_anti_affinity_terms(self) -> tuple[AffinityTerm, ...]:
        """Terms of required pod anti-affinity. Raises `SelectorError`."""
        affinity = self._spec.affinity and self._spec.affinity.pod_anti_affinity
        return self._terms(affinity.required) if affinity else ()

    @lazy
    def preferred_affinity_terms(self) -> tuple[WeightedAffinityTerm, ...]:
        """Terms of preferred pod affinity. Raises `SelectorError`."""
        affinity = self._spec.affinity and self._spec.affinity.pod_affinity
        return self._weighted_terms(affinity.preferred) if affinity else ()

    @lazy
    def preferred_anti_affinity_terms(self) -> tuple[WeightedAffinityTerm, ...]:
        """Terms of preferred pod anti-affinity. Raises `SelectorError`."""
        affinity = self._spec.affinity and self._spec.affinity.pod_anti_affinity
        return self._weighted_terms(affinity.preferred) if affinity else ()

    @lazy
    def size(self) -> int:
        """The size of the pod from which the shape was made, in bytes of JSON."""
        if self._known_size is not None:
            return self._known_size
        return len(_ENCODER.encode((self._spec, self._pod.metadata)))

    @property
    def is_large(self) -> bool:
        """Whether the pod is so large that nothing about it is kept once it is gone."""
        return self.size > LARGE_BYTES

    @lazy
    def label_key(self) -> Hashable:
        """Namespace and labels as one value: all that other pods' selectors can see of this one."""
        return self._pod.metadata.namespace, frozenset(self._pod.metadata.labels.items())

    def _terms(self, terms: tuple[PodAffinityTerm, ...]) -> tuple[AffinityTerm, ...]:
        return tuple(self._term(term) for term in terms)

    def _weighted_terms(self, terms: tuple[WeightedPodAffinityTerm, ...]) -> tuple[WeightedAffinityTerm, ...]:
        return tuple(WeightedAffinityTerm(self._term(term.pod_affinity_term), term.weight) for term in terms)

    def _term(self, term: PodAffinityTerm) -> AffinityTerm:
        own_namespace = not term.namespaces and term.namespace_selector is None
        return AffinityTerm(
            compile_selector(term.label_selector),
            term.topology_key,
            frozenset({self._pod.metadata.namespace} if own_namespace else term.namespaces),
            compile_selector(term.namespace_selector),
        )


class PodShapes:
    """Shapes of the pods seen lately, so that pods of one workload share theirs, and the families around them.

    Pods also share the equal parts of their objects: each was decoded separately, and a cluster's pods are mostly
    replicas, so their specs, labels and owners would make up most of the memory of the process.

    A large pod has a shape of its own, and nothing is cached by its contents.
    """

    __slots__ = ("_by_parts", "_counting", "_families", "_shapes", "_specs")

    def __init__(self, counting: Counting = ALL_COUNTS, max_shapes: int = MAX_SHAPES) -> None:
        self._counting = counting
        self._shapes: Recent[_Key, PodShape] = Recent(max_shapes)
        self._by_parts: dict[tuple[str, int, int], _Key] = {}
        """The keys of `_shapes`, by the parts that a pod of the shape has if informers share them with it."""
        self._specs: Recent[bytes, PodSpec] = Recent(max_shapes)
        self._families: Recent[bytes, PodFamily] = Recent(max_shapes)

    def of(self, pod: Pod, *, is_placed: bool = False) -> PodShape:
        """Return the shape of a pod: one of its own if its name matters too."""
        if not _is_shareable(pod):
            return PodShape(pod, self._counting)
        meta, spec, counted = pod.metadata, pod.spec, _counted_status(pod)
        if not counted:
            # A key is in `_by_parts` only while its shape is kept, which holds the parts, so no other object can have
            # their ids.
            parts = self._by_parts.get((meta.namespace, id(spec.containers), id(meta.labels)))
            shape = None if parts is None else self._shapes.get(parts)
            if shape is not None and shape.takes(pod, is_placed=is_placed):
                return shape
        # A placed pod shares the shape of its pending replicas; otherwise `nodeName` would count as part of the shape.
        spec = msgspec.structs.replace(spec, node_name="") if is_placed else spec
        spec_key = _ENCODER.encode(spec)
        rest_key = _ENCODER.encode((meta.namespace, meta.labels, meta.owner_references, counted))
        size = len(spec_key) + len(rest_key)
        if size > LARGE_BYTES:
            return PodShape(pod, self._counting, size=size)
        # Specs are also shared on their own: the pods of an indexed Job differ in labels, and so in shape, but not in
        # spec.
        known = self._specs.get(spec_key)
        if known is None:
            make_read_only(spec)
            self._specs.put(spec_key, spec, len(spec_key))
        else:
            spec = known
        key = spec_key, rest_key
        shape = self._shapes.get(key)
        if shape is None:
            shape = PodShape(_shared_part(pod, spec), self._counting, self._family, size)
            for dropped in self._shapes.put(key, shape, size):
                self._by_parts.pop(dropped.parts, None)
            if not counted:
                self._by_parts[shape.parts] = key
        shape.share_parts(pod, spec)
        return shape

    def of_placed(self, pods: Iterable[Pod]) -> Iterator[PodShape]:
        """Yield the shapes of pods on nodes that come together.

        If pods share their containers, a shape that is mostly like another is made from that one, and not kept for
        other pods: thousands of these would drive out shapes that many pods have.
        """
        # By identity, which is only a hint where to look; and by the contents of labels and affinity, since equal ones
        # need not be identical.
        same: dict[tuple[str, int, int, int], PodShape] = {}
        equal: dict[tuple[str, int, bytes], PodShape] = {}
        near: dict[tuple[str, int], PodShape] = {}
        for pod in pods:
            meta, spec = pod.metadata, pod.spec
            if spec.volumes or spec.resource_claims or _counted_status(pod):
                yield self.of(pod, is_placed=True)
                continue
            beside = meta.namespace, id(spec.containers)
            parts = *beside, id(meta.labels), id(spec.affinity)
            shape = same.get(parts)
            if shape is None or not shape.takes(pod, is_placed=True):
                said = *beside, _ENCODER.encode((meta.labels, spec.affinity))
                shape = equal.get(said)
                if shape is None or not shape.takes_equal(pod):
                    first = near.get(beside)
                    shape = None if first is None or first.is_large else first.beside(pod, self._family)
                    if shape is None:
                        shape = near[beside] = self.of(pod, is_placed=True)
                same[parts] = equal[said] = shape
            yield shape

    def _family(self, pod: Pod) -> PodFamily:
        """Return the family of pods that differ in requests only, nested in that of pods that differ in labels too."""
        meta, bare = pod.metadata, _without_requests(pod.spec)
        key = _ENCODER.encode((meta.namespace, meta.labels, meta.owner_references, bare))

        family = self._families.get(key)
        if family is None:
            wider_key = _ENCODER.encode((meta.namespace, meta.owner_references, bare))
            wider = self._families.get(wider_key)
            if wider is None:
                wider = PodFamily(frozenset({REQUESTS, LABELS}))
                self._families.put(wider_key, wider, len(wider_key))
            family = PodFamily(frozenset({REQUESTS}), wider)
            self._families.put(key, family, len(key))
        return family


def _without_requests(spec: PodSpec) -> PodSpec:
    containers, init_containers = (
        tuple([msgspec.structs.replace(each, resources=_NOTHING) for each in some])
        for some in (spec.containers, spec.init_containers)
    )
    return msgspec.structs.replace(
        spec, containers=containers, init_containers=init_containers, resources=None, overhead={}
    )


def _shared_part(pod: Pod, spec: PodSpec) -> Pod:
    """Return the parts of a pod that make its shape: the shape outlives the pod, and must not hold its annotations and
    conditions.
    """
    meta, status = pod.metadata, pod.status
    shared = ObjectMeta(namespace=meta.namespace, labels=meta.labels, owner_references=meta.owner_references)
    return Pod(shared, spec, status if _counted_status(pod) else PodStatus())


def _is_shareable(pod: Pod) -> bool:
    """Say whether the shape does not depend on the pod's name, by which claims made for a pod are found."""
    return not (pod.spec.volumes or pod.spec.resource_claims)


def _has_maps(status: PodStatus) -> bool:
    """Say whether a status may contain maps that are not read-only yet; most have nothing that could hold any."""
    of_containers = status.container_statuses or status.init_container_statuses
    return bool(of_containers or status.resources or type(status.allocated_resources) is dict)


def _counted_status(pod: Pod) -> tuple[object, ...]:
    """Return what a pod's status adds to its requests: resizes in flight."""
    status = pod.status
    if not (
        status.container_statuses or status.init_container_statuses or status.resources or status.allocated_resources
    ):
        return ()
    # Nearly all of them contain only a name, and must not separate a workload's running pods from its pending ones.
    containers = tuple([each for each in status.container_statuses if each != ContainerStatus(each.name)])
    init_containers = tuple([each for each in status.init_container_statuses if each != ContainerStatus(each.name)])
    if not (containers or init_containers or status.resources or status.allocated_resources):
        return ()
    return containers, init_containers, status.resources, status.allocated_resources, resize_is_infeasible(pod)


_Key = tuple[bytes, bytes]
_Family = Callable[[Pod], PodFamily]
_ENCODER = msgspec.json.Encoder()
_NEW = PodStatus(phase="Pending")
"""The status of most new pods: nothing that has to be counted."""
_NOTHING = ResourceRequirements()
_NO_AFFINITY = Affinity()


class PodInfo(msgspec.Struct, frozen=True, eq=False):
    """The pod that plugins see."""

    pod: Pod
    shape: PodShape
    metadata: ObjectMeta
    spec: PodSpec
    status: PodStatus
    name: str
    namespace: str
    uid: str
    key: str
    labels: Mapping[str, str]
    profile_name: str
    """The profile that schedules the pod: the one that it names."""
    priority: int
    fragments: dict[object, Hashable]

    @classmethod
    def of(cls, pod: Pod, shape: PodShape | None = None, key: str = "") -> "PodInfo":
        """Return an object as plugins see it; its shape is known if it shares one, and perhaps `key` as well."""
        shape = PodShape(pod) if shape is None else shape
        meta, spec, status = pod.metadata, pod.spec, pod.status
        if type(meta.annotations) is dict:  # what pods of a shape share is read-only already
            force_setattr(meta, "annotations", ReadOnlyDict(meta.annotations))
        if _has_maps(status):
            make_read_only(status)
        return cls(
            pod, shape, meta, spec, status, meta.name, meta.namespace, meta.uid, key or f"{meta.namespace}/{meta.name}",
            meta.labels, spec.scheduler_name, spec.priority or 0, shape.fragments,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    @property
    def size(self) -> int:
        """The size of the object in bytes of JSON; computed each time."""
        meta = self.metadata
        if self.status == _NEW and not meta.annotations and not meta.finalizers:
            return self.shape.size
        return self.shape.size + len(_ENCODER.encode((meta.annotations, meta.finalizers, self.status)))

    @property
    def node_name(self) -> str:
        """The node the pod is bound to, or the empty string."""
        return self.spec.node_name

    @property
    def is_terminating(self) -> bool:
        """Say whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    def is_told_why(self, reason: str, message: str) -> bool:
        """Say whether the pod's condition already gives this reason and message for its not being scheduled."""
        told = ("PodScheduled", "False", reason, message)
        return any((each.type, each.status, each.reason, each.message) == told for each in self.status.conditions)

    @property
    def requests(self) -> Requests:
        """What the pod asks of a node, overhead included; not to be changed."""
        return self.shape.requests

    @property
    def scoring_requests(self) -> tuple[int, int]:
        """CPU in milli-units and memory in bytes, with defaults where containers ask for nothing."""
        return self.shape.scoring_requests

    @property
    def qos_class(self) -> QosClass:
        """The quality of service that the pod gets: Guaranteed, Burstable or BestEffort."""
        return self.shape.qos_class

    @property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The node's ports that regular containers and sidecars want."""
        return self.shape.host_ports

    @property
    def required_affinity_terms(self) -> tuple[AffinityTerm, ...]:
        """Terms of required pod affinity. Raises `SelectorError`."""
        return self.shape.required_affinity_terms

    @property
    def required_anti_affinity_terms(self) -> tuple[AffinityTerm, ...]:
        """Terms of required pod anti-affinity. Raises `SelectorError`."""
        return self.shape.required_anti_affinity_terms

    @property
    def preferred_affinity_terms(self) -> tuple[WeightedAffinityTerm, ...]:
        """Terms of preferred pod affinity. Raises `SelectorError`."""
        return self.shape.preferred_affinity_terms

    @property
    def preferred_anti_affinity_terms(self) -> tuple[WeightedAffinityTerm, ...]:
        """Terms of preferred pod anti-affinity. Raises `SelectorError`."""
        return self.shape.preferred_anti_affinity_terms

    @property
    def label_key(self) -> Hashable:
        """Namespace and labels as one value: all that other pods' selectors can see of this one."""
        return self.shape.label_key

    @property
    def has_pod_affinity(self) -> bool:
        """Say whether the pod has any (anti-)affinity terms."""
        affinity = self.spec.affinity
        return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
