"""Aggregated ClusterRoles, as the documentation of Kubernetes has them under "Aggregated ClusterRoles" of RBAC.

What `view`, `edit` and `admin` allow is said in the same document, under "User-facing roles".
"""

import pytest

from berth_cluster.serving.bootstrap_access import create_access_objects
from berth_cluster.serving.rbac import ClusterUser, RbacAttributes, RbacAuthorizer
from packages.cluster.tests.controllers.world import World


@pytest.fixture
def world():
    world = World(nodes=0)
    create_access_objects(world.store, b"ca")
    world.run()
    return world


def role(name, *verbs, **labels):
    rule = {"apiGroups": ["example.com"], "resources": ["crontabs"], "verbs": [*verbs]}
    return {"kind": "ClusterRole", "metadata": {"name": name, "labels": labels}, "rules": [rule]}


def allowed(world, role_name, verb, resource, group=""):
    binding = {
        "kind": "RoleBinding",
        "metadata": {"name": role_name, "namespace": "default"},
        "roleRef": {"kind": "ClusterRole", "name": role_name},
        "subjects": [{"kind": "User", "name": role_name}],
    }
    if world.get("RoleBinding", role_name) is None:
        world.create(binding)
    name, _, subresource = resource.partition("/")
    asked = RbacAttributes(verb, group, name, subresource, "default")
    return RbacAuthorizer(world.store).decide(ClusterUser(role_name), asked)[0]


def test_a_role_has_the_rules_of_those_that_it_selects(world):
    selectors = [{"matchLabels": {"to": "monitoring"}}, {"matchExpressions": [{"key": "also", "operator": "Exists"}]}]
    made = {
        "kind": "ClusterRole",
        "metadata": {"name": "monitoring", "labels": {"also": "y"}},  # which it selects, too
        "aggregationRule": {"clusterRoleSelectors": selectors},
    }
    world.create({**made, "rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]})
    world.create(role("a", "get", to="monitoring"))
    world.create(role("b", "list", also="x"))
    world.create(role("c", "watch"))
    world.run()
    assert [rule["verbs"] for rule in world.get("ClusterRole", "monitoring")["rules"]] == [["get"], ["list"]]
    world.delete("ClusterRole", "a", "")
    world.run()
    assert [rule["verbs"] for rule in world.get("ClusterRole", "monitoring")["rules"]] == [["list"]]


@pytest.mark.parametrize(
    ("verb", "resource", "group", "who"),
    [
        ("list", "pods", "", "view edit admin"),
        ("get", "deployments/scale", "apps", "view edit admin"),
        ("get", "secrets", "", "edit admin"),
        ("create", "pods", "", "edit admin"),
        ("patch", "deployments/scale", "apps", "edit admin"),
        ("create", "serviceaccounts/token", "", "edit admin"),
        ("create", "roles", "rbac.authorization.k8s.io", "admin"),
        ("get", "roles", "rbac.authorization.k8s.io", "admin"),
        ("update", "resourcequotas", "", ""),
        ("update", "pods/status", "", ""),
        ("get", "nodes", "", ""),
    ],
)
def test_what_users_of_a_namespace_may_do(world, verb, resource, group, who):
    found = [name for name in ("view", "edit", "admin") if allowed(world, name, verb, resource, group)]
    assert found == who.split()


def test_others_add_to_the_roles_of_users(world):
    world.create(role("crontabs", "get", **{"rbac.authorization.k8s.io/aggregate-to-view": "true"}))
    world.run()
    for name in ("view", "edit", "admin"):
        assert allowed(world, name, "get", "crontabs", "example.com")
