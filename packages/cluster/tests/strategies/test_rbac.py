"""What is wrong with roles and bindings, in the words of a kube-apiserver 1.36, which was asked the same."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import BY_KEY
from packages.cluster.tests.objects import make_store

GROUP = "rbac.authorization.k8s.io"
NO_GROUP = "apiGroups: Required value: resource rules must supply at least one api group"
NO_RESOURCE = "resources: Required value: resource rules must supply at least one resource"
ROLE = {"kind": "Role", "name": "a"}
CLUSTER_ROLE = {"kind": "ClusterRole", "name": "a"}


def bound(reference, *subjects):
    return {"roleRef": reference, "subjects": list(subjects)}


@pytest.mark.parametrize(
    ("plural", "fields", "causes"),
    [
        ("roles", {"rules": [{"verbs": []}]},
         ["rules[0].verbs: Required value: verbs must contain at least one value", f"rules[0].{NO_GROUP}",
          f"rules[0].{NO_RESOURCE}"]),
        ("roles", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]},
         ['rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs']),
        ("clusterroles", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["pods"]}]},
         [('rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and '
          "non-resource URLs")]),
        ("clusterroles", {"aggregationRule": {}},
         [("aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if "
          "aggregationRule is non-nil")]),
        ("rolebindings", bound({"kind": "Thing", "name": "a"}),
         ['roleRef.kind: Unsupported value: "Thing": supported values: "Role", "ClusterRole"']),
        ("rolebindings", bound({"kind": "Role", "name": "a/b", "apiGroup": "x"}),
         [f'roleRef.apiGroup: Unsupported value: "x": supported values: "{GROUP}"',
          "roleRef.name: Invalid value: \"a/b\": may not contain '/'"]),
        ("clusterrolebindings", bound(ROLE),
         ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"']),
        ("rolebindings", bound(ROLE, {"kind": "User"}), ["subjects[0].name: Required value"]),
        ("rolebindings", bound(ROLE, {"kind": "Foo", "name": "u"}),
         ['subjects[0].kind: Unsupported value: "Foo": supported values: "ServiceAccount", "User", "Group"']),
        ("clusterrolebindings",
         bound(CLUSTER_ROLE, {"kind": "ServiceAccount", "name": "u"}, {"kind": "Group", "name": "g", "apiGroup": "y"}),
         ["subjects[0].namespace: Required value",
          f'subjects[1].apiGroup: Unsupported value: "y": supported values: "{GROUP}"']),
    ],
)  # fmt: skip
def test_what_is_refused(plural, fields, causes):
    kind = BY_KEY[GROUP, plural]
    with pytest.raises(StoreError) as told:
        make_store().create(kind, "default" if kind.namespaced else "", {"metadata": {"name": "x"}, **fields})
    assert told.value.status_code == 422
    assert [f"{one['field']}: {one['message']}" for one in told.value.details["causes"]] == causes


def test_a_binding_stays_with_its_role():
    store, kind = make_store(), BY_KEY[GROUP, "rolebindings"]
    made = store.create(kind, "default", {"metadata": {"name": "x"}, **bound(ROLE)})
    with pytest.raises(StoreError) as told:
        store.update(kind, "default", "x", {**made, "roleRef": {"kind": "Role", "name": "b"}})
    shown = f'{{"APIGroup":"{GROUP}","Kind":"Role","Name":"b"}}'
    assert f"roleRef: Invalid value: {shown}: cannot change roleRef" in told.value.message
