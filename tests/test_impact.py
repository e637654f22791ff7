"""The upgrade-impact report: what differs, and whom it blames."""

from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.impact import OLD, PlacementChange, causes, decided, impact, report
from berth.plugins.registry import in_tree_registry
from berth.replay import replay
from berth.testing.builders import make_node, make_pod
from tests.conformance.records import cases
from tests.plugins.legacy.test_scores import ANNOTATION, avoiding
from tests.test_replay import case

REGISTRY = in_tree_registry()


def changes(objects, *pods, **more):
    return impact(case(objects, pods, **more), REGISTRY).changes


class Side:
    """A decision about rows a, b, c made of given parts: rejected rows, and scores by row."""

    table = SimpleNamespace(names=["a", "b", "c"], valid=np.ones(3, dtype=np.bool_), capacity=3)

    def __init__(self, rejects=None, **scores):
        self.rejects = {part: np.isin([0, 1, 2], rows) for part, rows in (rejects or {}).items()}
        self._scores = scores

    def scores(self, mask):
        return {part: np.array(given)[mask] for part, given in self._scores.items()}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # One plugin's score.
        (Side(P=[9, 0, 0], Q=[1, 0, 0]), Side(P=[0, 9, 0], Q=[1, 0, 0]), (("P",), True)),
        # Either would do.
        (Side(P=[5, 0, 0], Q=[5, 0, 0]), Side(P=[0, 9, 0], Q=[0, 9, 0]), (("P", "Q"), True)),
        # Neither would do; one that gives the same everywhere, or what it gave before, is not named.
        (
            Side(P=[10, 0, 0], Q=[10, 0, 0], R=[1, 1, 1], S=[1, 0, 0]),
            Side(P=[0, 5, 0], Q=[0, 5, 0], R=[7, 7, 7], S=[1, 0, 0]),
            (("P", "Q"), False),
        ),
        # A verdict.
        (Side({"F": [0]}, P=[9, 0, 0]), Side({}, P=[9, 0, 0]), (("F",), True)),
        (Side({}, P=[9, 0, 0]), Side({"F": [0, 1, 2]}, P=[9, 0, 0]), (("F",), True)),
        # A plugin that only one of them has.
        (Side(P=[9, 0, 0], Only=[0, 99, 0]), Side(P=[9, 0, 0]), (("Only",), True)),
    ],
)
def test_the_cause_is_found_by_exchange(old, new, expected):
    assert decided(old) != decided(new)
    assert causes(old, new) == expected


def test_what_a_node_avoids_counts_no_more():
    nodes = [make_node(name).capacity(cpu="4", memory="4Gi") for name in ("a", "b")]
    nodes[0].annotation(ANNOTATION, avoiding("ReplicaSet", "u"))
    pod = make_pod("p").request(cpu="1", memory="1Gi").owned_by("ReplicaSet", "r", uid="u")
    assert changes(nodes, pod) == (PlacementChange("default/p", "b", "a", ("NodePreferAvoidPods",), True),)


def test_a_pod_that_asks_for_memory_fits_on_a_node_short_of_cpu_now():
    node = make_node("a").capacity(cpu="1", memory="4Gi")
    hog = make_pod("hog").request(cpu="2").node("a")
    assert changes([node, hog], make_pod("p").request(memory="1Gi")) == (
        PlacementChange("default/p", None, "a", ("NodeResourcesFit",), True),
    )


def test_the_old_choice_stands_for_both():
    """The second pod is decided by both as if the first stood where v1.20 put it."""
    nodes = [make_node(name).capacity(cpu="4", memory="4Gi", pods="1") for name in ("a", "b")]
    nodes[0].annotation(ANNOTATION, avoiding("ReplicaSet", "u"))
    pods = [make_pod(n).request(cpu="1", memory="1Gi").owned_by("ReplicaSet", "r", uid="u") for n in ("p", "q")]
    assert [change.pod for change in changes(nodes, *pods)] == ["default/p"]


def test_a_policy_is_the_old_sides_own():
    nodes = [make_node("a").capacity(cpu="4", memory="4Gi"), make_node("b").capacity(cpu="4", memory="4Gi")]
    nodes[1].label("rack", "1")
    racks = {"name": "Racks", "argument": {"labelsPresence": {"labels": ["rack"], "presence": True}}}
    policy = {"apiVersion": "v1", "kind": "Policy", "predicates": [racks], "priorities": []}
    pod = make_pod("p").request(cpu="1", memory="1Gi")
    found = changes(nodes, pod, generation=OLD, policy=policy)
    assert found == (PlacementChange("default/p", "b", "a", ("NodeLabel",), True),)


@pytest.mark.parametrize("theme", ["v1.20/provider", "v1.20/policy"])
def test_the_old_sides_decisions_are_the_recorded_ones(theme):
    """Taken apart by plugin and put together again, since v1.20's choice stands after each pod."""
    for given, _ in zip(cases(theme), range(12), strict=False):
        recorded = {step["pod"]: step.get("chosen") for step in given["decisions"]}
        for change in impact(given, REGISTRY).changes:
            assert change.old == recorded[change.pod]


@pytest.mark.parametrize("theme", ["v1.36/mixed", "v1.36/spread"])
def test_the_new_side_decides_the_first_pod_as_recorded(theme):
    for given, _ in zip(cases(theme), range(12), strict=False):
        first = given["decisions"][0]
        for change in impact(given, REGISTRY).changes:
            if change.pod == first["pod"]:
                assert change.new == first.get("chosen")


def test_the_report_and_the_command(tmp_path):
    nodes = [make_node(name).capacity(cpu="4", memory="4Gi") for name in ("a", "b")]
    nodes[0].annotation(ANNOTATION, avoiding("ReplicaSet", "u"))
    pods = [make_pod("p").request(cpu="1", memory="1Gi").owned_by("ReplicaSet", "r", uid="u"), make_pod("q")]
    given = case(nodes, pods)
    expected = (
        "a case:\n"
        "  default/p: b → a  because of NodePreferAvoidPods\n"
        "1 of 2 pods decided differently by v1.20 and v1.36: 1 go elsewhere\n"
        "      1  NodePreferAvoidPods"
    )
    assert report([impact(given, REGISTRY)]) == expected
    file = tmp_path / "cases.jsonl"
    file.write_bytes(msgspec.json.encode(given) + b"\n" + b'{"objects": [{"kind": "Spaceship"}]}\n')
    result = CliRunner().invoke(main, ["impact", str(file)])
    assert result.exit_code == 1
    assert expected in result.output
    assert f"{file}:2: object of kind 'Spaceship'" in result.output
    as_json = CliRunner().invoke(main, ["impact", "--json", str(file)])
    assert '"plugins":["NodePreferAvoidPods"],"alone":true' in as_json.output


def test_decide_as_another_generation(tmp_path):
    given = next(cases("v1.20/avoid"))
    file = tmp_path / "cases.jsonl"
    file.write_bytes(msgspec.json.encode(given) + b"\n")
    found = {}
    for generation in ("v1.20", "v1.36"):
        result = CliRunner().invoke(main, ["decide", "--generation", generation, str(file)])
        found[generation] = msgspec.json.decode(result.output)["steps"]
    assert found["v1.20"] == replay(given, REGISTRY)
    assert "NodePreferAvoidPods" not in found["v1.36"][0]["scores"]
    assert "NodeResourcesFit" in found["v1.36"][0]["scores"]
