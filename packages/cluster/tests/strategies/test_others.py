"""Namespaces, nodes, services, priority classes, budgets, secrets."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import MERGE_PATCH
from berth_cluster.apimachinery.resource_types import BY_KEY
from packages.cluster.tests.objects import BUDGETS, NAMESPACES, NODES, PRIORITY_CLASSES, Clock, make_store

SERVICES = BY_KEY["", "services"]
SECRETS = BY_KEY["", "secrets"]
STORAGE_CLASSES = BY_KEY["storage.k8s.io", "storageclasses"]
CLAIMS = BY_KEY["", "persistentvolumeclaims"]


def test_a_namespace_carries_its_name_as_a_label():
    made = make_store().create(NAMESPACES, "", {"metadata": {"name": "team"}})
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert (made["spec"], made["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_a_namespace_cannot_be_finalized_by_an_ordinary_update():
    store = make_store()
    made = store.create(NAMESPACES, "", {"metadata": {"name": "team"}})
    assert store.update(NAMESPACES, "", "team", {**made, "spec": {}})["spec"] == {"finalizers": ["kubernetes"]}


def test_a_node_can_allocate_its_capacity():
    made = make_store().create(NODES, "", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})
    assert made["status"]["allocatable"] == {"cpu": "4"}


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (
            {"spec": {"taints": [{"key": "a", "effect": "Shun"}]}},
            'metadata.taints[0].effect: Unsupported value: "Shun"',
        ),
        (
            {"status": {"capacity": {"cpu": "four"}}},
            'Node in version "v1" cannot be handled as a Node: quantities must match',
        ),
    ],
)
def test_nodes_that_are_wrong(node, why):
    with pytest.raises(StoreError) as caught:
        make_store().create(NODES, "", {"metadata": {"name": "n"}, **node})
    assert why in caught.value.message


def test_an_impossible_amount_is_refused_in_a_status_update_too():
    store = make_store()
    store.create(NODES, "", {"metadata": {"name": "n"}})
    with pytest.raises(StoreError, match="quantities must match"):
        store.patch(NODES, "", "n", {"status": {"allocatable": {"memory": "8 GB"}}}, MERGE_PATCH, "status")


def test_services_get_addresses_of_their_own():
    store = make_store()
    port = {"ports": [{"port": 80}]}
    made = [store.create(SERVICES, "default", {"metadata": {"name": name}, "spec": dict(port)}) for name in ("a", "b")]
    addresses = [service["spec"]["clusterIP"] for service in made]
    assert len(set(addresses)) == 2 and all(address.startswith("10.96.") for address in addresses)
    assert made[0]["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    headless = {"metadata": {"name": "c"}, "spec": {"clusterIP": "None"}}
    assert store.create(SERVICES, "default", headless)["spec"]["clusterIP"] == "None"


def test_a_service_keeps_its_address():
    store = make_store()
    obj = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    made = store.create(SERVICES, "default", obj)
    written = store.update(SERVICES, "default", "a", {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 81}]}})
    assert written["spec"]["clusterIP"] == made["spec"]["clusterIP"]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("system-mine", 5, "reserved for system use only"),
        ("huge", 1_000_000_001, "maximum allowed value of a user defined priority is 1000000000"),
    ],
)
def test_priority_classes_that_are_refused(name, value, why):
    with pytest.raises(StoreError, match=why):
        make_store().create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})


def test_the_value_of_a_priority_class_never_changes():
    store = make_store()
    store.create(PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 5})
    with pytest.raises(StoreError, match="value: Forbidden: may not be changed in an update"):
        store.patch(PRIORITY_CLASSES, "", "high", {"value": 6}, MERGE_PATCH)


def test_a_budget_has_one_bound():
    spec = {"minAvailable": 1, "maxUnavailable": 1}
    with pytest.raises(StoreError, match="minAvailable and maxUnavailable cannot be both set"):
        make_store().create(BUDGETS, "default", {"metadata": {"name": "b"}, "spec": spec})


def test_a_secret_is_kept_encoded():
    made = make_store().create(SECRETS, "default", {"metadata": {"name": "s"}, "stringData": {"key": "pass"}})
    assert (made["data"], made["type"]) == ({"key": "cGFzcw=="}, "Opaque")
    assert "stringData" not in made
    with pytest.raises(StoreError, match="must be base64") as caught:
        make_store().create(SECRETS, "default", {"metadata": {"name": "s"}, "data": {"key": "not base64!"}})
    assert "not base64!" not in caught.value.message


def test_a_storage_class_binds_at_once_by_default():
    made = make_store().create(STORAGE_CLASSES, "", {"metadata": {"name": "fast"}, "provisioner": "x"})
    assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")


def without_spec(kind, spec):
    store = make_store()
    store.create(kind, "default", {"metadata": {"name": "x"}, "spec": spec})
    return store.patch(kind, "default", "x", {"spec": None}, MERGE_PATCH)


def test_a_budget_or_node_may_lose_its_spec():
    assert without_spec(BUDGETS, {"minAvailable": 1})["spec"] == {}
    assert not without_spec(NODES, {"unschedulable": True}).get("spec")


@pytest.mark.parametrize(
    ("key", "needed"), [(("", "pods"), "spec.containers"), (("batch", "cronjobs"), "spec.schedule")]
)
def test_others_need_theirs(key, needed):
    pod_spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x:1"}]}
    job = {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": pod_spec}}}}
    with pytest.raises(StoreError, match=f"{needed}: Required value") as caught:
        without_spec(BY_KEY[key], job if key[0] else pod_spec)
    assert caught.value.status_code == 422


def test_a_claim_that_leaves_its_class_open_gets_the_youngest_default():  # the admission plugin DefaultStorageClass
    clock = Clock()
    store = make_store(clock)
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name, annotations in (("plain", {}), ("older", default), ("b", default), ("a", default)):
        clock.advance(0 if name == "a" else 5)
        store.create(STORAGE_CLASSES, "", {"metadata": {"name": name, "annotations": annotations}, "provisioner": "x"})
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    old_style = {"volume.beta.kubernetes.io/storage-class": "plain"}
    claims = {
        "open": {"metadata": {"name": "open"}, "spec": asked},
        "none": {"metadata": {"name": "none"}, "spec": {"storageClassName": "", **asked}},
        "named": {"metadata": {"name": "named"}, "spec": {"storageClassName": "plain", **asked}},
        "noted": {"metadata": {"name": "noted", "annotations": old_style}, "spec": asked},
    }
    made = {name: store.create(CLAIMS, "default", obj)["spec"].get("storageClassName") for name, obj in claims.items()}
    assert made == {"open": "a", "none": "", "named": "plain", "noted": None}


@pytest.mark.parametrize("bound", ["half", "50", "-5%", -1])
def test_a_budget_needs_a_number_or_a_percentage(bound):
    with pytest.raises(StoreError) as caught:
        make_store().create(BUDGETS, "default", {"metadata": {"name": "b"}, "spec": {"minAvailable": bound}})
    assert "spec.minAvailable: Invalid value" in caught.value.message


def test_a_budgets_name_is_only_part_of_a_path():
    store = make_store()
    budget = {"spec": {"minAvailable": 1}}
    store.create(BUDGETS, "default", {"metadata": {"name": "Bad_Name!"}, **budget})
    for name, why in (("a/b", "may not contain '/'"), ("..", "may not be '..'")):
        with pytest.raises(StoreError) as caught:
            store.create(BUDGETS, "default", {"metadata": {"name": name}, **budget})
        assert caught.value.message == (
            f'PodDisruptionBudget.policy "{name}" is invalid: metadata.name: Invalid value: "{name}": {why}'
        )


@pytest.mark.parametrize("hollow", ["true", "false"])
def test_a_hollow_node_offers_what_is_added_to_its_capacity(hollow):
    """A kubelet's doing: kubernetes.io "Advertise Extended Resources for a Node" patches the capacity alone."""
    store = make_store()
    status = {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3", "memory": "8Gi"}}
    metadata = {"name": "n", "annotations": {"berth.dev/hollow": hollow}}
    store.create(NODES, "", {"metadata": metadata, "status": status})

    def patched(**amounts):
        amounts = {name.replace("_", "/"): amount for name, amount in amounts.items()}
        return store.patch(NODES, "", "n", {"status": {"capacity": amounts}}, MERGE_PATCH, "status")["status"]

    offered = patched(a_dongle="4")["allocatable"]
    if hollow == "false":
        assert offered == {"cpu": "3", "memory": "8Gi"}
        return
    assert offered == {"cpu": "3", "memory": "8Gi", "a/dongle": "4"}
    assert patched(a_dongle="5")["allocatable"]["a/dongle"] == "5"
    assert patched(a_dongle=None)["allocatable"] == {"cpu": "3", "memory": "8Gi"}


@pytest.mark.parametrize("plural", ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"])
def test_match_conditions_are_cel(plural):
    resource = BY_KEY["admissionregistration.k8s.io", plural]
    webhook = {"name": "a.b.c", "matchConditions": [{"name": "e", "expression": "authorizer.group('a') == object.b"}]}
    store = make_store()
    store.create(resource, "", {"metadata": {"name": "good"}, "webhooks": [webhook]})
    webhook["matchConditions"][0]["expression"] = "... [] bad expression"
    with pytest.raises(StoreError, match=r"webhooks\[0\].matchConditions\[0\].expression: .*compilation failed: ERROR"):
        store.create(resource, "", {"metadata": {"name": "bad"}, "webhooks": [webhook]})


ACCESS_GROUP = "rbac.authorization.k8s.io"
HOOK = {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"]}
SERVICE = {"name": "a", "namespace": "b"}
EVERYTHING_SELECTED = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


@pytest.mark.parametrize(
    ("key", "said", "filled_in"),
    [
        (
            ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
            {"webhooks": [{**HOOK, "rules": [{"operations": ["*"]}], "clientConfig": {"service": SERVICE}}]},
            {
                "webhooks": [
                    {
                        **HOOK,
                        "rules": [{"operations": ["*"], "scope": "*"}],
                        "clientConfig": {"service": {**SERVICE, "port": 443}},
                        "failurePolicy": "Fail",
                        "timeoutSeconds": 10,
                        "reinvocationPolicy": "Never",
                        **EVERYTHING_SELECTED,
                    }
                ]
            },
        ),
        (
            ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
            {"spec": {"matchConstraints": {"resourceRules": [{"operations": ["CREATE"]}]}}},
            {
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": {
                        "resourceRules": [{"operations": ["CREATE"], "scope": "*"}],
                        **EVERYTHING_SELECTED,
                    },
                }
            },
        ),
        (
            ("networking.k8s.io", "networkpolicies"),
            {"spec": {"egress": [{"ports": [{"port": 53}]}], "policyTypes": []}},
            {"spec": {"egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}], "policyTypes": ["Ingress", "Egress"]}},
        ),
        (
            ("networking.k8s.io", "ingressclasses"),
            {"spec": {"parameters": {"kind": "A", "name": "b"}}},
            {"spec": {"parameters": {"kind": "A", "name": "b", "scope": "Cluster"}}},
        ),
        (
            (ACCESS_GROUP, "rolebindings"),
            {
                "roleRef": {"kind": "Role", "name": "a"},
                "subjects": [{"kind": "User", "name": "a"}, {"kind": "ServiceAccount", "name": "b"}],
            },
            {
                "roleRef": {"apiGroup": ACCESS_GROUP, "kind": "Role", "name": "a"},
                "subjects": [
                    {"apiGroup": ACCESS_GROUP, "kind": "User", "name": "a"},
                    {"kind": "ServiceAccount", "name": "b"},
                ],
            },
        ),
    ],
)
def test_the_defaults_of_what_nothing_acts_on(key, said, filled_in):  # pkg/apis/*/v1/defaults.go
    kind = BY_KEY[key]
    made = make_store().create(kind, "default" if kind.namespaced else "", {"metadata": {"name": "x"}, **said})
    assert {name: made[name] for name in filled_in} == filled_in
