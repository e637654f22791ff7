"""Whether a node has room for a pod's requests: the filter of NodeResourcesFit, without the plugin around it.

What the pod wants and what a node (or every row) has and has given away go in; reasons come out, or a code for each
row. A code is a set of bits: one for too many pods, one for each resource that is short, one where removing pods
would not help. Called by the plugin, and by its hints with nodes that run nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.pod_resources import PODS
from berth.framework.interface import Codes, RowLoad, Rows
from berth.framework.status import Code, Status
from berth.plugins.resources.columns import (
    Mask,
    ResourceColumn,
    ResourceColumns,
    any_true,
    picked,
    room,
    row_amounts,
)
from berth.plugins.resources.names import PLAIN_RESOURCES, is_extended, is_scalar
from berth.state.table import NodeTable

TOO_MANY_PODS = "Too many pods"
INSUFFICIENT = "Insufficient {}"

TOO_MANY_PODS_BIT = 1
UNRESOLVABLE_BIT = 1 << 30
NO_LIMIT = 2**62
MAX_RESOURCES = 29
"""How many resources a code has bits for. A pod with more, which is unheard of, would share the last bit."""


class ResourceNeed(NamedTuple):
    """How much a pod wants of one resource; where devices may stand in, nodes without any of it pass."""

    resource: str
    amount: int
    devices: bool = False


class Ignored(NamedTuple):
    """Extended resources that are not looked at: by name, and by the part before the slash."""

    names: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def covers(self, resource: str) -> bool:
        """Say whether a resource is ignored."""
        if not is_extended(resource):
            return False
        return resource in self.names or resource.partition("/")[0] in self.groups


def needs_of(requests: Mapping[str, int], ignored: Ignored) -> tuple[ResourceNeed, ...]:
    """Return what has to be looked at, in the order of reasons: plain resources, then the others by name."""
    plain = [ResourceNeed(name, requests[name]) for name in PLAIN_RESOURCES if requests.get(name, 0) > 0]
    if len(plain) == len(requests):
        return tuple(plain)
    others = sorted(
        ResourceNeed(name, amount)
        for name, amount in requests.items()
        if amount > 0 and name not in PLAIN_RESOURCES and is_scalar(name) and not ignored.covers(name)
    )
    return (*plain, *others)


def fit_code(
    needs: Sequence[ResourceNeed],
    allocatable: Mapping[str, int],
    requested: Mapping[str, int],
    pods: int,
    allowed_pods: int,
) -> int:
    """Return the code of one node: 0 where the pod fits."""
    code = TOO_MANY_PODS_BIT if pods + 1 > allowed_pods else 0
    for index, need in enumerate(needs):
        code |= _need_code(index, need, allocatable.get(need.resource, 0), requested.get(need.resource, 0))
    return code


def _need_code(index: int, need: ResourceNeed, has: int, given: int) -> int:
    if need.amount <= has - given or (need.devices and has <= 0):
        return 0
    return _bit(index) | (UNRESOLVABLE_BIT if need.amount > has else 0)


def _bit(index: int) -> int:
    return 2 << min(index, MAX_RESOURCES - 1)


def code_status(needs: Sequence[ResourceNeed], code: int) -> Status:
    """Return what a code means."""
    return lacking_status(
        needs, code, Code.UNSCHEDULABLE_AND_UNRESOLVABLE if code & UNRESOLVABLE_BIT else Code.UNSCHEDULABLE
    )


def lacking_status(needs: Sequence[ResourceNeed], code: int, verdict: Code) -> Status:
    """Return a verdict with the reasons that a code stands for."""
    short = tuple(need.resource for index, need in enumerate(needs) if code & _bit(index))
    reasons = tuple(INSUFFICIENT.format(resource) for resource in short)
    if code & TOO_MANY_PODS_BIT:
        return Status(verdict, (TOO_MANY_PODS, *reasons), lacking=(PODS, *short))
    return Status(verdict, reasons, lacking=short)


def fit_codes(needs: Sequence[ResourceNeed], table: NodeTable, rows: Rows) -> Codes:
    """Return the code of each row, int32 (rows,); 0 for rows that hold no node."""
    columns = ResourceColumns.shared(table, with_defaults=False)
    computed = columns.worth_computing(rows, table)
    codes, column = room(computed, rows, table, np.int32)
    _write_codes(codes, needs, columns, table, computed)
    return picked(column, computed, rows)


def _write_codes(
    codes: Codes, needs: Sequence[ResourceNeed], columns: ResourceColumns, table: NodeTable, rows: Rows
) -> None:
    codes.fill(0)
    valid = table.valid[rows]
    _add_bits(codes, table.pod_count[rows] >= table.allowed_pods[rows], TOO_MANY_PODS_BIT, valid)
    for index, need in enumerate(needs):
        _add_need(codes, index, need, columns.of(table, need.resource, rows), valid)


def load_limits(needs: Sequence[ResourceNeed], table: NodeTable, rows: NDArray[np.intp]) -> RowLoad:
    """Return the most that other pods may take of each row; all rows hold nodes."""
    limits: dict[str, NDArray[np.int64]] = {}
    for need in needs:
        has = _allocatable(need, table, rows)
        limits[need.resource] = np.where(has > 0, has - need.amount, NO_LIMIT) if need.devices else has - need.amount
    return RowLoad(table.allowed_pods[rows] - 1, limits)


def _allocatable(need: ResourceNeed, table: NodeTable, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    known = table.resource_index.get(need.resource)
    return np.zeros(len(rows), dtype=np.int64) if known is None else table.allocatable[known][rows]


def loaded_codes(needs: Sequence[ResourceNeed], table: NodeTable, rows: NDArray[np.intp], load: RowLoad) -> Codes:
    """Return the code of each row, int32 (rows,), were the nodes loaded like this; all rows hold nodes."""
    codes: Codes = np.zeros(len(rows), dtype=np.int32)
    _add_bits(codes, load.pods >= table.allowed_pods[rows], TOO_MANY_PODS_BIT)
    for index, need in enumerate(needs):
        has = _allocatable(need, table, rows)
        short = has - load.requested[need.resource] < need.amount
        if need.devices:
            short &= has > 0
        if _add_bits(codes, short, _bit(index)):
            _add_bits(codes, short & (has < need.amount), UNRESOLVABLE_BIT)
    return codes


def row_code(needs: Sequence[ResourceNeed], table: NodeTable, row: int) -> int:
    """Return the code of one row, 0 where it holds no node."""
    if not table.valid.item(row):
        return 0
    code = TOO_MANY_PODS_BIT if table.pod_count.item(row) >= table.allowed_pods.item(row) else 0
    for index, need in enumerate(needs):
        resource, amount, _ = need
        has, given = row_amounts(table, resource, row, with_defaults=False)
        if amount > has - given:
            code |= _need_code(index, need, has, given)
    return code


def _add_need(codes: Codes, index: int, need: ResourceNeed, column: ResourceColumn, valid: Mask) -> None:
    """Add the bits of one resource to `codes`."""
    short = column.free < need.amount
    if need.devices:
        short &= column.amounts > 0
    if _add_bits(codes, short, _bit(index), valid):
        _add_bits(codes, short & (column.amounts < need.amount), UNRESOLVABLE_BIT, valid)


def _add_bits(codes: Codes, where: Mask, bits: int, valid: Mask | None = None) -> bool:
    """Set bits in the codes of some rows (valid ones only); return whether there were any."""
    if not any_true(where):
        return False
    if valid is not None:
        where = where & valid
    np.bitwise_or(codes, where * np.int32(bits), out=codes)
    return True


def missing(needs: Iterable[ResourceNeed], allocatable: Mapping[str, int]) -> bool:
    """Say whether an empty node of this size is too small."""
    return any(_need_code(0, need, allocatable.get(need.resource, 0), 0) for need in needs)
