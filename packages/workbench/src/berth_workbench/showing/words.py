"""How numbers and names are put into sentences, the same everywhere."""

from collections.abc import Sequence

from berth_workbench.showing.numbers import number
from berth_workbench.showing.sections import Behind, Cell

NAMES_SHOWN = 3
"""How many of several names are told in a table."""


def celled(cell: Cell, names: int | None = NAMES_SHOWN) -> str:
    """Return the text of a cell; of several names so many, all of them without a bound."""
    if isinstance(cell, tuple):
        return listed(cell, shown=names)
    if isinstance(cell, Behind):
        return cell.text
    return number(cell) if isinstance(cell, int) else cell


def because(plugins: Sequence[str], *, is_alone: bool) -> str:
    """Return which plugins cause a difference: each of them alone, or only all of them together."""
    if not plugins:
        return "what cannot be told plugin by plugin"
    several = len(plugins) > 1
    if is_alone:
        return " or ".join(plugins) + (", either alone" if several else "")
    return " and ".join(plugins) + (", together" if several else "")


def counted(number: int, one: str, several: str = "") -> str:
    """Return `1 pod`, `2,000 pods`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def listed(names: Sequence[str], last: str = "and", shown: int | None = None) -> str:
    """Return `a, b and c`; with `shown`, the first few names and how many more there are."""
    if shown is not None and len(names) > shown:
        return f"{', '.join(names[:shown])} {last} {len(names) - shown:,} more"
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""
