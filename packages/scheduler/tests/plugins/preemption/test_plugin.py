"""DefaultPreemption: who may preempt, which nodes are tried, and what a pod waits for."""

import random
from collections import Counter
from types import SimpleNamespace

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.interface import PostFilterResult
from berth.framework.status import error, unresolvable, unschedulable
from berth.plugins.preemption import DefaultPreemption, DefaultPreemptionArgs
from berth.testing.invariants import decide
from packages.scheduler.tests.plugins.preemption.support import nodes, running
from packages.scheduler.tests.plugins.support import diagnosed, handle_of, hint, registered

FULL, AWAY = unschedulable("Insufficient cpu"), unresolvable("node(s) had untolerated taint(s)")


def victim(name, node, priority=0):
    return make_pod(name).node(node).priority(priority)


def preempted(pod, status="True", reason="PreemptionByScheduler"):
    return pod.terminating().set_status(conditions=[{"type": "DisruptionTarget", "status": status, "reason": reason}])


def cluster(*pods, gates=None):
    return handle_of(
        *(make_node(name).build() for name in ("a", "b", "c")), *(pod.build() for pod in pods), gates=gates
    )


def diagnosis_of(found, **statuses):
    return diagnosed(SimpleNamespace(cache=found.core.cache), **statuses)


def plugin_of(found):
    plugins = found.core.profiles["default-scheduler"].post_filter
    return next(plugin for plugin in plugins if plugin.name == "DefaultPreemption")


def refusal(pod, handle, diagnosis):
    return DefaultPreemption(DefaultPreemptionArgs(), handle).post_filter(CycleState(), pod.info(), diagnosis)


def test_without_nodes_there_is_nothing_to_free():
    handle = handle_of()
    assert refusal(make_pod(), handle, diagnosed(handle)) == (None, error("preemption: no nodes available"))


def test_what_is_said_where_no_node_is_worth_trying_counts_the_nodes_that_there_are():
    found, wants = VirtualCluster(*nodes("a", "b", cpu="1")), make_pod().request(cpu="2").priority(10).info()

    def said():
        return decide(found.core, wants, memos=True).outcome.post_filter_status.message.partition("preemption: ")[2]

    told = [said(), said()]
    found.put(nodes("c", cpu="1")[0])
    told.append(said())
    found.delete("Node", "a")
    found.delete("Node", "b")
    told.append(said())
    assert told == [
        f"0/{count} nodes are available: {count} Preemption is not helpful for scheduling." for count in (2, 2, 3, 1)
    ]


NEVER = unschedulable("preemption: not eligible due to preemptionPolicy=Never.")


def test_a_pod_that_never_preempts_keeps_its_nomination():
    handle = cluster(victim("v", "a"))
    pod = make_pod().priority(10, "Never")
    assert refusal(pod, handle, diagnosed(handle, a=FULL)) == (None, NEVER)
    assert refusal(pod.nominated("a"), handle, diagnosed(handle, a=FULL)) == (None, NEVER)


def test_a_nomination_does_not_survive_its_node():
    handle = cluster()
    pod = make_pod().priority(10, "Never").nominated("gone")
    assert refusal(pod, handle, diagnosed(handle, a=FULL)) == (PostFilterResult(""), NEVER)


@pytest.mark.parametrize(
    ("other", "nominated", "status", "waits"),
    [
        (preempted(victim("v", "a")), "a", FULL, True),
        (preempted(victim("v", "a")), "a", AWAY, False),
        (preempted(victim("v", "b")), "a", FULL, False),
        (preempted(victim("v", "a", 10)), "a", FULL, False),
        (preempted(victim("v", "a"), reason="EvictionByEvictionAPI"), "a", FULL, False),
        (preempted(victim("v", "a"), status="False"), "a", FULL, False),
        (victim("v", "a").terminating(), "a", FULL, False),
        (victim("v", "a"), "a", FULL, False),
        (preempted(victim("v", "a")), "gone", FULL, False),
        (preempted(victim("v", "a")), "", FULL, False),
    ],
)
def test_a_pod_waits_for_the_victims_on_its_nominated_node(other, nominated, status, waits):
    found = VirtualCluster(*nodes("a", "b"), other)
    pod = make_pod().request(cpu="99").priority(10).nominated(nominated)
    state = CycleState()
    found.core.profiles["default-scheduler"].run_pre_filter(state, pod.info())
    result, said = plugin_of(found).post_filter(state, pod.info(), diagnosis_of(found, a=status))
    expected = unschedulable("preemption: not eligible due to a terminating pod on the nominated node.")
    assert (said == expected) is waits
    assert (result is None) is waits


@pytest.mark.parametrize("preemptor", ["default/new", "default/another"])
def test_a_pod_waits_for_whoever_is_asked_to_go_from_its_node_and_is_not_seen_to_go_yet(preemptor):
    """Should another have asked, that one takes the place of this pod, which needs no further victims elsewhere."""
    going = victim("v", "a")
    found = VirtualCluster(*nodes("a", "b"), going)
    pod = make_pod("new").request(cpu="99").priority(10).nominated("a")
    state = CycleState()
    found.core.profiles["default-scheduler"].run_pre_filter(state, pod.info())

    def is_kept_waiting():
        _, said = plugin_of(found).post_filter(state, pod.info(), diagnosis_of(found, a=FULL))
        return said == unschedulable("preemption: not eligible due to a terminating pod on the nominated node.")

    found.core.evictions.begin(preemptor, [going.info()])
    assert is_kept_waiting()
    found.core.evictions.ended(preemptor, going.info().uid, is_refused=True)
    assert not is_kept_waiting()


def test_the_nomination_made_last_counts_before_the_api_server_has_it():
    found = VirtualCluster(*nodes("a", "b"), preempted(victim("v", "a")))
    pod = make_pod().request(cpu="99").priority(10).info()
    found.core.nominator.nominate(pod, "a")
    result, _ = plugin_of(found).post_filter(CycleState(), pod, diagnosis_of(found, a=FULL))
    assert result is None


def with_candidates(percentage, absolute):
    args = {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}
    profile = {"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def test_the_search_starts_anywhere_and_ends_with_candidates_enough():
    names = [f"n{index}" for index in range(10)]
    victims = [running(f"v{index}", name, "4", priority=index) for index, name in enumerate(names)]
    found = VirtualCluster(*nodes(*names), *victims, config=with_candidates(0, 3))
    pod = make_pod("new").request(cpu="2").priority(99).info()
    chosen = Counter(decide(found.core, pod, memos=True).outcome.nominated_node_name for _ in range(200))
    # Of three nodes in a row the one with the lowest victim is chosen: the first, but where the row goes round the end.
    assert set(chosen) == {f"n{index}" for index in range(8)}
    assert chosen["n0"] > max(chosen[f"n{index}"] for index in range(1, 8))


def test_the_same_seed_makes_the_same_choice():
    names = [f"n{index}" for index in range(10)]
    victims = [running(f"v{index}", name, "4", started=3) for index, name in enumerate(names)]
    pod = make_pod("new").request(cpu="2").priority(99).info()

    def choices(seed):
        found = VirtualCluster(*nodes(*names), *victims, config=with_candidates(0, 1), seed=seed)
        return [decide(found.core, pod, memos=True).outcome.nominated_node_name for _ in range(5)]

    seed = random.Random(7).randrange(1000)
    assert choices(seed) == choices(seed)
    assert len({tuple(choices(seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize(("gates", "waits"), [({}, True), ({"SchedulerAsyncPreemption": False}, False)])
def test_a_pod_whose_victims_are_being_evicted_is_kept_out(gates, waits):
    going, staying = victim("v", "a"), victim("w", "a")
    handle = cluster(going, staying, gates=gates)
    plugin = DefaultPreemption(DefaultPreemptionArgs(), handle)
    pod = make_pod().info()
    gated = unresolvable("waiting for the preemption for this pod to be finished")

    def is_kept_out():
        said = plugin.pre_enqueue(pod)
        assert said in (None, gated)
        return said is not None

    assert not is_kept_out()
    handle.evictions.begin(pod.uid, [going.info(), staying.info()])
    assert is_kept_out() is waits
    handle.cache.remove_pod(going.info().uid)
    assert is_kept_out() is waits
    handle.cache.add_pod(staying.terminating().info())
    assert not is_kept_out()


def test_the_wait_ends_when_it_is_known_what_became_of_the_last_victim():
    first, second = victim("v", "a"), victim("w", "a")
    handle = cluster(first, second)
    pod = make_pod().info()
    handle.evictions.begin(pod.uid, [first.info(), second.info()])
    assert handle.evictions.ended(pod.uid, first.info().uid, is_refused=True) is None
    assert handle.evictions.is_under_way(pod.uid)
    assert handle.evictions.ended(pod.uid, second.info().uid, is_refused=False) is True
    assert not handle.evictions.is_under_way(pod.uid)
    assert not len(handle.evictions)
    handle.evictions.begin(pod.uid, [second.info()])
    assert handle.evictions.ended(pod.uid, second.info().uid, is_refused=False) is False


def test_a_departure_is_for_other_plugins_to_judge():
    plugin = DefaultPreemption(DefaultPreemptionArgs(), cluster())
    assert registered(plugin) == {("Pod", Action.DELETE)}
    assert hint(plugin, "Pod")(make_pod().info(), make_pod("v").info(), None) is QueueingHint.SKIP
