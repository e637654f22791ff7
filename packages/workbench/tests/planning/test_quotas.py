"""What quotas guarantee, what is used of them and what is borrowed, against sums done by hand."""

import json

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.core.builders import make_pod
from berth_workbench.planning.quotas import quotas_of
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot


def elastic(namespace, name="quota", created="2030-01-01T00:00:00Z", **spec):
    meta = {"name": name, "namespace": namespace, "creationTimestamp": created}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": meta, "spec": spec}


def limiting(namespace, hard, used):
    meta = {"name": "limits", "namespace": namespace}
    return {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta,
        "spec": {"hard": hard}, "status": {"hard": hard, "used": used},
    }  # fmt: skip


def pod(name, namespace, cpu, node="n1", phase="Running"):
    made = make_pod(name, namespace).request(cpu=cpu, memory="1Gi")
    if node:
        made.node(node)
    made.status["phase"] = phase
    return made.document


ITEMS = [
    elastic("shop", min={"cpu": "2", "memory": "4Gi"}, max={"cpu": 4}),
    elastic("lab", min={"cpu": "3"}),
    elastic("lab", "younger", "2030-01-02T00:00:00Z", min={"cpu": "9"}),
    limiting("lab", {"requests.cpu": "4", "pods": "10"}, {"requests.cpu": "1500m", "pods": "2"}),
    pod("a", "shop", "2500m"),
    pod("b", "shop", "500m"),
    pod("waits", "shop", "1", node=""),
    pod("done", "shop", "1", phase="Succeeded"),
    pod("c", "lab", "1"),
    pod("d", "elsewhere", "7"),
]


def of(items):
    return quotas_of(Snapshot(list(parse_documents(json.dumps({"kind": "List", "items": items}).encode(), "a test"))))


def test_what_is_used_beyond_the_guarantee_is_borrowed():
    found = {
        (line.namespace, line.kind, line.resource): (
            line.guaranteed,
            line.used,
            line.borrowed,
            line.lendable,
            line.most,
        )
        for line in of(ITEMS).lines
    }
    gi = 1 << 30
    assert found == {
        ("shop", "ElasticQuota", "cpu"): (2000, 3000, 1000, 0, 4000),
        ("shop", "ElasticQuota", "memory"): (4 * gi, 2 * gi, 0, 2 * gi, None),
        ("lab", "ElasticQuota", "cpu"): (3000, 1000, 0, 2000, None),
        ("lab", "ResourceQuota", "requests.cpu"): (None, 1500, 0, 0, 4000),
        ("lab", "ResourceQuota", "pods"): (None, 2, 0, 0, 10),
        ("", "ElasticQuota", "cpu"): (5000, 4000, 0, 1000, 5000),
        ("", "ElasticQuota", "memory"): (4 * gi, 2 * gi, 0, 2 * gi, 4 * gi),
    }


def test_of_two_quotas_in_a_namespace_the_older_counts():
    assert of(ITEMS).notes == ("ElasticQuota lab/younger counts for nothing, since quota is older",)


@pytest.mark.parametrize(("spec", "said"), [({"min": ["cpu"]}, "min: not an object"), ({"max": {"cpu": "x"}}, "max: ")])
def test_amounts_that_are_none_are_told_with_their_place(spec, said):
    with pytest.raises(ValueError, match=f"ElasticQuota shop/quota: {said}"):
        of([elastic("shop", **spec)])


@pytest.fixture
def cluster(tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": ITEMS}))
    return str(tmp_path / "cluster.json")


def test_the_command_prints_a_row_for_each_resource(cluster):
    told = CliRunner().invoke(main, ["quotas", "--cluster", cluster, "-n", "shop"])
    assert told.exit_code == 0, told.output
    rows = [line.split() for line in told.output.splitlines() if line.startswith("shop")]
    assert rows == [
        ["shop", "quota", "cpu", "2", "3", "1", "4"],
        ["shop", "quota", "memory", "4Gi", "2Gi", "-", "-"],
    ]
    everything = CliRunner().invoke(main, ["quotas", "--cluster", cluster])
    assert any(line.split()[:4] == ["(all)", "-", "cpu", "5"] for line in everything.output.splitlines())
    assert "ElasticQuota lab/younger counts for nothing" in everything.output
    none = CliRunner().invoke(main, ["quotas", "--cluster", cluster, "-n", "elsewhere"])
    assert none.output.splitlines()[-1] == "there are no quotas in elsewhere"


def test_as_json_it_is_the_result(cluster):
    told = CliRunner().invoke(
        main, ["quotas", "--cluster", cluster, "-n", "shop", "-o", "json"], catch_exceptions=False
    )
    lines = json.loads(told.stdout)["lines"]
    assert lines[0] == {
        "namespace": "shop", "kind": "ElasticQuota", "name": "quota", "resource": "cpu",
        "guaranteed": 2000, "used": 3000, "most": 4000,
    }  # fmt: skip
