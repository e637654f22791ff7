"""`berth autoscale` as people and programs use it: outputs, exit codes, what is refused."""

import json

import pytest
from click.testing import CliRunner

from berth.cli import main
from packages.workbench.tests.planning.test_survival import node, pod

HOST = "kubernetes.io/hostname"
CLUSTER = [
    node("s1"),
    node("s2"),
    node("c1", pool="cheap"),
    pod("full", "s1", "4"),
    pod("w", "c1"),
    pod("big", cpu="5"),
]
GROUPS = {"groups": [{"name": "std", "price": 2}, {"name": "cheap", "price": 1, "spot": True, "max": 1}]}


@pytest.fixture
def run(tmp_path):
    def go(*args, groups=GROUPS, code=0, cluster=CLUSTER):
        items = [each.document for each in cluster]
        (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        (tmp_path / "groups.yaml").write_text(json.dumps(groups))
        given = ["--cluster", str(tmp_path / "cluster.json"), "--groups", str(tmp_path / "groups.yaml")]
        found = CliRunner().invoke(main, ["autoscale", *given, *args])
        assert found.exit_code == code, found.output
        return found.stdout if code == 0 else found.output

    return go


def test_tables_say_what_to_add_what_can_go_and_what_spot_costs(run):
    lines = [" ".join(line.split()) for line in run("--add-nodes", "1=s1").splitlines()]
    assert "1 pod has no place: no node of these groups helps." in lines
    assert "2 nodes can go, which saves 3; 2 were tried." in lines
    assert "std 2 0 1 2" in lines and "cheap 1 0 1 1 spot" in lines


def test_json(run, tmp_path):
    (tmp_path / "new.yaml").write_text(
        json.dumps(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": pod("x", cpu="4").document["spec"]}
        )
    )
    found = json.loads(run("-f", str(tmp_path / "new.yaml"), "--scale", "rs/web=0", "-o", "json"))
    assert found["groups"][0] == {"name": "std", "nodes": 2, "added": 0, "removed": 1, "price": 2.0, "isSpot": False}
    assert found["cost"] == 5.0
    assert found["spot"][0]["names"] == ["cheap"]


def test_moves_that_make_room_are_said_before_what_to_buy(run):
    """Three of four CPUs are free on either node, so that one pod has to move before the big one fits."""
    cluster = [node("s1"), node("s2"), pod("a", "s1"), pod("b", "s2"), pod("big", cpu="4"), pod("huge", cpu="9")]
    lines = [" ".join(line.split()) for line in run(cluster=cluster, groups={"groups": [{"name": "std"}]}).splitlines()]
    said = " ".join(lines)
    moves = (
        "2 pods have no place; moving 1 pod makes room for 1 of them. For the others: no node of these groups helps."
    )
    assert said.index(moves) < said.index("Without moving any: 1 like std; 1 pod fits on no more of them.")
    assert lines[lines.index("To be moved From To") + 1] == "default/a s1 s2"


def test_the_order_is_told_where_it_matters(run):
    cluster = [node("s1"), pod("full", "s1", "4").priority(9), *(pod(f"w{i}") for i in range(5))]
    cluster += [pod(f"x{i}", cpu="4") for i in range(3)]
    said = " ".join(run(cluster=cluster, groups={"groups": [{"name": "std"}]}).split())
    assert "8 pods have no place: 5 like std. All of them have a place then" in said
    assert "That is with the largest pods first; in the order in which they wait: 8 like std." in said


def test_what_is_wrong_with_the_groups_is_one_line(run):
    said = run(groups={"groups": [{"name": "std", "prize": 2}]}, code=1)
    assert "groups.yaml" in said and "prize" in said and said.count("\n") == 1


def test_a_bound_that_says_nothing_is_left_out(run):
    """The sums have room for a pod that keeps apart from those on both nodes: of them, no node is needed."""
    apart = [
        pod(name, on).pod_anti_affinity(HOST, {"app": "web"}) for name, on in (("a", "s1"), ("b", "s2"), ("c", ""))
    ]
    said = " ".join(run(cluster=[node("s1"), node("s2"), *apart], groups={"groups": [{"name": "std"}]}).split())
    assert "1 pod has no place: 1 like std. It has a place then. 0 nodes can go" in said, said


def test_one_node_and_one_pod_are_told_as_one(run):
    """A pod that takes a node as a whole, and one that is too large for any."""
    cluster = [node("s1"), pod("a", "s1", "4"), pod("b", cpu="4"), pod("huge", cpu="9")]
    said = " ".join(run(cluster=cluster, groups={"groups": [{"name": "std"}]}).split())
    assert "1 like std; 1 pod fits on no more of them." in said, said
    assert "1 of them has a place then. 0 nodes can go" in said, said
