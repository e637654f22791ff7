"""`berth rebalance`: a plan as a table, as JSON that holds together, as commands, as a picture; bad input is told."""

import json
import sys

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.core.builders import make_node, make_pod


@pytest.fixture
def cluster(tmp_path):
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi").label("pool", "web") for name in "abc"]
    pods = [
        make_pod(f"web-{node}")
        .request(cpu="1", memory="256Mi")
        .node(node)
        .owned_by("ReplicaSet", "web")
        .phase("Running")
        for node in "abc"
    ]
    items = [each.document for each in (*nodes, *pods)]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["rebalance", *map(str, arguments)])


def test_the_table_fits_80_columns(cluster):
    result = run("--cluster", cluster, "--goal", "empty-nodes")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].startswith("2 moves empty ")
    assert "nothing better exists" in result.output
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "3 of 3" in result.output
    assert "1 of 3" in result.output


def test_json_holds_together(cluster):
    plan = json.loads(run("--cluster", cluster, "--goal", "empty-nodes", "-o", "json").output)
    evictions = [step for step in plan["steps"] if step["action"] == "evict"]
    assert len(evictions) == plan["moves"] == 2
    assert plan["before"]["nodesUsed"] - plan["after"]["nodesUsed"] == len(plan["emptied"]) == 2
    assert plan["disruption"] == [{"workload": "default/ReplicaSet/web", "moves": 2, "pods": 3}]
    assert {step["node"] for step in evictions} == set(plan["emptied"])


def test_prices_decide_which_nodes_become_empty(cluster, tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("{a: 0.1, b: 5, c: 7}\n")
    arguments = ("--cluster", cluster, "--goal", "empty-nodes", "--prices", prices, "--max-moves", 1, "-o", "json")
    plan = json.loads(run(*arguments).output)
    assert plan["emptied"] == ["c"]
    assert plan["after"]["cost"] == pytest.approx(5.1)


def test_room_for_a_pod(cluster, tmp_path):
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {containers: [{name: c, resources: "
        "{requests: {cpu: '4'}}}]}}"
    )
    arguments = ("--cluster", cluster, "--goal", "free-shape", "-f", manifest)
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert "1 move makes room for 1 pod (CP-SAT, nothing better exists)." in result.output
    assert "default/big goes to " in result.output
    commands = run(*arguments, "--commands").output.splitlines()
    assert sum("/eviction" in line for line in commands) == 1
    assert any(line.startswith("# now create default/big") for line in commands)


def test_who_is_pending_goes_first_and_that_is_told(cluster, tmp_path):
    documents = json.loads(cluster.read_text())
    waits = [make_pod(f"waits-{i}").request(cpu="4").owned_by("ReplicaSet", "waits").document for i in range(3)]
    cluster.write_text(json.dumps({**documents, "items": [*documents["items"], *waits]}))
    manifest = tmp_path / "big.yaml"
    manifest.write_text(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: big}, spec: {selector: {matchLabels: {a: b}}, "
        "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: c, "
        "resources: {requests: {cpu: '4'}}}]}}}}"
    )
    behind = run("--cluster", cluster, "--goal", "free-shape", "-f", manifest).output
    assert "No moves: within the limits, none were found that make room for 1 pod (" in behind
    assert "Still without a place: default/big-" in behind
    told = " ".join(behind.split())
    assert (
        "Pods that are pending already take such room first: 3 of default/ReplicaSet/waits; --goal place-pending"
        in told
    )
    pending = run("--cluster", cluster, "--goal", "place-pending").output
    assert "2 moves make room for 2 of 3 pods (CP-SAT, nothing better exists)." in pending
    assert pending.count("the room is made; then default/waits-") == 2
    assert all(len(line) <= 80 for line in pending.splitlines())


@pytest.mark.parametrize("goal", ["place-pending", "free-shape"])
def test_where_nobody_waits_for_room_there_is_nothing_to_do(cluster, goal):
    result = run("--cluster", cluster, "--goal", goal)
    assert (result.exit_code, result.stdout.splitlines()[1:]) == (0, ["No pod waits for room: no moves are needed."])


@pytest.mark.parametrize(
    ("cpu", "replicas", "says"),
    [
        ("3", 1, "It fits now, 3 times: no moves are needed."),
        ("2", 2, "All 2 pods fit now: no moves are needed."),
        ("4", 1, "1 move makes room for 1 pod (CP-SAT, nothing better exists)."),
    ],
)
def test_what_fits_as_things_are_needs_no_search_and_no_cordon(cluster, tmp_path, cpu, replicas, says):
    """Three nodes of 4 CPUs with 1 in use each."""
    pod = {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}]}
    new = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big"}, "spec": pod}
    if replicas > 1:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        new |= {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": spec}
    manifest = tmp_path / "new.json"
    manifest.write_text(json.dumps(new))
    said = run("--cluster", cluster, "--goal", "free-shape", "-f", manifest).stdout
    assert said.splitlines()[1] == says
    assert ("cordon" in said, "Each step" in said) == (cpu == "4", cpu == "4")


def test_how_often_it_fits_is_what_capacity_says(cluster, tmp_path):
    """One node has room that a pending pod takes first: both count the cluster as it is given."""
    documents = json.loads(cluster.read_text())
    waits = make_pod("waits").request(cpu="3").owned_by("ReplicaSet", "waits").document
    cluster.write_text(json.dumps({**documents, "items": [*documents["items"], waits]}))
    manifest = tmp_path / "new.json"
    manifest.write_text(json.dumps(make_pod("new").request(cpu="3").document))
    plan = json.loads(run("--cluster", cluster, "--goal", "free-shape", "-f", manifest, "-o", "json").output)
    capacity = CliRunner().invoke(main, ["capacity", "--cluster", str(cluster), "-f", str(manifest), "-o", "json"])
    assert plan["fitsNow"] == json.loads(capacity.output)["fits"] == 3
    assert (plan["steps"], plan["moves"], plan["shapes"][0]["node"] in list("abc")) == ([], 0, True)


def test_a_picture(cluster, tmp_path):
    for name in ("plan.svg", "plan.png", "plan.html"):
        assert run("--cluster", cluster, "--goal", "empty-nodes", "--plot", tmp_path / name).exit_code == 0
    assert "2 moves empty a and c" in (tmp_path / "plan.html").read_text()
    first = (tmp_path / "plan.svg").read_bytes()
    run("--cluster", cluster, "--goal", "empty-nodes", "--plot", tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_bytes() == first


def test_without_ortools_the_search_is_greedy_and_says_so(cluster, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    result = run("--cluster", cluster, "--goal", "empty-nodes")
    assert "greedy search" in result.output
    assert "pip install" in result.output
    asked = run("--cluster", cluster, "--goal", "empty-nodes", "--method", "cp-sat")
    assert asked.exit_code == 1
    assert asked.output.count("\n") == 1
    assert "pip install 'berth-scheduler[optimize]'" in asked.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--goal", "even-out", "--nodes", "a,nope"), "there is no node nope"),
        (("--goal", "even-out", "--node-selector", "pool=db"), "no node has these labels"),
        (("--goal", "even-out", "--node-selector", "pool=a=b"), "is not a label requirement"),
        (("--goal", "place-pending", "-f", "-"), "-f names the pods and workloads that --goal free-shape makes room"),
        (("--goal", "even-out", "--method", "cp-sat"), "for even-out the search is greedy"),
        (("--goal", "even-out", "--commands", "-o", "json"), "choose one"),
        (("--goal", "even-out", "--prices", "/nowhere/prices"), "No such file"),
        (("--goal", "best"), "'best' is not one of"),
    ],
)
def test_wrong_input_gets_a_line(cluster, arguments, said):
    result = run("--cluster", cluster, *arguments)
    assert result.exit_code in (1, 2)
    assert said in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("text", ["[1, 2]", "{a: many}", "{a: -1}", "{a: .nan}", "{a: true}", "{a: [", "a: &x [*x]"])
def test_prices_that_are_none(cluster, tmp_path, text):
    prices = tmp_path / "prices.yaml"
    prices.write_text(text)
    result = run("--cluster", cluster, "--goal", "empty-nodes", "--prices", prices)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: --prices {prices}: ")
    assert result.output.count("\n") == 1


def test_a_selection_of_nodes(cluster):
    plan = json.loads(run("--cluster", cluster, "--goal", "empty-nodes", "--nodes", "a,b", "-o", "json").output)
    assert (plan["moves"], plan["before"]["nodes"]) == (1, 2)


@pytest.mark.parametrize("selector", ["a=b=c", "a=b,,", "a b=c", "=b", "a=b,", "a=-"])
def test_a_selector_of_nodes_that_cannot_be_is_refused(tmp_path, selector):
    (tmp_path / "cluster.yaml").write_text("kind: Node\nmetadata: {name: n0, labels: {a: b}}\n")
    args = ["rebalance", "--goal", "even-out", "--cluster", str(tmp_path / "cluster.yaml")]
    result = CliRunner().invoke(main, [*args, "--node-selector", selector])
    assert result.exit_code == 2
    assert f"--node-selector {selector}: " in result.stderr
