"""What plugins may read of the scheduler's state: the state's own objects, typed without what writes to them.

`Handle` exposes these, so that a type checker stops a plugin from changing what is not its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from berth.framework.waiting_pods import WaitingPod
from berth.state.assumed import Assumptions
from berth.state.cache import PodState
from berth.state.pod_groups import GroupKey
from berth.state.pod_index import CarriedTerm, Namespaces, SelectorGroup, TermGroup, TermKind
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth.state.topology import RowCounts


class PodIndexReader(Protocol):
    """Which rows run pods that a selector selects, and which affinity terms running pods carry
    (`berth.state.pod_index`).
    """

    @property
    def version(self) -> int:
        """How often what is counted has changed."""

    @property
    def terms_version(self) -> int:
        """How often the set of terms that running pods carry, or the labels of namespaces, have changed."""

    @property
    def namespaces(self) -> Namespaces:
        """The labels of all namespaces that are known."""

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none if it is unknown."""

    def group(self, group: SelectorGroup | TermGroup) -> RowCounts:
        """Return, by row and by domain, how many pods of the group run there; not to be changed."""

    def terms(self, kind: TermKind) -> Iterable[CarriedTerm]:
        """Return the distinct terms of a kind that running pods carry."""

    def matching_terms(self, kind: TermKind, pod: PodInfo) -> Sequence[CarriedTerm]:
        """Return the terms of a kind that running pods carry and that select `pod`."""


class CacheReader(Protocol):
    """Nodes, the pods on them, and the indexes over both (`berth.state.cache`)."""

    @property
    def table(self) -> NodeTable:
        """All nodes as columns."""

    @property
    def index(self) -> PodIndexReader:
        """Pods by what selects them."""

    def __len__(self) -> int: ...

    def state_of(self, uid: str) -> PodState | None:
        """Return where a pod is counted, or None."""

    def states(self) -> Mapping[str, PodState]:
        """Return all counted pods by uid."""


class ObjectReader(Protocol):
    """All objects that are neither nodes nor pods, by kind (`berth.state.objects`)."""

    @property
    def assumed(self) -> Assumptions:
        """Objects as assumed by the plugins that reserve them."""

    def get(self, kind: str, name: str, namespace: str = "") -> Any | None:
        """Return an object, or None."""

    def latest(self, kind: str, name: str, namespace: str = "") -> Any | None:
        """Return an object as it is assumed to be, otherwise as it is stored, or None."""

    def list(self, kind: str, namespace: str | None = None) -> Iterator[Any]:
        """Return the objects of a kind, of one namespace or of all."""

    def version(self, kind: str) -> int:
        """Return how often objects of this kind have changed."""

    def versions(self, kinds: Iterable[str]) -> Mapping[str, int]:
        """Return the change counters of several kinds."""

    def changed_since(self, kind: str, version: int) -> Sequence[str] | None:
        """Return the keys of objects of a kind that changed after this version; None where that is too long ago."""


class NodeChanges(Protocol):
    """A log of the names of nodes of which something has changed."""

    @property
    def position(self) -> int:
        """How many changes there were so far."""

    def since(self, position: int) -> Iterable[str] | None:
        """Return what has changed since the log was at this position; None where that is too long ago."""


class NominationReader(Protocol):
    """Which pods are nominated to which nodes (`berth.state.nominator`)."""

    @property
    def changes(self) -> NodeChanges:
        """The nodes whose nominations have changed."""

    def __len__(self) -> int: ...

    def node_of(self, uid: str) -> str | None:
        """Return the node that a pod is nominated to, or None."""

    def nodes(self) -> Iterable[str]:
        """Return the nodes that pods are nominated to."""

    def pods_on(self, node_name: str) -> tuple[PodInfo, ...]:
        """Return the pods nominated to a node."""


class PodGroupReader(Protocol):
    """The members of each pod group (`berth.state.pod_groups`)."""

    def members(self, key: GroupKey) -> Mapping[str, PodInfo]:
        """Return the members of a group by uid, in the order in which they came; not to be stored."""

    def count(self, key: GroupKey) -> int:
        """Return how many members are running or may yet run."""

    def placed(self, key: GroupKey) -> Sequence[PodInfo]:
        """Return the members that have a node, according to the API server or by this scheduler's decision."""

    def placed_count(self, key: GroupKey) -> int:
        """Return how many members have a node."""


class EvictionReader(Protocol):
    """Victims not yet seen to be going, by preemptor (`berth.framework.evictions`)."""

    def note_search(self) -> None:
        """Note that victims are being searched for, found or not; to be called by plugins that search."""

    def is_under_way(self, preemptor_uid: str) -> bool:
        """Say whether some victim is still counted as running whose eviction was requested and not refused."""

    def is_asked_to_go(self, victim_uid: str) -> bool:
        """Say whether a pod's eviction was requested and not refused, or the watch already shows it going."""


class WaitingPodsView(Protocol):
    """The pods that Permit holds, with what plugins may do about them (`berth.framework.waiting_pods`)."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[WaitingPod]: ...

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod of this uid, or None."""

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """Turn a waiting pod away; say whether it was waiting."""
