"""From a preemptor to its node: victims leave, the pod waits for them and no longer, nominations come and go."""

import itertools

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.decisions.explanation import summary
from berth.framework.effects import EvictPod, PatchPodStatus
from berth.framework.status import Code, Status
from berth.plugins.preemption import DefaultPreemption
from berth.testing.invariants import check

UNFLUSHED_S = 200.0
"""Less than it takes until the unschedulable are flushed."""


def node(name, cpu="4"):
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods="10")


def low(name, node_name="a", cpu="2", priority=0):
    return make_pod(name).node(node_name).request(cpu=cpu).priority(priority)


def new(name="new", cpu="3", priority=10):
    return make_pod(name).request(cpu=cpu).priority(priority)


def evicted(cluster):
    requests = [effect.effect for effect in cluster.effects if hasattr(effect, "ticket")]
    return [request.pod.name for request in requests if isinstance(request, EvictPod)]


def attempts(cluster, key="default/new"):
    return cluster.core.trace[key].attempts


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_the_victims_leave_and_the_pod_follows(is_async):
    cluster = VirtualCluster(node("a"), low("v"), low("w"), gates={"SchedulerAsyncPreemption": is_async})
    cluster.put(new())
    cluster.run()
    assert sorted(evicted(cluster)) == ["v", "w"]
    assert cluster.nodes_of() == {"new": "a"}
    assert cluster.events("Preempted") == ["Preempted by pod default/new on node a"] * 2
    messages = {effect.effect.message for effect in cluster.effects if isinstance(_of(effect), EvictPod)}
    assert messages == {"default-scheduler: preempting to accommodate a higher priority pod"}
    check(cluster.core)
    assert not len(cluster.core.nominator)


def _of(effect):
    return getattr(effect, "effect", None)


def test_the_pod_is_nominated_while_its_victims_take_their_time():
    cluster = VirtualCluster(node("a"), low("v"), low("w"))
    cluster.evicts_at_once = False
    cluster.put(new())
    cluster.advance(UNFLUSHED_S)
    assert cluster.pod("new").status.nominated_node_name == "a"
    assert cluster.core.nominator.node_of("default/new") == "a"
    assert sorted(evicted(cluster)) == ["v", "w"]
    assert attempts(cluster) <= 2, "waiting for victims must not be a busy loop"
    cluster.delete("Pod", "default/v")
    cluster.advance(20.0)
    assert cluster.nodes_of()["new"] == ""
    cluster.delete("Pod", "default/w")
    cluster.advance(20.0)
    assert cluster.nodes_of() == {"new": "a"}
    assert sorted(evicted(cluster)) == ["v", "w"], "nobody is evicted twice"
    check(cluster.core)


def test_a_pod_stays_out_until_its_last_eviction_is_answered():
    cluster = VirtualCluster(node("a"), low("v"), low("w"))
    cluster.answers_evictions = False
    cluster.put(new())
    cluster.run()
    cluster.answer(cluster.requests[0])
    cluster.advance(20.0)
    assert attempts(cluster) == 1
    queued = cluster.core.queue.find("default/new")
    assert queued.gating_plugin == DefaultPreemption.name
    cluster.answer(cluster.requests[0])
    cluster.advance(20.0)
    assert cluster.nodes_of() == {"new": "a"}


def test_a_pod_whose_victims_were_gone_before_the_answers_came_is_not_left_lying():
    """The upstream defect: all wake-ups come while the pod is gated, and none after."""
    cluster = VirtualCluster(node("a"), low("v"), low("w"))
    cluster.answers_evictions = False
    cluster.put(new())
    cluster.run()
    cluster.delete("Pod", "default/v")
    cluster.put(low("w").terminating())
    cluster.delete("Pod", "default/w")
    cluster.put(low("x", cpu="1").terminating())
    cluster.answer(cluster.requests[0])
    cluster.answer(cluster.requests[0])
    cluster.advance(UNFLUSHED_S)
    assert cluster.nodes_of()["new"] == "a"


def test_a_refused_eviction_is_tried_again_after_a_backoff():
    cluster = VirtualCluster(node("a"), low("v", cpu="4"))
    cluster.answers_evictions = False
    cluster.put(new())
    cluster.run()
    cluster.answer(cluster.requests[0], "the API server is having a rest")
    cluster.run()
    assert not cluster.requests, "not even an idle scheduler tries before the backoff is over"
    cluster.advance(5.0)
    (again,) = cluster.requests
    assert attempts(cluster) == 2
    cluster.answer(again)
    cluster.advance(20.0)
    assert cluster.nodes_of() == {"new": "a"}
    assert cluster.events("Preempted") == ["Preempted by pod default/new on node a"]


def test_a_server_that_refuses_every_eviction_is_left_alone_for_longer_and_longer():
    cluster = VirtualCluster(node("a"), low("v", cpu="4"))
    cluster.answers_evictions = False
    cluster.put(new())
    asked_at = []
    for _ in range(600):
        cluster.advance(0.1)
        for request in tuple(cluster.requests):
            asked_at.append(round(cluster.now))
            cluster.answer(request, "the connection was reset by the other side")
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked_at)]
    assert gaps[:4] == sorted(gaps[:4]) and 1 <= gaps[0] <= 3, gaps
    assert max(gaps) <= 12, "podMaxBackoffSeconds, and a little for the window"
    assert len(asked_at) <= 10


def test_pods_of_lower_priority_lose_their_nomination():
    cluster = VirtualCluster(node("a"), low("v", cpu="4"))
    cluster.evicts_at_once = False
    cluster.put(new("middle", priority=5))
    cluster.advance(20.0)
    assert cluster.core.nominator.node_of("default/middle") == "a"
    before = attempts(cluster, "default/middle")
    cluster.put(new("top", priority=9))
    cluster.advance(20.0)
    assert cluster.core.nominator.node_of("default/middle") is None
    assert cluster.core.nominator.node_of("default/top") == "a"
    assert cluster.pod("middle").status.nominated_node_name == ""
    assert attempts(cluster, "default/middle") > before, "it must look for another place"
    cluster.delete("Pod", "default/v")
    cluster.advance(20.0)
    assert cluster.nodes_of() == {"middle": "", "top": "a"}
    check(cluster.core)


def test_a_nomination_is_taken_back_where_nobody_can_be_made_to_leave_any_more():
    cluster = VirtualCluster(node("a"), low("v", cpu="4"))
    cluster.evicts_at_once = False
    cluster.put(new())
    cluster.advance(20.0)
    cluster.put(low("v", cpu="4", priority=99).terminating())
    cluster.put(low("settled", cpu="4", priority=99))
    cluster.delete("Pod", "default/v")
    cluster.advance(20.0)
    assert cluster.pod("new").status.nominated_node_name == ""
    assert cluster.core.nominator.node_of("default/new") is None


def test_a_nomination_does_not_survive_its_node():
    cluster = VirtualCluster(node("a"), node("full"), low("v", cpu="4"), low("peer", "full", "4", priority=10))
    cluster.evicts_at_once = False
    cluster.put(new())
    cluster.advance(20.0)
    assert cluster.pod("new").status.nominated_node_name == "a"
    cluster.delete("Node", "a")
    cluster.advance(20.0)
    assert cluster.pod("new").status.nominated_node_name == ""
    assert not len(cluster.core.nominator)


class Hold:
    """Holds one pod in Permit."""

    name = "Hold"

    def __init__(self, args, handle):
        pass

    def permit(self, state, pod, node_name):
        return (Status(Code.WAIT), 600.0) if pod.name == "held" else (None, 0.0)


def test_a_victim_that_still_waits_for_permit_is_turned_away_not_deleted():
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"permit": {"enabled": [{"name": "Hold"}]}}}],
    }
    cluster = VirtualCluster(node("a"), plugins={"Hold": Hold}, config=config)
    cluster.put(new("held", cpu="4", priority=0))
    cluster.run()
    assert len(cluster.core.waiting) == 1
    cluster.put(new())
    cluster.advance(20.0)
    assert evicted(cluster) == []
    assert cluster.nodes_of() == {"held": "", "new": "a"}
    check(cluster.core)


def test_a_preemptor_that_goes_meanwhile_leaves_nothing_behind():
    cluster = VirtualCluster(node("a"), low("v", cpu="4"))
    cluster.answers_evictions = False
    cluster.put(new())
    cluster.run()
    cluster.delete("Pod", "default/new")
    cluster.answer(cluster.requests[0])
    cluster.advance(20.0)
    check(cluster.core)
    assert not len(cluster.core.nominator)
    assert not cluster.core.queue.in_flight


def test_what_a_pod_is_told():
    cluster = VirtualCluster(node("a"), low("v", cpu="4"))
    cluster.evicts_at_once = False
    cluster.put(new())
    cluster.run()
    patch = next(effect for effect in cluster.effects if isinstance(effect, PatchPodStatus))
    assert patch.nominated_node_name == "a"
    assert patch.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert patch.reason == "Unschedulable"


def test_a_pod_goes_where_it_was_promised_though_other_nodes_are_emptier_by_then():
    cluster = VirtualCluster(node("a"), node("b"), low("v", cpu="4"), low("peer", "b", "4", priority=10))
    cluster.evicts_at_once = False
    cluster.put(new(cpu="1"))
    cluster.advance(20.0)
    assert cluster.pod("new").status.nominated_node_name == "a"
    cluster.delete("Pod", "default/v")
    cluster.put(node("c", cpu="64"))
    cluster.advance(20.0)
    assert cluster.nodes_of()["new"] == "a"
    decision = cluster.core.trace["default/new"]
    assert [decision.names[row] for row in decision.feasible.tolist()] == ["a"]
    assert summary(decision).endswith("nominated to it, and fits there; other nodes were not looked at")


def test_a_promised_node_that_does_not_fit_any_more_is_no_bond():
    cluster = VirtualCluster(node("a"), node("b"), low("settled", cpu="4", priority=99))
    cluster.put(new().nominated("a"))
    cluster.run()
    assert cluster.nodes_of()["new"] == "b"


def test_a_lost_nomination_counts_no_more_at_once():
    """Not only once the API server has told us of the status that we wrote ourselves."""
    cluster = VirtualCluster(node("a"), low("v", cpu="4"))
    cluster.evicts_at_once = False
    cluster.put(new("middle", priority=5))
    cluster.advance(20.0)
    cluster.put(new("top", priority=9))
    effects = cluster.core.step(cluster.now)
    assert cluster.core.nominator.node_of("default/middle") is None
    patched = [(e.pod.name, e.nominated_node_name) for e in effects if isinstance(e, PatchPodStatus)]
    assert patched == [("middle", ""), ("top", "a")]


def test_where_the_cycle_waits_for_evictions_a_refusal_ends_it_without_a_nomination():
    cluster = VirtualCluster(node("a"), low("v", cpu="4"), gates={"SchedulerAsyncPreemption": False})
    cluster.answers_evictions = False
    cluster.put(new())
    cluster.run()
    assert cluster.core.is_cycle_open
    (request,) = cluster.requests
    cluster.answer(request, "the API server is having a rest")
    (told,) = cluster.events("FailedScheduling")
    assert told.endswith("preemption: the API server is having a rest")
    assert cluster.core.nominator.node_of("default/new") is None
    assert cluster.pod("new").status.nominated_node_name == ""
    cluster.advance(20.0)
    (again,) = cluster.requests
    cluster.answer(again)
    cluster.advance(20.0)
    assert cluster.nodes_of() == {"new": "a"}
