"""What can be wrong with a pod's spec, in a pod or in a template.

Findings go into `FieldErrors` under upstream's field paths (422). A quantity that cannot be parsed makes the whole
request unreadable, as upstream: it is refused on the spot (400), with the path of the field.
"""

import re
from typing import Any

from berth.api.quantity import QuantityError, parse
from berth_cluster.apimachinery.errors import FieldErrors, bad_request
from berth_cluster.apimachinery.field_checks import QUANTITY_MESSAGE
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies import names

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_TOLERATION_OPERATORS = ("Exists", "Equal", "Gt", "Lt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_IMAGE = re.compile(r"\S(.*\S)?", re.DOTALL)


def check_pod_spec(spec: Any, field: str, errors: FieldErrors, kind: str = "Pod") -> None:
    """Everything that is wrong with a pod spec."""
    if not isinstance(spec, dict):
        errors.required(field)
        return
    _check_containers(spec, field, errors, kind)
    _check_resources(spec.get("resources"), f"{field}.resources", errors, kind)
    _check_amounts(spec.get("overhead"), f"{field}.overhead", errors, kind)
    if spec.get("restartPolicy") not in RESTART_POLICIES:
        errors.unsupported(f"{field}.restartPolicy", str(spec.get("restartPolicy")), RESTART_POLICIES)
    names.check_labels(spec.get("nodeSelector"), f"{field}.nodeSelector", errors)
    for number, toleration in enumerate(spec.get("tolerations") or []):
        _check_toleration(toleration, f"{field}.tolerations[{number}]", errors)
    for number, constraint in enumerate(spec.get("topologySpreadConstraints") or []):
        _check_spread(constraint, f"{field}.topologySpreadConstraints[{number}]", errors)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.forbidden(f"{field}.nodeName", "cannot be set until all schedulingGates have been cleared")


def _check_containers(spec: Object, field: str, errors: FieldErrors, kind: str) -> None:
    if not spec.get("containers"):
        errors.required(f"{field}.containers")
    seen: set[str] = set()
    for section in ("initContainers", "containers"):
        containers = spec.get(section) or []
        if not isinstance(containers, list):
            errors.invalid(f"{field}.{section}", containers, "must be a list")
            continue
        for number, container in enumerate(containers):
            _check_container(container, f"{field}.{section}[{number}]", seen, errors, kind)


def _check_container(container: Any, field: str, seen: set[str], errors: FieldErrors, kind: str) -> None:
    if not isinstance(container, dict):
        errors.invalid(field, container, "must be an object")
        return
    name = container.get("name")
    if not name:
        errors.required(f"{field}.name")
    else:
        names.check_label_name(name, f"{field}.name", errors)
        if name in seen:
            errors.duplicate(f"{field}.name", name)
        seen.add(str(name))
    image = container.get("image")
    if not image:
        errors.required(f"{field}.image")
    elif not _IMAGE.fullmatch(str(image)):
        errors.invalid(f"{field}.image", image, "must not have leading or trailing whitespace")
    _check_resources(container.get("resources"), f"{field}.resources", errors, kind)
    for number, port in enumerate(container.get("ports") or []):
        _check_port(port, f"{field}.ports[{number}]", errors)


def _check_port(port: Any, field: str, errors: FieldErrors) -> None:
    if not isinstance(port, dict):
        errors.invalid(field, port, "must be an object")
        return
    if "containerPort" not in port:
        errors.required(f"{field}.containerPort")
    for name in ("containerPort", "hostPort"):
        value = port.get(name, 1)
        if not isinstance(value, int) or not (0 < value < 65536 or (name == "hostPort" and value == 0)):
            errors.invalid(f"{field}.{name}", value, "must be between 1 and 65535, inclusive")
    if port.get("protocol", "TCP") not in _PROTOCOLS:
        errors.unsupported(f"{field}.protocol", str(port["protocol"]), _PROTOCOLS)


def _check_resources(resources: Any, field: str, errors: FieldErrors, kind: str) -> None:
    if not resources:
        return
    if not isinstance(resources, dict):
        errors.invalid(field, resources, "must be an object")
        return
    _check_amounts(resources.get("limits"), f"{field}.limits", errors, kind)
    _check_amounts(resources.get("requests"), f"{field}.requests", errors, kind)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, amount in requests.items():
        if name in limits and parse(amount) > parse(limits[name]):
            why = f"must be less than or equal to {name} limit of {limits[name]}"
            errors.invalid(f"{field}.requests", str(amount), why)


def _check_amounts(amounts: Any, field: str, errors: FieldErrors, kind: str) -> None:
    if not amounts:
        return
    if not isinstance(amounts, dict):
        raise bad_request(f"{kind}: {field}: expected a map from resource to quantity, not {amounts!r}")
    for name, amount in amounts.items():
        if quantity(amount, f"{field}[{name}]", kind) < 0:
            errors.invalid(f"{field}[{name}]", str(amount), "must be greater than or equal to 0")


def quantity(amount: Any, field: str, kind: str) -> Any:
    """The exact value of a quantity; one that cannot be read makes the whole request unreadable, as upstream."""
    try:
        if not isinstance(amount, str | int | float):
            raise QuantityError
        return parse(amount)
    except QuantityError:
        raise bad_request(
            f'{kind} in version "v1" cannot be handled as a {kind}: {field}: {QUANTITY_MESSAGE}, not {amount!r}'
        ) from None


def _check_toleration(toleration: Any, field: str, errors: FieldErrors) -> None:
    if not isinstance(toleration, dict):
        errors.invalid(field, toleration, "must be an object")
        return
    operator = toleration.get("operator") or "Equal"
    if operator not in _TOLERATION_OPERATORS:
        errors.unsupported(f"{field}.operator", str(operator), _TOLERATION_OPERATORS)
    if toleration.get("key"):
        names.check_key(str(toleration["key"]), f"{field}.key", errors)
    elif operator != "Exists":
        errors.invalid(
            f"{field}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if operator == "Exists" and toleration.get("value"):
        errors.invalid(f"{field}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
    effect = toleration.get("effect")
    if effect and effect not in _EFFECTS:
        errors.unsupported(f"{field}.effect", str(effect), _EFFECTS)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.invalid(f"{field}.effect", effect or "", "effect must be 'NoExecute' when `tolerationSeconds` is set")


def _check_spread(constraint: Any, field: str, errors: FieldErrors) -> None:
    if not isinstance(constraint, dict):
        errors.invalid(field, constraint, "must be an object")
        return
    skew = constraint.get("maxSkew", 0)
    if not isinstance(skew, int) or skew <= 0:
        errors.invalid(f"{field}.maxSkew", skew, "must be greater than zero")
    if not constraint.get("topologyKey"):
        errors.required(f"{field}.topologyKey", "can not be empty")
    else:
        names.check_key(str(constraint["topologyKey"]), f"{field}.topologyKey", errors)
    action = constraint.get("whenUnsatisfiable", "")
    if action not in _WHEN_UNSATISFIABLE:
        errors.unsupported(f"{field}.whenUnsatisfiable", str(action), _WHEN_UNSATISFIABLE)
