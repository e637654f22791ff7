"""What can be wrong with a pod's spec, in a pod or in a template.

Findings go into `FieldErrors` under upstream's field paths and in upstream's order (422). Values have the types of
their fields here: the decoder has refused all others.
"""

import re
from typing import Any

from berth.api.quantity import parse
from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies import names

RESTART_POLICIES = ("Always", "OnFailure", "Never")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PROTOCOLS = ("SCTP", "TCP", "UDP")
_TOLERATION_OPERATORS = ("Equal", "Exists")
_COMPARISONS = ("Gt", "Lt")  # behind a gate upstream, which messages do not know of
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_TERMINATION_POLICIES = ("File", "FallbackToLogsOnError")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_INCLUSION = ("Honor", "Ignore")
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods", "services", "secrets", "configmaps",
                       "replicationcontrollers", "resourcequotas", "persistentvolumeclaims"})  # fmt: skip
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_MAX_WEIGHT = 100
_MAX_SECONDS = 2**31 - 1
_IMAGE = re.compile(r"\S(.*\S)?", re.DOTALL)
_ENVIRONMENT = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def check_pod_spec(spec: Any, field: str, errors: FieldErrors) -> None:
    """Everything that is wrong with a pod spec."""
    volumes = _check_volumes(spec.get("volumes") or [], f"{field}.volumes", errors)
    for number, claim in enumerate(spec.get("resourceClaims") or []):
        names.check_label_name(claim.get("name", ""), f"{field}.resourceClaims[{number}].name", errors)
    _check_containers(spec, field, volumes, errors)
    _check_resources(spec.get("resources"), f"{field}.resources", errors)
    _check_choice(spec, "restartPolicy", RESTART_POLICIES, field, errors)
    _check_choice(spec, "dnsPolicy", _DNS_POLICIES, field, errors)
    names.check_labels(spec.get("nodeSelector"), f"{field}.nodeSelector", errors)
    for user in ("runAsUser", "runAsGroup", "fsGroup"):
        uid = (spec.get("securityContext") or {}).get(user)
        if uid is not None and uid < 0:
            errors.invalid(f"{field}.securityContext.{user}", uid, f"must be between 0 and {_MAX_SECONDS}, inclusive")
    _check_affinity(spec.get("affinity") or {}, f"{field}.affinity", errors)
    for number, gate in enumerate(spec.get("readinessGates") or []):
        names.check_key(gate.get("conditionType", ""), f"{field}.readinessGates[{number}].conditionType", errors)
    _check_gates(spec.get("schedulingGates") or [], f"{field}.schedulingGates", errors)
    _check_spread(spec.get("topologySpreadConstraints") or [], f"{field}.topologySpreadConstraints", errors)
    for name in ("serviceAccountName", "nodeName"):
        if spec.get(name):
            names.check_subdomain(spec[name], f"{field}.{name}", errors)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= _MAX_SECONDS:
        errors.invalid(f"{field}.activeDeadlineSeconds", seconds, f"must be between 1 and {_MAX_SECONDS}, inclusive")
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            names.check_label_name(spec[name], f"{field}.{name}", errors)
    for number, toleration in enumerate(spec.get("tolerations") or []):
        _check_toleration(toleration, f"{field}.tolerations[{number}]", errors)
    _check_amounts(spec.get("overhead"), f"{field}.overhead", errors)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.forbidden(f"{field}.nodeName", "cannot be set until all schedulingGates have been cleared")


def _check_choice(holder: Object, name: str, allowed: tuple[str, ...], field: str, errors: FieldErrors) -> None:
    """A field that has a default, and may be one of a few words."""
    value = holder.get(name, "")
    if not value:
        errors.required(f"{field}.{name}")
    elif value not in allowed:
        errors.unsupported(f"{field}.{name}", value, allowed)


def _check_volumes(volumes: list[Object], field: str, errors: FieldErrors) -> set[str]:
    """The names of the volumes."""
    seen: set[str] = set()
    for number, volume in enumerate(volumes):
        place, name = f"{field}[{number}]", volume.get("name", "")
        if not name:
            errors.required(f"{place}.name")
        else:
            names.check_label_name(name, f"{place}.name", errors)
        if name in seen:
            errors.duplicate(f"{place}.name", name)
        seen.add(name)
        sources = [source for source in volume if source != "name"]
        for source in sources[1:]:
            errors.forbidden(f"{place}.{source}", "may not specify more than 1 volume type")
        if not sources:
            errors.required(place, "must specify a volume type")
        for source, needed in (("secret", "secretName"), ("configMap", "name"), ("persistentVolumeClaim", "claimName")):
            if source in sources[:1] and not volume[source].get(needed):
                errors.required(f"{place}.{source}.{needed}")
    return seen


def _check_containers(spec: Object, field: str, volumes: set[str], errors: FieldErrors) -> None:
    if not spec.get("containers"):
        errors.required(f"{field}.containers")
    seen: set[str] = set()
    for section in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(section) or []):
            place = f"{field}.{section}[{number}]"
            _check_container(container, place, volumes, errors)
            name = container.get("name", "")
            if name and name in seen:
                errors.duplicate(f"{place}.name", name)
            seen.add(name)
            if spec.get("hostNetwork"):
                _check_host_ports(container, place, errors)


def _check_container(container: Object, field: str, volumes: set[str], errors: FieldErrors) -> None:
    name, image = container.get("name"), container.get("image")
    if not name:
        errors.required(f"{field}.name")
    else:
        names.check_label_name(name, f"{field}.name", errors)
    if not image:
        errors.required(f"{field}.image")
    elif not _IMAGE.fullmatch(image):
        errors.invalid(f"{field}.image", image, "must not have leading or trailing whitespace")
    _check_choice(container, "terminationMessagePolicy", _TERMINATION_POLICIES, field, errors)
    _check_ports(container.get("ports") or [], f"{field}.ports", errors)
    for number, variable in enumerate(container.get("env") or []):
        place, name = f"{field}.env[{number}].name", variable.get("name", "")
        if not name:
            errors.required(place)
        elif "=" in name or not (name.isascii() and name.isprintable()):
            errors.invalid(place, name, _ENVIRONMENT)
    for number, mount in enumerate(container.get("volumeMounts") or []):
        place = f"{field}.volumeMounts[{number}]"
        if not mount.get("name"):
            errors.required(f"{place}.name")
        elif mount["name"] not in volumes:
            errors.not_found(f"{place}.name", mount["name"])
        if not mount.get("mountPath"):
            errors.required(f"{place}.mountPath")
    _check_choice(container, "imagePullPolicy", _PULL_POLICIES, field, errors)
    _check_resources(container.get("resources"), f"{field}.resources", errors)


def _check_ports(ports: list[Object], field: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for number, port in enumerate(ports):
        place, name = f"{field}[{number}]", port.get("name")
        if name:
            names.check_port_name(name, f"{place}.name", errors)
            if name in seen:
                errors.duplicate(f"{place}.name", name)
            seen.add(name)
        if not port.get("containerPort"):
            errors.required(f"{place}.containerPort")
        else:
            names.check_port(port["containerPort"], f"{place}.containerPort", errors)
        if port.get("hostPort"):
            names.check_port(port["hostPort"], f"{place}.hostPort", errors)
        _check_choice(port, "protocol", PROTOCOLS, place, errors)


def _check_host_ports(container: Object, field: str, errors: FieldErrors) -> None:
    for number, port in enumerate(container.get("ports") or []):
        if port.get("hostPort", 0) != port.get("containerPort"):
            place = f"{field}.ports[{number}].hostPort"
            errors.invalid(place, port.get("hostPort", 0), "must match `containerPort` when `hostNetwork` is true")


def _check_resources(resources: Any, field: str, errors: FieldErrors) -> None:
    if not resources:
        return
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    _check_amounts(limits, f"{field}.limits", errors)
    for name, amount in requests.items():
        _check_amounts({name: amount}, f"{field}.requests", errors)
        may_exceed = name in _OF_CONTAINERS or (
            ("/" not in name or "kubernetes.io/" in name) and _HUGE_PAGES not in name
        )
        if name not in limits:
            if not may_exceed:
                errors.required(f"{field}.limits", "Limit must be set for non overcommitable resources")
        elif may_exceed and parse(amount) > parse(limits[name]):
            errors.invalid(f"{field}.requests", amount, f"must be less than or equal to {name} limit of {limits[name]}")
        elif not may_exceed and parse(amount) != parse(limits[name]):
            errors.invalid(f"{field}.requests", amount, f"must be equal to {name} limit of {limits[name]}")


def _check_amounts(amounts: Any, field: str, errors: FieldErrors) -> None:
    for name, amount in (amounts or {}).items():
        place = f"{field}[{name}]"
        names.check_key(name, place, errors)
        if "/" not in name and not name.startswith(_HUGE_PAGES):
            if name not in _STANDARD:
                errors.invalid(place, name, "must be a standard resource type or fully qualified")
            if name not in _OF_CONTAINERS:
                errors.invalid(place, name, "must be a standard resource for containers")
        check_amount(name, amount, place, errors)


def check_amount(name: str, amount: Any, field: str, errors: FieldErrors) -> None:
    """The amount of one resource."""
    exact = parse(amount)
    if exact < 0:
        errors.invalid(field, str(amount), "must be greater than or equal to 0")
    if exact.denominator != 1 and ("/" in name or name in ("pods", "services", "secrets", "configmaps")):
        errors.invalid(field, str(amount), "must be an integer")


def _check_affinity(affinity: Object, field: str, errors: FieldErrors) -> None:
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    node = affinity.get("nodeAffinity") or {}
    if node.get(required) is not None:
        check_node_selector(node[required], f"{field}.nodeAffinity.{required}", errors)
    for number, term in enumerate(node.get(preferred) or []):
        place = f"{field}.nodeAffinity.{preferred}[{number}]"
        _check_weight(term, place, errors)
        _check_node_term(term.get("preference") or {}, f"{place}.preference", errors)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        for number, term in enumerate(pods.get(required) or []):
            _check_pod_term(term, f"{field}.{kind}.{required}[{number}]", errors)
        for number, term in enumerate(pods.get(preferred) or []):
            place = f"{field}.{kind}.{preferred}[{number}]"
            _check_weight(term, place, errors)
            _check_pod_term(term.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm", errors)


def _check_weight(term: Object, field: str, errors: FieldErrors) -> None:
    if not 1 <= term.get("weight", 0) <= _MAX_WEIGHT:
        errors.invalid(f"{field}.weight", term.get("weight", 0), f"must be in the range 1-{_MAX_WEIGHT}")


def check_node_selector(selector: Object, field: str, errors: FieldErrors) -> None:
    """A selector of nodes: terms of which one has to match."""
    if not selector.get("nodeSelectorTerms"):
        errors.required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")
    for number, term in enumerate(selector.get("nodeSelectorTerms") or []):
        _check_node_term(term, f"{field}.nodeSelectorTerms[{number}]", errors)


def _check_node_term(term: Object, field: str, errors: FieldErrors) -> None:
    for number, one in enumerate(term.get("matchExpressions") or []):
        names.check_requirement(one, f"{field}.matchExpressions[{number}]", errors, _NODE_OPERATORS)
    for number, one in enumerate(term.get("matchFields") or []):
        place = f"{field}.matchFields[{number}]"
        if one.get("operator") not in ("In", "NotIn"):
            errors.invalid(f"{place}.operator", one.get("operator", ""), "not a valid selector operator")
        elif len(one.get("values") or []) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.required(f"{place}.values", why)
        if one.get("key") != "metadata.name":
            errors.invalid(f"{place}.key", one.get("key", ""), "not a valid field selector key")


def _check_pod_term(term: Object, field: str, errors: FieldErrors) -> None:
    names.check_selector(term.get("labelSelector"), f"{field}.labelSelector", errors)
    names.check_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector", errors)
    key = term.get("topologyKey", "")
    if not key:
        errors.required(f"{field}.topologyKey", "can not be empty")
    names.check_key(key, f"{field}.topologyKey", errors)


def _check_gates(gates: list[Object], field: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for number, gate in enumerate(gates):
        name = gate.get("name", "")
        names.check_key(name, f"{field}[{number}]", errors)
        if name in seen:
            errors.duplicate(f"{field}[{number}]", name)
        seen.add(name)


def _check_toleration(toleration: Any, field: str, errors: FieldErrors) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        names.check_key(key, f"{field}.key", errors)
    elif operator != "Exists":
        errors.invalid(
            f"{field}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.invalid(f"{field}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("Equal", ""):
        mistakes = names.value_mistakes(value)
        if mistakes:
            errors.invalid(f"{field}.operator", value, ";".join(mistakes))
    elif operator == "Exists":
        if value:
            errors.invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator not in _COMPARISONS:
        errors.unsupported(f"{field}.operator", operator, _TOLERATION_OPERATORS)
    if effect and effect not in EFFECTS:
        errors.unsupported(f"{field}.effect", effect, EFFECTS)


def _check_spread(constraints: list[Object], field: str, errors: FieldErrors) -> None:
    for number, constraint in enumerate(constraints):
        place = f"{field}[{number}]"
        skew, action = constraint.get("maxSkew", 0), constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            errors.invalid(f"{place}.maxSkew", skew, "must be greater than zero")
        if not constraint.get("topologyKey"):
            errors.required(f"{place}.topologyKey", "can not be empty")
        if action not in _WHEN_UNSATISFIABLE:
            errors.unsupported(f"{place}.whenUnsatisfiable", action, _WHEN_UNSATISFIABLE)
        pair = (constraint.get("topologyKey"), action)
        if any((one.get("topologyKey"), one.get("whenUnsatisfiable")) == pair for one in constraints[number + 1 :]):
            errors.duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")
        _check_min_domains(constraint.get("minDomains"), action, f"{place}.minDomains", errors)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(name) is not None and constraint[name] not in _INCLUSION:
                errors.unsupported(f"{place}.{name}", constraint[name], _INCLUSION)
        names.check_selector(constraint.get("labelSelector"), f"{place}.labelSelector", errors)


def _check_min_domains(number: int | None, action: str, field: str, errors: FieldErrors) -> None:
    if number is None:
        return
    if number <= 0:
        errors.invalid(field, number, "must be greater than zero")
    if action != "DoNotSchedule":
        errors.invalid(field, number, f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}")


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
