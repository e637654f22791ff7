"""Who rejected a pod: its condition, its explanation and what wakes it name the same plugins.

The condition is what kube-scheduler says (recorded in `tests/conformance`): on each node the first failing filter
counts, and pods that are nominated to the node are counted in before the node is looked at as it is.
"""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from berth.core.builders import expression, make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.decision import Trace
from berth.decisions.explanation import explain
from berth.framework.diagnosis import histogram
from berth.framework.extenders import EXTENDER_NAME
from berth.framework.interface import PreFilterResult
from berth.framework.status import unresolvable
from berth.testing.invariants import decide
from packages.scheduler.tests.extender.support import FakeExtenders, keeping, listed
from packages.scheduler.tests.support import document, plugin, with_profiles
from tests.effort import examples

URL = "http://extender.test"
BETA = {"apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "KubeSchedulerConfiguration"}
CONFIGS = {"v1.36": with_profiles({}), "v1.20": BETA, "v1.20, all filters": BETA}
PORTS = "node(s) didn't have free ports for the requested pod ports"


def shown(found, name="asking"):
    """What people and the queue are told of a pod: its condition, its explanation node by node, and who wakes it."""
    decision = found.core.trace[f"default/{name}"]
    names = sorted(node for kind, node in found.objects if kind == "Node")
    (condition,) = found.pod(name).status.conditions
    queued = next(queued for queued in found.core.queue if queued.pod.name == name)
    explanation = explain(decision, nodes=names, names_shown=len(names))
    return condition.message, explanation, queued.unschedulable_plugins | queued.pending_plugins


def agree(message, explanation, rejectors):
    """Hold the three against each other; extenders wake under one name, and PreFilter plugins may reject together."""
    node_names = [name for group in explanation.rejected for name in group.nodes]
    assert len(node_names) == len(set(node_names)), "a node is rejected twice"
    said = explanation.pre_filter
    if said is not None and message.startswith(f"0/{explanation.node_count} nodes are available: {said.reasons[0]}."):
        assert [group.reasons for group in explanation.rejected] == [said.reasons]
    else:
        counted = ((reason, group.count) for group in explanation.rejected for reason in group.reasons)
        why = ", ".join(histogram(counted))
        assert message.startswith(f"0/{explanation.node_count} nodes are available: {why}."), explanation.rejected
    named = {name for group in explanation.rejected for name in group.plugin.split(", ")}
    assert {EXTENDER_NAME if name == URL else name for name in named} == rejectors
    for node in explanation.nodes:
        (group,) = (group for group in explanation.rejected if node.node in group.nodes)
        assert node.fits is not True
        first = node.rejections[0]
        assert (first.plugin, first.reasons[0]) == (group.plugin, group.reasons[0])
        assert set(group.reasons) <= {reason for each in node.rejections for reason in each.reasons}


def promise(found, pod, node):
    """Nominate a pod that is not tried itself."""
    found.core.nominator.nominate(pod.info(), node)


def port_promised(**options):
    """A node of 4 CPU whose port 80 is promised to one pod, and another pod that asks for the port and for 8 CPU."""
    found = VirtualCluster(make_node("n1").capacity(cpu="4", pods="9"), **options)
    promise(found, make_pod("promised").priority(10).host_port(80), "n1")
    found.put(make_pod("asking").priority(5).host_port(80).request(cpu="8"))
    return found.run()


@pytest.mark.parametrize("memos", [True, False])
def test_a_port_that_is_promised_comes_before_cpu_that_is_missing(memos):
    message, explanation, rejectors = shown(port_promised(memos=memos))
    assert message.startswith(f"0/1 nodes are available: 1 {PORTS}.")
    assert rejectors == {"NodePorts"}
    assert [group.plugin for group in explanation.rejected] == ["NodePorts"]
    (node,) = explanation.nodes
    assert [said.plugin for said in node.rejections] == ["NodePorts", "NodeResourcesFit"]


# -- any cluster --


def one_node(rng, index):
    """A node with a few things to stumble over."""
    node = make_node(f"n{index}").capacity(cpu=rng.choice("248"), memory="8Gi", pods=rng.choice(("2", "9")))
    node.label("zone", rng.choice("ab"))
    if rng.random() < 0.2:
        node.taint(rng.choice(("gpu", "spot")), effect=rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule")))
    return node.unschedulable() if rng.random() < 0.1 else node


def one_pod(rng, name):
    """A pod that takes something of its node, and may mind others."""
    pod = make_pod(name).request(cpu=rng.choice(("500m", "1", "3"))).priority(rng.choice((0, 5, 10)))
    pod.label("app", rng.choice(("web", "db")))
    if rng.random() < 0.4:
        pod.host_port(rng.choice((80, 443)))
    if rng.random() < 0.3:
        topology = rng.choice(("kubernetes.io/hostname", "zone"))
        affine = pod.pod_affinity if rng.random() < 0.5 else pod.pod_anti_affinity
        affine(topology, {"app": rng.choice(("web", "db"))})
    return pod


def asking_pod(rng):
    """The pod that is looked at: it asks for more than most nodes have."""
    pod = one_pod(rng, "asking").request(cpu=rng.choice(("2", "5", "9"))).host_port(80)
    if rng.random() < 0.3:
        pod.tolerate("gpu", operator="Exists")
    if rng.random() < 0.2:
        pod.require_node(expression("zone", "In", rng.choice("ab")))
    if rng.random() < 0.2:
        pod.require_node(fields=[expression("metadata.name", "In", f"n{rng.randrange(8)}")])
    if rng.random() < 0.2:
        pod.spread("zone", {"app": "web"}) if rng.random() < 0.5 else pod.node_selector({"zone": "a"})
    return pod


def any_cluster(seed, generation, memos):
    """A cluster drawn from a seed, and a pod for it. Often more nodes have rivals than are asked one by one."""
    rng = random.Random(seed)
    found = VirtualCluster(config=CONFIGS[generation], memos=memos)
    for profile in found.core.profiles.values():
        profile.checks_all_filters = generation == "v1.20, all filters"
    count = rng.randrange(1, 9)
    for index in range(count):
        found.put(one_node(rng, index))
    for index in range(rng.randrange(8)):
        found.put(one_pod(rng, f"running{index}").node(f"n{rng.randrange(count)}"))
    for index in range(rng.randrange(10)):
        promise(found, one_pod(rng, f"promised{index}"), f"n{rng.randrange(count)}")
    return found, asking_pod(rng)


@pytest.mark.parametrize("memos", [True, False])
@pytest.mark.parametrize("generation", CONFIGS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(60))
def test_condition_explanation_and_wake_ups_name_the_same_plugins(generation, memos, seed):
    found, asking = any_cluster(seed, generation, memos)
    found.put(asking)
    found.run()
    assume(not found.nodes_of()["asking"])
    agree(*shown(found))


@pytest.mark.parametrize("memos", [True, False])
@pytest.mark.parametrize("generation", CONFIGS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(60))
def test_each_node_is_rejected_with_what_the_plain_forms_say_there(generation, memos, seed):
    """The filters asked about one node after the other, beside the nominated pods and then without, draw the line."""
    found, asking = any_cluster(seed, generation, memos)
    core, table, pod = found.core, found.core.cache.table, asking.info()
    attempt = decide(core, pod, memos=memos)
    decision = Trace(1).note(attempt, table, 0.0, 1)
    status_of = {row: status for status, rows in decision.rejected for row in rows.tolist()}
    for row in decision.looked_at.nonzero()[0].tolist():
        plainly = attempt.profile.run_filter_beside_nominated(attempt.state, pod, table.view(row))
        assert status_of.get(row) == plainly
        assert (row in decision.feasible) is (plainly is None)


# -- what is not a filter's word --


def nodes(count, cpu="4"):
    return [make_node(f"n{index}").capacity(cpu=cpu, memory="8Gi", pods="9") for index in range(count)]


def narrowing(*names):
    return lambda _state, _pod: PreFilterResult(frozenset(names))


def test_nodes_that_pre_filter_left_out_are_told_as_in_the_condition():
    asking = make_pod("asking").request(cpu="8").require_node(fields=[expression("metadata.name", "In", "n1")])
    message, explanation, rejectors = shown(VirtualCluster(*nodes(3), asking).run())
    agree(message, explanation, rejectors)
    assert message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert rejectors == {"NodeAffinity", "NodeResourcesFit"}


def test_plugins_that_leave_no_node_between_them_all_wake_the_pod():
    # RunPreFilterPlugins in pkg/scheduler/framework/runtime/framework.go returns both names beside the status.
    plugins = {"Right": plugin("Right", pre_filter=narrowing("n1")), "Left": plugin("Left", pre_filter=narrowing("n0"))}
    found = VirtualCluster(*nodes(3), make_pod("asking"), plugins=plugins, config=document("Right", "Left")).run()
    message, explanation, rejectors = shown(found)
    agree(message, explanation, rejectors)
    assert message.startswith("0/3 nodes are available: node(s) didn't satisfy plugin(s) [Left Right] simultaneously.")
    assert rejectors == {"Left", "Right"}
    assert "default/asking" in found.core.queue.unschedulable


def test_where_pre_filter_turns_a_pod_away_its_plugin_is_named_for_every_node():
    plugins = {
        "Some": plugin("Some", pre_filter=narrowing("n0")),
        "No": plugin("No", pre_filter=lambda _state, _pod: unresolvable("not today")),
    }
    found = VirtualCluster(*nodes(2), make_pod("asking"), plugins=plugins, config=document("Some", "No")).run()
    message, explanation, rejectors = shown(found)
    agree(message, explanation, rejectors)
    assert rejectors == {"No"}
    assert [(group.plugin, group.count) for group in explanation.rejected] == [("No", 2)]


def extended(answer, *objects):
    """A cluster with one extender, which gives this answer, and the pod."""
    found = VirtualCluster(*objects, config=with_profiles({}, extenders=[listed(URL, "filter")]))
    found.answer_call = FakeExtenders({(0, "filter"): answer})
    found.put(make_pod("asking").request(cpu="1"))
    return found.run()


def test_an_extender_is_named_for_the_nodes_it_rules_out():
    found = extended(keeping(failed={"n0": "full", "n1": "full"}), *nodes(2), *nodes(3, cpu="500m")[2:])
    message, explanation, rejectors = shown(found)
    agree(message, explanation, rejectors)
    assert message.startswith("0/3 nodes are available: 1 Insufficient cpu, 2 full.")
    assert [(group.plugin, group.count) for group in explanation.rejected] == [(URL, 2), ("NodeResourcesFit", 1)]


def test_an_extender_overrules_the_filters_even_where_it_was_not_asked():
    """Upstream copies its failed nodes over those of the filters; the plugins of these still wake the pod."""
    found = extended(keeping(failed={"n0": "full", "n1": "broken"}), *nodes(1), *nodes(2, cpu="500m")[1:])
    message, explanation, rejectors = shown(found)
    assert message.startswith("0/2 nodes are available: 1 broken, 1 full.")
    assert {(group.plugin, group.nodes) for group in explanation.rejected} == {(URL, ("n0",)), (URL, ("n1",))}
    assert [said.plugin for said in explanation.nodes[1].rejections] == [URL, "NodeResourcesFit"]
    assert rejectors == {EXTENDER_NAME, "NodeResourcesFit"}


def test_nodes_beyond_the_end_of_a_partial_search_are_not_called_rejected():
    """Of 150 nodes 100 that fit are enough; the last 50, half of which are too small, are never looked at."""
    config = with_profiles({"percentageOfNodesToScore": 10})
    small = [node for index, node in enumerate(nodes(150, cpu="500m")) if index >= 100 and index % 2]
    found = VirtualCluster(*nodes(150), *small, make_pod("asking").request(cpu="1"), config=config).run()
    decision = found.core.trace["default/asking"]
    explanation = explain(decision, nodes=["n0", "n148", "n149"])
    assert decision.evaluated_count == decision.looked_at.sum() == 100
    assert explanation.rejected == ()
    assert [node.fits for node in explanation.nodes] == [True, None, None]


def test_other_nodes_than_the_promised_one_are_not_said_to_fit():
    promised = make_pod("asking").nominated("n0")
    found = VirtualCluster(*nodes(2), promised).run()
    explanation = explain(found.core.trace["default/asking"], nodes=["n0", "n1"])
    assert [node.fits for node in explanation.nodes] == [True, None]
    assert explanation.rejected == ()
