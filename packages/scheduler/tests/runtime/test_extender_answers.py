"""What plugins say as an extender, held against what they decide in a cycle of their own."""

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.extender import wire
from berth.framework.status import error, unresolvable, unschedulable
from berth.runtime.serving.extender_answers import UNKNOWN_NODE, AnswerError, ExtenderAnswers
from berth.testing.invariants import decide
from packages.scheduler.tests.support import plugin, with_profiles


def raw(builder):
    return msgspec.Raw(msgspec.json.encode(builder.document))


def nodes():
    return [
        make_node("small").capacity(cpu="1", memory="8Gi", pods=10),
        make_node("large").capacity(cpu="8", memory="8Gi", pods=10),
        make_node("tainted").capacity(cpu="8", memory="8Gi", pods=10).taint("only", "others"),
        make_node("busy").capacity(cpu="8", memory="8Gi", pods=10),
    ]


def cluster(*objects, **options):
    busy = make_pod("worker").node("busy").request(cpu="7")
    return VirtualCluster(*nodes(), busy, *objects, **options)


NAMES = ("small", "large", "tainted", "busy")


def by_name(pod, *names):
    return wire.ExtenderArgs(raw(pod), node_names=names or NAMES)


def test_filter_says_what_the_cycle_would():
    found, pod = cluster(), make_pod("p").request(cpu="2")
    answer = ExtenderAnswers(found.core).filter(by_name(pod))
    assert answer.node_names == ("large",)
    assert answer.failed_nodes == {"busy": "Insufficient cpu"}
    # NodeResourcesFit: what asks for more than the node has at all cannot be helped by preemption
    assert answer.failed_and_unresolvable_nodes == {
        "small": "Insufficient cpu",
        "tainted": "node(s) had untolerated taint(s)",
    }
    attempt = decide(found.core, pod.info(), memos=False)
    assert [found.core.cache.table.names[row] for row in attempt.found.nodes.row_array().tolist()] == ["large"]


def test_nodes_come_back_in_the_form_they_came_in():
    answers, pod = ExtenderAnswers(cluster().core), make_pod("p").request(cpu="2")
    given = wire.NodeList(items=tuple(map(raw, nodes())))
    answer = answers.filter(wire.ExtenderArgs(raw(pod), given))
    assert answer.node_names is None
    assert [msgspec.json.decode(node)["metadata"]["name"] for node in answer.nodes.items] == ["large"]


def test_only_the_nodes_asked_about_are_told():
    answer = ExtenderAnswers(cluster().core).filter(by_name(make_pod("p").request(cpu="2"), "large", "stranger"))
    assert (answer.node_names, answer.failed_nodes) == (("large",), {"stranger": UNKNOWN_NODE})
    assert answer.failed_and_unresolvable_nodes == {}


def picky(**methods):
    enabled = {"plugins": {"multiPoint": {"enabled": [{"name": "Picky", "weight": 3}], "disabled": [{"name": "*"}]}}}
    enabled["plugins"] |= {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}
    enabled["plugins"] |= {"bind": {"enabled": [{"name": "DefaultBinder"}]}}
    return cluster(config=with_profiles(enabled), plugins={"Picky": plugin("Picky", **methods)})


@pytest.mark.parametrize(
    ("status", "failed", "hopeless"),
    [
        (unschedulable("later"), dict.fromkeys(NAMES, "later"), {}),
        (unresolvable("never"), {}, dict.fromkeys(NAMES, "never")),
    ],
)
def test_a_rejection_in_pre_filter_holds_for_every_node(status, failed, hopeless):
    found = picky(pre_filter=lambda *_: status, filter=lambda *_: None)
    answer = ExtenderAnswers(found.core).filter(by_name(make_pod("p")))
    assert (answer.node_names, answer.failed_nodes, answer.failed_and_unresolvable_nodes) == ((), failed, hopeless)


@pytest.mark.parametrize("point", ["pre_filter", "filter", "pre_score", "score"])
def test_an_error_of_a_plugin_is_no_answer(point):
    methods = {
        "filter": lambda *_: None,
        "score": lambda *_: 1,
        point: lambda *_: error("no licence server"),
    }
    answers = ExtenderAnswers(picky(**methods).core)
    ask = answers.prioritize if "score" in point else answers.filter
    with pytest.raises(AnswerError, match="no licence server"):
        ask(by_name(make_pod("p")))


def test_prioritize_scales_to_ten():
    scores = {"small": 0, "large": 100, "tainted": 44, "busy": 46}
    found = picky(score=lambda _s, _p, node: scores[node.name])
    answer = ExtenderAnswers(found.core).prioritize(by_name(make_pod("p"), "busy", "stranger", *NAMES[:3]))
    assert [(one.host, one.score) for one in answer] == [
        ("busy", 5), ("stranger", 0), ("small", 0), ("large", 10), ("tainted", 4),
    ]  # fmt: skip


def test_without_score_plugins_nobody_is_preferred():
    found = picky(filter=lambda *_: None)
    assert {one.score for one in ExtenderAnswers(found.core).prioritize(by_name(make_pod("p")))} == {0}


def victims(**by_node):
    return {
        name: wire.MetaVictims(tuple(wire.MetaPod(f"default/{pod}") for pod in pods)) for name, pods in by_node.items()
    }


def preempted(found, pod, **by_node):
    args = wire.ExtenderPreemptionArgs(raw(pod), node_name_to_meta_victims=victims(**by_node))
    return ExtenderAnswers(found.core).preempt(args).node_name_to_meta_victims


def test_preempt_keeps_the_nodes_where_the_victims_are_enough():
    found = cluster(make_pod("other").node("large").request(cpu="7"))
    pod = make_pod("p").priority(10).request(cpu="4")
    proposed = {"busy": ["worker"], "large": ["other"], "tainted": [], "stranger": ["x"]}
    assert preempted(found, pod, **proposed) == victims(busy=["worker"], large=["other"])


def test_preempt_names_more_victims_where_those_are_not_enough():
    more = [make_pod(f"w{i}").node("large").request(cpu="4").priority(i) for i in range(2)]
    found = cluster(*more)
    pod = make_pod("p").priority(10).request(cpu="8")
    assert preempted(found, pod, large=["w0"]) == victims(large=["w0", "w1"])
    assert preempted(found, make_pod("p").priority(1).request(cpu="8"), large=["w0"]) == {}  # w1 is as important


def test_whole_victims_are_taken_too():
    found = cluster()
    whole = {"busy": wire.Victims((raw(make_pod("worker").uid("default/worker")),))}
    args = wire.ExtenderPreemptionArgs(raw(make_pod("p").priority(1).request(cpu="4")), whole)
    assert ExtenderAnswers(found.core).preempt(args).node_name_to_meta_victims == victims(busy=["worker"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (wire.ExtenderArgs(node_names=("a",)), "the request has no Pod"),
        (wire.ExtenderArgs(raw(make_pod("p"))), "neither Nodes nor NodeNames"),
        (wire.ExtenderArgs(msgspec.Raw(b'{"spec": 5}'), node_names=("a",)), "the request's Pod cannot be read"),
    ],
)
def test_requests_that_make_no_sense(args, message):
    with pytest.raises(AnswerError, match=message):
        ExtenderAnswers(cluster().core).filter(args)
