"""Manifests in the shapes of well-known charts, operators and tutorials, applied with kubectl as people apply them.

They are our own words, after what ingress controllers, monitoring, databases, queueing and certificates have in common.
A real API server takes all of them.
"""

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.kubectl import Kubectl

MANIFESTS = sorted((Path(__file__).parent / "manifests").glob("*.yaml"))
ROLLED_OUT = ("DaemonSet", "Deployment", "StatefulSet")


def documents(path):
    """Definitions first, and their objects when they are known, as `kubectl apply` of a whole file needs twice."""
    found = yaml.safe_load(path.read_text())
    definitions = [one for one in found if one["kind"] == "CustomResourceDefinition"]
    return [part for part in (definitions, [one for one in found if one not in definitions]) if part]


def as_list(objects):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@pytest.fixture
def kubectl(scheduled_cluster, namespace_name, tmp_path):
    admin = Kubectl(scheduled_cluster, tmp_path)
    admin("create", "namespace", namespace_name)
    yield admin.in_namespace(namespace_name)
    admin("delete", "namespace", namespace_name, "--wait=false")


def applied(kubectl, parts, *options):
    """Apply everything; what is said of each object."""
    said = "".join(kubectl("apply", "-f", "-", *options, text=as_list(part)) for part in parts)
    return [line.split(" ", 1)[1] for line in said.splitlines()]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_are_applied_and_rolled_out(kubectl, path):
    parts = documents(path)
    objects = [one for part in parts for one in part]
    try:
        assert applied(kubectl, parts) == ["created"] * len(objects)
        assert set(applied(kubectl, parts)) <= {"unchanged", "configured"}
        for one in objects:
            if one["kind"] in ROLLED_OUT and one["spec"].get("updateStrategy", {}).get("type") != "OnDelete":
                kubectl("rollout", "status", f"{one['kind']}/{one['metadata']['name']}", "--timeout=60s")
        merged = applied(kubectl, parts, "--server-side", "--force-conflicts")
        assert merged == ["serverside-applied"] * len(objects)
        elsewhere = kubectl.in_namespace("default")  # where nothing of it is yet
        made = applied(elsewhere, parts, "--server-side", "--force-conflicts", "--dry-run=server")
        assert made == ["serverside-applied (server dry run)"] * len(objects)
    finally:
        for part in reversed(parts):
            kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", text=as_list(part), check=False)
