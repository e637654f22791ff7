"""What goes into a search of a topology and what comes back, as values: pod sets, domains with counts, failures.

Amounts are whole numbers: CPU in milli-units, everything else in units. A domain is known by its id, the values of its
levels with commas between; where the lowest level is the hostname, a leaf's id is the hostname alone.
Source: kubernetes-sigs/kueue, pkg/util/tas and apis/kueue/v1beta2 (PodSetTopologyRequest, TopologyAssignment).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from berth.api.pod import PodSpec

PODS = "pods"
Amounts = Mapping[str, int]


class TopologyAssignment(msgspec.Struct, frozen=True):
    """Where the pods of a pod set go: for each domain its values at the levels, and how many pods."""

    levels: tuple[str, ...]
    domains: tuple[tuple[tuple[str, ...], int], ...]


def read_assignment(given: Mapping[str, Any]) -> TopologyAssignment:
    """Read a `topologyAssignment` as v1beta2 writes it: in slices, whose values and counts may be told once for all."""
    domains: list[tuple[tuple[str, ...], int]] = []
    for part in given.get("slices") or ():
        size = part["domainCount"]
        columns = [_values_of(each, size) for each in part["valuesPerLevel"]]
        counts = part["podCounts"]
        of_each = [counts["universal"]] * size if counts.get("universal") is not None else counts["individual"]
        domains += [(values, of_each[at]) for at, values in enumerate(zip(*columns, strict=True))]
    return TopologyAssignment(tuple(given["levels"]), tuple(domains))


def _values_of(given: Mapping[str, Any], size: int) -> list[str]:
    if given.get("universal") is not None:
        return [given["universal"]] * size
    own = given["individual"]
    return [f"{own.get('prefix') or ''}{root}{own.get('suffix') or ''}" for root in own["roots"]]


class DomainUsage(msgspec.Struct, frozen=True):
    """So many pods in one domain, each of which asks for `requests`."""

    values: tuple[str, ...]
    requests: Amounts
    count: int

    def total(self) -> dict[str, int]:
        """What all of them take, the pods themselves among it."""
        total = {name: amount * self.count for name, amount in self.requests.items()}
        total[PODS] = total.get(PODS, 0) + self.count
        return total


class SliceLayer(msgspec.Struct, frozen=True):
    """Pods go to domains of a level in groups of `size`."""

    level: str
    size: int


class TopologyWish(msgspec.Struct, frozen=True):
    """What a pod set wishes of a topology, read from its `topologyRequest`."""

    required: str = ""
    preferred: str = ""
    is_unconstrained: bool = False
    layers: tuple[SliceLayer, ...] = ()
    """From the outermost to the innermost."""
    group: str = ""
    """Pod sets of one group go to the same domain; the one with fewer pods is the leader."""

    @property
    def is_of_slices_only(self) -> bool:
        """Whether slices are all that is wished: then the pods may be anywhere."""
        return bool(self.layers) and not self.required and not self.preferred

    def level(self, highest: str, lowest: str) -> str:
        """The level at which a domain is sought; empty where none is wished for."""
        if self.required or self.preferred:
            return self.required or self.preferred
        if self.is_of_slices_only:
            return highest
        return lowest if self.is_unconstrained else ""

    def slice_level(self, lowest: str) -> str:
        """The level of the outermost slices; single pods are slices of the lowest level."""
        return self.layers[0].level if self.layers else lowest


def wish_of(request: Mapping[str, Any] | None) -> TopologyWish:
    """Read a `topologyRequest`; the older fields for slices mean one layer."""
    given = request or {}
    layers = tuple(
        SliceLayer(each["topology"], each["size"]) for each in given.get("podsetSliceRequiredTopologyConstraints") or ()
    )
    if not layers and given.get("podSetSliceRequiredTopology") is not None:
        layers = (SliceLayer(given["podSetSliceRequiredTopology"], given.get("podSetSliceSize") or 0),)
    return TopologyWish(
        given.get("required") or "",
        given.get("preferred") or "",
        bool(given.get("unconstrained")),
        layers,
        given.get("podSetGroupName") or "",
    )


class PodSetPlacing(msgspec.Struct, frozen=True):
    """A pod set that is to be placed in a topology."""

    name: str
    spec: PodSpec
    request: Mapping[str, Any]
    """`spec.podSets[].topologyRequest`, empty where there is none."""
    count: int
    requests: Amounts
    """What one pod asks for."""
    is_implied: bool = False
    """Whether no topology was asked for, but the ClusterQueue has no flavors without one."""


class PlacedWorkload(msgspec.Struct, frozen=True):
    """The workload that pod sets belong to: its uid, and what a replacement for a failed node begins with."""

    uid: str = ""
    unhealthy_nodes: tuple[str, ...] = ()
    admission: Mapping[str, TopologyAssignment] = {}
    """By pod set, the assignment that it was admitted with."""


class PlacingFailure(msgspec.Struct, frozen=True):
    """Why a workload finds no place."""

    pod_set: str
    flavor: str
    words: str


class PodSetPlacements(msgspec.Struct, frozen=True):
    """Where each pod set goes, or the first that has no place."""

    placed: Mapping[str, TopologyAssignment | None]
    failure: PlacingFailure | None = None
