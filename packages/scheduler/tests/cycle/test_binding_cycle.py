"""From a chosen node to a bound pod: bindings that fail, pods that go meanwhile, Permit, PreBind and Bind."""

import pytest
from msgspec.structs import replace

from berth.cycle.instrument import Instrument
from berth.framework.effects import Bind, EvictPod, WaitUntil
from berth.framework.status import Code, Status, error, unschedulable
from berth.testing.invariants import check
from packages.scheduler.tests.support import (
    boom,
    cluster,
    document,
    node,
    plugin,
    pod,
    requests_of,
    reserving,
    with_profiles,
)

# -- bindings that fail, and pods that go meanwhile --


def test_a_binding_that_fails_is_undone_and_tried_again_after_a_backoff():
    keeper = reserving()
    found = cluster(node(), config=document("Keeper"), plugins={"Keeper": keeper})
    found.refuse("the server is busy")
    found.put(pod("a"))
    found.run()
    assert found.nodes_of() == {"a": ""}
    assert keeper.calls == ["reserve", "unreserve"]
    assert found.core.cache.state_of("default/a") is None
    assert 'running Bind plugin "DefaultBinder": the server is busy' in found.events("FailedScheduling")[0]
    assert found.patches("a")[0].reason == "SchedulerError"
    check(found.core)
    found.advance(1.9)  # the backoff of 1 s, and the rest of the second in which it ends
    assert found.nodes_of() == {"a": ""}
    found.advance(0.1)
    assert found.nodes_of() == {"a": "n1"}
    assert keeper.calls == ["reserve", "unreserve", "reserve"]


def test_the_room_that_a_failed_binding_gives_back_wakes_others():
    found = cluster(node(), pod("a"), pod("b"))
    found.answers_binds = False
    found.run()
    (request,) = found.requests
    assert request.effect.pod.name == "a"
    assert "default/b" in found.core.queue.unschedulable
    found.answers_binds = True
    found.answer(request, error="refused")
    found.run()
    assert found.nodes_of() == {"a": "", "b": "n1"}


@pytest.mark.parametrize("error_text", ["", 'pods "a" not found'], ids=["bound", "refused"])
def test_a_pod_deleted_while_its_binding_is_under_way(error_text):
    found = cluster(node(), pod("a"))
    found.answers_binds = False
    found.run()
    found.delete("Pod", "default/a")
    assert found.core.cache.state_of("default/a") is None
    found.answer(found.requests[0], error=error_text)
    found.advance(60.0)
    check(found.core)
    assert len(found.core.queue.in_flight) == 0
    assert not found.core.queue.find("default/a")


def test_a_pod_deleted_while_it_is_queued_or_unschedulable_is_forgotten():
    found = cluster(node(), pod("a"), pod("b"), pod("c"))
    found.delete("Pod", "default/c")
    found.run()
    found.delete("Pod", "default/b")
    check(found.core)
    assert len(found.core.queue) == 0


def test_a_pod_that_took_the_name_of_a_deleted_one_is_another_pod():
    found = cluster(node(), pod("a")).run()
    new = pod("a").uid("second")
    found.put(new)
    found.advance(2.0)
    assert found.pod("a").spec.node_name == "n1"
    assert found.core.cache.state_of("default/a") is None
    assert found.core.cache.state_of("second") is not None
    check(found.core)


def test_the_watch_may_confirm_before_the_answer_comes():
    found = cluster(node(), node("n2"), pod("a"))
    found.answers_binds = False
    found.run()
    (request,) = found.requests
    found.put(pod("a").node(request.effect.node_name))
    check(found.core)
    found.requests.clear()
    found.core.handle(_answer(request), found.now)
    check(found.core)
    assert found.core.cache.assumed_count == 0
    assert len(found.core.queue.in_flight) == 0


def test_a_lost_answer_of_a_binding_that_the_watch_confirmed_changes_nothing():
    found = cluster(node(), pod("a"))
    found.answers_binds = False
    found.run()
    (request,) = found.requests
    found.put(pod("a").node("n1"))
    found.requests.clear()
    found.core.handle(_answer(request, "timed out"), found.now)
    found.advance(30.0)
    check(found.core)
    assert found.core.cache.state_of("default/a") is not None
    assert not found.core.queue.find("default/a")


def test_the_watch_is_right_about_the_node():
    found = cluster(node(), node("n2"), pod("a"))
    found.answers_binds = False
    found.run()
    (request,) = found.requests
    other = "n2" if request.effect.node_name == "n1" else "n1"
    found.put(pod("a").node(other))
    check(found.core)
    row = found.core.cache.state_of("default/a").row
    assert found.core.cache.table.names[row] == other


def _answer(request, error_text=""):
    from berth.framework.effects import Answer

    return Answer(request.ticket, None, error_text)


def test_a_node_deleted_with_pods_assumed_and_back_again():
    found = cluster(node(), pod("a"))
    found.answers_binds = False
    found.run()
    found.delete("Node", "n1")
    check(found.core)
    found.put(pod("b"))
    found.run()
    assert found.events("FailedScheduling") == ["no nodes available to schedule pods"]
    found.put(node())
    check(found.core)
    found.advance(2.0)
    assert found.nodes_of()["b"] == "", "the assumed pod still takes its room"
    found.answers_binds = True
    found.answer(found.requests[0], error="node is gone")
    found.run()
    check(found.core)
    assert sorted(found.nodes_of().values()) == ["", "n1"]


def test_a_pod_bound_by_somebody_else_leaves_the_queue():
    found = cluster(node(), node("n2").taint("no"), pod("a", cpu="2"))
    found.run()
    found.put(pod("a", cpu="2").node("n2"))
    check(found.core)
    assert len(found.core.queue) == 0


# -- permit, and what waits --


def waiting_for(seconds, name="Wait"):
    return plugin(name, permit=lambda *_: (Status(Code.WAIT), seconds))


def test_permit_holds_a_pod_until_it_is_allowed():
    waits = waiting_for(60.0)
    found = cluster(node(), config=document("Wait"), plugins={"Wait": waits})
    found.put(pod("a"))
    found.advance(30.0)
    assert not requests_of(found, Bind)
    assert found.core.cache.state_of("default/a").assumed
    assert found.pod("a").status.nominated_node_name == "n1", "whoever looks is told where the pod is going to"
    check(found.core)
    (held,) = waits.handle.waiting
    assert (held.pod.name, held.node_name, held.pending_plugins) == ("a", "n1", ("Wait",))
    held.allow("Wait")
    found.run()
    assert found.nodes_of() == {"a": "n1"}
    assert len(waits.handle.waiting) == 0


@pytest.mark.parametrize(("asked_s", "given_s"), [(5.0, 5.0), (0.0, 0.0), (3600.0, 900.0)])
def test_permits_wait_runs_out(asked_s, given_s):
    waits = waiting_for(asked_s)
    found = cluster(node(), config=document("Wait"), plugins={"Wait": waits})
    found.put(pod("a"))
    if given_s:
        found.advance(given_s - 0.001)
        assert found.events("FailedScheduling") == []
    found.advance(0.002)
    assert found.events("FailedScheduling")[0].startswith(
        "0/1 nodes are available: 1 rejected due to timeout after waiting "
    )
    assert found.events("FailedScheduling")[0].endswith(" at plugin Wait.")
    assert found.core.cache.state_of("default/a") is None
    assert found.pod("a").status.nominated_node_name == "", "nothing is promised any more"
    assert found.core.queue.find("default/a").unschedulable_plugins == {"Wait"}
    check(found.core)


def test_several_plugins_wait_and_one_turns_the_pod_away():
    one, two = waiting_for(60.0, "One"), waiting_for(30.0, "Two")
    found = cluster(node(), config=document("One", "Two"), plugins={"One": one, "Two": two})
    found.put(pod("a"))
    found.run()
    held = one.handle.waiting.get("default/a")
    assert held.pending_plugins == ("One", "Two")
    held.allow("Two")
    found.advance(40.0)
    assert not found.events("FailedScheduling"), "the one that allowed it does not time out"
    one.handle.waiting.reject("default/a", "Two", "changed my mind")
    found.run()
    assert found.events("FailedScheduling") == ["0/1 nodes are available: 1 changed my mind."]
    assert found.core.queue.find("default/a").unschedulable_plugins == {"Two"}
    check(found.core)


def test_permit_turns_a_pod_away_at_once():
    keeper = reserving(permit=lambda *_: (unschedulable("not today"), 0.0))
    found = cluster(node(), config=document("Keeper"), plugins={"Keeper": keeper})
    found.put(pod("a"))
    found.run()
    assert keeper.calls == ["reserve", "permit", "unreserve"]
    assert found.events("FailedScheduling") == ["0/1 nodes are available: 1 not today."]
    assert "default/a" in found.core.queue.unschedulable
    check(found.core)


@pytest.mark.parametrize("is_gone", [True, False], ids=["deleted", "being deleted"])
def test_a_waiting_pod_that_goes_gives_its_room_to_others(is_gone):
    found = cluster(node(), config=document("Wait"), plugins={"Wait": waiting_for(600.0)})
    found.put(pod("a").label("wait", "yes"))
    found.run()
    found.put(pod("b"))
    found.run()
    assert "default/b" in found.core.queue.unschedulable
    if is_gone:
        found.delete("Pod", "default/a")
    else:
        found.put(pod("a").label("wait", "yes").terminating())
    found.advance(2.0)
    check(found.core)
    assert found.core.cache.state_of("default/a") is None
    assert found.core.cache.state_of("default/b") is not None


def test_a_failed_pre_flight_leaves_nothing_waiting():
    fussy = plugin(
        "Fussy",
        permit=lambda *_: (Status(Code.WAIT), 60.0),
        pre_bind_pre_flight=lambda *_: error("no"),
        pre_bind=lambda *_: None,
    )
    found = cluster(node(), config=document("Fussy"), plugins={"Fussy": fussy})
    found.put(pod("a"))
    found.run()
    assert len(fussy.handle.waiting) == 0
    assert found.core.next_deadline() == 2.0
    check(found.core)


# -- PreBind and Bind that wait --


def test_pre_bind_and_bind_may_wait_for_answers_and_for_predicates():
    ready = []

    def pre_bind(*_):
        yield WaitUntil(lambda: bool(ready), 50.0)

    def skip(*_):
        return Status(Code.SKIP)

    first, work = plugin("First", bind=skip), plugin("Work", pre_bind=pre_bind)
    plugins = {"multiPoint": {"enabled": [{"name": "Work"}]}, "bind": {"enabled": [{"name": "First"}]}}
    found = cluster(node(cpu="4"), config=with_profiles({"plugins": plugins}), plugins={"First": first, "Work": work})
    found.put(pod("a"))
    found.put(pod("b"))
    found.run()
    assert work.calls == ["pre_bind", "pre_bind"], "binding cycles run beside scheduling cycles"
    assert not requests_of(found, Bind)
    ready.append(True)
    found.run()
    assert set(found.nodes_of().values()) == {"n1"}
    check(found.core)


def test_a_predicate_that_breaks_ends_at_its_deadline():
    def pre_bind(*_):
        came = yield WaitUntil(boom, 5.0)
        return None if came else error("it never came")

    found = cluster(node(cpu="4"), config=document("Work"), plugins={"Work": plugin("Work", pre_bind=pre_bind)})
    found.put(pod("a"))
    found.run()
    found.advance(5.0)
    assert found.events("FailedScheduling") == ['running PreBind plugin "Work": it never came']
    check(found.core)


# -- how Permit's rejections were told (runtime/framework.go, RunPermitPlugins and WaitOnPermit, release-1.20) --


@pytest.mark.parametrize(
    ("generation", "message"),
    [("v1.36", "0/1 nodes are available: 1 no."), ("v1.20", 'rejected pod "a" by permit plugin "No": no')],
)
def test_a_rejection_at_once_is_told_with_pod_and_plugin(generation, message):
    no = plugin("No", permit=lambda *_: (unschedulable("no"), 0.0))
    found = cluster(node(), config=document("No"), plugins={"No": no}, generation=generation)
    found.put(pod("a"))
    found.run()
    assert found.events("FailedScheduling")[0] == message
    assert found.core.cache.state_of("default/a") is None


@pytest.mark.parametrize(
    ("generation", "before", "after"),
    [
        ("v1.36", "0/1 nodes are available: 1 ", "."),
        ("v1.20", 'pod "a" rejected while waiting on permit: ', ""),
    ],
)
def test_a_rejection_while_waiting_is_told_with_the_pod(generation, before, after):
    waits = waiting_for(5.0)
    found = cluster(node(), config=document("Wait"), plugins={"Wait": waits}, generation=generation)
    found.put(pod("a"))
    found.advance(5.001)
    (message,) = found.events("FailedScheduling")[:1]
    assert message == f"{before}rejected due to timeout after waiting 5s at plugin Wait{after}"


class Waits(Instrument):
    def __init__(self):
        self.results = []

    def waited_on_permit(self, result, seconds):
        self.results.append((result, round(seconds, 3)))


@pytest.mark.parametrize(("allows", "result"), [(True, ("Success", 2.0)), (False, ("Unschedulable", 5.0))])
def test_each_wait_is_measured_with_how_it_ended(allows, result):
    seen, waits = Waits(), waiting_for(5.0)
    found = cluster(node(), config=document("Wait"), plugins={"Wait": waits}, instrument=seen)
    found.put(pod("a"))
    found.advance(2.0)
    if allows:
        waits.handle.waiting.get("default/a").allow("Wait")
    found.advance(3.0)
    assert seen.results[:1] == [result]


# -- a pod needs no wake-ups any more once Permit has let it through --


def test_a_pod_is_processed_before_pre_bind():
    """TestScheduleOneMarksPodAsProcessedBeforePreBind: no event is kept for a pod that may take minutes to bind."""

    def waits(*_):
        yield WaitUntil(lambda: False, 1000.0)

    found = cluster(node(), config=document("Slow"), plugins={"Slow": plugin("Slow", pre_bind=waits)})
    found.put(pod("a"))
    found.run()
    for number in range(100):
        found.put(node("n2").label("number", str(number)))
    queue = found.core.queue
    assert (len(queue.in_flight), queue.in_flight.event_count) == (0, 0)
    assert found.core.cache.state_of("default/a").assumed
    check(found.core)


@pytest.mark.parametrize("status", [unschedulable("no"), error("no")], ids=["rejected", "failed"])
def test_a_pod_that_pre_bind_stops_goes_to_backoff(status):
    """Nobody knows what it has missed since it was processed, so it is tried again without an event.

    It goes to the backoff that an idle scheduler does not pop from, where upstream puts only errors.
    """
    found = cluster(node(), config=document("Slow"), plugins={"Slow": plugin("Slow", pre_bind=lambda *_: status)})
    found.put(pod("a"))
    found.step()
    assert "default/a" in found.core.queue.error_backoff
    check(found.core)


def slowly(*_):
    """A PreBind that takes long."""
    yield WaitUntil(lambda: False, 1000.0)


@pytest.mark.parametrize("how", ["deleted", "terminating"])
def test_a_pod_that_goes_in_pre_bind_gives_its_room_back_at_once(how):
    keeper = reserving(pre_bind=slowly)
    found = cluster(node(cpu="1"), config=document("Keeper"), plugins={"Keeper": keeper})
    found.put(pod("a", cpu="1"))
    found.run()
    assert found.core.cache.assumed_count == 1
    if how == "deleted":
        found.delete("Pod", "default/a")
    else:
        found.put(pod("a", cpu="1").terminating())
    found.run()
    assert keeper.calls[-1] == "unreserve"
    assert (found.core.cache.assumed_count, len(found.core.queue)) == (0, 0)
    assert found.core.next_deadline() is None, "nobody waits for it any more"
    check(found.core)


def test_a_victim_in_pre_bind_is_called_off_and_not_deleted():
    """A bare pod that nobody would make again goes back to the queue."""
    found = cluster(node(cpu="1"), config=document("Slow"), plugins={"Slow": plugin("Slow", pre_bind=slowly)})
    found.put(pod("a", cpu="1"))
    found.run()
    found.put(pod("big", cpu="1").priority(10))
    found.run()
    assert found.core.cache.state_of("default/big").assumed
    assert found.core.queue.find("default/a").consecutive_errors == 1
    assert not requests_of(found, EvictPod)
    assert ("Pod", "default/a") in found.objects
    check(found.core)


# -- pods that are being deleted while they are bound (eventhandlers_test.go, TestUpdatePod, "assumed pod ...") --


def test_a_pod_that_begins_to_go_while_its_binding_is_under_way_gives_its_room_back_at_once():
    found = cluster(node())
    found.answers_binds = False
    found.put(pod("a"))
    found.put(pod("b"))
    found.run()
    (binding,) = found.requests
    found.put(pod("a").terminating())
    assert found.core.cache.state_of("default/a") is None
    found.run()
    assert [request.effect.pod.name for request in found.requests] == ["a", "b"]
    found.answer(binding, "pod a is being deleted, cannot be assigned to a host")
    check(found.core)
    found.answer(found.requests[0])
    found.advance(20.0)
    assert found.nodes_of() == {"a": "", "b": "n1"}
    check(found.core)


def test_a_condition_says_which_generation_of_the_pod_it_is_about():
    found = cluster(node(cpu="0"))
    old = pod("a").build()
    found.put(replace(old, metadata=replace(old.metadata, generation=3)))
    found.run()
    assert found.pod("a").status.conditions[0].observed_generation == 3
