"""Which pods must leave a node, and what is said where none can be freed.

Each case is worked out with memos, which means by columns where the filters have them, and without, node by node.
"""

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.status import error
from berth.testing.invariants import decide
from packages.scheduler.tests.plugins.preemption.support import budget, nodes, preemption, running

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"

WANTS_2 = make_pod("new").request(cpu="2").priority(10)

CASES = {
    "one of equals must go, the younger": (
        [*nodes("a", cpu="3"), running("old", "a", started=1), running("young", "a", started=2)],
        ("a", ["young"]),
    ),
    "the most important is spared": (
        [*nodes("a", cpu="3"), running("low", "a"), running("high", "a", priority=5)],
        ("a", ["low"]),
    ),
    "one that is too big to stay goes, smaller ones stay": (
        [*nodes("a"), running("big", "a", "3", priority=5), running("small", "a", "1")],
        ("a", ["big"]),
    ),
    "nobody of the same priority goes": ([*nodes("a"), running("peer", "a", "3", priority=10)], None),
    "nobody goes in vain": ([*nodes("a"), running("peer", "a", "3", priority=10), running("low", "a")], None),
    "all of several go": (
        [*nodes("a", cpu="2"), running("one", "a"), running("two", "a", priority=3)],
        ("a", ["one", "two"]),
    ),
    "a pod on its way out is a victim all the same": (
        [*nodes("a", cpu="2"), running("going", "a", "2").terminating()],
        ("a", ["going"]),
    ),
    "the node whose victims matter least": (
        [*nodes("a", "b", cpu="2"), running("more", "a", "2", priority=5), running("less", "b", "2", priority=4)],
        ("b", ["less"]),
    ),
    "the node with fewer victims": (
        [*nodes("a", "b", cpu="2"), running("one", "a"), running("two", "a"), running("both", "b", "2")],
        ("b", ["both"]),
    ),
    "a budget is kept before priorities are looked at": (
        [
            *nodes("a", "b", cpu="2"),
            budget("guard", {"app": "db"}, 0),
            running("db", "a", "2", app="db"),
            running("web", "b", "2", priority=9, app="web"),
        ],
        ("b", ["web"]),
    ),
    "a budget is broken where there is no other way": (
        [*nodes("a", cpu="2"), budget("guard", {"app": "db"}, 0), running("db", "a", "2", app="db")],
        ("a", ["db"]),
    ),
    "who is in a budget is spared before who is not": (
        [
            *nodes("a", cpu="3"),
            budget("guard", {"app": "db"}, 0),
            running("db", "a", app="db"),
            running("web", "a", priority=5, app="web"),
        ],
        ("a", ["web"]),
    ),
    "a budget's last disruption goes to the most important": (
        [
            *nodes("a", cpu="3"),
            budget("guard", {"app": "db"}, 1),
            running("first", "a", priority=5, app="db"),
            running("second", "a", priority=4, app="db"),
        ],
        ("a", ["first"]),
    ),
    "room promised to a pod of higher priority is not taken": (
        [
            *nodes("a"),
            running("low", "a", "3"),
            make_pod("promised").request(cpu="3").priority(20).nominated("a").scheduler("other"),
        ],
        ("a", ["low"]),
    ),
    "the pods of a node count too": (
        [make_node("a").capacity(cpu="4", memory="8Gi", pods="1"), running("low", "a", "1")],
        ("a", ["low"]),
    ),
}


@pytest.mark.parametrize("memos", [True, False], ids=["columns", "plain"])
@pytest.mark.parametrize("case", CASES)
def test_who_must_leave(case, memos):
    objects, expected = CASES[case]
    assert preemption(*objects, pod=WANTS_2, memos=memos)[0] == expected


@pytest.mark.parametrize("memos", [True, False], ids=["columns", "plain"])
def test_ports_and_anti_affinity_are_freed_too(memos):
    hogs = [running("port", "a").host_port(80), running("rival", "b", app="x"), running("bystander", "b")]
    wants_port = make_pod("new").priority(10).host_port(80).node_selector({"kubernetes.io/hostname": "a"})
    keeps_away = make_pod("new").priority(10).pod_anti_affinity("kubernetes.io/hostname", {"app": "x"})
    keeps_away.node_selector({"kubernetes.io/hostname": "b"})
    assert preemption(*nodes("a", "b"), *hogs, pod=wants_port, memos=memos)[0] == ("a", ["port"])
    assert preemption(*nodes("a", "b"), *hogs, pod=keeps_away, memos=memos)[0] == ("b", ["rival"])


@pytest.mark.parametrize("memos", [True, False], ids=["columns", "plain"])
def test_nominated_pods_count_on_the_node(memos):
    cluster = VirtualCluster(*nodes("a", "b"), running("low-a", "a", "3"), running("low-b", "b", "4"), memos=memos)
    cluster.core.nominator.nominate(make_pod("promised").request(cpu="3").priority(20).info(), "a")
    attempt = decide(cluster.core, WANTS_2.info(), memos=memos)
    assert (attempt.outcome.nominated_node_name, [victim.name for victim in attempt.outcome.victims]) == (
        "b",
        ["low-b"],
    )


@pytest.mark.parametrize("memos", [True, False], ids=["columns", "plain"])
@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([*nodes("a", cpu="1")], f"1 {NOT_HELPFUL}"),
        ([*nodes("a"), running("peer", "a", "3", priority=10)], f"1 {NO_VICTIMS}"),
        ([*nodes("a"), running("peer", "a", "3", priority=10), running("low", "a")], "1 Insufficient cpu"),
        (
            [
                *nodes("a", "b", cpu="2"),
                *nodes("c", cpu="1"),
                running("peer", "a", priority=10),
                running("low", "a"),
                running("only", "b", priority=10),
            ],
            f"1 Insufficient cpu, 1 {NO_VICTIMS}, 1 {NOT_HELPFUL}",
        ),
    ],
)
def test_what_is_said_where_nobody_can_be_made_to_leave(objects, said, memos):
    chosen, message = preemption(*objects, pod=WANTS_2, memos=memos)
    count = sum(1 for found in objects if type(found).__name__ == "NodeBuilder")
    assert chosen is None
    assert message.endswith(f" no new claims to deallocate, preemption: 0/{count} nodes are available: {said}.")


class Unwilling:
    """A plugin that cannot follow a pod that leaves."""

    name = "Unwilling"

    def __init__(self, args, handle):
        pass

    def pre_filter(self, state, pod):
        return None

    def remove_pod(self, state, pod, removed, node):
        return error("lost count")

    def add_pod(self, state, pod, added, node):
        return None

    def filter(self, state, pod, node):
        return None


def test_a_plugin_that_loses_count_is_an_error_where_no_node_can_be_freed():
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Unwilling"}]}}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    objects = [*nodes("a"), running("low", "a", "3")]
    cluster = VirtualCluster(*objects, plugins={"Unwilling": Unwilling}, config=config)
    attempt = decide(cluster.core, WANTS_2.info(), memos=True)
    assert attempt.outcome.victims == ()
    assert attempt.outcome.post_filter_status == error("preemption: lost count").by("DefaultPreemption")
