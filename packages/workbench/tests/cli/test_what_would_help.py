"""`berth explain --what-would-help`: where the pod and the cluster come from, and what is printed."""

import json
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.cli.explain import command as explain
from berth.core.builders import make_node, make_pod
from berth_workbench.cli.asked import AskedCluster
from berth_workbench.cli.what_would_help import extend
from berth_workbench.comparison.configurations import DEFAULT, ConfigurationSource
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.cluster_file import ClusterFileSource

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


@pytest.fixture
def shop(tmp_path):
    """Two workloads that lack room, one of them more important, and a pod that needs none of it."""
    nodes = [make_node(f"n{i}").capacity(cpu="4", memory="8Gi").document for i in range(2)]
    pods = [make_pod(f"web-{i}").label("app", "web").request(cpu="3").owned_by("ReplicaSet", "web") for i in range(4)]
    pods = [*(pod.node(f"n{i}") if i < 2 else pod for i, pod in enumerate(pods)), make_pod("small")]
    pods.append(make_pod("db-0").request(cpu="3").priority(-1).owned_by("StatefulSet", "db"))
    file = tmp_path / "shop.json"
    file.write_text(json.dumps({"kind": "List", "items": [*nodes, *(pod.document for pod in pods)]}))
    return str(file)


@pytest.mark.parametrize("asked", ["rs/web", "web-2", "web-3"])
def test_a_workload_of_the_cluster(shop, asked):
    code, printed = run(asked, "--what-would-help", "--cluster", shop, "-o", "json")
    found = json.loads(printed)
    assert (code, found["workload"], found["replicas"]) == (0, "ReplicaSet/default/web", 4)
    assert found["pods"] == ["default/web-2", "default/web-3"]
    assert all(change["stillPending"] == 0 for change in found["changes"])


def test_a_workload_that_runs(tmp_path):
    """Its controller has not made the others: no pod is pending that somebody could ask about."""
    node = make_node("n0").capacity(cpu="4", memory="8Gi").document
    pods = [make_pod(f"web-{i}").owned_by("ReplicaSet", "web").node("n0").document for i in range(2)]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [node, replica_set, *pods]}))
    code, printed = run("rs/web", "--what-would-help", "--cluster", str(file))
    assert code == 0
    assert "it has made 2 of 3, and its events say why not more" in " ".join(printed.split())
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    file.write_text(json.dumps({"kind": "List", "items": [node, replica_set, *pods, quota]}))
    printed = " ".join(run("rs/web", "--what-would-help", "--cluster", str(file))[1].split())
    why = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    assert f"the API server refuses 1 of its 3 pods: {why}" in printed


def test_without_a_name_all_that_stays_pending(shop):
    code, printed = run("--what-would-help", "--cluster", shop, "-o", "json")
    assert (code, [found["workload"] for found in json.loads(printed)]) == (
        0, ["ReplicaSet/default/web", "StatefulSet/default/db"])  # fmt: skip
    printed = run("--what-would-help", "--cluster", shop)[1]
    assert "ReplicaSet default/web, 2 of 4 pods pending (default/web-2, default/web-3)" in " ".join(printed.split())
    assert "small" not in printed
    assert "No pod of namespace x stays pending." in run("-n", "x", "--what-would-help", "--cluster", shop)[1]


def test_a_pod_that_needs_no_help(cluster):
    assert "runs on n1" in run("w1", "--what-would-help", "--cluster", cluster)[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nobody", "--what-would-help"), "no pod default/nobody in the cluster; its pending pods are default/big"),
        (("big", "-f", "big.yaml", "--what-would-help"), "name a pod, or give its manifest with -f"),
        (("deployment/nobody", "--what-would-help"), "Deployment default/nobody has no pods in the cluster"),
        (("big",), "go with --what-would-help: add it, or leave them out to ask the scheduler"),
        ((), "go with --what-would-help"),
    ],
)
def test_what_cannot_be_answered(cluster, arguments, said):
    code, printed = run(*arguments, "--cluster", cluster)
    assert code != 0
    assert said in printed
    assert "Traceback" not in printed


def test_moves_that_make_room_are_among_the_changes(tmp_path):
    """Each node has half of its room left: one of the small pods has to move, wherever the large one is to go."""
    nodes = [make_node(f"n{i}").capacity(cpu="8", memory="32Gi").document for i in range(2)]
    pods = [make_pod(f"w{i}").owned_by("ReplicaSet", "w").request(cpu="4").node(f"n{i}").document for i in range(2)]
    pods.append(make_pod("big").request(cpu="8").document)
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [*nodes, *pods]}))
    found = json.loads(run("big", "--what-would-help", "--cluster", str(file), "-o", "json")[1])
    (moved,) = [each for each in found["changes"] if each["kind"] == "podsMoved"]
    assert (moved["what"], moved["fitsOn"]) == ("move default/w0 from n0 to n1", ["n0"])
    assert (moved["moves"], moved["leaves"]) == (["default/w0"], [])
    assert moved["command"] == "berth rebalance --goal place-pending"


async def test_without_a_name_what_would_help_is_told_of_each_workload(cluster, monkeypatch):
    """The scheduler says what is pending; the cluster of the kubeconfig is searched for what would help."""
    snapshot = Snapshot(list(parse_documents(Path(cluster).read_bytes(), "cluster.json")))
    report = msgspec.to_builtins(await ClusterFileSource("test", snapshot).pending())
    monkeypatch.setattr("berth.cli.explain.SchedulerInUse.ask", lambda *_: report)
    asked = AskedCluster(snapshot, ConfigurationSource(DEFAULT), ConfigurationSource(DEFAULT).load(), "")
    monkeypatch.setattr("berth_workbench.cli.what_would_help.read_asked", lambda *_: asked)
    code, printed = run()
    assert (code, printed.splitlines()[2]) == (0, "Pod default/big: 1 pod pending")
    assert "  Needs 6 CPU on one node, and n0 has the most free, 4 of 8.\n" in printed
    assert "  - Request at most 4 CPU instead of 6 CPU.\n  - Have the pod default/w0 gone.\n" in printed
    assert "Request at most" not in run("--server", "http://127.0.0.1:1")[1], "that may be another cluster"


# --- groups ----------------------------------------------------------------------------------------------------------

RACKS = """
apiVersion: v1
kind: List
items:
- {kind: Node, apiVersion: v1, metadata: {name: a-0, labels: {rack: a}}, status: {allocatable: {cpu: "2", pods: "9"}}}
- {kind: Node, apiVersion: v1, metadata: {name: b-0, labels: {rack: b}}, status: {allocatable: {cpu: "1", pods: "9"}}}
- {kind: Workload, apiVersion: scheduling.k8s.io/v1alpha2, metadata: {name: job},
   spec: {podGroupTemplates: [{name: train, schedulingPolicy: {gang: {minCount: 3}}}]}}
- {kind: PodGroup, apiVersion: scheduling.k8s.io/v1alpha2, metadata: {name: job-train-x2},
   spec: {podGroupTemplateRef: {workload: {workloadName: job, podGroupTemplateName: train}},
          schedulingPolicy: {gang: {minCount: 3}}, schedulingConstraints: {topology: [{key: rack}]}}}
"""
MEMBER = """
- {{kind: Pod, apiVersion: v1, metadata: {{name: train-{number}, uid: u{number}}},
   spec: {{schedulingGroup: {{podGroupName: job-train-x2}},
          containers: [{{name: c, resources: {{requests: {{cpu: "1"}}}}}}]}}}}
"""
GROUP_GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"


@pytest.fixture
def racks(tmp_path):
    path = tmp_path / "racks.yaml"
    path.write_text(RACKS + "".join(MEMBER.format(number=number) for number in range(3)))
    return str(path)


@pytest.mark.parametrize("name", ["podgroup/job-train-x2", "workload/job", "pg/job-train-x2"])
def test_a_group_is_explained_by_any_of_its_names(racks, name):
    _, printed = run(name, "--cluster", racks, GROUP_GATES)
    text = " ".join(printed.split())
    assert "No: 2 of 3 pods of PodGroup default/job-train-x2 have a place together, in rack a; minCount is 3." in text
    assert "1 node lacks cpu (it asks for 1, and the most free on one is 0, on a-0), 1 node is outside rack a" in text
    assert "Add a node like a-0" in text and "Lower minCount from 3 to 2" in text


def test_without_the_gates_a_group_is_told_to_be_only_stored(racks):
    _, printed = run("podgroup/job-train-x2", "--cluster", racks)
    assert "the configuration does not look at groups" in printed
    assert "so its pods are placed one by one" in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("podgroup/job-train-x3",), "there is no PodGroup default/job-train-x3; did you mean default/job-train-x2?"),
        (("workload/jab",), "there is no Workload default/jab in the cluster; did you mean default/job?"),
        (
            ("podgroup/job-train-x2", "--node", "a-0"),
            "--node is about pods, and podgroup/job-train-x2 is answered as a",
        ),
    ],
)
def test_what_cannot_be_said_of_a_group(racks, arguments, said):
    code, printed = run(*arguments, "--cluster", racks)
    assert code and said in printed
