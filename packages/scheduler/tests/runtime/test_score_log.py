"""The score lines at verbosity 10.

Fields and figures: the log sample in the page about scoring, of release-1.17; how many nodes and pods there are, and
what runs on them, is chosen so that the same figures come out (a container that requests nothing counts as 100m and
200Mi). The line about room: predicates.go, PodFitsResources.
"""

import logging

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.runtime.observing.cycle_log import SchedulerLog
from berth.runtime.observing.logs import level
from packages.scheduler.tests.extender.support import FakeExtenders, listed
from packages.scheduler.tests.support import plugin, with_profiles

EXTENDER = "http://192.168.60.89:8888/scheduler"
POD = "nginx-deployment-85ff79dd56-972cg"
DEFAULT_CPU_MILLI, DEFAULT_MEMORY = 100, 200 * 1024**2


def node(name):
    return make_node(name).capacity(cpu="47800m", memory="66054406144", pods="110")


def running(name, node_name, cpu_milli, memory):
    request = {"cpu": f"{cpu_milli - DEFAULT_CPU_MILLI}m", "memory": str(memory - DEFAULT_MEMORY)}
    return make_pod(name).request(request).node(node_name)


@pytest.fixture
def lines(caplog):
    """The lines of one cycle of the sample's cluster, at verbosity 10."""
    caplog.set_level(level(10), logger="berth.scheduler")
    least = plugin("NodeResourcesLeastAllocated", score=lambda *_: 86)
    spread = plugin("SelectorSpread", score=lambda *_: 100)
    scores = [{"name": "NodeResourcesLeastAllocated"}, {"name": "SelectorSpread", "weight": 2}]
    profile = {"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": scores}}}
    found = VirtualCluster(
        node("n1"),
        node("n2"),
        node("n3").unschedulable(),
        running("a", "n1", 7850, 6786383872),
        running("b", "n2", 6950, 7627341824),
        plugins={"NodeResourcesLeastAllocated": least, "SelectorSpread": spread},
        config=with_profiles(profile, extenders=[listed(EXTENDER, "prioritize", weight=3)]),
        generation="v1.20",
        instrument=SchedulerLog(),
    )
    found.answer_call = FakeExtenders({(0, "prioritize"): [{"Host": "n1", "Score": 2}, {"Host": "n2", "Score": 5}]})
    found.put(make_pod(POD).container("nginx"))
    found.run()
    return [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]


def test_scores_of_resources_tell_what_they_are_made_of(lines):
    told = "LeastResourceAllocation, map of allocatable resources map[cpu:47800 memory:66054406144], map of requested"
    assert [line for line in lines if "LeastResourceAllocation" in line] == [
        f"{POD} -> n1: {told} resources map[cpu:7850 memory:6786383872] ,score 86,",
        f"{POD} -> n2: {told} resources map[cpu:6950 memory:7627341824] ,score 86,",
    ]


def test_other_plugins_tell_their_score_without_its_weight(lines):
    assert [line for line in lines if "SelectorSpread" in line] == [
        f"{POD} -> n1: SelectorSpreadPriority, Score: (100)",
        f"{POD} -> n2: SelectorSpreadPriority, Score: (100)",
    ]


def test_extenders_tell_theirs_out_of_ten(lines):
    assert [line for line in lines if EXTENDER in line] == [
        f"{POD}_default -> n1: {EXTENDER}, Score: (2)",
        f"{POD}_default -> n2: {EXTENDER}, Score: (5)",
    ]


def test_every_host_has_its_total(lines):
    weighted = 86 + 2 * 100
    assert lines[-2:] == [
        f"Host n1 => Score {weighted + 2 * 3 * 10}",
        f"Host n2 => Score {weighted + 5 * 3 * 10}",
    ]


def test_nodes_with_room_are_named_with_their_pods(lines):
    assert [line for line in lines if line.startswith("Schedule Pod")] == [
        f"Schedule Pod default/{POD} on Node {name} is allowed, Node is running only {count} out of 110 Pods."
        for name, count in (("n1", 1), ("n2", 1), ("n3", 0))
    ]


def test_below_verbosity_10_nothing_of_it_is_worked_out(caplog):
    caplog.set_level(level(9), logger="berth.scheduler")
    found = VirtualCluster(node("n1"), node("n2"), generation="v1.20", instrument=SchedulerLog())
    found.put(make_pod(POD).container("nginx"))
    found.run()
    assert not any("Host " in record.getMessage() for record in caplog.records)
