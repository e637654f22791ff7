"""[sig-api-machinery] The objects of admission and of priority and fairness: stored, "
"listed, watched, refused if wrong."""

import pytest

from packages.cluster.tests.suite.client import refused, spec

ADMISSION = "admissionregistration.k8s.io"
FLOW = "flowcontrol.apiserver.k8s.io"
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
LEVEL = {
    "type": "Limited",
    "limited": {"nominalConcurrencyShares": 2, "limitResponse": {"type": "Reject"}},
}
OPERATIONS = {
    "policy": (
        ADMISSION,
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        {
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [{"expression": "object.spec.replicas > 1"}],
        },
        True,
    ),
    "binding": (
        ADMISSION,
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        {"policyName": "nowhere.example.com", "validationActions": ["Deny"]},
        False,
    ),
    "mutation": (
        ADMISSION,
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
        {
            "matchConstraints": {"resourceRules": [RULE]},
            "reinvocationPolicy": "Never",
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: 2}}"},
                }
            ],
        },
        False,
    ),
    "its binding": (
        ADMISSION,
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
        {"policyName": "nowhere.example.com"},
        False,
    ),
    "schema": (
        FLOW,
        "flowschemas",
        "FlowSchema",
        {"matchingPrecedence": 10000, "priorityLevelConfiguration": {"name": "global-default"}},
        True,
    ),
    "level": (FLOW, "prioritylevelconfigurations", "PriorityLevelConfiguration", LEVEL, True),
}


@spec(
    "ValidatingAdmissionPolicy should support ValidatingAdmissionPolicy API operations",
    "ValidatingAdmissionPolicy should support ValidatingAdmissionPolicyBinding API operations",
    "MutatingAdmissionPolicy should support MutatingAdmissionPolicy API operations",
    "MutatingAdmissionPolicy should support MutatingAdmissionPolicyBinding API operations",
    "API priority and fairness should support FlowSchema API operations",
    "API priority and fairness should support PriorityLevelConfiguration API operations",
)
@pytest.mark.parametrize("which", OPERATIONS)
def test_operations(cluster, which):
    group, plural, kind, body, has_status = OPERATIONS[which]
    versions = {one["name"]: one["versions"] for one in cluster.call("GET", "/apis")["groups"]}[group]
    assert f"{group}/v1" in [version["groupVersion"] for version in versions]
    resources = [one["name"] for one in cluster.call("GET", f"/apis/{group}/v1")["resources"]]
    assert plural in resources and (f"{plural}/status" in resources) == has_status
    labels = {"of": cluster.namespace}
    selector = {"labelSelector": f"of={cluster.namespace}"}

    def named(name):
        metadata = {"name": f"{cluster.namespace}-{name}", "labels": labels}
        return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": body}

    first, *_ = [cluster.create(named(name))["metadata"]["name"] for name in ("a", "b", "c")]
    try:
        read = cluster.read(kind, first)
        listed = cluster.listing(kind, **selector)
        assert len(listed["items"]) == 3
        assert cluster.patch(kind, first, {"metadata": {"annotations": {"patched": "true"}}})["metadata"]["annotations"]
        read = cluster.read(kind, first)
        read["metadata"]["annotations"]["updated"] = "true"
        assert cluster.update(read)["metadata"]["annotations"] == {"patched": "true", "updated": "true"}
        since = listed["metadata"]["resourceVersion"]
        cluster.watch(kind, lambda seen: len(seen) >= 2, resourceVersion=since, **selector)
        if has_status:
            said = {"type": "Patched", "status": "True", "reason": "Spec", "message": "patched"}
            if group == ADMISSION:
                said["lastTransitionTime"] = "2026-01-01T00:00:00Z"
            patched = cluster.patch(kind, first, {"status": {"conditions": [said]}}, "status")
            assert "Patched" in [one["type"] for one in patched["status"]["conditions"]]
            read = cluster.read(kind, first, "status")
            read["status"]["conditions"][-1]["message"] = "updated"
            assert cluster.update(read, "status")["status"]["conditions"][-1]["message"] == "updated"
        cluster.delete(kind, first)
        cluster.until_gone(kind, first)
    finally:
        cluster.delete_all(kind, **selector)
    cluster.until_count(kind, 0, **selector)


@spec("AdmissionWebhook should include webhook resources in discovery documents")
def test_webhooks_in_discovery(cluster):
    group = cluster.call("GET", f"/apis/{ADMISSION}")
    assert f"{ADMISSION}/v1" in [version["groupVersion"] for version in group["versions"]]
    resources = [one["name"] for one in cluster.call("GET", f"/apis/{ADMISSION}/v1")["resources"]]
    assert {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} <= set(resources)


def webhooks(cluster, kind, *conditions):
    webhook = {
        "name": "match-conditions.k8s.io",
        "clientConfig": {
            "service": {"namespace": cluster.namespace, "name": "webhook", "path": "/always", "port": 8443}
        },
        "rules": [RULE | {"apiGroups": [""], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": list(conditions),
    }
    metadata = {"name": cluster.namespace}
    return {"apiVersion": f"{ADMISSION}/v1", "kind": kind, "metadata": metadata, "webhooks": [webhook]}


KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@spec(
    "AdmissionWebhook should be able to create and update mutating webhook configurations with match conditions",
    "AdmissionWebhook should be able to create and update validating webhook configurations with match conditions",
)
@pytest.mark.parametrize("kind", KINDS)
def test_match_conditions_are_kept(cluster, kind):
    first = {"name": "expression-1", "expression": "object.metadata.namespace == 'production'"}
    made = cluster.create(webhooks(cluster, kind, first))
    try:
        assert made["webhooks"][0]["matchConditions"] == [first]
        second = {"name": "expression-2", "expression": "object.metadata.namespace == 'staging'"}
        made["webhooks"][0]["matchConditions"] = [second]
        cluster.update(made)
        assert cluster.read(kind, cluster.namespace)["webhooks"][0]["matchConditions"] == [second]
    finally:
        cluster.delete(kind, cluster.namespace)


@spec(
    "AdmissionWebhook should reject mutating webhook configurations with invalid match conditions",
    "AdmissionWebhook should reject validating webhook configurations with invalid match conditions",
)
@pytest.mark.parametrize("kind", KINDS)
def test_match_conditions_are_compiled(cluster, kind):
    wrong = {"name": "expression-1", "expression": "... [] bad expression"}
    message = refused(cluster.create, webhooks(cluster, kind, wrong)).message
    assert "compilation failed" in message
