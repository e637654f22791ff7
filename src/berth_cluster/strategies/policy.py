"""Pod disruption budgets (API group policy)."""

import re

import msgspec

from berth_cluster.apimachinery.errors import FieldErrors, Raw
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy

PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


class PodDisruptionBudgetStrategy(RESTStrategy):
    """Pod disruption budgets."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Nothing may be disrupted until a controller has counted."""
        obj.setdefault("spec", {})
        counts = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
        obj["status"] = dict.fromkeys(counts, 0)

    def prepare_update(self, new: Object, _old: Object, _subresource: str, _view: ClusterView) -> None:
        """A budget without a spec is an empty one."""
        new.setdefault("spec", {})

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """One bound, not two, and a selector that can be read."""
        spec = obj["spec"]
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            shown = Raw(msgspec.json.encode(spec).decode())
            errors.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
        names.check_selector(spec.get("selector"), "spec.selector", errors)
        for name in ("minAvailable", "maxUnavailable"):
            bound = spec.get(name)
            if isinstance(bound, str) and not re.fullmatch(r"[0-9]+%", bound):
                errors.invalid(f"spec.{name}", bound, PERCENT_MESSAGE)
            elif isinstance(bound, int) and bound < 0:
                errors.invalid(f"spec.{name}", bound, "must be greater than or equal to 0")
