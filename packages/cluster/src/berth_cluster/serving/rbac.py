"""What a user may do: everything for `system:masters`, and what the stored RBAC objects grant for everybody else.

The rules are upstream's (plugin/pkg/auth/authorizer/rbac): grants only add up, a ClusterRoleBinding counts everywhere,
a RoleBinding in its namespace, and neither roles that are not there nor aggregation grant anything. One decision looks
at every binding once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.storage.store import Store

GROUP = "rbac.authorization.k8s.io"
CLUSTER_ROLES = BY_KEY[GROUP, "clusterroles"]
CLUSTER_ROLE_BINDINGS = BY_KEY[GROUP, "clusterrolebindings"]
ROLES = BY_KEY[GROUP, "roles"]
ROLE_BINDINGS = BY_KEY[GROUP, "rolebindings"]
MASTERS = "system:masters"


class ClusterUser(msgspec.Struct, frozen=True):
    """Whose a request is."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = {}

    def to_info(self) -> Object:
        """The user as an `authentication.k8s.io/v1` UserInfo."""
        info: Object = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = dict(self.extra)
        return info


class RbacAttributes(msgspec.Struct, frozen=True):
    """What somebody wants to do: a verb on a resource, or on a `path` that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class RbacAuthorizer:
    """Decides by the RBAC objects of a store."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def decide(self, user: ClusterUser, asked: RbacAttributes) -> tuple[bool, str]:
        """Whether the user may, and where known why."""
        if MASTERS in user.groups:
            return True, ""
        for binding, rule in self._rules(user, asked.namespace):
            if _grants(rule, asked):
                return True, f"RBAC: allowed by {_described(binding)}"
        return False, ""

    def rules(self, user: ClusterUser, namespace: str) -> Object:
        """The status of a SelfSubjectRulesReview."""
        on_resources, on_paths = [], []
        if MASTERS in user.groups:
            on_resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
            on_paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
        for _, rule in self._rules(user, namespace):
            (on_paths if rule.get("nonResourceURLs") else on_resources).append(rule)
        return {"resourceRules": on_resources, "nonResourceRules": on_paths, "incomplete": False}

    def rules_of(self, user: ClusterUser, namespace: str) -> list[Object]:
        """All rules that count for a user in a namespace, or where none is named, for the whole cluster."""
        return [rule for _, rule in self._rules(user, namespace)]

    def _rules(self, user: ClusterUser, namespace: str) -> Iterator[tuple[Object, Object]]:
        """The rules that count for a user in a namespace, each with the binding that brings it."""
        bindings = self._store.objects(CLUSTER_ROLE_BINDINGS)
        if namespace:
            bindings = [*bindings, *self._store.objects(ROLE_BINDINGS, namespace)]
        for binding in bindings:
            own = binding["metadata"].get("namespace", "")
            if any(_is_subject(subject, user, own) for subject in _objects(binding.get("subjects"))):
                for rule in _objects((self.role(binding, own) or {}).get("rules")):
                    yield binding, rule

    def role(self, binding: Object, namespace: str) -> Object | None:
        """The role that a binding in this namespace, or in none, names."""
        reference = binding.get("roleRef") or {}
        name = str(reference.get("name", ""))
        if reference.get("kind") == "Role":
            return self._store.find(ROLES, namespace, name) if namespace else None
        return self._store.find(CLUSTER_ROLES, "", name)


def _objects(value: Any) -> list[Object]:
    return [one for one in value or () if isinstance(one, dict)]


def _is_subject(subject: Object, user: ClusterUser, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return bool(user.name == name)
    if kind == "Group":
        return name in user.groups
    return bool(
        kind == "ServiceAccount"
        and user.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    )


def _grants(rule: Object, asked: RbacAttributes) -> bool:
    verbs = rule.get("verbs") or ()
    if asked.verb not in verbs and "*" not in verbs:
        return False
    if asked.path:
        return any(_covers(str(pattern), asked.path) for pattern in rule.get("nonResourceURLs") or ())
    groups, names = rule.get("apiGroups") or (), rule.get("resourceNames") or ()
    if asked.group not in groups and "*" not in groups:
        return False
    if names and asked.name not in names:
        return False
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    wanted = {resource, "*", f"*/{asked.subresource}"} if asked.subresource else {resource, "*"}
    return any(known in wanted for known in rule.get("resources") or ())


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else pattern == path


def _described(binding: Object) -> str:
    meta, reference = binding["metadata"], binding.get("roleRef") or {}
    where = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f'{binding["kind"]} "{where}{meta["name"]}" of {reference.get("kind")} "{reference.get("name")}"'
