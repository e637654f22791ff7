"""Rows of upstream's `pkg/scheduler/schedule_one_test.go`, v1.36, under their names."""

import pytest

from berth.core.builders import make_node, make_pod, make_pod_group
from berth.core.intake import ObjectEvent
from berth.framework.effects import Bind, WaitUntil
from berth.framework.status import SKIP, Code, Status, error, unresolvable, unschedulable
from berth.testing.invariants import check
from packages.scheduler.tests.support import cluster, document, node, plugin, pod, requests_of

FORECASTS = {"NominatedNodeNameForExpectation": True}
ONE_NODE = "0/1 nodes are available: 1 {}."


def slowly(*_):
    yield WaitUntil(lambda: False, 1000.0)


def reserve(status):
    return {"reserve": lambda *_: status, "unreserve": lambda *_: None}


def permit(status):
    return {"permit": lambda *_: (status, 60.0)}


def pre_bind(status, flight=None):
    return {"pre_bind": lambda *_: status, "pre_bind_pre_flight": lambda *_: flight}


def made(methods, *pods, gates=None):
    methods = {name: method for name, method in methods.items() if method is not None}
    acting = plugin("Fake", **methods)
    found = cluster(node(), config=document("Fake"), plugins={"Fake": acting}, gates=gates)
    for each in pods or (pod("foo"),):
        found.put(each)
    return found, acting


def place(found, uid="default/foo"):
    """In which part of the queue the pod lies; "" where it is in none."""
    queue = found.core.queue
    parts = {"backoff": (queue.backoff, queue.error_backoff), "unschedulable": (queue.unschedulable,)}
    return next((name for name, heaps in parts.items() if any(uid in heap for heap in heaps)), "")


# TestSchedulerScheduleOne; where a pod ends up, and what it is told.
@pytest.mark.parametrize(
    ("methods", "message", "reason", "ends"),
    [
        pytest.param(
            {"pre_filter": lambda *_: error("scheduler")},
            'running PreFilter plugin "Fake": scheduler',
            "SchedulerError",
            "backoff",
            id="schedule pod failed",
        ),
        pytest.param(
            reserve(error("reserve error")),
            'running Reserve plugin "Fake": reserve error',
            "SchedulerError",
            "backoff",
            id="reserve failed with status code error",
        ),
        pytest.param(
            reserve(unresolvable("rejected on reserve")),
            ONE_NODE.format("rejected on reserve"),
            "Unschedulable",
            "unschedulable",
            id="reserve failed with status code rejected",
        ),
        pytest.param(
            permit(error("permit error")),
            'running Permit plugin "Fake": permit error',
            "SchedulerError",
            "backoff",
            id="permit failed with status code error",
        ),
        pytest.param(
            permit(unschedulable("rejected on permit")),
            ONE_NODE.format("rejected on permit"),
            "Unschedulable",
            "unschedulable",
            id="permit failed with status code rejected",
        ),
        pytest.param(
            pre_bind(None, error("on PreBindPreFlight")),
            'running PreBindPreFlight "Fake": on PreBindPreFlight',
            "SchedulerError",
            "backoff",
            id="prebindpreflight failed with status code error",
        ),
        pytest.param(
            pre_bind(None, unschedulable("rejected on prebindpreflight")),
            'PreBindPreFlight Fake returned "Unschedulable", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status",
            "SchedulerError",
            "backoff",
            id="prebindpreflight failed with status code unschedulable",
        ),
        pytest.param(
            pre_bind(error("on PreBind")),
            'running PreBind plugin "Fake": on PreBind',
            "SchedulerError",
            "backoff",
            id="prebind failed with status code error",
        ),
    ],
)
def test_scheduler_schedule_one(methods, message, reason, ends):
    found, _ = made(methods, gates=FORECASTS)
    found.step()
    assert found.events("FailedScheduling") == [message]
    told = found.pod("foo").status
    assert [(c.status, c.reason, c.message) for c in told.conditions] == [("False", reason, message)]
    assert told.nominated_node_name == "", "what was expected is taken back"
    assert place(found) == ends
    assert found.core.cache.state_of("default/foo") is None, "it is forgotten"
    assert len(found.core.queue.in_flight) == 0
    check(found.core)


@pytest.mark.parametrize("tells", [True, False])
def test_nominated_node_name_is_set_while_permit_waits_if_the_gate_is_on(tells):
    found, acting = made(permit(Status(Code.WAIT)), gates={"NominatedNodeNameForExpectation": tells})
    found.run()
    assert found.pod("foo").status.nominated_node_name == ("n1" if tells else "")
    acting.handle.waiting.get("default/foo").allow("Fake")
    found.run()
    assert found.nodes_of() == {"foo": "n1"}


def test_prebind_isnt_called_and_nominated_node_name_isnt_set_if_preflight_returns_skip():
    found, acting = made(pre_bind(error("rejected on prebind"), SKIP), gates=FORECASTS)
    found.run()
    assert "pre_bind" not in acting.calls
    assert not found.patches("foo")
    assert found.nodes_of() == {"foo": "n1"}


def test_prebind_is_called_and_nominated_node_name_is_set_if_preflight_returns_success():
    found, acting = made(pre_bind(None), gates=FORECASTS)
    found.run()
    assert acting.calls.count("pre_bind") == 1
    assert [patch.nominated_node_name for patch in found.patches("foo")] == ["n1"]
    assert found.nodes_of() == {"foo": "n1"}


def test_prebind_pod_cancelled_during_prebind_external_preemption():
    found, _ = made({"pre_bind": slowly, "pre_bind_pre_flight": None}, gates=FORECASTS)
    found.run()
    assert found.pod("foo").status.nominated_node_name == "n1"
    found.put(make_pod("p").request(cpu="600m").priority(10))
    found.step()
    found.step()
    assert found.events("FailedScheduling")[-1] == 'running PreBind plugin "Fake": preempted by pod default/p'
    assert found.pod("foo").status.nominated_node_name == ""
    assert place(found) == "backoff"
    assert not [bind for bind in requests_of(found, Bind) if bind.pod.name == "foo"]
    check(found.core)


def test_binding_failed():
    found, _ = made({})
    found.refuse("binder")
    found.step()
    assert found.events("FailedScheduling") == ['running Bind plugin "DefaultBinder": binder']
    assert place(found) == "backoff"
    assert found.core.cache.state_of("default/foo") is None


def test_bind_assumed_pod_scheduled():
    found, _ = made({})
    found.answers_binds = False
    found.step()
    assert found.core.cache.state_of("default/foo").assumed
    assert [(bind.pod.name, bind.node_name) for bind in requests_of(found, Bind)] == [("foo", "n1")]
    found.answer(found.requests[0])
    assert found.events("Scheduled") == ["Successfully assigned default/foo to n1"]


def test_deleting_pod():
    found, _ = made({}, pod("foo").terminating())
    found.step()
    assert found.events("FailedScheduling") == ["skip schedule deleting pod: default/foo"]
    assert not requests_of(found, Bind)
    assert found.core.queue.find("default/foo") is None
    assert len(found.core.queue.in_flight) == 0


def test_pod_with_existing_nominated_node_name_on_scheduling_error_clears_nomination():
    found, _ = made({"pre_filter": lambda *_: error("scheduler")}, pod("foo").nominated("existing-node"))
    found.step()
    assert place(found) == "backoff"
    assert found.pod("foo").status.nominated_node_name == ""


def test_handle_scheduling_failure_skips_recreated_pod():
    """A pod of the same name that came while the old one was being bound is told nothing, and queued as itself."""
    found, _ = made({})
    found.answers_binds = False
    found.step()
    (binding,) = found.requests
    found.put(pod("foo").uid("new-uid"))
    found.answer(binding, "no fit")
    assert found.core.queue.find("default/foo") is None
    assert found.core.queue.find("new-uid") is not None
    assert found.pod("foo").status.conditions == ()
    assert len(found.core.queue.in_flight) == 0
    check(found.core)


def test_permit_that_rejects_a_member_is_told_in_the_same_words():
    """The rows of TestSchedulerScheduleOne are upstream's for pods of a group, too."""
    no = plugin("Fake", **permit(unschedulable("rejected on permit")))
    big = make_node("n1").capacity(cpu="4", memory="8Gi", pods="10")
    gates = {"GenericWorkload": True, "GangScheduling": True}
    found = cluster(big, make_pod_group("g", 1), config=document("Fake"), plugins={"Fake": no}, gates=gates)
    found.put(make_pod("foo").request(cpu="1").group("g"))
    found.step()
    assert found.events("FailedScheduling") == [ONE_NODE.format("rejected on permit")]


# TestScheduleOneMarksPodAsProcessedBeforePreBind; whether the pod is in flight when it begins to wait in Permit and
# when PreBind begins, None where it does not come so far.
@pytest.mark.parametrize(
    ("methods", "ending", "at_wait", "at_pre_bind"),
    [
        pytest.param(permit(error("permit")), "", None, None, id="error on permit"),
        pytest.param(permit(unschedulable("on permit")), "", None, None, id="pod rejected on permit"),
        pytest.param(permit(Status(Code.WAIT)), "preempted", True, None, id="error on wait on permit"),
        pytest.param(permit(Status(Code.WAIT)), "rejected", True, None, id="pod rejected while wait on permit"),
        pytest.param(permit(Status(Code.WAIT)), "allowed", True, False, id="error prebind pod"),
        pytest.param({}, "", None, False, id="bind assumed pod scheduled"),
        pytest.param({"pre_filter": lambda *_: error("scheduler")}, "", None, None, id="error pod failed scheduling"),
    ],
)
def test_schedule_one_marks_pod_as_processed_before_pre_bind(methods, ending, at_wait, at_pre_bind):
    seen = []

    def notes(*_):
        seen.append("default/foo" in found.core.queue.in_flight)
        return unschedulable("on PreBind") if ending else None

    found, acting = made({**methods, "pre_bind": notes})
    found.step()
    if at_wait is not None:
        assert ("default/foo" in found.core.queue.in_flight) is at_wait
        waiting = acting.handle.waiting.get("default/foo")
        if ending == "allowed":
            waiting.allow("Fake")
        elif ending == "rejected":
            waiting.reject("Fake", "wait on permit")
        else:
            waiting.preempt("Fake", "wait on permit")
        found.handle(ObjectEvent("ADDED", "Node", node("n2", cpu="0").build()))
    assert seen == ([] if at_pre_bind is None else [at_pre_bind])
    assert len(found.core.queue.in_flight) == 0
    told = {
        "allowed": "on PreBind",
        "rejected": ONE_NODE.format("wait on permit"),
        "preempted": "waiting on permit for pod: wait on permit",
    }
    if ending:
        assert found.events("FailedScheduling")[0] == told[ending]
        assert place(found) == ("unschedulable" if ending == "rejected" else "backoff")
    check(found.core)


def test_scheduler_no_phantom_pod_after_delete():
    found = cluster(make_node("node1").capacity(cpu="4", memory="8Gi", pods="9"))
    found.put(make_pod("foo").host_port(8080))
    found.run()
    found.put(make_pod("bar").host_port(8080))
    found.run()
    free = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    assert found.pod("bar").status.conditions[0].message.startswith(free)
    found.delete("Pod", "default/foo")
    found.advance(20.0)
    assert found.nodes_of() == {"bar": "node1"}


def test_scheduler_failed_scheduling_reasons():
    found = cluster(*[make_node(f"node{n}").capacity(cpu="2", memory="100", pods="10") for n in range(100)])
    found.put(make_pod("bar").request(cpu="4", memory="500").priority(0, "Never"))
    found.step()
    (message,) = found.events("FailedScheduling")
    assert message.startswith("0/100 nodes are available: 100 Insufficient cpu, 100 Insufficient memory. ")
