"""Taints and tolerations. Source of the rules: k8s.io/api/core/v1 Toleration.ToleratesTaint."""

import re
from collections.abc import Iterable

from berth.api.meta import Struct
from berth.api.selectors import parse_int64

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

UNSCHEDULABLE_KEY = "node.kubernetes.io/unschedulable"
"""The taint that stands for spec.unschedulable."""

_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")


class Taint(Struct, frozen=True):
    """spec.taints[] of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(Struct, frozen=True):
    """spec.tolerations[] of a pod; an empty key with Exists tolerates every key, an empty effect every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint, compare_numbers: bool = False) -> bool:
        """Say whether this toleration covers `taint`; Gt and Lt only where their feature gate allows them."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        if self.operator == "Exists":
            return True
        return compare_numbers and self._compares(taint)

    def _compares(self, taint: Taint) -> bool:
        actual, bound = _decimal(taint.value), _decimal(self.value)
        if actual is None or bound is None:
            return False
        return {"Gt": actual > bound, "Lt": actual < bound}.get(self.operator, False)


def _decimal(text: str) -> int | None:
    """Return an integer that fits 64 bits, written without a plus sign or leading zeros; else None."""
    return parse_int64(text) if _DECIMAL.fullmatch(text) else None


def tolerated(taint: Taint, tolerations: Iterable[Toleration], compare_numbers: bool = False) -> bool:
    """Say whether any of `tolerations` covers `taint`."""
    return any(toleration.tolerates(taint, compare_numbers) for toleration in tolerations)


def untolerated_taint(
    taints: Iterable[Taint],
    tolerations: tuple[Toleration, ...],
    effects: tuple[str, ...],
    compare_numbers: bool = False,
) -> Taint | None:
    """Return the first taint of one of `effects` that no toleration covers, or None."""
    for taint in taints:
        if taint.effect in effects and not tolerated(taint, tolerations, compare_numbers):
            return taint
    return None
