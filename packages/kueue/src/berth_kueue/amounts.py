"""Amounts of resources as Kueue counts them, and as it writes them into messages.

An amount is a whole number: CPU in thousandths, everything else in units, both rounded up. A quota beyond what an
int64 holds is unlimited and is `UNLIMITED` here, which Python compares with whole numbers exactly; usage is always
finite. Source: `pkg/resources` (amount.go, requests.go, resource_formatter.go, slice_requests.go).
"""

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from berth.api.quantity import Quantity, canonical, milli_value, parse, value

CPU, PODS = "cpu", "pods"
UNLIMITED = math.inf
_MAX = 2**63 - 1
_BINARY = ("memory", "ephemeral-storage")
_SCALE = re.compile(r"(-?\d+)([a-zA-Z]*)")
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def amount_of(resource: str, quantity: Quantity) -> int:
    """Return a request: CPU in thousandths, everything else in units."""
    return milli_value(quantity) if resource == CPU else value(quantity)


def quota_of(resource: str, quantity: Quantity) -> float:
    """Return a quota, `UNLIMITED` where an int64 cannot hold it."""
    limit = _MAX // 1000 if resource == CPU else _MAX
    return UNLIMITED if parse(quantity) >= limit else amount_of(resource, quantity)


@lru_cache(maxsize=65536)
def written(resource: str, amount: float) -> str:
    """Return an amount as messages and statuses have it, such as `1500m`, `2Gi` or `3`."""
    if amount == UNLIMITED:
        return "<unlimited>"
    whole = int(amount)
    if resource == CPU:
        return canonical(Fraction(whole, 1000))
    if resource in _BINARY or resource.startswith("hugepages-"):
        text = canonical(Fraction(whole), is_binary=True)
        if not text[-1].isdigit():
            return text
    return canonical(Fraction(whole))


@lru_cache(maxsize=1024)
def _order_key(resource: str) -> tuple[int, str]:
    hashed = 14695981039346656037  # FNV-1a, 64 bits
    for byte in resource.encode():
        hashed = (hashed ^ byte) * 1099511628211 % 2**64
    return hashed, resource


def in_order(requests: Mapping[str, int] | Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return requests in the order in which Kueue walks through resources: by a hash of the name.

    The order shows where one resource of several has no quota at all: those before it are looked at.
    """
    return dict(sorted(dict(requests).items(), key=lambda item: _order_key(item[0])))


def weight_of(quantity: Quantity | None) -> float:
    """Return the weight of fair sharing, 1 where there is none; computed as Go does, so that shares tie as there."""
    if quantity is None:
        return 1.0
    match = _SCALE.fullmatch(canonical(parse(quantity)))
    assert match is not None, "canonical quantities are a number and a suffix"
    power = _POWERS[match[2]]
    return int(match[1]) * 10.0**power if power else float(match[1])
