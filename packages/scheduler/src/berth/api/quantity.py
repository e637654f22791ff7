"""Kubernetes resource quantities, exactly.

What JSON gives for a quantity (a string such as ``"1500m"`` or ``"2Gi"``, an int or a float) becomes one of the two
integers that scheduling uses: milli-units for CPU, whole units for everything else, both rounded up.
The grammar is that of ``k8s.io/apimachinery/pkg/api/resource``.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from berth.api.user_error import UserError

Quantity = str | int | float

MAX_VALUE = 2**63 - 1
"""Largest value a quantity can hold; anything above is capped, as upstream caps it."""

MAX_COUNTED = 2**53
"""The largest amount of a resource, in the units that scheduling counts in: 9 PB of memory. More counts as this much.

Upstream's int64 values and sums wrap round beyond 2**63, or become 0: docs/differences.md tells which. With this bound
the pods of a node cannot add up to that even when multiplied by 100, and float64 represents each amount exactly.
"""

_NUMBER = re.compile(
    r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d{1,19}))?", re.ASCII
)
_NANO = Fraction(1, 10**9)
# Longer than any sensible quantity. Reading thousands of digits would take long for nothing.
_MAX_CHARACTERS = 1000
_SUFFIX: dict[str, Fraction] = {
    "n": _NANO,
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{suffix: Fraction(1000 ** (power + 1)) for power, suffix in enumerate("kMGTPE")},
    **{suffix + "i": Fraction(1024 ** (power + 1)) for power, suffix in enumerate("KMGTPE")},
}
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_EXPONENTS = tuple(f"e{3 * power}" if power else "" for power in range(-3, 7))
_WHOLE = re.compile(r"(\d{1,19})(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)?", re.ASCII)
_NANOS = {suffix or None: int(scale / _NANO) for suffix, scale in _SUFFIX.items()}


class QuantityError(UserError, ValueError):
    """A quantity that Kubernetes itself would refuse."""


@lru_cache(maxsize=65536, typed=True)
def parse(quantity: Quantity) -> Fraction:
    """Return the exact value of `quantity`, in units; what is finer than a nano-unit is rounded away from zero."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if match is None or isinstance(quantity, bool):
        shown = repr(quantity if len(text) < 100 else f"{text[:100]}…")
        raise QuantityError(
            f"{shown} is not a quantity: expected a number with an optional suffix "
            "(n u m k M G T P E, Ki Mi Gi Ti Pi Ei) or exponent, like 500m, 2Gi or 1e3"
        )
    sign, digits, suffix, exponent = match.groups()
    scale = _SUFFIX[suffix or ""] if exponent is None else _power_of_ten(int(exponent))
    value = min(_round_up(Fraction(digits) * scale, _NANO), Fraction(MAX_VALUE))
    return -value if sign == "-" else value


@lru_cache(maxsize=65536, typed=True)
def nano_value(quantity: Quantity) -> int:
    """Return `quantity` in 1e-9 units: the finest a quantity can be, so that sums of these are exact."""
    whole = _WHOLE.fullmatch(quantity) if isinstance(quantity, str) else None
    if whole is not None:  # nearly all quantities are integers, which this way is ten times as fast
        digits, suffix = whole.groups()
        return min(int(digits) * _NANOS[suffix], MAX_VALUE * 10**9)
    return int(parse(quantity) * 10**9)


def canonical(amount: Fraction, *, is_binary: bool = False, is_exponential: bool = False) -> str:
    """Return an amount as Kubernetes writes it: without a point, with the largest suffix with which that is possible.

    `is_binary` for amounts that were given in powers of two, as `1Gi` is, `is_exponential` for such as `1e3`.
    """
    if is_binary and abs(amount) >= 1024 and amount.denominator == 1:
        return _with_suffix(int(amount), 1024, _BINARY)
    return _with_suffix(int(amount / _NANO), 1000, _EXPONENTS if is_exponential else _DECIMAL)


def _with_suffix(amount: int, base: int, suffixes: Sequence[str]) -> str:
    if not amount:
        return "0"
    for suffix in suffixes[:-1]:
        if amount % base:
            return f"{amount}{suffix}"
        amount //= base
    return f"{amount}{suffixes[-1]}"


def counted(amount: int) -> int:
    """Return an amount of a resource as it is counted: between -`MAX_COUNTED` and `MAX_COUNTED`."""
    return max(-MAX_COUNTED, min(amount, MAX_COUNTED))


def milli_value(quantity: Quantity) -> int:
    """Return `quantity` in thousandths of a unit, rounded up (CPU)."""
    return _ceil_away_from_zero(nano_value(quantity), 10**6)


def value(quantity: Quantity) -> int:
    """Return `quantity` in whole units, rounded up (memory, storage, pods, extended resources)."""
    return _ceil_away_from_zero(nano_value(quantity), 10**9)


def _power_of_ten(exponent: int) -> Fraction:
    # Beyond these the value is capped or rounds to one nano-unit anyway; huge powers would only cost memory.
    bounded = max(min(exponent, 64), -64)
    return Fraction(10**bounded) if bounded >= 0 else Fraction(1, 10**-bounded)


def _round_up(amount: Fraction, step: Fraction) -> Fraction:
    return -(-amount // step) * step


def _ceil_away_from_zero(nanos: int, unit: int) -> int:
    """Return an amount in units of so many nano-units."""
    bounded = min(-(-abs(nanos) // unit), MAX_VALUE)
    return bounded if nanos >= 0 else -bounded
