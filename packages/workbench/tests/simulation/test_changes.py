"""Changes are read from flags and from scenario steps, and what cannot be read gets one clear line."""

import pytest

from berth.api.taints import Taint
from berth.core.builders import make_node
from berth_workbench.simulation.changes import (
    AddNodes,
    AddTaint,
    ChangeError,
    Cordon,
    DeleteWorkload,
    Drain,
    Evict,
    LabelNodes,
    LoseZone,
    RemoveTaint,
    Scale,
    Upgrade,
    parse_flag,
    read_step,
)


@pytest.mark.parametrize(
    ("step", "text", "expected"),
    [
        ("drain", "n1", Drain("n1")),
        ("cordon", "gpu-*", Cordon("gpu-*")),
        ("addNodes", "3=n1", AddNodes("n1", 3)),
        ("loseZone", "eu-1a", LoseZone("eu-1a")),
        ("scale", "deployment/web=5", Scale("deployment/web", 5)),
        ("scale", "sts/shop/db=0", Scale("sts/shop/db", 0)),
        ("delete", "job/old", DeleteWorkload("job/old")),
        ("evict", "shop/web-0", Evict("shop/web-0")),
        ("evict", "web-0, shop/web-1", Evict(["web-0", "shop/web-1"])),
        ("upgrade", "pool=a", Upgrade("pool=a")),
        ("taint", "n1:gpu=yes:NoSchedule", AddTaint("n1", "gpu=yes:NoSchedule")),
        ("untaint", "n1:gpu", RemoveTaint("n1", "gpu")),
        ("label", "n1:pool=b,old-", LabelNodes("n1", {"pool": "b", "old": None})),
    ],
)
def test_flags_are_read(step, text, expected):
    assert parse_flag(step, text) == expected


@pytest.mark.parametrize(
    ("step", "text", "problem"),
    [
        ("drain", " ", "the name of a node is missing"),
        ("drain", "a==b,", "'a==b,' is no label selector"),
        ("addNodes", "n1", "'n1' is not N=LIKE-NODE, as in 3=node-1"),
        ("addNodes", "x=n1", "'x=n1' is not N=LIKE-NODE: 'x' is no whole number"),
        ("addNodes", "0=n1", "0 nodes cannot be added"),
        ("addNodes", "9999999=n1", "9999999 nodes cannot be added"),
        ("loseZone", "", "the name of the zone is missing"),
        ("scale", "web=5", "'web' is not KIND/NAME or KIND/NAMESPACE/NAME, as in deployment/web"),
        ("scale", "deployment/web", "'deployment/web' is not KIND/NAME=N"),
        ("scale", "deployment/web=many", "'deployment/web=many' is not KIND/NAME=N: 'many' is no whole number"),
        ("scale", "widget/web=5", "'widget' is no kind of workload; known are cronjob, daemonset, deployment"),
        ("scale", "ds/agent=5", "a DaemonSet has no number of replicas"),
        ("evict", "", "'' is not POD or NAMESPACE/POD, as in shop/web-0"),
        ("evict", "a,,b", "'' is not POD or NAMESPACE/POD"),
        ("evict", "pod/shop/web", "'pod/shop/web' is not POD or NAMESPACE/POD"),
        ("taint", "n1:gpu", "'n1:gpu' is not NODE:KEY[=VALUE]:EFFECT"),
        ("taint", "n1:gpu:Never", "'gpu:Never' is no taint"),
        ("label", "n1:pool", "'pool' is not KEY=VALUE or KEY-"),
    ],
)
def test_flags_that_cannot_be_read_say_what_is_expected(step, text, problem):
    with pytest.raises(ChangeError) as error:
        parse_flag(step, text)
    assert str(error.value).startswith(problem)


@pytest.mark.parametrize(
    ("step", "value", "expected"),
    [
        ("drain", "n1", Drain("n1")),
        ("drain", {"nodes": ["n1", "n2"]}, Drain(["n1", "n2"])),
        ("addNodes", {"like": "n1"}, AddNodes("n1", 1)),
        ("loseZone", "a", LoseZone("a")),
        ("scale", {"workload": "deployment/web", "replicas": 3}, Scale("deployment/web", 3)),
        ("delete", "deployment/web", DeleteWorkload("deployment/web")),
        ("evict", ["a", "x/b"], Evict(["a", "x/b"])),
        ("evict", {"pods": "a"}, Evict("a")),
        (
            "upgrade",
            {"nodes": "pool=a", "labels": {"version": "2"}, "surge": 1},
            Upgrade("pool=a", labels={"version": "2"}, surge=1),
        ),
        ("label", {"nodes": "n1", "labels": {"a": None}}, LabelNodes("n1", {"a": None})),
    ],
)
def test_steps_of_a_scenario_are_read(step, value, expected):
    assert read_step(step, value, "steps[0]") == expected


@pytest.mark.parametrize(
    ("step", "value", "problem"),
    [
        ("explode", "n1", "steps[0]: no step is called 'explode'; there are drain, cordon"),
        ("drain", {"node": "n1"}, "steps[0].drain: Object contains unknown field `node`"),
        ("drain", 3, "steps[0].drain.nodes: Expected `str | array`, got `int`"),
        ("scale", {"workload": "deployment/web"}, "steps[0].scale: Object missing required field `replicas`"),
        (
            "scale",
            {"workload": "deployment/web", "replicas": "3"},
            "steps[0].scale.replicas: Expected `int`, got `str`",
        ),
        ("scale", {"workload": "web", "replicas": 3}, "steps[0].scale: 'web' is not KIND/NAME"),
        ("evict", [], "steps[0].evict: '' is not POD"),
        ("evict", [3], "steps[0].evict.pods[0]: Expected `str`, got `int`"),
        ("addNodes", 3, "steps[0].addNodes: an object is expected, not 3"),
        ("taint", {"nodes": "n1", "taint": "x"}, "steps[0].taint: 'x' is no taint"),
    ],
)
def test_steps_that_cannot_be_read_say_where_they_are(step, value, problem):
    with pytest.raises(ChangeError) as error:
        read_step(step, value, "steps[0]")
    assert str(error.value).startswith(problem)


def test_nodes_are_chosen_by_name_by_pattern_and_by_selector():
    nodes = [
        make_node("a-1").label("pool", "a").build(),
        make_node("a-2").label("pool", "b").build(),
        make_node("b-1").build(),
    ]
    assert Drain("a-1").chosen(nodes) == ["a-1"]
    assert Drain("a-*").chosen(nodes) == ["a-1", "a-2"]
    assert Drain("pool=a").chosen(nodes) == ["a-1"]
    assert Drain("pool in (a,b)").chosen(nodes) == ["a-1", "a-2"]
    assert Drain("!pool").chosen(nodes) == ["b-1"]
    assert Drain(["b-1", "a-*", "b-1"]).chosen(nodes) == ["b-1", "a-1", "a-2"]


def test_a_node_that_is_not_there_is_told_with_some_that_are():
    nodes = [make_node(f"n{number}").build() for number in range(5)]
    with pytest.raises(ChangeError, match=r"^drain n9: no node 'n9'; the cluster has 5: n0, n1, n2, …$"):
        Drain("n9").chosen(nodes)
    with pytest.raises(ChangeError, match=r"the cluster has 3: n0, n1, n2$"):
        Drain("n9").chosen(nodes[:3])
    with pytest.raises(ChangeError, match=r"^drain n9: the cluster has no nodes$"):
        Drain("n9").chosen([])


def test_a_taint_is_taken_off_by_key_and_effect():
    assert RemoveTaint("n", "gpu").matches(Taint("gpu", "x", "NoExecute"))
    assert RemoveTaint("n", "gpu:NoSchedule").matches(Taint("gpu", "", "NoSchedule"))
    assert not RemoveTaint("n", "gpu:NoSchedule").matches(Taint("gpu", "", "NoExecute"))
    assert not RemoveTaint("n", "gp").matches(Taint("gpu", "", "NoExecute"))
