"""The API group rbac.authorization.k8s.io: names that are path segments, rules, subjects, and references that stay.

Source of the rules: pkg/apis/rbac/validation, v1.36. Who may write what, `serving.rbac_escalation` says.
"""

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.go_form import in_go
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies import names
from berth_cluster.strategies.base import RESTStrategy
from berth_cluster.strategies.checks import Check, always, both, each, given, need, one_of

GROUP = "rbac.authorization.k8s.io"


def _rule(*, is_namespaced: bool) -> Check:
    """A rule is about resources, or in a ClusterRole, about paths that are none."""

    def check(rule: Object, field: str, errors: FieldErrors) -> None:
        paths = rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            errors.required(f"{field}.verbs", "verbs must contain at least one value")
        if paths and is_namespaced:
            errors.invalid(f"{field}.nonResourceURLs", paths, "namespaced rules cannot apply to non-resource URLs")
        if paths and any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            errors.invalid(f"{field}.nonResourceURLs", paths, why)
        for key, what in (("apiGroups", "api group"), ("resources", "resource")):
            if not paths and not rule.get(key):
                errors.required(f"{field}.{key}", f"resource rules must supply at least one {what}")

    return check


def _subject(*, is_namespaced: bool) -> Check:
    def check(subject: Object, field: str, errors: FieldErrors) -> None:
        name, kind, group = (subject.get(key) or "" for key in ("name", "kind", "apiGroup"))
        if not name:
            errors.required(f"{field}.name")
        if kind not in ("ServiceAccount", "User", "Group"):
            errors.unsupported(f"{field}.kind", kind, ("ServiceAccount", "User", "Group"))
            return
        expected = "" if kind == "ServiceAccount" else GROUP
        if name and not expected:
            names.check_subdomain(name, f"{field}.name", errors)
        if group != expected:
            errors.unsupported(f"{field}.apiGroup", group, (expected,))
        if not expected and not is_namespaced and not subject.get("namespace"):
            errors.required(f"{field}.namespace")

    return check


def _role(*more: Check, is_namespaced: bool) -> RESTStrategy:
    return RESTStrategy(
        name=names.check_path_segment, check=both(each("rules", _rule(is_namespaced=is_namespaced)), *more)
    )


def _binding(*kinds: str) -> RESTStrategy:
    """A binding stays with its role, so that a user who may edit its subjects cannot raise what they may do."""
    reference = both(
        always("apiGroup", one_of(GROUP)), always("kind", one_of(*kinds)), need("name", names.check_path_segment)
    )
    return RESTStrategy(
        name=names.check_path_segment,
        check=both(always("roleRef", reference, default={}), each("subjects", _subject(is_namespaced="Role" in kinds))),
        change=_keep_role,
    )


def _keep_role(new: Object, old: Object, errors: FieldErrors) -> None:
    if new.get("roleRef") != old.get("roleRef"):
        errors.invalid("roleRef", in_go("rbac.v1.RoleRef", new.get("roleRef") or {}), "cannot change roleRef")


_AGGREGATION = both(
    need("clusterRoleSelectors", why="at least one clusterRoleSelector required if aggregationRule is non-nil"),
    each("clusterRoleSelectors", names.check_selector),
)
ROLE = _role(is_namespaced=True)
CLUSTER_ROLE = _role(given("aggregationRule", _AGGREGATION), is_namespaced=False)
ROLE_BINDING = _binding("Role", "ClusterRole")
CLUSTER_ROLE_BINDING = _binding("ClusterRole")
