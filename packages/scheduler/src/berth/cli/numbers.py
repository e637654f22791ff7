"""Numbers on the command line that click has no types for: finite fractions, and sizes as Kubernetes writes them."""

import math
from typing import Any

import click


class FiniteFloatRange(click.FloatRange):
    """A number within bounds, neither infinite nor `nan`, which is within none and yet beyond none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; a usage error names what was given."""
        number = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        found: float = super().convert(value, param, ctx)
        return found


def size_of_at_least(text: str, least: int) -> int:
    """Return a quantity in bytes; a usage error names one that cannot be read, or is below what is useful."""
    from berth.api.quantity import QuantityError, value

    try:
        size = value(text)
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None
    if size < least:
        raise click.BadParameter(f"{text!r} is too small for anything: at least {least // 1024}Ki")
    return size
