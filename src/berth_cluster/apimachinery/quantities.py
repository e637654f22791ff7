"""Quantities as the API server writes them: `1000m` is `1`, `0.5Gi` is `512Mi`.

Called for every quantity in a body. Source: k8s.io/apimachinery/pkg/api/resource, whose canonical form has no digits
after the point, the largest suffix with which that is possible, and a suffix of the kind that was given.
"""

import re
from fractions import Fraction
from functools import lru_cache

from berth.api.quantity import Quantity, QuantityError, parse

_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_NANO_EXPONENT = -9
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_EXPONENT = re.compile(r"\d[eE][+-]?\d")


@lru_cache(maxsize=65536, typed=True)
def canonical(quantity: Quantity) -> str:
    """The quantity in its canonical form; raises `QuantityError`."""
    text = str(quantity).strip()
    if not text:
        raise QuantityError("a quantity may not be empty")
    exact = parse(text)
    if exact == 0:
        return "0"
    if text.endswith("i") and abs(exact) >= 1024 and exact.denominator == 1:
        return _scaled(exact, 1024, _BINARY, 0)
    if _EXPONENT.search(text):
        return _scaled(exact, 1000, tuple(f"e{3 * power}" if power else "" for power in range(-3, 7)), _NANO_EXPONENT)
    return _scaled(exact, 1000, _DECIMAL, _NANO_EXPONENT)


def _scaled(exact: Fraction, base: int, suffixes: tuple[str, ...], lowest: int) -> str:
    amount = int(exact * 10**-lowest)
    for suffix in suffixes[:-1]:
        if amount % base:
            return f"{amount}{suffix}"
        amount //= base
    return f"{amount}{suffixes[-1]}"
