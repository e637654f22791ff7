"""Required terms: which domains the pod needs, which it must avoid, and which running pods forbid it.

The state of one cycle holds three sums by label key and domain. A what-if keeps its changes beside them, by label
key and value, so that cloning it is cheap.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.framework.interface import Codes, OverDomains, Rows
from berth.framework.status import unresolvable, unschedulable
from berth.plugins.inter_pod_affinity.domains import ByKey, Domains
from berth.state.node_view import NodeView
from berth.state.pod_index import Namespaces, TermGroup
from berth.state.pod_info import AffinityTerm, PodInfo
from berth.state.topology import Topologies

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

EXISTING_CODE, ANTI_AFFINITY_CODE, AFFINITY_CODE = 1, 2, 3
"""Where several apply to a node, the largest counts."""
STATUS_BY_CODE = {
    AFFINITY_CODE: unresolvable(REASON_AFFINITY),
    ANTI_AFFINITY_CODE: unschedulable(REASON_ANTI_AFFINITY),
    EXISTING_CODE: unschedulable(REASON_EXISTING),
}

ByDomain = NDArray[np.int8]
"""Codes by domain, as bytes: gathering them by row moves a quarter of the memory of int32."""

Changes = dict[tuple[str, str], int]
"""What a what-if adds to a sum, by label key and value."""


class Demands(NamedTuple):
    """What the pod asks of others, ready to match: all affinity terms as one group, anti-affinity terms singly."""

    pod: PodInfo
    namespaces: Namespaces
    affinity: TermGroup
    anti_affinity: tuple[AffinityTerm, ...]

    @property
    def affinity_keys(self) -> frozenset[str]:
        """The label keys that a node must have."""
        return frozenset(term.topology_key for term in self.affinity.terms)

    def matches_itself(self) -> bool:
        """Say whether the pod's own affinity terms match it."""
        return self.affinity.selects(self.pod, self.namespaces)


class CountsByDomain:
    """Pods, or terms, by label key and domain, with a what-if's changes."""

    __slots__ = ("_changes", "_domains")

    def __init__(self, domains: ByKey, changes: Changes | None = None) -> None:
        self._domains = domains
        self._changes = changes if changes is not None else {}

    def clone(self) -> "CountsByDomain":
        """Return a copy for a what-if."""
        return CountsByDomain(self._domains, dict(self._changes))

    def change(self, labels: Mapping[str, str], key: str, amount: int) -> None:
        """Add to the domain of a node with these labels, if it is in one."""
        value = labels.get(key)
        if value is not None:
            self._changes[key, value] = self._changes.get((key, value), 0) + amount

    def of(self, key: str, value: str) -> int:
        """Return the sum of one domain."""
        domains = self._domains.get(key)
        return (domains.of_value(value) if domains is not None else 0) + self._changes.get((key, value), 0)

    def any_on(self, labels: Mapping[str, str]) -> bool:
        """Say whether a node with these labels is in any domain whose sum is positive."""
        keys = {*self._domains, *(key for key, _ in self._changes)} if self._changes else self._domains
        return any(key in labels and self.of(key, labels[key]) > 0 for key in keys)

    def by_key(self, topologies: Topologies) -> ByKey:
        """Return the sums by key and domain, changes counted in."""
        if not self._changes:
            return self._domains
        found = dict(self._domains)
        for key in {key for key, _ in self._changes}:
            topology = topologies.get(key)
            known = found.get(key)
            sums = known.sums.copy() if known is not None else np.zeros(topology.size, dtype=np.int64)
            found[key] = Domains(topology, sums)
        for (key, value), change in self._changes.items():
            found[key].sums[found[key].topology.id_of(value)] += change
        return found

    @property
    def is_empty(self) -> bool:
        """Say whether every sum is zero."""
        if not self._changes:
            return not self._domains
        changed = {key for key, _ in self._changes}
        if any(key not in changed for key in self._domains):
            return False
        return all(self._nothing_under(key) for key in changed)

    def _nothing_under(self, key: str) -> bool:
        changes = {value: change for (of_key, value), change in self._changes.items() if of_key == key}
        domains = self._domains.get(key)
        if domains is None:
            return not any(changes.values())
        sums = domains.sums.copy()
        for value, change in changes.items():
            sums[domains.topology.id_of(value)] += change
        return not sums[:-1].any()


class AffinityFilterState:
    """The required terms that count in a cycle: those of the pod, and those of running pods that match it."""

    __slots__ = ("_affinity", "_anti_affinity", "_demands", "_existing", "_topologies")

    def __init__(
        self,
        demands: Demands,
        topologies: Topologies,
        affinity: CountsByDomain,
        anti_affinity: CountsByDomain,
        existing: CountsByDomain,
    ) -> None:
        self._demands = demands
        self._topologies = topologies
        self._affinity = affinity
        self._anti_affinity = anti_affinity
        self._existing = existing

    def clone(self) -> "AffinityFilterState":
        """Return a copy for a what-if."""
        return AffinityFilterState(
            self._demands,
            self._topologies,
            self._affinity.clone(),
            self._anti_affinity.clone(),
            self._existing.clone(),
        )

    def speaks_of(self, other: PodInfo) -> bool:
        """Say whether the pod's terms match `other`, or the terms of `other` match the pod. Raises `SelectorError`."""
        demands = self._demands
        if demands.affinity.terms and demands.affinity.selects(other, demands.namespaces):
            return True
        if any(TermGroup((term,)).selects(other, demands.namespaces) for term in demands.anti_affinity):
            return True
        own_labels = demands.namespaces.get(demands.pod.namespace, {})
        return any(term.matches(demands.pod, own_labels) for term in other.required_anti_affinity_terms)

    def change(self, other: PodInfo, node: NodeView, amount: int) -> None:
        """Count `other` on a node, or take it off."""
        demands, labels = self._demands, node.labels
        if demands.affinity.terms and demands.affinity.selects(other, demands.namespaces):
            for key in demands.affinity_keys:
                self._affinity.change(labels, key, amount)
        for term in demands.anti_affinity:
            if TermGroup((term,)).selects(other, demands.namespaces):
                self._anti_affinity.change(labels, term.topology_key, amount)
        own_labels = demands.namespaces.get(demands.pod.namespace, {})
        for term in other.required_anti_affinity_terms:
            if term.matches(demands.pod, own_labels):
                self._existing.change(labels, term.topology_key, amount)

    def code(self, node: NodeView) -> int:
        """Return what is said of one node."""
        labels = node.labels
        if not self._has_affinity(labels):
            return AFFINITY_CODE
        if self._anti_affinity.any_on(labels):
            return ANTI_AFFINITY_CODE
        return EXISTING_CODE if self._existing.any_on(labels) else 0

    def _over_domains(self) -> dict[str, ByDomain]:
        """Return int8 codes by label key and domain."""
        by_key = self._affinity_codes()
        for code, sums in ((EXISTING_CODE, self._existing), (ANTI_AFFINITY_CODE, self._anti_affinity)):
            for key, domains in sums.by_key(self._topologies).items():
                _raise_to(by_key, key, avoided(domains, code))
        return by_key

    def domains(self) -> OverDomains | None:
        """Return the codes by domain, where terms name one key with a few domains; else None."""
        by_key = self._over_domains()
        if len(by_key) != 1:
            return None
        ((key, codes),) = by_key.items()
        topology = self._topologies.get(key)
        return OverDomains.of(topology, codes) if topology.is_coarse else None

    def codes(self, rows: Rows) -> Codes:
        """Return int32 codes of shape (len(rows),)."""
        by_key = self._over_domains()
        found: Codes | None = None
        for key, by_domain in by_key.items():
            codes = self._topologies.get(key).gather_codes(by_domain, rows)
            found = codes if found is None else np.maximum(found, codes)
        if found is None:  # a what-if took away everything that was counted
            return np.zeros(len(self._topologies.table.valid[rows]), dtype=np.int32)
        return found

    def _has_affinity(self, labels: Mapping[str, str]) -> bool:
        keys = self._demands.affinity_keys
        if not all(key in labels for key in keys):
            return False
        return all(self._affinity.of(key, labels[key]) > 0 for key in keys) or self._is_first()

    def _is_first(self) -> bool:
        """Say whether the pod may be the first of its kind: its terms match no running pod, but the pod itself."""
        return self._affinity.is_empty and self._demands.matches_itself()

    def _affinity_codes(self) -> dict[str, ByDomain]:
        keys = self._demands.affinity_keys
        if not keys:
            return {}
        everywhere = self._is_first()
        by_key = self._affinity.by_key(self._topologies)
        return {key: self._needed(key, by_key.get(key), everywhere) for key in keys}

    def _needed(self, key: str, domains: Domains | None, everywhere: bool) -> ByDomain:
        """Return int8 codes by domain: the domains where none of the wanted pods runs."""
        if everywhere or domains is None:
            size = self._topologies.get(key).size
            codes: ByDomain = np.full(size, 0 if everywhere else AFFINITY_CODE, dtype=np.int8)
        else:
            codes = (domains.sums <= 0).view(np.int8) * np.int8(AFFINITY_CODE)
        codes[-1] = AFFINITY_CODE
        return codes


def avoided(domains: Domains, code: int) -> ByDomain:
    """Return int8 by domain: `code` where the sum is positive, 0 for nodes without the label."""
    codes = (domains.sums > 0).view(np.int8)
    codes[-1] = 0
    return codes * np.int8(code)


def _raise_to(by_key: dict[str, ByDomain], key: str, codes: ByDomain) -> None:
    known = by_key.get(key)
    by_key[key] = codes if known is None else np.maximum(known, codes)
