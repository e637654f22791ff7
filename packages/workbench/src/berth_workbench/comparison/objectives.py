"""What a configuration is tuned for: one measure, or several with weights.

    cost
    packing.cpu
    cost:2,waiting.p99:1
    min:nodesUsed

A measure is maximized or minimized, whichever is better for it; `min:` and `max:` override that, or say it if the
measure itself does not. In a sum, each measure counts relative to its value for the base configuration, so that weights
are meaningful whatever the units.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Self

import msgspec

from berth.api.near_names import nearest
from berth.api.user_error import UserError
from berth_workbench.simulation.measures import HIGHER, LOWER, NEITHER, better

_WAYS = {"min": LOWER, "max": HIGHER}
PENDING = ("pending", "pendingMean")
WHOLE = ("bound", "cost", "fairness", "neverPlaced", "nodes", "nodesUsed", *PENDING, "pods", "preemptions")
"""Measures that are one figure."""
PARTED = {
    "fragmentation": ("cpu", "memory"),
    "packing": ("cpu", "memory"),
    "spread": ("zone.evenness", "zone.maxSkew", "node.evenness"),
    "utilisation": ("cpu", "memory"),
    "waiting": ("mean", "p99"),
}
"""Measures that are figures of something each, with examples; of which, only a run can say."""


class ObjectiveError(UserError, ValueError):
    """An objective that cannot be used; the message is one line that says why."""


class ObjectiveTerm(msgspec.Struct, frozen=True):
    """A measure with its weight, and which way it is better."""

    measure: str
    weight: float
    way: int


class Objective(msgspec.Struct, frozen=True):
    """A weighted sum of measures; less is better."""

    text: str
    """As it was given."""
    terms: tuple[ObjectiveTerm, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an objective. Raises `ObjectiveError`."""
        terms = tuple(_term(part.strip(), text) for part in text.split(","))
        if len({term.measure for term in terms}) < len(terms):
            raise ObjectiveError(f"objective {text!r}: a measure is named twice")
        return cls(text, terms)

    @property
    def is_single(self) -> bool:
        """Whether it is a single measure, which is then shown in its own unit."""
        return len(self.terms) == 1

    def check(self, known: Iterable[str]) -> None:
        """Raise `ObjectiveError` if a run lacks one of these measures."""
        there = sorted(known)
        for term in self.terms:
            if term.measure not in there:
                hint = nearest(term.measure, there) or "."
                hint = "; --prices says what nodes cost." if term.measure == "cost" else hint
                raise ObjectiveError(
                    f"objective {self.text!r}: the runs have no measure {term.measure!r}{hint} "
                    f"They have {', '.join(there)}"
                )

    def value(self, figures: Mapping[str, float], base: Mapping[str, float]) -> float:
        """Return how good some figures are, relative to those of the base configuration: less is better.

        A measure that is missing, such as the evenness of pods that went nowhere, counts as in the base.
        """
        total = []
        for term in self.terms:
            own = base.get(term.measure, 0.0)
            scale = 1.0 if self.is_single else abs(own) or 1.0
            total.append(-term.way * term.weight * figures.get(term.measure, own) / scale)
        return math.fsum(total)


def _term(part: str, whole: str) -> ObjectiveTerm:
    pieces = part.split(":")
    way = _WAYS[pieces.pop(0)] if pieces[0] in _WAYS else NEITHER
    if not 1 <= len(pieces) <= 2 or not pieces[0]:
        raise ObjectiveError(f"objective {whole!r}: {part!r} is not of the form [min:|max:]MEASURE[:WEIGHT]")
    weight = 1.0
    if len(pieces) == 2:
        try:
            weight = float(pieces[1])
        except ValueError:
            weight = math.nan
        if not 0 < weight < math.inf:
            raise ObjectiveError(f"objective {whole!r}: the weight {pieces[1]!r} is not a number above 0")
    _check_name(pieces[0], whole)
    way = way or better(pieces[0])
    if not way:
        raise ObjectiveError(f"objective {whole!r}: say min:{pieces[0]} or max:{pieces[0]}")
    return ObjectiveTerm(pieces[0], weight, way)


def _check_name(measure: str, whole: str) -> None:
    """Raise `ObjectiveError`, before any run, for a measure that no run has."""
    head, _, rest = measure.partition(".")
    if measure in WHOLE or (head in PARTED and rest):
        return
    examples = [f"{name}.{part}" for name, parts in PARTED.items() for part in parts]
    if measure in PARTED:
        hint = f"; say which, as in {' or '.join(f'{measure}.{part}' for part in PARTED[measure])}"
    else:
        hint = nearest(measure, (*WHOLE, *examples)) or f"; there are {', '.join((*WHOLE, *examples))}"
    raise ObjectiveError(f"objective {whole!r}: there is no measure {measure!r}{hint}")
