"""What admission makes of a new pod, and what the registry adds to it: an account, and selectors from label keys.

The functions edit the pod they are given, or refuse it. The rules are those of `berth_workloads.admission`.
"""

from berth_cluster.apimachinery.errors import forbidden
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY, PRIORITY_CLASSES, SERVICE_ACCOUNTS
from berth_cluster.strategies.base import ClusterView
from berth_workloads import admission
from berth_workloads.pods import objects_in

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_LIMIT_RANGES, _RUNTIME_CLASSES = BY_KEY["", "limitranges"], BY_KEY["node.k8s.io", "runtimeclasses"]


class Admitting:
    """What admission looks up in the store."""

    __slots__ = ("_view",)

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def limit_ranges(self, namespace: str) -> list[Object]:
        """The LimitRanges of a namespace, in the order of their names."""
        return sorted(self._view.objects(_LIMIT_RANGES, namespace), key=lambda one: str(one["metadata"]["name"]))

    def priority_class(self, name: str) -> Object | None:
        """A PriorityClass, or None."""
        return self._view.find(PRIORITY_CLASSES, "", name)

    def priority_classes(self) -> list[Object]:
        """All PriorityClasses."""
        return self._view.objects(PRIORITY_CLASSES)

    def runtime_class(self, name: str) -> Object | None:
        """A RuntimeClass, or None."""
        return self._view.find(_RUNTIME_CLASSES, "", name)


def complete(pod: Object, view: ClusterView) -> None:
    """Fill in what the mutating plugins do."""
    set_service_account(pod, view)
    _refuse(pod, admission.complete_pod(pod, pod["metadata"]["namespace"], Admitting(view)))


def admit(pod: Object, view: ClusterView) -> None:
    """Refuse a complete pod that the validating plugins refuse."""
    _refuse(pod, admission.pod_refusal(pod, pod["metadata"]["namespace"], Admitting(view)))


def _refuse(pod: Object, why: str) -> None:
    if why:
        raise forbidden("pods", "", pod["metadata"]["name"], why)


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


def priority_class(obj: Object, plural: str, group: str, view: ClusterView) -> Object | None:
    """The class that a pod group names, or the global default, which it names from now on."""
    chosen, why = admission.resolved_class(obj["spec"], Admitting(view))
    if why:
        raise forbidden(plural, group, obj["metadata"]["name"], why)
    return chosen


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
