"""`berth survive` as people and programs use it: outputs, exit codes, what is refused."""

import json

import msgspec
import pytest
from click.testing import CliRunner

from berth.cli import main
from berth_workbench.planning.survival import Failure, LostPods, who
from packages.workbench.tests.planning.test_survival import node, pod

SPREAD_THIN = [node("n1"), node("n2"), node("n3"), *(pod(f"w{i}", f"n{i}", "2") for i in (1, 2, 3))]
"""One node can be lost, as its pod finds room beside another; two cannot, as the third pod has none."""
FULL = [node("n1"), node("n2", "b"), *(pod(f"w{i}", "n1") for i in range(3)), *(pod(f"v{i}", "n2") for i in range(3))]


@pytest.fixture
def run(tmp_path):
    def go(*args, code=0, cluster=FULL):
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [each.document for each in cluster]}))
        found = CliRunner().invoke(main, ["survive", "--cluster", str(file), *args])
        assert found.exit_code == code, found.output
        return found.stdout if code == 0 else found.output

    return go


def test_tables_say_what_is_survived_who_is_lost_and_what_it_takes(run):
    lines = [" ".join(line.split()) for line in run().splitlines()]
    assert "zone 2 0 2 0" in lines
    assert "node 2 0 2 0" in lines
    assert any(line.startswith("node n1 3 2 0 default/w1 and default/w2") for line in lines), lines
    assert any("1 like n2" in line for line in lines)
    assert not any("Any" in line for line in lines), "no node can be lost, as the verdict says"


def test_json_has_every_failure(run):
    found = json.loads(run("--of", "node", "-o", "json"))
    assert found["kinds"] == [{"kind": "node", "atOnce": 1, "failures": 2, "survived": 0, "unknown": 0}]
    assert [(each["names"], each["unplaced"]) for each in found["failures"]] == [(["n1"], 2), (["n2"], 2)]
    assert found["failures"][0]["more"]["nodes"] == [{"like": "n2", "count": 1, "price": None}]
    assert found["anyNodes"] == 0


def test_bounds_are_told_as_such(run):
    lines = [" ".join(line.split()) for line in run("--of", "node", "--at-most", "0").splitlines()]
    assert "node 2 0 0 2" in lines
    assert any(line.startswith("node n1 3 ≤ 3 0 not simulated") for line in lines), lines


LONE = [node("n1"), node("n2"), node("n3"), *(pod(f"b{i}", f"n{i}", owner="") for i in (1, 2))]
ANY_ONE = "Any one node can be lost: every pod that is replaced finds a place."
ANY_TWO = "Any 2 nodes can be lost at once: every pod that is replaced finds a place, by proof."
NOT_ASKED = "Whether any two can be lost at once was not asked: --pairs loses two of a kind."
GONE = "2 pods have no controller: they are gone for good with their nodes."
YES = "Yes: whichever node is lost, every pod that is replaced finds a place."
NO_PAIR = (
    "No: default/w2 has no place if nodes n1 and n2 are lost; it takes 1 like n3. 3 of 3 pairs of nodes cannot be lost."
)
B1_GONE = "No: default/b1 is gone for good if node n1 is lost. 2 of 3 nodes cannot be lost."
NOT_TWO = "There are not two zones, pools or nodes of which one could be lost: with it, everything is."


@pytest.mark.parametrize(
    ("cluster", "arguments", "said"),
    [
        (SPREAD_THIN, (), [YES, ANY_ONE, NOT_ASKED]),
        (SPREAD_THIN, ("--pairs",), [NO_PAIR, ANY_ONE, "Not every two of them can be lost at once."]),
        ([*SPREAD_THIN[:3], pod("w1", "n1"), pod("w2", "n2")], (), [YES, ANY_TWO]),
        (LONE, (), [B1_GONE, GONE]),
        ([*LONE, pod("w", "n3")], (), [B1_GONE, ANY_TWO, GONE]),
        ([node("n1"), node("n2")], (), [YES, "No running pod could lose its place by a failure."]),
        ([node("n1"), pod("w", "n1")], (), [NOT_TWO]),
    ],
    ids=["one, maybe two", "one, not two", "any two", "bare pods alone", "bare pods, too", "no pods", "one node"],
)
def test_how_many_nodes_can_be_lost_is_said_as_far_as_it_is_known(run, cluster, arguments, said):
    paragraphs = " ".join(run(*arguments, cluster=cluster).split())
    assert paragraphs.partition(" Lost ")[0].partition("names another. ")[2] == " ".join(said)


def test_no_kind_is_listed_of_which_there_are_not_two(run):
    rows = [line.split()[0] for line in run(cluster=SPREAD_THIN).splitlines() if line[:4] in ("zone", "pool", "node")]
    assert rows == ["node"]


def test_fail_on_loss(run):
    run("--fail-on-loss", code=1)
    run("--fail-on-loss", "--add-nodes", "1=n1", "--of", "node")


def test_the_volume_that_keeps_a_pod_away_is_named():
    """The disk of the shop's orders is in zone-b, and stays there; what has no volume in the lost zone names none."""
    found = CliRunner().invoke(main, ["survive", "--cluster", "examples/shop.yaml"]).output
    said = " ".join(found.split())
    assert "No: shop/orders-0 has no place if zone zone-b is lost; its volume data-orders-0 is there." in said, said
    assert said.count("data-orders-0") == 2, "in the verdict, and beside the lost zone"


def test_one_workload_more_is_one():
    lost = tuple(
        LostPods(f"Deployment default/w{number}", 3, "no room", (f"default/w{number}-a",)) for number in "1234"
    )
    failure = Failure("zone", ("a",), 2, 12, 12, 0, 0, "simulated", lost=lost)
    assert who(failure).endswith(" and 1 more workload")
    assert who(msgspec.structs.replace(failure, lost=(*lost, lost[0]))).endswith(" and 2 more workloads")
