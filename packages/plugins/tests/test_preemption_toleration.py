"""PreemptionToleration in a scheduler; expectations from upstream's README (KEP 205)."""

import time

import pytest

from berth.testing import VirtualCluster, make_node, make_pod
from berth_plugins.preemption_toleration import CLASSES, Policy, PreemptionToleration, policy_of

PREFIX = "preemption-toleration.scheduling.x-k8s.io"
BEGAN_S = 1_767_225_600.0


def cluster(config, toleration_s, scheduled_ago_s=60.0, minimum=100):
    """A full node, whose pod has a class with a toleration."""
    annotations = {f"{PREFIX}/minimum-preemptable-priority": str(minimum), f"{PREFIX}/toleration-seconds": toleration_s}
    metadata = {"name": "tolerant", "uid": "tolerant", "annotations": annotations}
    tolerant = CLASSES.read({"metadata": metadata, "value": 1})
    victim = make_pod("victim").request(cpu="4").priority(1).node("n1")
    victim.spec["priorityClassName"] = "tolerant"
    then = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGAN_S - scheduled_ago_s))
    victim.status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": then}]
    plugins = {"PreemptionToleration": PreemptionToleration}
    found = VirtualCluster(plugins=plugins, config=config("PreemptionToleration"), began_s=BEGAN_S)
    for obj in (tolerant, make_node("n1").capacity(cpu="4", memory="8Gi"), victim):
        found.put(obj)
    return found


def preempts(found, priority=10):
    found.put(make_pod("new").request(cpu="4").priority(priority))
    found.run()
    return "victim" not in found.nodes_of()


@pytest.mark.parametrize(
    ("toleration_s", "priority", "is_preempted"),
    [
        ("3600", 10, False),
        ("30", 10, True),  # that is over
        ("-1", 10, False),
        ("0", 10, True),
        ("-1", 100, True),  # important enough
        ("soon", 10, True),  # says nothing
    ],
)
def test_a_pod_is_spared_as_long_as_its_class_says(config, toleration_s, priority, is_preempted):
    assert preempts(cluster(config, toleration_s), priority) == is_preempted


def test_a_pod_that_may_not_be_preempted_any_more_is_told_of(config):
    found = cluster(config, "3600")
    assert not preempts(found)
    assert any("No victims found on node n1 for preemptor pod new" in note for note in found.events("FailedScheduling"))


@pytest.mark.parametrize("toleration_s", [20, 170])
def test_the_pod_is_tried_again_when_the_first_toleration_ends_and_not_before(config, toleration_s):
    found = cluster(config, str(toleration_s), scheduled_ago_s=0)
    assert not preempts(found)
    found.advance(toleration_s - 0.5)
    assert found.nodes_of() == {"victim": "n1", "new": ""}
    found.advance(1.0)
    assert found.nodes_of() == {"new": "n1"}


def test_a_class_that_is_gone_is_an_error(config):
    found = cluster(config, "0")
    found.delete(CLASSES.name, "tolerant")
    assert not preempts(found)
    assert any('priorityclass.scheduling.k8s.io "tolerant" not found' in n for n in found.events("FailedScheduling"))


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, Policy(8, 0)),
        ({f"{PREFIX}/minimum-preemptable-priority": "-5"}, Policy(-5, 0)),
        ({f"{PREFIX}/minimum-preemptable-priority": "2147483648"}, None),
        ({f"{PREFIX}/toleration-seconds": "2147483648"}, Policy(8, 2**31)),
        ({f"{PREFIX}/toleration-seconds": " 5"}, None),
        ({f"{PREFIX}/toleration-seconds": "1_000"}, None),
        ({f"{PREFIX}/toleration-seconds": ""}, None),
    ],
)
def test_annotations_are_numbers_as_go_reads_them(annotations, expected):
    assert policy_of(7, annotations) == expected


@pytest.mark.parametrize(
    "args", [{"minCandidateNodesPercentage": 101}, {"minCandidateNodesAbsolute": -1}, {"minCandidateNodes": 1}]
)
def test_wrong_args_are_refused(config, args):
    plugins = {"PreemptionToleration": PreemptionToleration}
    with pytest.raises(ValueError, match=next(iter(args))):
        VirtualCluster(plugins=plugins, config=config("PreemptionToleration", args=args))


@pytest.mark.parametrize("toleration_s", ["3600", "-1"])
def test_it_says_who_is_spared_and_until_when(config, toleration_s):
    found = cluster(config, toleration_s, scheduled_ago_s=0)
    found.put(make_pod("idle").priority(1).node("n1"))
    assert not preempts(found)
    (plugin,) = [each.plugin for each in found.core.profiles["default-scheduler"].plugins if each.post_filter]
    spared, others = plugin.explain_rejection(make_pod("new").priority(10).info())
    until = "as long as it is there" if toleration_s == "-1" else "until 2026-01-01T01:00:00Z"
    assert spared.startswith(f"default/victim on n1 is spared {until}")
    assert others == "1 other pod(s) of lower priority might be preempted"


def test_where_nobody_is_spared_there_is_nothing_to_say(config):
    found = cluster(config, "0")
    (plugin,) = [each.plugin for each in found.core.profiles["default-scheduler"].plugins if each.post_filter]
    assert plugin.explain_rejection(make_pod("new").priority(10).info()) == ()
