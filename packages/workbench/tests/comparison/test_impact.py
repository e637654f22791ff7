"""The upgrade-impact report: what differs, and whom it blames."""

import msgspec
import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.core.builders import make_node, make_pod
from berth.cycle.difference import ComparedDecision
from berth.plugins.registry import in_tree_registry
from berth_workbench.cases.decide import replay
from berth_workbench.comparison.impact import OLD, impact, report
from packages.scheduler.tests.plugins.legacy.test_scores import ANNOTATION, avoiding
from packages.workbench.tests.cases.test_decide import case
from tests.conformance.records import cases

REGISTRY = in_tree_registry()


def changes(objects, *pods, **more):
    return impact(case(objects, pods, **more), REGISTRY).changes


def test_what_a_node_avoids_counts_no_more():
    nodes = [make_node(name).capacity(cpu="4", memory="4Gi") for name in ("a", "b")]
    nodes[0].annotation(ANNOTATION, avoiding("ReplicaSet", "u"))
    pod = make_pod("p").request(cpu="1", memory="1Gi").owned_by("ReplicaSet", "r", uid="u")
    assert changes(nodes, pod) == (
        ComparedDecision("default/p", "b", "a", "elsewhere", ("NodePreferAvoidPods",), True),
    )


def test_a_pod_that_asks_for_memory_fits_on_a_node_short_of_cpu_now():
    node = make_node("a").capacity(cpu="1", memory="4Gi")
    hog = make_pod("hog").request(cpu="2").node("a")
    assert changes([node, hog], make_pod("p").request(memory="1Gi")) == (
        ComparedDecision("default/p", None, "a", "fitsNow", ("NodeResourcesFit",), True),
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
    assert found == (ComparedDecision("default/p", "b", "a", "elsewhere", ("NodeLabel",), True),)


@pytest.mark.parametrize("theme", ["v1.20/provider", "v1.20/policy"])
def test_the_old_sides_decisions_are_the_recorded_ones(theme):
    """Taken apart by plugin and put together again, since v1.20's choice stands after each pod."""
    for given, _ in zip(cases(theme), range(12), strict=False):
        recorded = {step["pod"]: step.get("chosen") for step in given["decisions"]}
        for change in impact(given, REGISTRY).changes:
            assert change.a == recorded[change.pod]


@pytest.mark.parametrize("theme", ["v1.36/mixed", "v1.36/spread"])
def test_the_new_side_decides_the_first_pod_as_recorded(theme):
    for given, _ in zip(cases(theme), range(12), strict=False):
        first = given["decisions"][0]
        for change in impact(given, REGISTRY).changes:
            if change.pod == first["pod"]:
                assert change.b == first.get("chosen")


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
    assert as_json.output.startswith(
        '{"name":"a case","pods":2,"changes":'
        '[{"pod":"default/p","old":"b","new":"a","plugins":["NodePreferAvoidPods"],"alone":true}]}\n'
    )


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
