"""Pod disruption budgets (API group policy)."""

import re

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.go_form import in_go
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies import names
from berth_cluster.strategies.base import RESTStrategy
from berth_cluster.strategies.checks import always, both, given, one_of

_MOST_PERCENT = 100
PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def _check_both(spec: Object, field: str, errors: FieldErrors) -> None:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        shown = in_go("policy.v1.PodDisruptionBudgetSpec", spec)
        errors.invalid(field, shown, "minAvailable and maxUnavailable cannot be both set")


def check_int_or_percent(bound: int | str, field: str, errors: FieldErrors) -> None:
    """A number of pods, or a part of them."""
    if isinstance(bound, int):
        if bound < 0:
            errors.invalid(field, bound, "must be greater than or equal to 0")
    elif not re.fullmatch(r"[0-9]+%", bound):
        errors.invalid(field, bound, PERCENT_MESSAGE)


def _check_part(bound: int | str, field: str, errors: FieldErrors) -> None:
    """A number of pods, or no more than all."""
    check_int_or_percent(bound, field, errors)
    if isinstance(bound, str) and re.fullmatch(r"[0-9]+%", bound) and int(bound[:-1]) > _MOST_PERCENT:
        errors.invalid(field, bound, "must not be greater than 100%")


_SPEC = both(
    _check_both,
    given("minAvailable", _check_part),
    given("maxUnavailable", _check_part),
    given("selector", names.check_selector),
    given("unhealthyPodEvictionPolicy", one_of("AlwaysAllow", "IfHealthyBudget")),
)
# Nothing may be disrupted until a controller has counted.
POD_DISRUPTION_BUDGET = RESTStrategy(
    check=always("spec", _SPEC),
    name=names.check_path_segment,
    status=dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0),
)
