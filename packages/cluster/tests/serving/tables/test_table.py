"""Tables: headings and cells of the common kinds, as `kubectl get` prints them."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import BY_KEY, RESOURCE_TYPES
from berth_cluster.serving.tables.table import make_table
from packages.cluster.tests.objects import START

META = {"name": "x", "creationTimestamp": "2025-03-01T11:00:00Z"}


def table(key, obj, include="None"):
    made = make_table(BY_KEY[key], [{"metadata": META, **obj}], {"resourceVersion": "1"}, include, START)
    return made["columnDefinitions"], made["rows"][0]


def shown(key, obj, *, wide=False):
    columns, row = table(key, obj)
    return [cell for column, cell in zip(columns, row["cells"], strict=True) if wide or column["priority"] == 0]


@pytest.mark.parametrize(
    ("key", "headings"),
    [
        (("", "pods"), ["Name", "Ready", "Status", "Restarts", "Age"]),
        (("", "nodes"), ["Name", "Status", "Roles", "Age", "Version"]),
        (("", "events"), ["Last Seen", "Type", "Reason", "Object", "Message"]),
        (("", "services"), ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"]),
        (("apps", "deployments"), ["Name", "Ready", "Up-to-date", "Available", "Age"]),
        (("apps", "replicasets"), ["Name", "Desired", "Current", "Ready", "Age"]),
        (("batch", "jobs"), ["Name", "Status", "Completions", "Duration", "Age"]),
        (
            ("policy", "poddisruptionbudgets"),
            ["Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"],
        ),
        (("scheduling.k8s.io", "priorityclasses"), ["Name", "Value", "Global-Default", "Age", "PreemptionPolicy"]),
        (("coordination.k8s.io", "leases"), ["Name", "Holder", "Age"]),
        (("rbac.authorization.k8s.io", "roles"), ["Name", "Created At"]),
    ],
)
def test_the_headings(key, headings):
    columns, _ = table(key, {})
    assert [column["name"] for column in columns if column["priority"] == 0] == headings


@pytest.mark.parametrize("kind", RESOURCE_TYPES, ids=lambda kind: f"{kind.group}/{kind.plural}")
def test_an_almost_empty_object_has_a_row(kind):
    columns, row = table(kind.key, {})
    assert len(row["cells"]) == len(columns)


@pytest.mark.parametrize(
    ("key", "obj", "cells"),
    [
        (
            ("apps", "deployments"),
            {"spec": {"replicas": 3}, "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}},
            ["x", "1/3", 2, 1, "60m"],
        ),
        (
            ("batch", "jobs"),
            {
                "spec": {"completions": 2},
                "status": {
                    "succeeded": 2,
                    "startTime": "2025-03-01T11:00:00Z",
                    "completionTime": "2025-03-01T11:00:42Z",
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            ["x", "Complete", "2/2", "42s", "60m"],
        ),
        (
            ("", "nodes"),
            {
                "metadata": {**META, "labels": {"node-role.kubernetes.io/worker": ""}},
                "spec": {"unschedulable": True},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            },
            ["x", "Ready,SchedulingDisabled", "worker", "60m", ""],
        ),
        (
            ("", "events"),
            {
                "lastTimestamp": "2025-03-01T11:59:30Z",
                "type": "Normal",
                "reason": "Scheduled",
                "involvedObject": {"kind": "Pod", "name": "web"},
                "message": "done\n",
            },
            ["30s", "Normal", "Scheduled", "pod/web", "done"],
        ),
        (
            ("", "services"),
            {"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30080}]}},
            ["x", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP", "60m"],
        ),
        (
            ("policy", "poddisruptionbudgets"),
            {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}},
            ["x", "50%", "N/A", 1, "60m"],
        ),
        (("", "configmaps"), {"data": {"a": "1"}, "binaryData": {"b": ""}}, ["x", 2, "60m"]),
    ],
)
def test_the_cells(key, obj, cells):
    assert shown(key, obj) == cells


def test_wide_columns():
    template = {"spec": {"containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "two"}]}}
    obj = {"spec": {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}}
    assert shown(("apps", "replicasets"), obj, wide=True)[-3:] == ["a,b", "one,two", "app=x"]


@pytest.mark.parametrize(
    ("include", "kind"), [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", None)]
)
def test_how_much_of_the_object_goes_along(include, kind):
    _, row = table(("", "pods"), {"spec": {"nodeName": "n"}}, include)
    assert row["object"].get("kind") == kind
    assert ("spec" in row["object"]) is (include == "Object")


def test_no_object_or_nonsense():
    assert "object" not in table(("", "pods"), {})[1]
    with pytest.raises(StoreError, match="includeObject"):
        table(("", "pods"), {}, "Half")
