"""Amounts of resources: exact, added up, and written as Kubernetes writes them."""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from berth.api.quantity import canonical, parse

_BINARY = re.compile(r"[KMGTPE]i$")
_EXPONENT = re.compile(r"\d[eE][+-]?\d+$")


class Amount(NamedTuple):
    """How much of a resource, and whether it was given in powers of two, as `1Gi` is, or of ten, as `1e3`."""

    value: Fraction
    is_binary: bool = False
    is_exponential: bool = False

    def __str__(self) -> str:
        """The text that Kubernetes writes."""
        return canonical(self.value, is_binary=self.is_binary, is_exponential=self.is_exponential)


Amounts = Mapping[str, Amount]
ONE = Amount(Fraction(1))


def amount(quantity: str | float) -> Amount:
    """Read a quantity. Raises `QuantityError`."""
    text = str(quantity)
    return Amount(parse(quantity), bool(_BINARY.search(text)), bool(_EXPONENT.search(text)))


def amounts(quantities: Mapping[str, Any] | None) -> dict[str, Amount]:
    """Read the quantities of a map. Raises `QuantityError`."""
    return {name: amount(quantity) for name, quantity in (quantities or {}).items()}


def total(parts: Iterable[Amounts]) -> dict[str, Amount]:
    """Add amounts up, resource by resource; a sum is written as its first part that is not zero."""
    result: dict[str, Amount] = {}
    for part in parts:
        for name, more in part.items():
            known = result.get(name)
            if known is None or not known.value:
                result[name] = more
            else:
                result[name] = known._replace(value=known.value + more.value)
    return result


def largest(one: Amounts, other: Amounts) -> dict[str, Amount]:
    """Return the larger amount of each resource."""
    result = dict(one)
    for name, each in other.items():
        if name not in result or result[name].value < each.value:
            result[name] = each
    return result


def listed(found: Mapping[str, Any]) -> str:
    """Return `cpu=1,memory=2Gi`, by name."""
    return ",".join(f"{name}={found[name]}" for name in sorted(found))
