"""kubectl with a kind of one's own: applied, waited for, shown, explained, refused and deleted."""

import json

import pytest

from tests.e2e.kubectl import Kubectl
from tests.paths import ROOT

TEXT = (ROOT / "docs/embedded-cluster.md").read_text()
DEFINITION = TEXT[TEXT.index("apiVersion: apiextensions.k8s.io/v1") :].partition("```")[0]


@pytest.fixture(scope="module")
def kubectl(api_server, tmp_path_factory):
    return Kubectl(api_server, tmp_path_factory.mktemp("kubectl") / "cache")


def quota(**spec):
    head = {"apiVersion": "example.com/v1", "kind": "TeamQuota", "metadata": {"name": "q"}}
    return json.dumps({**head, "spec": {"team": "red", **spec}})


def test_a_kind_of_ones_own(kubectl):
    kubectl("apply", "-f", "-", text=DEFINITION)
    assert "condition met" in kubectl("wait", "--for", "condition=established", "crd/teamquotas.example.com")
    assert "created" in kubectl("apply", "-f", "-", text=quota())
    assert "unchanged" in kubectl("apply", "-f", "-", text=quota())
    assert "serverside-applied" in kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", text=quota(frozen=True)
    )
    [row] = kubectl.rows("tq")
    assert row == {"NAME": "q", "TEAM": "red", "FROZEN": "true"}
    assert "frozen" in kubectl("explain", "teamquotas.spec")
    assert 'spec.team in body must be of type string: "integer"' in kubectl.refused(
        "apply", "-f", "-", text=quota(team=5)
    )
    assert 'unknown field "spec.zip"' in kubectl.refused("create", "-f", "-", text=quota(zip=1))
    kubectl("delete", "crd", "teamquotas.example.com")
    assert "the server could not find the requested resource" in kubectl.refused("get", "teamquotas")
