"""Keeps users from granting, by roles and bindings that they write, what they may not do themselves.

As upstream (pkg/registry/rbac): the rules of a role, or of the role that a binding names, have to be covered by those
that its writer has there. Whoever may `escalate` roles, or `bind` the role in question, is excepted, and so is
`system:masters`. Called by the store before it validates what a client writes.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from berth_cluster.apimachinery.errors import StoreError, as_json, bad_request, forbidden, not_found, too_large
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.serving.rbac import GROUP, MASTERS, ClusterUser, RbacAttributes, RbacAuthorizer
from berth_cluster.serving.requests import Target

MAX_PERMISSIONS = 100_000  # that the rules of one role may come to
_ROLES = {"ClusterRole": "clusterroles", "Role": "roles"}
_ALL = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
_OF_COLLECTOR = frozenset({"ownerReferences", "finalizers", "resourceVersion"})


class _Permission(NamedTuple):
    """One verb on one resource, or on one path that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    path: str = ""


class EscalationCheck:
    """What one request of a user may write."""

    __slots__ = ("_authorizer", "_target", "_user")

    def __init__(self, authorizer: RbacAuthorizer, user: ClusterUser, target: Target) -> None:
        self._authorizer = authorizer
        self._user = user
        self._target = target

    def __call__(self, kind: ResourceType, new: Object, old: Object | None) -> None:
        """Refuse a role or a binding (403); `old` is what it replaces."""
        if kind.group != GROUP or MASTERS in self._user.groups or (old is not None and _is_for_collector(new, old)):
            return
        if kind.plural.endswith("bindings"):
            rules = self._bound(kind, new)
        elif self._may("escalate", kind.plural, self._target.name):
            return
        else:
            rules = new.get("rules") or []
        why = self._lacking(rules)
        if not why and any(map(_is_aggregated, (new, old or {}))) and self._lacking(_ALL):
            why = "must have cluster-admin privileges to use the aggregationRule"
        if why:
            meta = new["metadata"]
            is_named = self._target.name or not meta.get("generateName")
            raise forbidden(kind.plural, GROUP, meta["name"] if is_named else "", why)

    def _may(self, verb: str, plural: str, name: str, group: str = GROUP) -> bool:
        asked = RbacAttributes(verb, group, plural, namespace=self._target.namespace, name=name)
        return self._authorizer.decide(self._user, asked)[0]

    def _bound(self, kind: ResourceType, binding: Object) -> list[Object]:
        """The rules of the role that a binding names, unless its writer may bind it anyway."""
        reference = binding.get("roleRef") or {}
        plural, name = _ROLES.get(str(reference.get("kind", ""))), str(reference.get("name", ""))
        if plural is None:
            raise StoreError(500, "", f'unsupported role reference kind: "{reference.get("kind", "")}"')
        if self._may("bind", plural, name, str(reference.get("apiGroup", ""))):
            return []
        if plural == "roles" and not kind.namespaced:
            raise bad_request("Namespace parameter required.")
        role = self._authorizer.role(binding, self._target.namespace)
        if role is None:
            raise not_found(kind.plural, GROUP, name)
        return role.get("rules") or []

    def _lacking(self, rules: Iterable[Object]) -> str:
        """What the user may not do of some rules, in upstream's words; empty if nothing."""
        own = self._authorizer.rules_of(self._user, self._target.namespace)
        lacking = [one for one in _permissions(rules) if not any(_covers(rule, one) for rule in own)]
        if not lacking:
            return ""
        groups = " ".join(map(as_json, self._user.groups))
        said = "\n".join(sorted(set(_described(lacking))))
        who = f'user "{self._user.name}" (groups=[{groups}])'
        return f"{who} is attempting to grant RBAC permissions not currently held:\n{said}"


def _is_aggregated(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _is_for_collector(new: Object, old: Object) -> bool:
    """Nothing changes but what the garbage collector needs to let an object go."""

    def rest(obj: Object) -> Object:
        meta = {key: value for key, value in obj["metadata"].items() if key not in _OF_COLLECTOR}
        return {**obj, "metadata": meta}

    return rest(new) == rest(old)


def _permissions(rules: Iterable[Object]) -> list[_Permission]:
    found: list[_Permission] = []
    for rule in rules:
        verbs, names = rule.get("verbs") or (), rule.get("resourceNames") or ("",)
        groups, resources, paths = (rule.get(key) or () for key in ("apiGroups", "resources", "nonResourceURLs"))
        if len(found) + len(verbs) * (len(groups) * len(resources) * len(names) + len(paths)) > MAX_PERMISSIONS:
            raise too_large(f"the rules come to more than {MAX_PERMISSIONS} permissions")
        found += [
            _Permission(verb, group, resource, name)
            for group in groups
            for resource in resources
            for verb in verbs
            for name in names
        ]
        found += [_Permission(verb, path=path) for path in paths for verb in verbs]
    return found


def _covers(rule: Object, wanted: _Permission) -> bool:
    if not {wanted.verb, "*"} & set(rule.get("verbs") or ()):
        return False
    if wanted.path:
        patterns = rule.get("nonResourceURLs") or ()
        return any(
            one == wanted.path or (one.endswith("*") and wanted.path.startswith(one.rstrip("*"))) for one in patterns
        )
    _, has_part, part = wanted.resource.partition("/")
    resources = {wanted.resource, "*", f"*/{part}"} if has_part else {wanted.resource, "*"}
    names = rule.get("resourceNames") or ()
    return bool(
        {wanted.group, "*"} & set(rule.get("apiGroups") or ())
        and resources & set(rule.get("resources") or ())
        and (not names or wanted.name in names)
    )


def _described(lacking: Iterable[_Permission]) -> Iterator[str]:
    """Permissions on the same resource together, as Go writes lists of texts."""
    verbs: dict[_Permission, list[str]] = {}
    for one in lacking:
        key = one if one.path else one._replace(verb="")
        verbs.setdefault(key, []).append(one.verb)
    for about, found in verbs.items():
        said = {"NonResourceURLs": [about.path]} if about.path else {"APIGroups": [about.group]}
        if not about.path:
            said |= {"Resources": [about.resource]} | ({"ResourceNames": [about.name]} if about.name else {})
        parts = {**said, "Verbs": found}
        yield "{" + ", ".join(f"{key}:[{' '.join(map(as_json, texts))}]" for key, texts in parts.items()) + "}"
