"""What the resource plugins score: which resources, what the pod adds, and reading both forms of a node.

A `ResourceScorer` is made from the `resources` of a plugin's args. It turns a pod into what that pod adds to each
resource (`WeightedRequest`), and nodes, single or by column, into what a strategy takes. A resource other than CPU,
memory and storage is left out of the score unless the pod asks for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from berth.api.pod_resources import CPU, MEMORY
from berth.framework.interface import Rows
from berth.plugins.resources.args import ResourceSpec
from berth.plugins.resources.columns import ResourceColumns, row_amounts
from berth.plugins.resources.names import PLAIN_RESOURCES
from berth.plugins.resources.scoring import Use, UseColumn
from berth.state.node_view import NodeView
from berth.state.table import NodeTable


class WeightedRequest(NamedTuple):
    """What a pod adds to one of the scored resources."""

    resource: str
    amount: int
    weight: int


class ResourceScorer:
    """Reads the resources that a plugin scores. `with_defaults`: count CPU and memory as if every container asked."""

    __slots__ = ("_resources", "_with_defaults")

    def __init__(self, resources: Iterable[ResourceSpec], *, with_defaults: bool) -> None:
        self._resources = tuple((spec.name, spec.weight) for spec in resources)
        self._with_defaults = with_defaults

    def wanted(self, requests: Mapping[str, int]) -> tuple[WeightedRequest, ...]:
        """Return what a pod with these requests adds, resource by resource."""
        return tuple(
            [
                WeightedRequest(name, requests.get(name, 0), weight)
                for name, weight in self._resources
                if name in PLAIN_RESOURCES or requests.get(name, 0)
            ]
        )

    def node_uses(self, wanted: Sequence[WeightedRequest], node: NodeView) -> list[Use]:
        """Return how a node's resources would be used with the pod there."""
        has = node.allocatable
        return [
            (has.get(resource, 0), self._asked_of(node, resource) + amount, weight)
            for resource, amount, weight in wanted
        ]

    def row_uses(self, wanted: Sequence[WeightedRequest], table: NodeTable, row: int) -> list[Use]:
        """Return the same for a row."""
        uses = []
        for resource, amount, weight in wanted:
            has, asked = row_amounts(table, resource, row, with_defaults=self._with_defaults)
            uses.append((has, asked + amount, weight))
        return uses

    def columns(self, table: NodeTable) -> ResourceColumns:
        """Return the columns that are read, up to date."""
        return ResourceColumns.shared(table, with_defaults=self._with_defaults)

    def column_uses(self, wanted: Sequence[WeightedRequest], table: NodeTable, rows: Rows) -> list[UseColumn]:
        """Return the same for many rows, as arrays."""
        of = self.columns(table).of
        return [UseColumn(of(table, resource, rows), amount, weight) for resource, amount, weight in wanted]

    def _asked_of(self, node: NodeView, resource: str) -> int:
        if self._with_defaults and resource == CPU:
            return node.scoring_requested[0]
        if self._with_defaults and resource == MEMORY:
            return node.scoring_requested[1]
        return node.requested.get(resource, 0)
