"""Numbers as people read them: the one place that says how many digits there are, and where thousands are parted.

Tables, sentences, pictures, `berth top` and the page use it; `page/assets/numbers.js` has the same rules for what the
browser draws by itself, and a test holds the two against each other.
"""

import math
from typing import Final

NOTHING: Final = "\N{EN DASH}"
"""Stands where there is no number to tell."""
_UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES: Final = ("memory", "ephemeral-storage")
_WHOLE_FROM: Final = 100
"""From here on digits behind the point tell nobody anything."""


def number(value: float | None) -> str:
    """Return `14,714`, `12.5` or `0.25`: whole from a hundred on, else with three digits that count."""
    if value is None:
        return NOTHING
    if value == int(value) or abs(value) >= _WHOLE_FROM:
        return f"{_half_up(value):,}"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = _half_up(value * 10**digits) / 10**digits
    if abs(rounded) >= _WHOLE_FROM:
        return f"{int(rounded):,}"
    text = f"{rounded:.{min(digits, 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float | None) -> str:
    """Return a share between 0 and 1 as `38%`; what is neither nothing nor all is never told as that."""
    if share is None:
        return NOTHING
    told = _half_up(share * 100)
    if told == 0 and share > 0:
        return "<1%"
    if told == 100 and share < 1:
        return ">99%"
    return f"{told:,}%"


def quantity(resource: str, value: float | None) -> str:
    """Return an amount of a resource: of `cpu` in CPUs, of memory and the like in bytes, of others in pieces."""
    if value is not None and is_bytes(resource) and abs(value) >= 1024:
        power = min(len(_UNITS), int(math.log(abs(value), 1024) + 1e-9))
        if abs(value) / 1024**power >= 1023.5 and power < len(_UNITS):
            power += 1
        return f"{number(value / 1024**power)}{_UNITS[power - 1]}"
    return number(value)


def amount(resource: str, counted: float | None) -> str:
    """The same of an amount as the scheduler counts it, which has CPU in thousandths."""
    return quantity(resource, counted / 1000 if counted is not None and resource == "cpu" else counted)


def is_bytes(resource: str) -> bool:
    """Whether a resource is counted in bytes."""
    name = resource.removeprefix("requests.").removeprefix("limits.")
    return name in _BYTES or name.startswith("hugepages-") or name.endswith("storage")


def _half_up(value: float) -> int:
    """Round as JavaScript does, so that the page's scripts say the same."""
    return math.floor(value + 0.5)
