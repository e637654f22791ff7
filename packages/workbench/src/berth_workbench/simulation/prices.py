"""What nodes cost, by name or by a label, in whatever unit the reader thinks in (most often money an hour)."""

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from berth.api.node import Node
from berth.api.pools import INSTANCE_TYPE
from berth.api.user_error import UserError

MOST = 1e9


class PriceError(UserError, ValueError):
    """Prices that cannot be used; the message says which."""


class Prices(msgspec.Struct, frozen=True):
    """What a node costs: its own price if there is one, else that of its label's value, else the default."""

    nodes: dict[str, float] = {}
    """By node name."""
    types: dict[str, float] = {}
    """By value of `label`."""
    label: str = INSTANCE_TYPE
    default: float | None = None
    """What every other node costs; None where that is not known."""

    def of(self, node: Node) -> float | None:
        """Return what a node costs; None where nothing says so."""
        own = self.nodes.get(node.metadata.name)
        return own if own is not None else self.types.get(node.metadata.labels.get(self.label, ""), self.default)

    @classmethod
    def of_document(cls, document: Any) -> Self:
        """Return the prices that a document gives: `types` and `nodes`, or a plain mapping for both. Raises PriceError.

        In a plain mapping each name may be an instance type's or a node's.
        """
        if not isinstance(document, Mapping):
            raise PriceError("prices must be a mapping from instance type or node name to a number")
        if not any(key in document for key in cls.__struct_fields__):
            document = {"types": document, "nodes": document}
        try:
            prices = msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            raise PriceError(f"prices: {error}") from None
        if unknown := sorted(map(str, document.keys() - set(cls.__struct_fields__))):
            raise PriceError(f"prices: {unknown[0]!r} is not known beside {', '.join(cls.__struct_fields__)}")
        given = {**prices.types, **prices.nodes, "default": prices.default or 0.0}
        for name, price in given.items():
            if not 0 <= price < MOST:
                raise PriceError(f"prices: {name} costs {price}; a price is a number from 0 to 10^9")
        return prices
