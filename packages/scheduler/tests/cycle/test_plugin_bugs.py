"""A bug of a plugin costs attempts of its pods and nothing else."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from berth.config.errors import ConfigError
from berth.cycle.instrument import Instrument
from berth.framework.blame import described
from berth.framework.effects import ApiCall, Request
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint
from berth.framework.status import SKIP, error, unresolvable, unschedulable
from berth.testing.invariants import check
from packages.scheduler.tests.support import (
    BOOM,
    boom,
    cluster,
    document,
    node,
    once,
    plugin,
    pod,
    reserving,
    with_profiles,
)

UNSUPPORTED = (
    'PreBindPreFlight P returned "Unschedulable", which is unsupported. '
    "It is supposed to return Success, Skip, or Error status"
)

BROKEN_POINTS = {
    "pre_filter": {"pre_filter": boom},
    "filter": {"filter": boom},
    "filter_columns": {"filter_columns": boom, "filter": lambda *_: None},
    "pre_score": {"pre_score": boom, "score": lambda *_: 1},
    "score": {"score": boom},
    "normalize_score": {"score": lambda *_: 1, "normalize_score": boom},
    "score out of range": {"score": lambda *_: 101},
    "reserve": {"reserve": boom, "unreserve": lambda *_: None},
    "unreserve": {"reserve": lambda *_: error("full"), "unreserve": boom},
    "permit": {"permit": boom},
    "permit without a timeout": {"permit": lambda *_: unschedulable()},
    "pre_bind_pre_flight": {"pre_bind_pre_flight": boom, "pre_bind": lambda *_: None},
    "pre_bind": {"pre_bind": boom},
    "bind": {"bind": boom},
}


@pytest.mark.parametrize("methods", BROKEN_POINTS.values(), ids=BROKEN_POINTS)
def test_a_plugins_bug_costs_attempts_of_its_pod_and_nothing_else(methods):
    config = with_profiles(
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": "broken",
            "plugins": {
                "multiPoint": {"enabled": [{"name": "Broken"}]},
                "bind": {"disabled": [{"name": "*"}], "enabled": [{"name": "Broken"}]} if "bind" in methods else {},
            },
        },
    )
    found = cluster(node(cpu="4"), node("n2", "4"), config=config, plugins={"Broken": plugin("Broken", **methods)})
    found.put(pod("a").scheduler("broken").priority(10))
    found.put(pod("b"))
    found.run()
    check(found.core)
    assert found.nodes_of()["a"] == ""
    assert found.nodes_of()["b"] != ""
    assert found.patches("a")[-1].reason == "SchedulerError"
    assert found.core.cache.state_of("default/a") is None
    assert "default/a" in found.core.queue.error_backoff
    found.advance(30.0)
    check(found.core)
    assert found.core.queue.find("default/a").attempts >= 4


# The prefixes: pkg/scheduler/framework/runtime/framework.go, v1.36
@pytest.mark.parametrize(
    ("methods", "prefix"),
    [
        ({"pre_filter": boom}, 'running PreFilter plugin "Broken": '),
        ({"filter_columns": boom, "filter": lambda *_: None}, 'running Filter plugin "Broken": '),
        ({"pre_score": boom, "score": lambda *_: 1}, 'running PreScore plugin "Broken": '),
        ({"score": lambda *_: 1, "normalize_score": boom}, 'running NormalizeScore plugin "Broken": '),
        ({"reserve": boom, "unreserve": lambda *_: None}, 'running Reserve plugin "Broken": '),
        ({"permit": boom}, 'running Permit plugin "Broken": '),
        ({"pre_bind_pre_flight": boom, "pre_bind": lambda *_: None}, 'running PreBindPreFlight "Broken": '),
        ({"pre_bind": boom}, 'running PreBind plugin "Broken": '),
    ],
)
def test_an_exception_is_an_error_that_names_the_plugin(methods, prefix):
    found = cluster(node(), node("n2"), config=document("Broken"), plugins={"Broken": plugin("Broken", **methods)})
    found.put(pod("a"))
    found.run()
    assert found.patches("a")[-1].message == prefix + BOOM
    assert found.patches("a")[-1].reason == "SchedulerError"


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"reserve": lambda *_: error("full"), "unreserve": lambda *_: None}, 'running Reserve plugin "P": full'),
        (
            {"reserve": lambda *_: unschedulable("full"), "unreserve": lambda *_: None},
            "0/1 nodes are available: 1 full.",
        ),
        ({"permit": lambda *_: (error("no"), 0.0)}, 'running Permit plugin "P": no'),
        ({"permit": lambda *_: (unschedulable("no"), 0.0)}, "0/1 nodes are available: 1 no."),
        ({"pre_bind": lambda *_: error("no")}, 'running PreBind plugin "P": no'),
        ({"pre_bind": once(unschedulable("no"))}, "no"),
        (
            {"pre_bind": lambda *_: None, "pre_bind_pre_flight": lambda *_: error("no")},
            'running PreBindPreFlight "P": no',
        ),
        (
            {"pre_bind": lambda *_: None, "pre_bind_pre_flight": lambda *_: unschedulable("no")},
            UNSUPPORTED,
        ),
    ],
)
def test_an_error_says_at_which_point_it_happened_and_a_rejection_speaks_for_itself(methods, message):
    found = cluster(node(), config=document("P"), plugins={"P": plugin("P", **methods)})
    found.put(pod("a"))
    found.run()
    assert next(patch.message for patch in found.patches("a") if patch.message) == message


def test_a_plugin_that_has_no_work_before_binding_is_not_asked_for_it():
    idle = plugin("Idle", pre_bind_pre_flight=lambda *_: SKIP, pre_bind=boom)
    found = cluster(node(), config=document("Idle"), plugins={"Idle": idle})
    found.put(pod("a"))
    found.run()
    assert found.nodes_of() == {"a": "n1"}
    assert idle.calls == ["pre_bind_pre_flight"]


def test_post_filters_bug_is_an_error_of_the_attempt():
    broken = plugin("Broken", post_filter=boom)
    plugins = {"postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": "Broken"}]}}
    found = cluster(node(), config=with_profiles({"plugins": plugins}), plugins={"Broken": broken})
    found.put(pod("a", cpu="2"))
    found.run()
    assert found.patches("a")[-1].reason == "SchedulerError"
    assert found.patches("a")[-1].message == f'running PostFilter plugin "Broken": {BOOM}'
    check(found.core)


def test_post_binds_bug_changes_nothing_for_a_pod_that_is_bound():
    broken, told = plugin("Broken", post_bind=boom), plugin("Told", post_bind=lambda *_: None)
    found = cluster(node(), config=document("Broken", "Told"), plugins={"Broken": broken, "Told": told})
    found.confirms_binds = False
    found.put(pod("a"))
    found.run()
    assert found.nodes_of() == {"a": "n1"}
    assert found.core.cache.state_of("default/a") is not None
    assert told.calls == ["post_bind"]
    assert found.events("Scheduled") == ["Successfully assigned default/a to n1"]
    assert len(found.core.queue) == len(found.core.queue.in_flight) == 0


class RecordingObserver(Instrument):
    """Keeps the bugs that it is told of."""

    def __init__(self):
        self.bugs = []

    def broke(self, pod, bug):
        self.bugs.append(bug)


def test_one_broken_unreserve_does_not_keep_the_others_from_giving_back():
    broken = plugin("Broken", reserve=lambda *_: None, unreserve=boom)
    first, last = reserving(), plugin("Last", reserve=lambda *_: error("full"), unreserve=lambda *_: None)
    told = RecordingObserver()
    found = cluster(
        node(),
        config=document("Keeper", "Broken", "Last"),
        plugins={"Keeper": first, "Broken": broken, "Last": last},
        instrument=told,
    )
    found.put(pod("a"))
    found.run()
    assert (first.calls, last.calls) == (["reserve", "unreserve"], ["reserve", "unreserve"])
    assert [str(bug) for bug in told.bugs] == ["boom"], "the others have given back, but the bug is told all the same"
    check(found.core)


def test_pre_enqueues_bug_does_not_lose_the_pod():
    is_broken = [True]
    events = [ClusterEventWithHint(ClusterEvent("Node", Action.ADD))]
    gate = plugin("Gate", events=events, pre_enqueue=lambda pod: boom() if is_broken[0] else None)
    found = cluster(node(), config=document("Gate"), plugins={"Gate": gate})
    found.put(pod("a"))
    found.run()
    check(found.core)
    assert found.nodes_of() == {"a": ""}
    is_broken[0] = False
    found.put(node("n2"))
    found.advance(1.0)
    assert found.nodes_of()["a"] != ""


def test_a_gate_that_broke_is_asked_again_at_the_pods_age_though_nothing_it_waits_for_happens():
    is_broken, answer = [True], [None]
    gate = plugin("Gate", pre_enqueue=lambda pod: boom() if is_broken[0] else answer[0])
    found = cluster(node(), config=document("Gate"), plugins={"Gate": gate})
    found.put(pod("a"))
    found.advance(200.0)
    is_broken[0] = False
    found.advance(200.0)
    assert found.nodes_of()["a"] != ""
    answer[0] = unresolvable("closed")
    found.put(pod("b"))
    answer[0] = None
    found.advance(1000.0)
    assert found.nodes_of()["b"] == "", "one that answered that it is closed says itself when it may be asked again"


# --- what is no `Exception` is a bug all the same ---------------------------------------------------------------------


class Odd(BaseException):
    """Derived from what plugins have no business with."""


NO_EXCEPTIONS = (SystemExit, asyncio.CancelledError, GeneratorExit, Odd)


def raising(error):
    def method(*_):
        raise error("odd")

    return method


@pytest.mark.parametrize("error", NO_EXCEPTIONS)
@pytest.mark.parametrize("point", [point for point, methods in BROKEN_POINTS.items() if boom in methods.values()])
def test_whatever_a_plugin_raises_costs_attempts_of_its_pod_and_nothing_else(point, error):
    methods = {name: raising(error) if act is boom else act for name, act in BROKEN_POINTS[point].items()}
    bind = {"disabled": [{"name": "*"}], "enabled": [{"name": "Broken"}]} if point == "bind" else {}
    config = with_profiles(
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "broken", "plugins": {"multiPoint": {"enabled": [{"name": "Broken"}]}, "bind": bind}},
    )
    found = cluster(node(cpu="4"), node("n2", "4"), config=config, plugins={"Broken": plugin("Broken", **methods)})
    found.put(pod("a").scheduler("broken").priority(10))
    found.put(pod("b"))
    found.run()
    check(found.core)
    assert found.nodes_of() == {"a": "", "b": found.nodes_of()["b"] or "nowhere"}
    assert found.patches("a")[-1].reason == "SchedulerError"
    if point != "unreserve":  # there, another plugin's answer is what is told
        assert (
            f"{error.__name__}: odd (packages/scheduler/tests/cycle/test_plugin_bugs.py:"
            in found.patches("a")[-1].message
        )
    assert "default/a" in found.core.queue.error_backoff
    found.advance(30.0)
    assert found.core.queue.find("default/a").attempts >= 4


@pytest.mark.parametrize("error", NO_EXCEPTIONS)
@pytest.mark.parametrize("answers_before", [0, 1])
def test_whatever_a_plugin_raises_between_two_requests_ends_the_attempt(error, answers_before):
    def pre_bind(*_):
        for _ in range(answers_before):
            yield ApiCall("get", "Pod", "default", "a")
        raise error("odd")

    found = cluster(node(), config=document("P"), plugins={"P": plugin("P", pre_bind=pre_bind)})
    found.answer_api = None
    found.put(pod("a"))
    found.run()
    for request in [each for each in found.effects if isinstance(each, Request)]:
        found.answer(request)
    check(found.core)
    message = next(patch.message for patch in found.patches("a") if patch.message)
    assert message.startswith(
        f'running PreBind plugin "P": {error.__name__}: odd (packages/scheduler/tests/cycle/test_plugin_bugs.py:'
    )
    assert "default/a" in found.core.queue.error_backoff


@pytest.mark.parametrize("error", NO_EXCEPTIONS)
def test_whatever_post_filter_and_post_bind_raise_is_told(error):
    broken = plugin("Broken", post_filter=raising(error))
    plugins = {"postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": "Broken"}]}}
    found = cluster(node(), config=with_profiles({"plugins": plugins}), plugins={"Broken": broken})
    found.put(pod("a", cpu="2"))
    found.run()
    assert found.patches("a")[-1].message.startswith(f'running PostFilter plugin "Broken": {error.__name__}: odd (')
    check(found.core)
    told = RecordingObserver()
    late = plugin("Late", post_bind=raising(error))
    found = cluster(node(), config=document("Late"), plugins={"Late": late}, instrument=told)
    found.put(pod("a"))
    found.run()
    assert found.nodes_of() == {"a": "n1"}
    assert [described(bug).partition(" (")[0] for bug in told.bugs] == [f"{error.__name__}: odd"]


@pytest.mark.parametrize("error", NO_EXCEPTIONS)
def test_whatever_a_hint_or_pre_enqueue_raises_costs_an_attempt(error):
    events = [ClusterEventWithHint(ClusterEvent("Node", Action.ADD), raising(error))]
    picky = plugin("Picky", events=events, pre_filter=once(unschedulable("not yet")))
    found = cluster(node(), config=document("Picky"), plugins={"Picky": picky})
    found.put(pod("a"))
    found.run()
    assert found.nodes_of() == {"a": ""}
    found.put(node("n2"))
    found.advance(30.0)
    assert found.nodes_of()["a"] != ""
    gate = plugin("Gate", pre_enqueue=raising(error))
    found = cluster(node(), config=document("Gate"), plugins={"Gate": gate})
    found.put(pod("a"))
    found.run()
    check(found.core)
    assert found.core.queue.find("default/a") is not None


@pytest.mark.parametrize("error", NO_EXCEPTIONS)
@pytest.mark.parametrize("method", ["__init__", "events_to_register"])
def test_whatever_is_raised_while_plugins_are_made_is_a_fault_of_the_configuration(error, method):
    broken = type("Broken", (plugin("Broken", pre_filter=lambda *_: None),), {method: raising(error)})
    with pytest.raises(
        ConfigError, match=rf"Broken.*{error.__name__}: odd \(packages/scheduler/tests/cycle/test_plugin_bugs.py:"
    ):
        cluster(node(), config=document("Broken"), plugins={"Broken": broken})


def test_a_plugins_keyboard_interrupt_is_a_bug_and_ctrl_c_is_not():
    def attempt():
        found = cluster(node(), config=document("P"), plugins={"P": plugin("P", pre_filter=raising(KeyboardInterrupt))})
        found.put(pod("a"))
        found.run()
        return found.patches("a")[-1].message

    with pytest.raises(KeyboardInterrupt):  # in the main thread it is somebody's at the terminal
        attempt()
    with ThreadPoolExecutor(1) as elsewhere:
        assert "KeyboardInterrupt: odd" in elsewhere.submit(attempt).result()
