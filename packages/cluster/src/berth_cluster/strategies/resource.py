"""The API group resource.k8s.io: claims and classes of devices, and the times of device taints.

Source of the rules: pkg/apis/resource/validation.
"""

from functools import cache

from berth.cel.estimate import Shape, estimated_cost
from berth.cel.library import Environment
from berth.cel.program import CompileError
from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.go_form import in_go
from berth_cluster.apimachinery.meta import Object, timestamp
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.checks import IMMUTABLE, Check, Unique, always, at_most, both, each, may, need

MAX_REQUESTS = 32
MAX_ALTERNATIVES = 8
MAX_SELECTORS = 32
MAX_CONSTRAINTS = 32
MAX_CONFIGS = 32
MAX_TOLERATIONS = 16
MAX_EXPRESSION_BYTES = 10 * 1024
MAX_COST = 1_000_000


def _check_chosen(request: Object, field: str, errors: FieldErrors) -> None:
    chosen = [name for name in ("exactly", "firstAvailable") if request.get(name)]
    why = "exactly one of `exactly` or `firstAvailable` is required"
    if not chosen:
        errors.required(field, why)
    elif len(chosen) > 1:
        errors.invalid(field, None, f"{why}, but multiple fields are set")


def _check_expression(expression: str, field: str, errors: FieldErrors) -> None:
    """How long an expression in CEL may be, whether it is one, and what it may cost."""
    if len(expression.encode()) > MAX_EXPRESSION_BYTES:
        errors.too_long(field, MAX_EXPRESSION_BYTES)
        return
    try:
        checked = _environment().check(expression)
    except CompileError as error:
        said = str(error)
        # Not all functions of a real API server are known here.
        if "(" not in expression or "Syntax error" in said:
            # An empty expression ends before its first column, and not in it.
            errors.invalid(field, expression, said if expression else said.replace(":1:1:", ":1:0:"))
        return
    if checked.kind not in ("bool", "dyn"):
        errors.invalid(field, expression, f"must evaluate to bool or the unknown type, not {checked.kind}")
    elif estimated_cost(checked.tree, {"device": DEVICE}, DEVICE, "device") > MAX_COST:
        errors.forbidden(field, "too complex, exceeds cost limit")


@cache
def _environment() -> Environment:
    return Environment("device", are_maps=True, has_bind=True)


def _by_domain(value: Shape, *, names_elements: bool = False) -> Shape:
    named = Shape("map", 32, key=Shape("string", 32), element=value, names_elements=names_elements)
    return Shape("map", 32, key=Shape("string", 63), element=named)


DEVICE = Shape(
    "object",
    fields={
        "driver": Shape("string", 63),
        "allowMultipleAllocations": Shape("bool", 1),
        "attributes": _by_domain(Shape("dyn", 64), names_elements=True),
        "capacity": _by_domain(Shape("kubernetes.Quantity")),
    },
)
"""What the API lets a device have."""


def _few(path: str, most: int) -> Check:
    """No more than so many entries."""
    return may(path, at_most(most))


_SELECTORS = (
    _few("selectors", MAX_SELECTORS),
    each("selectors", need("cel"), may("cel", always("expression", _check_expression))),
)
_REQUEST = both(need("deviceClassName", names.check_subdomain), *_SELECTORS, _few("tolerations", MAX_TOLERATIONS))
_DEVICES = both(
    _few("requests", MAX_REQUESTS),
    _few("constraints", MAX_CONSTRAINTS),
    _few("config", MAX_CONFIGS),
    each("requests", always("name", names.check_label_name), _check_chosen, _few("firstAvailable", MAX_ALTERNATIVES)),
    each("requests", may("exactly", _REQUEST), each("firstAvailable", _REQUEST)),
    each("requests", Unique("name", at_entry=True)),
)


def _keep_spec(new: Object, old: Object, errors: FieldErrors) -> None:
    """A claim's spec never changes, since devices have been chosen by it."""
    if new.get("spec") != old.get("spec"):
        errors.invalid("spec", in_go("resource.v1.ResourceClaimSpec", new["spec"], "spec", errors.empties), IMMUTABLE)


def device_claim(path: str) -> RESTStrategy:
    """Claims, or templates of them, whose spec is at `path`; nothing ever changes in it, so that it is checked once."""
    return RESTStrategy(check=both(need(path), may(f"{path}.devices", _DEVICES)), change=_keep_spec, times=0)


DEVICE_CLASS = RESTStrategy(check=may("spec", *_SELECTORS, _few("config", MAX_CONFIGS)))


def device_taints(*required: str) -> RESTStrategy:
    """Slices and rules that put taints on devices."""
    return RESTStrategy(check=both(*map(need, required)), complete=_note_time, amend=_keep_times)


def _note_time(obj: Object, view: ClusterView) -> None:
    """A taint without `timeAdded` gets the present time."""
    for taint in _device_taints(obj):
        if not taint.get("timeAdded"):
            taint["timeAdded"] = timestamp(view.clock())


def _keep_times(new: Object, old: Object, view: ClusterView) -> None:
    """Taints that were there already keep their time."""
    known = {_without_time(taint): taint.get("timeAdded") for taint in _device_taints(old)}
    for taint in _device_taints(new):
        if not taint.get("timeAdded") and known.get(_without_time(taint)):
            taint["timeAdded"] = known[_without_time(taint)]
    _note_time(new, view)


def _device_taints(obj: Object) -> list[Object]:
    spec = obj.get("spec") or {}
    found = [spec.get("taint"), *(taint for one in spec.get("devices") or [] for taint in one.get("taints") or [])]
    return [taint for taint in found if isinstance(taint, dict)]


def _without_time(taint: Object) -> tuple[str, str, str]:
    return taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
