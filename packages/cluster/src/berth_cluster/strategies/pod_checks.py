"""What can be wrong with a pod's spec, in a pod or in a template.

Findings go into `FieldErrors` under upstream's field paths and in upstream's order (422).
"""

import re
from typing import Any

from berth.api.quantity import parse
from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies import names
from berth_cluster.strategies.checks import (
    Check,
    Unique,
    always,
    at_least,
    between,
    both,
    chosen,
    each,
    given,
    matching,
    may,
    need,
    one_of,
    wrong_unless,
)
from berth_cluster.strategies.ephemeral_containers import check_ephemeral
from berth_workloads.pods import HUGE_PAGES, contradiction

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PROTOCOLS = ("SCTP", "TCP", "UDP")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
# What there may be amounts of without a domain in front.
STANDARD_RESOURCES = frozenset({*_OF_CONTAINERS, "storage", "pods", "services", "secrets", "configmaps",
                                "replicationcontrollers", "resourcequotas", "persistentvolumeclaims"})  # fmt: skip
_MAX_SECONDS = 2**31 - 1
_ENVIRONMENT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_amount(name: str, amount: Any, field: str, errors: FieldErrors) -> None:
    """The amount of one resource."""
    exact = parse(amount)
    if exact < 0:
        errors.invalid(field, str(amount), "must be greater than or equal to 0")
    if exact.denominator != 1 and ("/" in name or name in ("pods", "services", "secrets", "configmaps")):
        errors.invalid(field, str(amount), "must be an integer")


def _check_amounts(amounts: Object, field: str, errors: FieldErrors) -> None:
    for name, amount in amounts.items():
        place = f"{field}[{name}]"
        names.check_key(name, place, errors)
        if "/" not in name and not name.startswith(HUGE_PAGES):
            if name not in STANDARD_RESOURCES:
                errors.invalid(place, name, "must be a standard resource type or fully qualified")
            if name not in _OF_CONTAINERS:
                errors.invalid(place, name, "must be a standard resource for containers")
        check_amount(name, amount, place, errors)


def _check_resources(resources: Object, field: str, errors: FieldErrors) -> None:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    _check_amounts(limits, f"{field}.limits", errors)
    for name, amount in requests.items():
        _check_amounts({name: amount}, f"{field}.requests", errors)
        part, why = contradiction(name, amount, limits)
        if part == "limits":
            errors.required(f"{field}.limits", why)
        elif part:
            errors.invalid(f"{field}.requests", amount, why)


def _check_sources(volume: Object, field: str, errors: FieldErrors) -> None:
    sources = [source for source in volume if source != "name"]
    for source in sources[1:]:
        errors.forbidden(f"{field}.{source}", "may not specify more than 1 volume type")
    if not sources:
        errors.required(field, "must specify a volume type")
    for source, needed in (("secret", "secretName"), ("configMap", "name"), ("persistentVolumeClaim", "claimName")):
        if source in sources[:1] and not volume[source].get(needed):
            errors.required(f"{field}.{source}.{needed}")


IMAGE = need("image", matching(r"\S(.*\S)?", "must not have leading or trailing whitespace", re.DOTALL))
_CONTAINER = both(
    need("name", names.check_label_name),
    IMAGE,
    chosen("terminationMessagePolicy", "File", "FallbackToLogsOnError"),
    each(
        "ports",
        may("name", names.check_port_name),
        Unique("name"),
        need("containerPort", names.check_port),
        may("hostPort", names.check_port),
        chosen("protocol", *PROTOCOLS),
    ),
    each("env", need("name", matching(r"[ -<>-~]+", _ENVIRONMENT))),
)
_CONTAINER_REST = both(
    chosen("imagePullPolicy", "Always", "IfNotPresent", "Never"),
    may("resources", _check_resources),
)


def _check_containers(spec: Object, field: str, errors: FieldErrors) -> None:
    """Containers of both sorts share their names, and the volumes and the network of the pod."""
    volumes = {volume.get("name", "") for volume in spec.get("volumes") or ()}
    if not spec.get("containers"):
        errors.required(f"{field}.containers")
    seen: set[str] = set()
    for section in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(section) or ()):
            place, name = f"{field}.{section}[{number}]", container.get("name", "")
            _check_container(container, place, volumes, errors)
            if name and name in seen:
                errors.duplicate(f"{place}.name", name)
            seen.add(name)
            for index, port in enumerate(container.get("ports") or () if spec.get("hostNetwork") else ()):
                if port.get("hostPort", 0) != port.get("containerPort"):
                    why = "must match `containerPort` when `hostNetwork` is true"
                    errors.invalid(f"{place}.ports[{index}].hostPort", port.get("hostPort", 0), why)

    check_ephemeral(spec, field, errors, lambda one, place, told: _check_container(one, place, volumes, told))


def _check_container(container: Object, field: str, volumes: set[str], errors: FieldErrors) -> None:
    _CONTAINER(container, field, errors)
    _check_mounts(container, field, volumes, errors)
    _CONTAINER_REST(container, field, errors)


def _check_mounts(container: Object, field: str, volumes: set[str], errors: FieldErrors) -> None:
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        place = f"{field}.volumeMounts[{number}]"
        if not mount.get("name"):
            errors.required(f"{place}.name")
        elif mount["name"] not in volumes:
            errors.not_found(f"{place}.name", mount["name"])
        if not mount.get("mountPath"):
            errors.required(f"{place}.mountPath")


def _check_expression(term: Object, field: str, errors: FieldErrors) -> None:
    names.check_requirement(term, field, errors, _NODE_OPERATORS)


def _check_node_field(term: Object, field: str, errors: FieldErrors) -> None:
    if term.get("operator") not in ("In", "NotIn"):
        errors.invalid(f"{field}.operator", term.get("operator", ""), "not a valid selector operator")
    elif len(term.get("values") or []) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.required(f"{field}.values", why)
    if term.get("key") != "metadata.name":
        errors.invalid(f"{field}.key", term.get("key", ""), "not a valid field selector key")


def _check_topology_key(key: str, field: str, errors: FieldErrors) -> None:
    if not key:
        errors.required(field, "can not be empty")
    names.check_key(key, field, errors)


_WEIGHT = always("weight", between(1, 100, "must be in the range 1-100"), default=0)
_NODE_TERM = both(each("matchExpressions", _check_expression), each("matchFields", _check_node_field))
_POD_TERM = both(
    given("labelSelector", names.check_selector),
    given("namespaceSelector", names.check_selector),
    always("topologyKey", _check_topology_key),
)
check_node_selector = both(
    need("nodeSelectorTerms", why="must have at least one node selector term"), each("nodeSelectorTerms", _NODE_TERM)
)
_POD_AFFINITY = both(
    each(_REQUIRED, _POD_TERM), each(_PREFERRED, _WEIGHT, always("podAffinityTerm", _POD_TERM, default={}))
)
_AFFINITY = both(
    given(f"nodeAffinity.{_REQUIRED}", check_node_selector),
    each(f"nodeAffinity.{_PREFERRED}", _WEIGHT, always("preference", _NODE_TERM, default={})),
    may("podAffinity", _POD_AFFINITY),
    may("podAntiAffinity", _POD_AFFINITY),
)


def _check_gate(gate: Object, field: str, errors: FieldErrors) -> None:
    names.check_key(gate.get("name", ""), field, errors)


def _check_toleration(toleration: Object, field: str, errors: FieldErrors) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        names.check_key(key, f"{field}.key", errors)
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.invalid(f"{field}.operator", operator, why)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.invalid(f"{field}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("Equal", ""):
        mistakes = names.value_mistakes(value)
        if mistakes:
            errors.invalid(f"{field}.operator", value, ";".join(mistakes))
    elif operator == "Exists":
        if value:
            errors.invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator not in ("Gt", "Lt"):  # which are behind a gate upstream that messages do not know of
        errors.unsupported(f"{field}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        errors.unsupported(f"{field}.effect", effect, EFFECTS)


def _check_spread_pairs(constraints: list[Object], field: str, errors: FieldErrors) -> None:
    for number, constraint in enumerate(constraints):
        place, pair = f"{field}[{number}]", (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable", ""))
        _SPREAD(constraint, place, errors)
        if any((one.get("topologyKey"), one.get("whenUnsatisfiable")) == pair for one in constraints[number + 1 :]):
            errors.duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")
        least = constraint.get("minDomains")
        if least is not None and least <= 0:
            errors.invalid(f"{place}.minDomains", least, "must be greater than zero")
        if least is not None and pair[1] != "DoNotSchedule":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {pair[1]}"
            errors.invalid(f"{place}.minDomains", least, why)
        _SPREAD_REST(constraint, place, errors)


_SPREAD = both(
    always("maxSkew", at_least(1, "must be greater than zero"), default=0),
    need("topologyKey", why="can not be empty"),
    always("whenUnsatisfiable", one_of("DoNotSchedule", "ScheduleAnyway")),
)
_SPREAD_REST = both(
    given("nodeAffinityPolicy", one_of("Honor", "Ignore")),
    given("nodeTaintsPolicy", one_of("Honor", "Ignore")),
    given("labelSelector", names.check_selector),
)


def _check_bound_and_gated(spec: Object, field: str, errors: FieldErrors) -> None:
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.forbidden(f"{field}.nodeName", "cannot be set until all schedulingGates have been cleared")


_ID = wrong_unless(lambda user: user >= 0, f"must be between 0 and {_MAX_SECONDS}, inclusive")
check_pod_spec: Check = both(
    each("volumes", need("name", names.check_label_name), Unique("name", ""), _check_sources),
    each("resourceClaims", always("name", names.check_label_name)),
    _check_containers,
    may("resources", _check_resources),
    chosen("restartPolicy", "Always", "OnFailure", "Never"),
    chosen("dnsPolicy", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    may("nodeSelector", names.check_labels),
    *(given(f"securityContext.{user}", _ID) for user in ("runAsUser", "runAsGroup", "fsGroup")),
    may("affinity", _AFFINITY),
    each("readinessGates", always("conditionType", names.check_key)),
    each("schedulingGates", _check_gate, Unique("name", "", at_entry=True)),
    may("topologySpreadConstraints", _check_spread_pairs),
    may("serviceAccountName", names.check_subdomain),
    may("nodeName", names.check_subdomain),
    given("activeDeadlineSeconds", between(1, _MAX_SECONDS)),
    may("hostname", names.check_label_name),
    may("subdomain", names.check_label_name),
    each("tolerations", _check_toleration),
    may("overhead", _check_amounts),
    _check_bound_and_gated,
)


def pod_warnings(spec: Object, field: str) -> list[str]:
    """What a client is warned of: constraints that count no pods, and parts of bytes."""
    said = [
        f"{field}.topologySpreadConstraints[{number}].labelSelector: a null labelSelector results in matching no pod"
        for number, constraint in enumerate(spec.get("topologySpreadConstraints") or [])
        if constraint.get("labelSelector") is None
    ]
    for section in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(section) or []):
            place = f"{field}.{section}[{number}].resources"
            said += fractions_of_bytes(container.get("resources"), place, ("memory", "ephemeral-storage"))
    return said + _doubled_ports(spec, field)


def _doubled_ports(spec: Object, field: str) -> list[str]:
    """Warnings about ports that containers of a pod name twice."""
    said, known = [], dict[tuple[Any, Any], list[tuple[str, Object]]]()
    for section in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(section) or []):
            for index, port in enumerate(container.get("ports") or []):
                place = f"{field}.{section}[{number}].ports[{index}]"
                others = known.setdefault((port.get("containerPort"), port.get("protocol")), [])
                for other_place, other in others:
                    is_same = all(port.get(name) == other.get(name) for name in ("hostIP", "hostPort"))
                    if is_same or not (port.get("hostPort") and other.get("hostPort")):
                        how = "duplicate" if is_same else "overlapping"
                        said.append(f"{place}: {how} port definition with {other_place}")
                others.append((place, port))
    return said


def fractions_of_bytes(resources: Any, field: str, counted: tuple[str, ...]) -> list[str]:
    """Warnings about amounts of what is counted in bytes."""
    said = []
    for section in ("limits", "requests"):
        for name in counted:
            amount = ((resources or {}).get(section) or {}).get(name)
            if amount is not None and parse(amount).denominator != 1:
                place = f"{field}.{section}[{name}]"
                said.append(f'{place}: fractional byte value "{amount}" is invalid, must be an integer')
    return said
