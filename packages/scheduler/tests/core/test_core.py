"""The core end to end, in memory: objects in, effects out, answers back in."""

import pytest

from berth.config.errors import ConfigError
from berth.core.builders import make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.framework.effects import ApiCall, Bind, EmitEvent, Request
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint
from berth.framework.status import unschedulable
from berth.testing.invariants import check
from packages.scheduler.tests.support import Picky, cluster, document, node, plugin, pod, requests_of, with_profiles

# -- the way of one pod --


def test_a_pod_is_bound_and_told_of():
    found = cluster(node(), pod("a")).run()
    assert [type(effect) for effect in found.effects] == [Request, EmitEvent]
    (bind,) = requests_of(found, Bind)
    assert (bind.pod.key, bind.pod.uid, bind.node_name) == ("default/a", "default/a", "n1")
    told = found.effects[-1]
    assert (told.type, told.reason, told.action) == ("Normal", "Scheduled", "Binding")
    assert told.note == "Successfully assigned default/a to n1"
    assert told.reporting_controller == "default-scheduler"
    check(found.core)


def test_a_pod_that_fits_nowhere_is_told_so_once_and_runs_when_there_is_room():
    found = cluster(node(), pod("a"), pod("b")).run()
    assert found.nodes_of() == {"a": "n1", "b": ""}
    (patch,) = found.patches("b")
    assert (patch.condition_status, patch.reason) == ("False", "Unschedulable")
    assert patch.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert patch.nominated_node_name is None
    assert found.events("FailedScheduling") == [patch.message]
    found.delete("Pod", "default/a")
    found.advance(1.0)
    assert found.nodes_of() == {"b": "n1"}
    check(found.core)


def test_without_nodes_a_pod_waits_in_backoff_and_runs_when_one_comes():
    found = cluster(pod("a")).run()
    assert found.events("FailedScheduling") == ["no nodes available to schedule pods"]
    assert found.patches("a")[0].reason == "Unschedulable"
    found.put(node())
    found.advance(2.0)
    assert found.nodes_of() == {"a": "n1"}


@pytest.mark.parametrize(
    "left_alone",
    [
        make_pod("x").scheduler("another"),
        make_pod("x").terminating(),
        make_pod("x").phase("Succeeded"),
        make_pod("x").phase("Failed"),
        make_pod("x").node("elsewhere"),
        make_pod("x").gate("hold"),
    ],
    ids=["another scheduler's", "terminating", "succeeded", "failed", "bound", "gated"],
)
def test_pods_that_are_not_scheduled(left_alone):
    found = cluster(node(), left_alone).run()
    assert not requests_of(found, Bind)
    assert not found.core.trace
    check(found.core)


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (pod("x").node("n1"), True),
        (pod("x").node("n1").terminating(), True),
        (pod("x").node("n1").scheduler("another"), True),
        (pod("x").node("n1").phase("Succeeded"), False),
        (pod("x").node("n1").phase("Failed"), False),
        (pod("x").scheduler("another"), False),
    ],
    ids=["bound", "terminating", "another scheduler's", "succeeded", "failed", "pending elsewhere"],
)
def test_which_pods_take_room(other, counts):
    found = cluster(node(), other, pod("a")).run()
    assert found.nodes_of()["a"] == ("" if counts else "n1")


def test_a_restart_counts_what_is_bound():
    before = cluster(node(cpu="2"), *(pod(name) for name in "abcd")).run()
    after = cluster(*before.objects.values(), seed=7).run()
    assert sum(bool(name) for name in after.nodes_of().values()) == 3
    assert after.nodes_of() == before.nodes_of()
    assert not requests_of(after, Bind)


def test_pods_go_by_priority_then_by_arrival():
    found = cluster(node(cpu="4"), pod("a"), pod("b").priority(5), pod("c"), pod("d").priority(5)).run()
    assert [bind.pod.name for bind in requests_of(found, Bind)] == ["b", "d", "a", "c"]


def test_several_profiles_each_with_its_own_plugins():
    config = with_profiles(
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "picky", "plugins": {"multiPoint": {"enabled": [{"name": "Picky"}]}}},
    )
    picked = make_node("n2").capacity(cpu="1", memory="1Gi").label("picked", "yes").unschedulable()
    found = cluster(node(), picked, config=config, plugins={"Picky": Picky})
    found.put(pod("a").scheduler("picky"))
    found.put(pod("b"))
    found.run()
    assert found.nodes_of() == {"a": "", "b": "n1"}
    assert "1 not picked" in found.patches("a")[0].message
    told = {e.pod.name: e.reporting_controller for e in found.effects if isinstance(e, EmitEvent)}
    assert told == {"a": "picky", "b": "default-scheduler"}
    found.put(node().label("picked", "yes"))
    found.delete("Pod", "default/b")
    found.advance(2.0)
    assert found.nodes_of() == {"a": "n1"}


def test_profiles_must_sort_alike():
    sorter = plugin("Sorter", less=lambda a, b: False)
    own = {"queueSort": {"enabled": [{"name": "Sorter"}], "disabled": [{"name": "*"}]}}
    config = with_profiles({"schedulerName": "one"}, {"schedulerName": "two", "plugins": own})
    with pytest.raises(ConfigError):
        cluster(config=config, plugins={"Sorter": sorter})


# -- an open cycle, and what comes meanwhile --


def asking():
    def post_filter(state, pod, diagnosis):
        yield ApiCall("get", "Pod", "default", "a")
        return None, unschedulable("tried")

    return plugin("Asking", post_filter=post_filter)


def parked():
    plugins = {"postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": "Asking"}]}}
    found = cluster(node(), config=with_profiles({"plugins": plugins}), plugins={"Asking": asking()})
    found.answer_api = None
    found.put(pod("a"))
    found.run()
    found.put(pod("b"))
    found.step()
    assert found.core.is_cycle_open
    return found


def test_events_wait_while_a_cycle_is_open_and_none_is_lost():
    found = parked()
    before = found.core.cache.table.pod_log.position
    found.delete("Pod", "default/a")
    found.put(pod("c", cpu="100m"))
    found.step()
    assert found.core.cache.table.pod_log.position == before, "no column is touched"
    found.answer(found.requests[0])
    assert not found.core.is_cycle_open
    found.advance(1.0)
    assert found.nodes_of() == {"b": "n1", "c": "n1"}
    check(found.core)


def test_nothing_in_the_queue_is_due_while_a_cycle_is_open():
    """Else a caller that sleeps until the next deadline would not sleep at all."""
    plugins = {"postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": "Asking"}]}}
    found = cluster(node(), config=with_profiles({"plugins": plugins}), plugins={"Asking": asking()})
    found.answer_api = None
    for name in ("early", "late"):
        found.put(pod(name, cpu="2"))
        found.run()
        if name == "early":
            found.answer(found.requests[0])
    assert found.core.is_cycle_open
    assert found.core.next_deadline() is None
    found.answer(found.requests[0])
    assert found.core.next_deadline() is not None


def test_the_pod_of_an_open_cycle_may_go():
    found = parked()
    found.delete("Pod", "default/b")
    found.answer(found.requests[0])
    found.advance(1.0)
    assert not found.core.queue.find("default/b")
    check(found.core)


def test_an_object_that_cannot_be_taken_in_does_not_keep_back_what_came_after_it():
    found = parked()
    found.core.handle(ObjectEvent("ADDED", "Node", None), found.now)
    found.delete("Pod", "default/a")
    with pytest.raises(AttributeError):
        found.answer(found.requests[0])
    found.put(pod("c", cpu="100m"))
    check(found.core)
    found.advance(1.0)
    assert found.nodes_of() == {"b": "n1", "c": "n1"}


# -- waking --


def test_an_event_during_the_attempt_wakes_the_pod():
    found = parked()
    found.delete("Pod", "default/a")
    found.answer(found.requests[0])
    assert found.core.queue.find("default/b") is not None
    assert "default/b" not in found.core.queue.unschedulable


def test_an_out_of_tree_plugin_is_woken_by_what_it_registered_for_only():
    events = [ClusterEventWithHint(ClusterEvent("Node", Action.UPDATE_NODE_LABEL))]
    picky = type("Picky", (Picky,), {"events_to_register": lambda self: events})
    found = cluster(node(), config=document("Picky"), plugins={"Picky": picky})
    found.put(pod("a"))
    found.run()
    found.put(node(cpu="2"))
    found.advance(20.0)
    assert found.core.queue.find("default/a").attempts == 1
    found.put(node(cpu="2").label("picked", "yes"))
    found.advance(1.0)
    assert found.nodes_of() == {"a": "n1"}


def test_whatever_happens_a_pod_is_tried_again_after_five_minutes():
    found = cluster(node(), pod("a", cpu="2"))
    found.advance(300.0)
    assert found.core.queue.find("default/a").attempts == 1
    found.advance(31.0)
    assert found.core.queue.find("default/a").attempts == 2


def test_traces_are_kept_for_recent_pods_only():
    found = cluster(node(cpu="4"))
    for index in range(300):
        found.put(make_pod(f"p{index}").request(cpu="1m"))
    found.run()
    assert len(found.core.trace) == 256
    assert "default/p299" in found.core.trace
    assert "default/p0" not in found.core.trace


def test_a_nomination_ends_with_its_node_even_for_a_pod_that_is_held_back():
    """It would else stand in the status of a pod that is not tried, and a new scheduler would believe it."""
    found = cluster(node("n1"), node("n2"))
    found.put(pod("held").gate("later").nominated("n1"))
    found.run()
    found.core.nominator.nominate(found.core.queue.find("default/held").pod, "n1")
    assert found.core.nominator.node_of("default/held") == "n1"
    found.delete("Node", "n1")
    found.run()
    assert found.core.nominator.node_of("default/held") is None
    assert found.pod("held").status.nominated_node_name == ""


def test_skip_schedule_deleting_pod():
    """TestSchedulerScheduleOne, "deleting pod": who pops a pod that is being deleted tells its owner."""
    found = cluster(node(), pod("a").terminating())
    found.run()
    assert found.events("FailedScheduling") == ["skip schedule deleting pod: default/a"]
    assert not found.core.queue.find("default/a")
    assert len(found.core.queue.in_flight) == 0
    check(found.core)


def test_a_queued_pod_that_begins_to_go_is_skipped_when_popped_and_promises_nothing():
    found = cluster(node())
    found.put(pod("a").nominated("n1"))
    found.put(pod("a").nominated("n1").terminating())
    assert found.core.nominator.node_of("default/a") is None
    found.run()
    assert found.events("FailedScheduling") == ["skip schedule deleting pod: default/a"]
    assert found.nodes_of() == {"a": ""}
