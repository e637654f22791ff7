"""What node selectors and node affinity say of nodes, compiled once: one node at a time, or by column.

A pod's `nodeSelector` and required node affinity become a `RequiredNodeAffinity`, preferred terms become
`NodePreference`s. Used by NodeAffinity, by plugins that ask which nodes a pod may use at all (topology spread), and by
the hollow kubelet's admission. Source of the rules: k8s.io/component-helpers/scheduling/corev1/nodeaffinity, v1.36:
a term that cannot be read matches nothing in what is required, and is an error in what is preferred.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.node import Node
from berth.api.node_selector import NodeSelector, NodeSelectorTerm
from berth.api.pod import NodeAffinity, NodeAffinityPreference, Pod
from berth.api.selectors import Requirement, SelectorError
from berth.framework.interface import Rows, Scores
from berth.state.label_index import ABSENT, Ids, LabelColumn
from berth.state.table import NodeTable

Mask = NDArray[np.bool_]

LOOP_AT_MOST = 4
"""Up to this many rows are faster to match one by one than by column."""


class Term(NamedTuple):
    """Requirements on labels and on the node's name that must all hold."""

    labels: tuple[Requirement, ...]
    names: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Say whether a node of these labels and name satisfies the term."""
        return all(r.accepts(labels.get(r.key)) for r in self.labels) and all(r.accepts(node_name) for r in self.names)

    def mask(self, table: NodeTable, rows: Rows) -> Mask:
        """Return by row, shape (len(rows),), whether the term matches."""
        parts = [requirement_mask(table.label(r.key), r, rows) for r in self.labels]
        parts += [name_mask(table, r, rows) for r in self.names]
        found = parts[0]
        for part in parts[1:]:
            found &= part
        return found


class RequiredNodeAffinity(NamedTuple):
    """Labels that a node must have, and terms of which one must match (None: no such demand)."""

    labels: Term | None
    terms: tuple[Term, ...] | None

    @property
    def is_empty(self) -> bool:
        """Say whether every node matches."""
        return self.labels is None and self.terms is None

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Say whether a node with these labels and this name matches."""
        if self.labels is not None and not self.labels.matches(labels, node_name):
            return False
        return self.terms is None or any(term.matches(labels, node_name) for term in self.terms)

    def matches_node(self, node: Node) -> bool:
        """Say whether a node matches."""
        return self.matches(node.metadata.labels, node.metadata.name)

    def mask(self, table: NodeTable, rows: Rows) -> Mask:
        """Return bool of shape (len(rows),): whether each node matches. Rows without a node may hold anything."""
        if not isinstance(rows, slice) and len(rows) <= LOOP_AT_MOST:
            return np.array([_row_matches(self, table, row) for row in rows.tolist()], dtype=np.bool_)
        found: Mask = self.labels.mask(table, rows) if self.labels is not None else _all(table, rows)
        return found if self.terms is None else found & any_mask(self.terms, table, rows)


class NodePreference(NamedTuple):
    """A preferred term and what a node gains by matching it."""

    term: Term
    weight: int


def required_affinity(pod: Pod) -> RequiredNodeAffinity:
    """Compile a pod's nodeSelector and required node affinity."""
    affinity = node_affinity_of(pod)
    required = affinity.required if affinity is not None else None
    return RequiredNodeAffinity(
        _labels_term(pod.spec.node_selector), None if required is None else compile_terms(required)
    )


def node_affinity_of(pod: Pod) -> NodeAffinity | None:
    """Return spec.affinity.nodeAffinity, or None."""
    return pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None


def compile_terms(selector: NodeSelector) -> tuple[Term, ...]:
    """Compile the alternatives of a node selector, leaving out those that match nothing."""
    terms = []
    for term in selector.node_selector_terms:
        try:
            compiled = compile_term(term)
        except SelectorError:
            continue
        if compiled is not None:
            terms.append(compiled)
    return tuple(terms)


def compile_preferences(preferred: Iterable[NodeAffinityPreference]) -> tuple[NodePreference, ...]:
    """Compile preferred terms, leaving out those without weight or requirement. Raises `SelectorError`."""
    return tuple(
        NodePreference(term, preference.weight)
        for preference in preferred
        if preference.weight and (term := compile_term(preference.preference)) is not None
    )


def compile_term(term: NodeSelectorTerm) -> Term | None:
    """Compile one alternative; None where it says nothing and so matches nothing. Raises `SelectorError`."""
    if term.is_empty():
        return None
    return Term(tuple(term.label_requirements()), tuple(term.field_requirements()))


def _labels_term(labels: Mapping[str, str]) -> Term | None:
    if not labels:
        return None
    return Term(tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items())), ())


def weight_of(terms: Iterable[NodePreference], labels: Mapping[str, str], node_name: str) -> int:
    """Return the sum of the weights of the terms that a node matches."""
    return sum(weighted.weight for weighted in terms if weighted.term.matches(labels, node_name))


def weights(terms: Iterable[NodePreference], table: NodeTable, rows: Rows) -> Scores:
    """Return by row, int64 of shape (len(rows),), the sum of the weights of the terms that match."""
    total: Scores = np.zeros(len(table.valid[rows]), dtype=np.int64)
    for weighted in terms:
        total += weighted.term.mask(table, rows) * np.int64(weighted.weight)
    return total


def any_mask(terms: Iterable[Term], table: NodeTable, rows: Rows) -> Mask:
    """Return by row, shape (len(rows),), whether any of the terms matches."""
    found: Mask = np.zeros(len(table.valid[rows]), dtype=np.bool_)
    for term in terms:
        found |= term.mask(table, rows)
    return found


def requirement_mask(column: LabelColumn, requirement: Requirement, rows: Rows) -> Mask:
    """Return by row, a new array of shape (len(rows),), whether the label satisfies the requirement."""
    ids: Ids = column.ids[rows]
    if requirement.operator == "Exists":
        return np.not_equal(ids, ABSENT)
    if requirement.operator == "DoesNotExist":
        return np.equal(ids, ABSENT)
    if requirement.operator in ("In", "NotIn"):
        wanted = [known for value in requirement.values if (known := column.id_of(value)) != ABSENT]
        found = _is_one_of(ids, wanted, len(column.values))
        return found if requirement.operator == "In" else ~found
    # The verdict on an absent label stands last, where an id of -1 finds it.
    return column.accepted(requirement).take(ids)


def name_mask(table: NodeTable, requirement: Requirement, rows: Rows) -> Mask:
    """Return by row, a new array of shape (len(rows),), whether the node's name satisfies In or NotIn."""
    named = [row for name in requirement.values if (row := table.row_of.get(name)) is not None]
    is_named: Mask = np.zeros(table.capacity, dtype=np.bool_)
    is_named[named] = True
    return is_named[rows].copy() if requirement.operator == "In" else ~is_named[rows]


def _is_one_of(ids: Ids, wanted: list[int], value_count: int) -> Mask:
    if len(wanted) == 1:
        return np.equal(ids, wanted[0])
    is_wanted: Mask = np.zeros(value_count + 1, dtype=np.bool_)
    is_wanted[wanted] = True
    return is_wanted.take(ids)


def _all(table: NodeTable, rows: Rows) -> Mask:
    return np.ones(len(table.valid[rows]), dtype=np.bool_)


def _row_matches(required: RequiredNodeAffinity, table: NodeTable, row: int) -> bool:
    node = table.nodes[row]
    return node is not None and required.matches_node(node)
