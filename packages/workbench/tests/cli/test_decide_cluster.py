"""`berth decide --cluster`: the recorded decisions come out when a case is given as a cluster."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.core.builders import make_node, make_pod
from tests.conformance.records import cases, differences

OF_A_CONFIGURATION = ("config", "policy", "provider", "featureGates")


def decide(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["decide", *arguments])


def write(path, objects):
    path.write_text(json.dumps({"kind": "List", "items": objects}))
    return str(path)


def decisions(done):
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["name"] for line in lines] == [line["steps"][0]["pod"] for line in lines]
    return [line["steps"][0] for line in lines]


@pytest.mark.parametrize("record", ["v1.36/resources", "v1.36/spread", "v1.36/volumes", "v1.20/default-spread"])
def test_the_recorded_decisions_come_out(tmp_path, record):
    case = next(case for case in cases(record) if not any(case.get(key) for key in OF_A_CONFIGURATION))
    cluster = write(tmp_path / "cluster.json", case["objects"])
    pods = write(tmp_path / "pods.json", [{"kind": "Pod", **pod} for pod in case["pods"]])
    ours = decisions(decide("--cluster", cluster, "-f", pods, "--generation", case["generation"]))
    assert [differences(recorded, each) for recorded, each in zip(case["decisions"], ours, strict=True)] == [
        [] for _ in ours
    ]


def test_pending_pods_are_decided_about_in_the_order_of_the_queue(tmp_path):
    node = make_node("n1").capacity(cpu="2", memory="8Gi", pods="110").document
    low = make_pod("low").request(cpu="2").priority(1).created("2030-01-01T00:00:00Z").document
    late = make_pod("late").request(cpu="1").priority(9).created("2030-01-02T00:00:00Z").document
    early = make_pod("early").request(cpu="1").priority(9).created("2030-01-01T00:00:00Z").document
    running = make_pod("running").node("n1").document
    done_ = make_pod("done").phase("Failed").document
    gated = make_pod("gated").gate("wait").document
    cluster = write(tmp_path / "c.json", [low, late, early, node, running, done_, gated])
    done = decide("--cluster", cluster)
    found = decisions(done)
    assert [(each["pod"], each.get("chosen")) for each in found] == [
        ("default/early", "n1"), ("default/late", "n1"), ("default/low", None)]  # fmt: skip
    assert found[2]["message"].startswith("0/1 nodes are available: 1 Insufficient cpu")
    assert "1 pod is gated" in done.stderr


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ({"kind": "Deployment", "metadata": {"name": "d"}}, "only pods are decided about"),
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"priority": "high"}}, "pod.json: Pod default/p"),
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"priorityClassName": "none"}}, "No PriorityClass"),
    ],
)
def test_what_cannot_be_decided_about_is_a_line(tmp_path, manifest, said):
    cluster = write(tmp_path / "c.json", [make_node("n1").document])
    (tmp_path / "pod.json").write_text(json.dumps(manifest))
    done = decide("--cluster", cluster, "-f", str(tmp_path / "pod.json"))
    assert done.exit_code == 1
    assert said.lower() in done.stderr.lower() and len(done.stderr.splitlines()) == 1


def test_flags_that_go_with_a_cluster_only_are_refused_without(tmp_path):
    assert "go with --cluster" in decide("-f", "x").output
    cluster = write(tmp_path / "c.json", [make_node("n1").document])
    assert "leave out --config" in decide("--cluster", cluster, "--generation", "v1.20", "--config", "x").output
