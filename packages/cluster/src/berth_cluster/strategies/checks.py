"""What checks of objects are made of: small functions that say which field has to be there, and what is true of it.

A check gets a value, its place, and the `FieldErrors` to report to. The functions here make one out of others: a tuple
of fields describes a type, in upstream's order, and is itself a check. Values have the types of their fields, since the
decoder has refused all others.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object, value_at

Check = Callable[[Any, str, FieldErrors], None]
IMMUTABLE = "field is immutable"


def nothing(_value: Any, _field: str, _errors: FieldErrors) -> None:
    """Everything is all right."""


def both(*checks: Check) -> Check:
    """One check after another, of the same value."""

    def check(value: Any, field: str, errors: FieldErrors) -> None:
        for one in checks:
            one(value, field, errors)

    return check


def _field(path: str, checks: tuple[Check, ...], asked: str, default: Any = None, why: str = "") -> Check:
    """The checks of what is at a dotted path, where it is asked for."""
    name, _, below = path.partition(".")
    run = checks[0] if len(checks) == 1 else both(*checks)
    is_needed, is_always, is_given = (asked == word for word in ("need", "always", "given"))

    def check(holder: Object, field: str, errors: FieldErrors) -> None:
        value = holder.get(name)
        if below:
            value = value_at(value, below)
        if value:
            run(value, f"{field}.{path}" if field else path, errors)
        elif is_needed:
            errors.required(f"{field}.{path}" if field else path, why)
        elif is_always or (is_given and value is not None):
            run(default if value is None else value, f"{field}.{path}" if field else path, errors)

    return check


def may(path: str, *checks: Check) -> Check:
    """A field that may be absent, or empty."""
    return _field(path, checks, "may")


def given(path: str, *checks: Check) -> Check:
    """A field that may be absent; what is there counts even if it is empty or zero."""
    return _field(path, checks, "given")


def always(path: str, *checks: Check, default: Any = "") -> Check:
    """A field that is checked even where it is absent, as the default."""
    return _field(path, checks, "always", default)


def need(path: str, *checks: Check, why: str = "") -> Check:
    """A field that has to be there, and not be empty."""
    return _field(path, checks, "need", why=why)


class Unique(NamedTuple):
    """Inside `each`: no two entries have the same in this field, and which words tell of a second one."""

    name: str
    default: Any = None  # what counts where the field is absent; None for nothing
    at_entry: bool = False  # the place is that of the entry


def each(path: str, *checks: Check | Unique) -> Check:
    """The entries of a list."""

    def check(entries: list[Any], field: str, errors: FieldErrors) -> None:
        seen: set[Any] = set()  # no list has two fields that are unique
        for number, one in enumerate(entries):
            place = f"{field}[{number}]"
            for each_check in checks:
                if not isinstance(each_check, Unique):
                    each_check(one, place, errors)
                elif (value := one.get(each_check.name, each_check.default)) is not None:
                    if value in seen:
                        errors.duplicate(place if each_check.at_entry else f"{place}.{each_check.name}", value)
                    seen.add(value)

    return may(path, check)


def one_of(*allowed: str) -> Check:
    """One of a few words."""

    def check(value: Any, field: str, errors: FieldErrors) -> None:
        if value not in allowed:
            errors.unsupported(field, value, allowed)

    return check


def chosen(path: str, *allowed: str) -> Check:
    """A field that has a default, and may be one of a few words."""
    return need(path, one_of(*allowed))


def wrong_unless(is_right: Callable[[Any], object], why: str) -> Check:
    """A value of which something has to be true."""

    def check(value: Any, field: str, errors: FieldErrors) -> None:
        if not is_right(value):
            errors.invalid(field, value, why)

    return check


def matching(pattern: str, why: str, flags: int = 0) -> Check:
    """A text that a regular expression describes from beginning to end."""
    return wrong_unless(re.compile(pattern, flags).fullmatch, why)


def at_least(least: int, why: str = "") -> Check:
    """A number that is no less."""
    return wrong_unless(lambda value: value >= least, why or f"must be greater than or equal to {least}")


def between(least: int, most: int, why: str = "") -> Check:
    """A number within bounds, which belong to them."""
    why = why or f"must be between {least} and {most}, inclusive"
    return wrong_unless(lambda value: least <= value <= most, why)


def at_most(most: int) -> Check:
    """A list of no more entries."""

    def check(value: Any, field: str, errors: FieldErrors) -> None:
        if len(value) > most:
            errors.too_many(field, len(value), most)

    return check


def unchanged(paths: tuple[str, ...], new: Object, old: Object, errors: FieldErrors, why: str = IMMUTABLE) -> None:
    """Report fields that cannot change, and did."""
    for path in paths:
        value = value_at(new, path)
        if value != value_at(old, path):
            errors.invalid(path, value, why)
