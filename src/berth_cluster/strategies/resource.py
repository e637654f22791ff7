"""The API group resource.k8s.io: the defaults of claims, and the times of device taints.

Source of the rules: pkg/apis/resource/v1/defaults.go and pkg/apis/resource/validation.
"""

from collections.abc import Iterator
from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors, Raw
from berth_cluster.apimachinery.meta import Object, timestamp
from berth_cluster.apimachinery.schema import in_go, message
from berth_cluster.strategies.base import ClusterView, RequiredFieldsStrategy
from berth_cluster.strategies.names import check_label_name, check_subdomain

MAX_REQUESTS = 32
MAX_ALTERNATIVES = 8
MAX_SELECTORS = 32
MAX_CONSTRAINTS = 32
MAX_CONFIGS = 32
MAX_TOLERATIONS = 16
MAX_EXPRESSION_BYTES = 10 * 1024


class DeviceClaimStrategy(RequiredFieldsStrategy):
    """Claims, and templates of them: a request that does not say how many devices it wants gets one."""

    __slots__ = ("_path",)

    def __init__(self, *path: str) -> None:
        """`path` leads to the spec of the claim."""
        super().__init__(".".join(path))
        self._path = path

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """Allocation mode, count, and the operators of tolerations."""
        if len(self._path) == 1:
            obj.setdefault("status", {})
        for _, request in self._requests(obj):
            if not request.get("allocationMode"):
                request["allocationMode"] = "ExactCount"
            if request["allocationMode"] == "ExactCount" and not request.get("count"):
                request["count"] = 1
            for toleration in _objects(request.get("tolerations")):
                if not toleration.get("operator"):
                    toleration["operator"] = "Equal"

    def prepare_update(self, new: Object, old: Object, subresource: str, view: ClusterView) -> None:
        """As on creation, so that an update without the defaults is no change."""
        if not subresource:
            self.prepare_create(new, view)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """How many there may be of everything, and how long expressions may be."""
        devices, field = _at(obj, *self._path, "devices"), f"{'.'.join(self._path)}.devices"
        _check_number(devices.get("requests"), MAX_REQUESTS, f"{field}.requests", errors)
        _check_number(devices.get("constraints"), MAX_CONSTRAINTS, f"{field}.constraints", errors)
        _check_number(devices.get("config"), MAX_CONFIGS, f"{field}.config", errors)
        for number, request in enumerate(_objects(devices.get("requests"))[:MAX_REQUESTS]):
            place = f"{field}.requests[{number}]"
            check_label_name(request.get("name", ""), f"{place}.name", errors)
            chosen = [name for name in ("exactly", "firstAvailable") if request.get(name)]
            if not chosen:
                errors.required(place, "exactly one of `exactly` or `firstAvailable` is required")
            elif len(chosen) > 1:
                errors.invalid(
                    place, None, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
                )
            _check_number(request.get("firstAvailable"), MAX_ALTERNATIVES, f"{place}.firstAvailable", errors)
        for place, request in self._requests(obj):
            if request.get("deviceClassName"):
                check_subdomain(request["deviceClassName"], f"{place}.deviceClassName", errors)
            else:
                errors.required(f"{place}.deviceClassName")
            check_selectors(request.get("selectors"), f"{place}.selectors", errors)
            _check_number(request.get("tolerations"), MAX_TOLERATIONS, f"{place}.tolerations", errors)

    def check_update(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """A claim's spec never changes, since devices have been chosen by it."""
        if new.get("spec") != old.get("spec"):
            errors.invalid(
                "spec", Raw(in_go(message("resource.v1.ResourceClaimSpec"), new["spec"])), "field is immutable"
            )

    def _requests(self, obj: Object) -> Iterator[tuple[str, Object]]:
        """What asks for devices, with its path: each request, or each of the alternatives that it names."""
        devices, field = _at(obj, *self._path, "devices"), f"{'.'.join(self._path)}.devices"
        for number, request in enumerate(_objects(devices.get("requests"))):
            place = f"{field}.requests[{number}]"
            if isinstance(request.get("exactly"), dict):
                yield f"{place}.exactly", request["exactly"]
            for index, alternative in enumerate(_objects(request.get("firstAvailable"))):
                yield f"{place}.firstAvailable[{index}]", alternative


class DeviceClassStrategy(RequiredFieldsStrategy):
    """Device classes: their selectors are bounded as those of claims are."""

    __slots__ = ()

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The selectors."""
        spec = _at(obj, "spec")
        check_selectors(spec.get("selectors"), "spec.selectors", errors)
        _check_number(spec.get("config"), MAX_CONFIGS, "spec.config", errors)


def check_selectors(selectors: Any, field: str, errors: FieldErrors) -> None:
    """How many CEL expressions there may be, and how long each."""
    _check_number(selectors, MAX_SELECTORS, field, errors)
    for number, selector in enumerate(_objects(selectors)[:MAX_SELECTORS]):
        place = f"{field}[{number}].cel"
        if selector.get("cel") is None:
            errors.required(place)
            continue
        expression = selector["cel"].get("expression", "")
        if len(expression.encode()) > MAX_EXPRESSION_BYTES:
            errors.too_long(f"{place}.expression", MAX_EXPRESSION_BYTES)
            continue
        why = _mistake_in(expression)
        if why:
            errors.invalid(f"{place}.expression", expression, why)


def _mistake_in(expression: str) -> str:
    """What CEL's compiler says against an expression; calls of functions are not checked here."""
    from cel_expr_python import cel  # type: ignore[import-untyped]  # only where there is a selector, since it takes memory

    environment = cel.NewEnv(variables={"device": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)})
    try:
        kind = environment.compile(expression).return_type()
    except RuntimeError as error:
        said = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        if "(" in expression and "Syntax error" not in said:
            return ""
        # An empty expression ends before its first column, and not in it.
        return f"compilation failed: {said if expression else said.replace(':1:1:', ':1:0:')}"
    if kind in (cel.Type.BOOL, cel.Type.DYN):
        return ""
    return f"must evaluate to bool or the unknown type, not {str(kind).lower()}"


def _check_number(found: Any, most: int, field: str, errors: FieldErrors) -> None:
    if isinstance(found, list) and len(found) > most:
        errors.too_many(field, len(found), most)


def _at(obj: Any, *path: str) -> Object:
    """The object at a path; an empty one where there is none."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}


def _objects(found: Any) -> list[Object]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


class DeviceTaintStrategy(RequiredFieldsStrategy):
    """Slices and rules that put taints on devices: a taint without `timeAdded` gets the present time."""

    __slots__ = ()

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """The time of new taints."""
        for taint in _device_taints(obj):
            if not taint.get("timeAdded"):
                taint["timeAdded"] = timestamp(view.clock())

    def prepare_update(self, new: Object, old: Object, subresource: str, view: ClusterView) -> None:
        """Taints that were there already keep their time."""
        if subresource:
            return
        known = {_without_time(taint): taint.get("timeAdded") for taint in _device_taints(old)}
        for taint in _device_taints(new):
            if not taint.get("timeAdded") and known.get(_without_time(taint)):
                taint["timeAdded"] = known[_without_time(taint)]
        self.prepare_create(new, view)


def _device_taints(obj: Object) -> list[Object]:
    spec = obj.get("spec") or {}
    found = [spec.get("taint"), *(taint for one in spec.get("devices") or [] for taint in one.get("taints") or [])]
    return [taint for taint in found if isinstance(taint, dict)]


def _without_time(taint: Object) -> tuple[str, str, str]:
    return taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
