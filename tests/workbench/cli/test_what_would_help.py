"""`berth explain --what-would-help`: where the pod and the cluster come from, and what is printed."""

import json

import pytest
import yaml
from click.testing import CliRunner

from berth.cli.explain import command as explain
from berth.core.builders import make_node, make_pod
from berth_workbench.cli.what_would_help import extend, pods_that_end
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot

command = extend(explain)


@pytest.fixture
def cluster(tmp_path):
    nodes = [make_node(f"n{i}").capacity(cpu="8", memory="32Gi").document for i in range(4)]
    pods = [make_pod(f"w{i}").request(cpu="4").node(f"n{i}").document for i in range(4)]
    pods.append(make_pod("big").request(cpu="6").document)
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [*nodes, *pods]}))
    return str(file)


def run(*arguments):
    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    return result.exit_code, result.output


def test_a_pending_pod_of_the_cluster(cluster):
    code, printed = run("big", "--what-would-help", "--cluster", cluster, "-o", "json")
    found = json.loads(printed)
    assert (code, found["never"], found["pod"]) == (0, False, "default/big")
    first = found["changes"][0]
    wanted = {"spec": {"containers": [{"name": "c0", "resources": {"requests": {"cpu": "4"}}}]}}
    assert (first["on"], first["patch"], first["fitsOn"]) == ("pod", wanted, ["n0", "n1", "n2", "n3"])
    assert {"on", "what", "patch", "fitsOn"} <= first.keys()
    assert any(awaited["pods"] == ["default/w0"] for awaited in found["waitsFor"])


def test_several_pods(cluster):
    code, printed = run("big", "w1", "--what-would-help", "--cluster", cluster, "-o", "json")
    assert (code, [found["state"] for found in json.loads(printed)]) == (0, ["pending", "runs"])


def test_yaml_says_the_same(cluster):
    arguments = ("pod/big", "--what-would-help", "--cluster", cluster, "-o")
    assert yaml.safe_load(run(*arguments, "yaml")[1]) == json.loads(run(*arguments, "json")[1])


def test_the_report_fits_a_terminal(cluster):
    code, printed = run("default/big", "--what-would-help", "--cluster", cluster)
    assert code == 0
    assert "Request at most 4 CPU instead of 6 CPU." in printed
    assert "Have the pod default/w0 gone." in printed
    assert "kubectl -n default delete pod w0" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_a_workload_of_a_manifest(cluster, tmp_path):
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "5"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                                    "spec": spec}))  # fmt: skip
    code, printed = run("--what-would-help", "-f", str(file), "--cluster", cluster, "-o", "json")
    found = json.loads(printed)
    assert code == 0
    assert found["pod"].startswith("default/web-")
    assert found["changes"][0]["patch"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "4"}
    assert found["changes"][0]["command"].startswith("kubectl patch --local -f MANIFEST --type strategic -o yaml -p '{")
    assert '{"spec":{"template":{"spec":' in found["changes"][0]["command"]


def test_a_pod_that_needs_no_help(cluster):
    assert "runs on n1" in run("w1", "--what-would-help", "--cluster", cluster)[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nobody", "--what-would-help"), "no pod default/nobody in the cluster; its pending pods are default/big"),
        (("--what-would-help",), "name a pod, or give its manifest with -f"),
        (("big",), "go with --what-would-help: add it, or leave them out to ask the scheduler"),
        ((), "go with --what-would-help"),
    ],
)
def test_what_cannot_be_answered(cluster, arguments, said):
    code, printed = run(*arguments, "--cluster", cluster)
    assert code != 0
    assert said in printed
    assert "Traceback" not in printed


def test_when_pods_end_by_themselves():
    started = {"startTime": "2026-11-22T10:00:00Z"}
    pod = {"kind": "Pod", "metadata": {"name": "a", "namespace": "x"}, "spec": {"activeDeadlineSeconds": 60},
           "status": started}  # fmt: skip
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": "x"}, "spec": {"activeDeadlineSeconds": 3600},
           "status": started}  # fmt: skip
    owned = {"kind": "Pod", "metadata": {"name": "b", "namespace": "x",
                                         "ownerReferences": [{"kind": "Job", "name": "j"}]}}  # fmt: skip
    elsewhere = {**owned, "metadata": {**owned["metadata"], "namespace": "y"}}
    text = json.dumps({"kind": "List", "items": [pod, job, owned, elsewhere]}).encode()
    found = pods_that_end(Snapshot(list(parse_documents(text, "a test"))))
    assert found == {
        "x/a": "at 2026-11-22T10:01:00+00:00 at the latest",
        "x/b": "at 2026-11-22T11:00:00+00:00 at the latest",
    }
