"""What a pod's spread constraints ask for, compiled: selectors, and which nodes count.

Source of the rules: pkg/scheduler/framework/plugins/podtopologyspread, v1.36.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.node import Node
from berth.api.pod import TopologySpreadConstraint
from berth.api.recent import json_size
from berth.api.selectors import EVERYTHING, NOTHING, Requirement, Selector, compile_selector
from berth.api.taints import Toleration
from berth.plugins.node_affinity import required_of
from berth.plugins.node_selection import RequiredNodeAffinity
from berth.plugins.taint_toleration import by_taint_set, has_untolerated
from berth.state.label_index import ABSENT
from berth.state.pod_index import SelectorGroup
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth.state.topology import Rows, Topologies, Topology

Mask = NDArray[np.bool_]

HONOR = "Honor"


class SpreadConstraint(NamedTuple):
    """One constraint of one pod; equal ones of different pods are equal values."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool
    empty_selects_all: bool = False
    """Whether an empty selector counts every pod, as it did until v1.20, or none."""


def compile_constraints(
    constraints: Iterable[TopologySpreadConstraint], action: str, labels: Mapping[str, str], match_label_keys: bool
) -> tuple[SpreadConstraint, ...]:
    """Compile those constraints whose whenUnsatisfiable is `action`, for a pod of these labels.

    Raises `SelectorError`.
    """
    return tuple(
        SpreadConstraint(
            max_skew=constraint.max_skew,
            topology_key=constraint.topology_key,
            selector=_selector(constraint, labels if match_label_keys else {}),
            min_domains=1 if constraint.min_domains is None else constraint.min_domains,
            honor_affinity=constraint.node_affinity_policy == HONOR,
            honor_taints=constraint.node_taints_policy == HONOR,
        )
        for constraint in constraints
        if constraint.when_unsatisfiable == action
    )


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    selector = compile_selector(constraint.label_selector)
    own = [Requirement(key, "In", (labels[key],)) for key in constraint.match_label_keys if key in labels]
    # As upstream, the keys select on their own where there is no selector, although no selector alone selects nothing.
    return Selector(tuple(sorted({*selector.requirements, *own}))) if own else selector


def group_of(constraint: SpreadConstraint, namespace: str) -> SelectorGroup:
    """Return the pods that a constraint counts; those being deleted do not."""
    return SelectorGroup(frozenset((namespace,)), (counting_selector(constraint),), terminating=False)


def counting_selector(constraint: SpreadConstraint) -> Selector:
    """Return what selects the pods to count: an empty selector, which matches every pod, counts none today."""
    counts_none = constraint.selector == EVERYTHING and not constraint.empty_selects_all
    return NOTHING if counts_none else constraint.selector


class Inclusion:
    """Which nodes count: those with all labels, of the pod's node affinity, whose taints it tolerates.

    It is part of the name of a topology, and one value serves all constraints of a pod that agree in what they honor
    (`Inclusions`). So its hash is worked out once, and a pod's cost does not grow with the square of its constraints.
    """

    __slots__ = ("_hash", "affinity", "compare_numbers", "keys", "tolerations")

    def __init__(
        self,
        keys: tuple[str, ...],
        affinity: RequiredNodeAffinity | None = None,
        tolerations: tuple[Toleration, ...] | None = None,
        *,
        compare_numbers: bool = False,
    ) -> None:
        """`keys` are sorted, each once."""
        self.keys = keys
        self.affinity = affinity
        self.tolerations = tolerations
        self.compare_numbers = compare_numbers
        self._hash = hash(self._parts)

    @property
    def _parts(self) -> tuple[object, ...]:
        return self.keys, self.affinity, self.tolerations, self.compare_numbers

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Inclusion) and self._parts == other._parts)

    def __hash__(self) -> int:
        return self._hash

    def size(self) -> int:
        """Return how much it says, in bytes of JSON."""
        return json_size(self._parts)

    def includes(self, node: Node) -> bool:
        """Say whether a node counts."""
        labels = node.metadata.labels
        if not all(key in labels for key in self.keys):
            return False
        if self.affinity is not None and not self.affinity.matches_node(node):
            return False
        return self.tolerations is None or not has_untolerated(node.spec.taints, self.tolerations, self.compare_numbers)

    def mask(self, table: NodeTable, rows: Rows) -> Mask:
        """Return by row, bool of shape (len(rows),), whether the node counts."""
        found: Mask = table.valid[rows].copy()
        for key in self.keys:
            found &= table.label(key).ids[rows] != ABSENT
            if not found.any():
                return found
        if self.affinity is not None:
            found &= self.affinity.mask(table, rows)
        if self.tolerations is not None:
            tolerations, compare = self.tolerations, self.compare_numbers
            found &= by_taint_set(table, rows, lambda taints: has_untolerated(taints, tolerations, compare)) == 0
        return found


class Inclusions:
    """Which nodes count for the constraints of one pod: at most one `Inclusion` for each way to honor things."""

    __slots__ = ("_compare_numbers", "_found", "_pod", "keys")

    def __init__(self, keys: Iterable[str], pod: PodInfo, compare_numbers: bool) -> None:
        """`keys` are the labels that nodes must have to count for any of the constraints."""
        self.keys = tuple(sorted(set(keys)))
        self._pod = pod
        self._compare_numbers = compare_numbers
        self._found: dict[tuple[bool, bool], Inclusion] = {}

    def of(self, constraint: SpreadConstraint) -> Inclusion:
        """Return which nodes count for a constraint."""
        honored = constraint.honor_affinity, constraint.honor_taints
        found = self._found.get(honored)
        if found is None:
            found = self._found[honored] = self._make(*honored)
        return found

    def _make(self, honor_affinity: bool, honor_taints: bool) -> Inclusion:
        affinity = required_of(self._pod) if honor_affinity else None
        return Inclusion(
            self.keys,
            None if affinity is None or affinity.is_empty else affinity,
            self._pod.spec.tolerations if honor_taints else None,
            compare_numbers=honor_taints and self._compare_numbers,
        )


class Counted(NamedTuple):
    """What one constraint of a pod's shape counts: which pods, on which nodes."""

    constraint: SpreadConstraint
    included: Inclusion
    group: SelectorGroup
    matches_itself: bool
    """Whether pods of the shape are counted themselves."""


def counted(constraint: SpreadConstraint, inclusions: Inclusions, pod: PodInfo) -> Counted:
    """Return what a constraint counts."""
    group = group_of(constraint, pod.namespace)
    return Counted(constraint, inclusions.of(constraint), group, constraint.selector.matches(pod.labels))


def topology_of(topologies: Topologies, key: str, included: Inclusion) -> Topology:
    """Return the topology of a key over the nodes that count."""
    # A node without the key is in no domain of it anyway, so a single key needs no set of rows of its own.
    if included.affinity is None and included.tolerations is None and included.keys in ((), (key,)):
        return topologies.get(key)
    return topologies.get(key, included, included.mask)
