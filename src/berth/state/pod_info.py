"""A pod with what scheduling works out of it once: requests, ports, affinity terms.

Made for each pod object that arrives; plugins receive it as "the pod". Its `metadata`, `spec` and `status` are the
API object's own, the rest is derived from them and never changes.
"""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from berth.api.pod import Pod, PodAffinityTerm
from berth.api.pod_resources import Requests, pod_requests, scoring_requests
from berth.api.selectors import Selector, compile_selector
from berth.state.lazy import lazy


class HostPort(NamedTuple):
    """A port of the node that a pod wants."""

    ip: str
    protocol: str
    port: int

    def conflicts_with(self, other: "HostPort") -> bool:
        """Say whether both cannot be had on one node: same protocol and port, same address or either wildcard."""
        if self.protocol != other.protocol or self.port != other.port:
            return False
        return self.ip == other.ip or self.ip == WILDCARD_IP or other.ip == WILDCARD_IP


WILDCARD_IP = "0.0.0.0"


class AffinityTerm(NamedTuple):
    """A pod (anti-)affinity term in canonical form: equal terms of different pods are equal values."""

    selector: Selector
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(self, pod: "PodInfo", namespace_labels: Mapping[str, str]) -> bool:
        """Say whether `pod`, whose namespace has these labels, is one that the term speaks of."""
        if pod.namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(pod.labels)


class WeightedTerm(NamedTuple):
    """A preferred term and its weight, 1 to 100."""

    term: AffinityTerm
    weight: int


class PodInfo:
    """The pod that plugins see."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.metadata, self.spec, self.status = pod.metadata, pod.spec, pod.status
        self.name, self.namespace, self.uid = pod.metadata.name, pod.metadata.namespace, pod.metadata.uid
        self.key = f"{self.namespace}/{self.name}"
        self.labels = pod.metadata.labels
        self.priority = pod.spec.priority or 0
        self.fragments: dict[object, Hashable] = {}

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    @property
    def node_name(self) -> str:
        """The node the pod is bound to, or the empty string."""
        return self.spec.node_name

    @property
    def is_terminating(self) -> bool:
        """Say whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @lazy
    def requests(self) -> Requests:
        """What the pod asks of a node, overhead included."""
        return pod_requests(self.pod)

    @lazy
    def scoring_requests(self) -> tuple[int, int]:
        """CPU in milli-units and memory in bytes, with defaults where containers ask for nothing."""
        return scoring_requests(self.pod, self.requests)

    @lazy
    def host_ports(self) -> tuple[HostPort, ...]:
        """The node's ports that regular containers and sidecars want."""
        sidecars = (c for c in self.spec.init_containers if c.restart_policy == "Always")
        return tuple(
            HostPort(port.host_ip or WILDCARD_IP, port.protocol or "TCP", port.host_port)
            for container in (*self.spec.containers, *sidecars)
            for port in container.ports
            if port.host_port > 0
        )

    @lazy
    def required_affinity_terms(self) -> tuple[AffinityTerm, ...]:
        """Terms of required pod affinity. Raises `SelectorError`."""
        affinity = self.spec.affinity and self.spec.affinity.pod_affinity
        return self._terms(affinity.required) if affinity else ()

    @lazy
    def required_anti_affinity_terms(self) -> tuple[AffinityTerm, ...]:
        """Terms of required pod anti-affinity. Raises `SelectorError`."""
        affinity = self.spec.affinity and self.spec.affinity.pod_anti_affinity
        return self._terms(affinity.required) if affinity else ()

    @lazy
    def preferred_affinity_terms(self) -> tuple[WeightedTerm, ...]:
        """Terms of preferred pod affinity. Raises `SelectorError`."""
        affinity = self.spec.affinity and self.spec.affinity.pod_affinity
        preferred = affinity.preferred if affinity else ()
        return tuple(WeightedTerm(self._term(p.pod_affinity_term), p.weight) for p in preferred)

    @lazy
    def preferred_anti_affinity_terms(self) -> tuple[WeightedTerm, ...]:
        """Terms of preferred pod anti-affinity. Raises `SelectorError`."""
        affinity = self.spec.affinity and self.spec.affinity.pod_anti_affinity
        preferred = affinity.preferred if affinity else ()
        return tuple(WeightedTerm(self._term(p.pod_affinity_term), p.weight) for p in preferred)

    @lazy
    def label_key(self) -> Hashable:
        """Namespace and labels as one value: what selectors of other pods can see of this one."""
        return self.namespace, frozenset(self.labels.items())

    @property
    def has_pod_affinity(self) -> bool:
        """Say whether the pod speaks of other pods at all."""
        affinity = self.spec.affinity
        return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)

    def _terms(self, terms: tuple[PodAffinityTerm, ...]) -> tuple[AffinityTerm, ...]:
        return tuple(self._term(term) for term in terms)

    def _term(self, term: PodAffinityTerm) -> AffinityTerm:
        own_namespace = not term.namespaces and term.namespace_selector is None
        return AffinityTerm(
            compile_selector(term.label_selector),
            term.topology_key,
            frozenset({self.namespace} if own_namespace else term.namespaces),
            compile_selector(term.namespace_selector),
        )
