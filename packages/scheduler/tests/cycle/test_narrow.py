"""Plugins that keep some of the nodes that fit: nothing else is scored, and the rest is explained.

Expectations follow from the contract (`berth.framework.interface.NarrowingPlugin`).
"""

from typing import ClassVar

import msgspec
import numpy as np
import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.decisions.side_by_side import Side
from berth.extender.wire import ExtenderArgs
from berth.framework.interface import Narrowed
from berth.framework.status import Code, Status, unschedulable
from berth.runtime.serving.extender_answers import ExtenderAnswers

TOLD = unschedulable("node(s) were not a")


class OnlyA:
    """Keeps nodes whose name begins with a, where there are any."""

    name: ClassVar[str] = "OnlyA"
    asked: ClassVar[list[list[str]]] = []

    def __init__(self, args, handle):
        type(self).asked = []

    def narrow(self, state, pod, nodes):
        self.asked.append([view.name for view in nodes.views()])
        mask = np.array([name.startswith("a") for name in nodes.table.names], dtype=np.bool_)
        return Narrowed(mask, TOLD)


class KeepsAll(OnlyA):
    name: ClassVar[str] = "KeepsAll"

    def narrow(self, state, pod, nodes):
        return None


def cluster(*names, pods=(), plugin=OnlyA):
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi") for name in names]
    return VirtualCluster(*nodes, *pods, plugins=[plugin])


def filler(cpu):
    return make_pod("filler").request(cpu=cpu).node("a1")


def placed(found, cpu="1"):
    found.put(make_pod("p").request(cpu=cpu))
    return found.run().nodes_of()["p"]


def test_only_what_is_kept_is_scored_and_the_others_are_explained():
    found = cluster("a1", "b1", "b2", pods=[filler("3")])
    assert placed(found) == "a1"  # all scores are for b
    decision = found.core.trace["default/p"]
    assert [decision.names[row] for row in decision.feasible] == ["a1"]
    (group,) = decision.rejected
    assert (group.status, [decision.names[row] for row in group.rows]) == (TOLD.by("OnlyA"), ["b1", "b2"])
    assert decision.statuses(group.rows[0])[0] == TOLD.by("OnlyA")


def test_it_is_asked_about_nodes_that_fit_and_one_that_would_keep_none_keeps_all():
    found = cluster("a1", "b1", pods=[filler("4")])
    assert placed(found) == "b1"
    assert OnlyA.asked == [["b1"]]
    assert not found.core.trace["default/p"].narrowed


def test_it_is_not_asked_where_nothing_fits():
    assert placed(cluster("a1", "b1"), cpu="5") == ""
    assert OnlyA.asked == []


def test_none_keeps_all():
    assert placed(cluster("a1", "b1", pods=[filler("3")], plugin=KeepsAll)) == "b1"


def test_nodes_are_sampled_from_what_is_kept():
    names = [f"b{number:03}" for number in range(300)] + ["a1"]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "OnlyA"}]}}}
    config = {**kind, "percentageOfNodesToScore": 10, "profiles": [profile]}
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi") for name in names]
    found = VirtualCluster(*nodes, plugins={"OnlyA": OnlyA}, config=config)
    assert placed(found) == "a1"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (True, "None or a Narrowed(mask, status) is expected"),
        (Narrowed(np.ones(3, dtype=np.int64), TOLD), "its mask is a NumPy array of bool and shape"),
        (Narrowed(np.ones(64, dtype=np.bool_), Status(Code.SUCCESS)), "a Status that rejects is expected"),
        (RuntimeError("a bug"), "a bug"),
    ],
)
def test_a_wrong_answer_ends_the_attempt_in_words(answer, words):
    def narrow(self, state, pod, nodes):
        if isinstance(answer, Exception):
            raise answer
        return answer

    found = cluster("a1", plugin=type("OnlyA", (OnlyA,), {"narrow": narrow}))
    assert placed(found) == ""
    assert words in found.core.trace["default/p"].message


@pytest.mark.parametrize("fillers", [{"a1": "3", "b1": "1"}, {"a1": "4"}, {}])
def test_a_decision_that_is_divided_by_plugin_is_the_one_that_is_made(fillers):
    pods = [make_pod(f"on-{name}").request(cpu=cpu).node(name) for name, cpu in fillers.items()]
    found = cluster("a1", "b1", "b2", pods=pods)
    pod = make_pod("p").request(cpu="1")
    divided = Side.of(found.core).divided(pod.build(), {}).nodes()
    assert placed(found) in divided


def test_an_extender_answers_without_the_nodes_that_are_left_out():
    found = cluster("a1", "b1", "b2")
    raw = msgspec.Raw(msgspec.json.encode(make_pod("p").document))
    answer = ExtenderAnswers(found.core).filter(ExtenderArgs(raw, node_names=("b1", "a1", "b2")))
    assert answer.node_names == ("a1",)
    assert answer.failed_nodes == {"b1": "node(s) were not a", "b2": "node(s) were not a"}
