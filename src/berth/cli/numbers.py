"""Numbers on the command line: fractions that are finite, which click's own types do not insist on."""

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
