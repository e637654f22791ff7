"""What admission computes for a new pod: priority, default tolerations, selectors from label keys, QoS class.

The functions edit the pod they are given. A pod that names an unknown priority class is refused, as upstream.
"""

from typing import Any

from berth.api.quantity import QuantityError, parse
from berth_cluster.apimachinery.errors import forbidden
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import PRIORITY_CLASSES, SERVICE_ACCOUNTS
from berth_cluster.strategies.base import ClusterView
from berth_cluster.strategies.pod_defaults import objects_in

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
TOLERATION_S = 300
DEFAULT_PREEMPTION_POLICY = "PreemptLowerPriority"


def set_service_account(pod: Object, view: ClusterView) -> None:
    """Give the pod its namespace's default account where it names none; refuse one that is not there."""
    spec, meta = pod["spec"], pod["metadata"]
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    if not view.service_accounts or MIRROR_ANNOTATION in (meta.get("annotations") or {}):
        return
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    if view.find(SERVICE_ACCOUNTS, meta["namespace"], name) is None:
        why = f'error looking up service account {meta["namespace"]}/{name}: serviceaccount "{name}" not found'
        raise forbidden("pods", "", meta["name"], why)


def set_priority(pod: Object, view: ClusterView) -> None:
    """Resolve the priority class; without one the global default's priority, or 0."""
    spec = pod["spec"]
    chosen = priority_class(pod, "pods", "", view)
    value = chosen.get("value", 0) if chosen else 0
    policy = (chosen or {}).get("preemptionPolicy") or DEFAULT_PREEMPTION_POLICY
    _refuse_other(pod, "priority", value, f"the integer value of priority ({spec.get('priority')})")
    said = f"the string value of PreemptionPolicy ({spec.get('preemptionPolicy')})"
    _refuse_other(pod, "preemptionPolicy", policy, said)
    spec["priority"] = value
    spec["preemptionPolicy"] = policy


def priority_class(obj: Object, plural: str, group: str, view: ClusterView) -> Object | None:
    """The class that a pod or a pod group names, or the global default, which it names from now on."""
    spec, name = obj["spec"], obj["metadata"]["name"]
    class_name = spec.get("priorityClassName")
    if class_name:
        chosen = view.find(PRIORITY_CLASSES, "", class_name)
        if chosen is None:
            raise forbidden(plural, group, name, f"no PriorityClass with name {class_name} was found")
        return chosen
    chosen = _global_default(view)
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    return chosen


def _refuse_other(pod: Object, field: str, computed: Any, what: str) -> None:
    given = pod["spec"].get(field)
    if given is not None and given != computed:
        why = (
            f"{what} must not be provided in pod spec; priority admission controller computed {computed} "
            "from the given PriorityClass name"
        )
        raise forbidden("pods", "", pod["metadata"]["name"], why)


def _global_default(view: ClusterView) -> Object | None:
    """The class marked as default; of several, the one with the lowest value."""
    marked = [known for known in view.objects(PRIORITY_CLASSES) if known.get("globalDefault")]
    return min(marked, key=lambda known: known.get("value", 0), default=None)


def add_default_tolerations(pod: Object) -> None:
    """Let every pod stay on a node that is not ready or unreachable for five minutes, unless it says otherwise."""
    tolerations = pod["spec"].setdefault("tolerations", [])
    if not isinstance(tolerations, list):
        return
    for key in (NOT_READY, UNREACHABLE):
        if not any(_covers(toleration, key) for toleration in tolerations if isinstance(toleration, dict)):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_S}
            )


def _covers(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")


def merge_label_keys(pod: Object) -> None:
    """Turn (mis)matchLabelKeys into expressions on the pod's own labels, as the API server does."""
    labels = pod["metadata"].get("labels") or {}
    spec = pod["spec"]
    for constraint in objects_in(spec, "topologySpreadConstraints"):
        _add_expressions(constraint, "matchLabelKeys", "In", labels)
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        for term in _affinity_terms(affinity.get(kind) or {}):
            _add_expressions(term, "matchLabelKeys", "In", labels)
            _add_expressions(term, "mismatchLabelKeys", "NotIn", labels)


def _affinity_terms(affinity: Object) -> list[Object]:
    required = list(objects_in(affinity, "requiredDuringSchedulingIgnoredDuringExecution"))
    preferred = objects_in(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
    return required + [weighted["podAffinityTerm"] for weighted in preferred if "podAffinityTerm" in weighted]


def _add_expressions(term: Object, field: str, operator: str, labels: dict[str, str]) -> None:
    selector = term.get("labelSelector")
    if not isinstance(selector, dict):
        return
    for key in term.get(field) or []:
        if key in labels:
            expression = {"key": key, "operator": operator, "values": [labels[key]]}
            selector.setdefault("matchExpressions", []).append(expression)


def qos_class(spec: Object) -> str:
    """How the kubelet ranks the pod when memory runs out."""
    if isinstance(spec.get("resources"), dict) and spec["resources"]:
        return _qos_of([spec["resources"]])
    containers = [*objects_in(spec, "containers"), *objects_in(spec, "initContainers")]
    return _qos_of([container.get("resources") or {} for container in containers])


def _qos_of(resources: list[Object]) -> str:
    wanted = False
    guaranteed = bool(resources)
    for resource in resources:
        requests, limits = _computing(resource.get("requests")), _computing(resource.get("limits"))
        wanted = wanted or bool(requests or limits)
        guaranteed = guaranteed and set(limits) == {"cpu", "memory"} and requests == limits
    if not wanted:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _computing(quantities: Any) -> dict[str, Any]:
    """The cpu and memory that are more than zero, exactly."""
    found = {}
    for name in ("cpu", "memory"):
        if isinstance(quantities, dict) and name in quantities:
            try:
                found[name] = parse(quantities[name])
            except QuantityError:
                continue  # validation names it
    return {name: value for name, value in found.items() if value > 0}
