"""Points are timed in every attempt, plugins in one of ten, and timing changes no decision."""

import random
from collections import Counter
from types import SimpleNamespace

import pytest

from berth.config.load import default_config
from berth.core.assembly import build_core
from berth.core.builders import make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.core.options import CoreOptions, Instrumentation
from berth.core.timed_runner import EVERY, TimedWakeTable, TracedRunner
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.instrument import Instrument, Times
from berth.framework.effects import Answer
from berth.framework.events import NODE_ADD, QueueingHint
from berth.framework.status import unresolvable, unschedulable
from berth.plugins.registry import in_tree_registry
from berth.queue.hints import Registered, Strategy, WakeTable, strategies, strategy
from berth.queue.in_flight import InFlightEvent
from berth.queue.unschedulable import UnschedulablePods
from berth.state.pod_info import PodInfo, PodShapes
from berth.state.queued_pod import QueuedPod
from packages.scheduler.tests.support import document, plugin

NAME = "default-scheduler"


def node(name):
    return make_node(name).capacity(cpu="4", memory="8Gi", pods="10")


class Seen(Instrument):
    def __init__(self):
        self.points = Counter()
        self.plugins = Counter()
        self.times = {}
        self.chosen = {}
        self.ticks = 0

    def stopwatch(self):
        self.ticks += 1
        return self.ticks

    def _is_no_more_than_has_passed(self, seconds):
        return 0 <= seconds <= self.ticks

    def extension_point(self, profile, point, status, seconds):
        assert profile == NAME
        assert self._is_no_more_than_has_passed(seconds)
        self.points[point, status] += 1

    def plugin_run(self, plugin, point, status, seconds):
        assert self._is_no_more_than_has_passed(seconds)
        self.plugins[plugin, point, status] += 1

    def evaluations(self, profile, point, plugins):
        return self.times.setdefault((point, plugins), Times())

    @property
    def counted(self):
        counted = Counter()
        for (point, plugins), times in self.times.items():
            counted.update({(name, point): times.count for name in plugins if times.count})
        return counted

    def decided(self, decision, seconds):
        assert self._is_no_more_than_has_passed(seconds)
        self.chosen[decision.pod.key] = decision.chosen


def run(pods, *, timed):
    seen = Seen()
    stopwatch = seen.stopwatch if timed else None
    watching = Instrumentation(instrument=seen, stopwatch=stopwatch)
    core = build_core(default_config(), in_tree_registry(), CoreOptions(rng=random.Random(7), instrumentation=watching))
    for number in range(5):
        node = make_node(f"n{number}").capacity(cpu="8", memory="32Gi", pods="110").build()
        core.handle(ObjectEvent("ADDED", "Node", node), 0.0)
    for number in range(pods):
        core.handle(ObjectEvent("ADDED", "Pod", make_pod(f"p{number}").request(cpu="100m").build()), 0.0)
    while core.has_work:
        core.step(1.0)
    return seen


def watched(*objects, plugins=None, config=None, **options):
    seen = Seen()
    cluster = VirtualCluster(
        *objects, plugins=plugins, config=config, instrument=seen, stopwatch=seen.stopwatch, **options
    )
    cluster.run()
    return seen, cluster


def test_points_are_timed_in_every_attempt_and_plugins_in_one_of_ten():
    pods = 2 * EVERY + 1
    seen = run(pods, timed=True)
    assert len(seen.chosen) == pods
    points = ("PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit")
    assert {point: seen.points[point, "Success"] for point in points} == dict.fromkeys(points, pods)
    assert seen.plugins["NodeResourcesFit", "Filter", "Success"] == 3
    assert seen.plugins["NodeResourcesFit", "Score", "Success"] == 3
    assert seen.plugins["SchedulingGates", "PreEnqueue", "Success"] == 3


ALWAYS = {
    "reserve": lambda *_: None,
    "permit": lambda *_: (None, 0.0),
    "pre_bind": lambda *_: None,
    "post_bind": lambda *_: None,
}


def test_every_point_up_to_post_bind_is_timed_and_so_is_each_plugin_there():
    """runtime/framework.go, schedule_one.go, scheduling_queue.go: where FrameworkExtensionPointDuration is observed."""
    mine = plugin("Mine", **ALWAYS, unreserve=lambda *_: None)
    seen, _ = watched(node("n1"), make_pod("a"), plugins={"Mine": mine}, config=document("Mine"))
    assert {point for point, status in seen.points if status == "Success"} >= {
        "PreEnqueue", "PreFilter", "Filter", "Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind", "PostBind",
    }  # fmt: skip
    own = {(point, status) for name, point, status in seen.plugins if name == "Mine"}
    assert own == {(point, "Success") for point in ("Reserve", "Permit", "PreBind", "PostBind")}
    assert seen.plugins["DefaultBinder", "Bind", "Success"] == 1


def test_a_point_counts_under_the_code_it_ended_with():
    no = plugin("No", **{**ALWAYS, "permit": lambda *_: (unschedulable("no"), 0.0)}, unreserve=lambda *_: None)
    seen, _ = watched(node("n1"), make_pod("a"), plugins={"No": no}, config=document("No"))
    assert seen.points["Permit", "Unschedulable"] == 1
    assert seen.points["Unreserve", "Success"] == 1
    assert seen.plugins["No", "Permit", "Unschedulable"] == 1
    assert seen.plugins["No", "Unreserve", "Success"] == 1


def test_where_preemption_cannot_help_post_filter_says_so():
    seen, _ = watched(node("n1"), make_pod("big").request(cpu="9"), make_pod("gated").gate("wait"))
    assert seen.points["PostFilter", "Unschedulable"] == 1
    assert seen.plugins["DefaultPreemption", "PostFilter", "Unschedulable"] == 1
    assert seen.points["PreEnqueue", "UnschedulableAndUnresolvable"] == 1


def test_a_binding_that_fails_counts_as_an_error_of_bind():
    seen, cluster = watched(node("n1"))
    cluster.answers_binds = False
    cluster.put(make_pod("a"))
    cluster.run()
    cluster.answer(cluster.requests[0], error="refused")
    assert seen.points["Bind", "Error"] == 1


def test_which_plugins_have_their_say_is_counted_as_upstream_counts_its_calls():
    """instrumented_plugins.go: Filter and Score once a node, PreFilter and PreScore once a pod unless they skip."""
    nodes = [node(f"n{n}") for n in range(3)] + [node("tainted").taint("x")]
    seen, _ = watched(*nodes, make_pod("a").request(cpu="1"), make_pod("b").request(cpu="1"))
    assert seen.counted["TaintToleration", "Filter"] == 2 * 4
    assert seen.counted["NodeResourcesFit", "Filter"] == 2 * 3, "the tainted node is out before"
    assert seen.counted["NodeResourcesFit", "PreFilter"] == 2
    assert ("InterPodAffinity", "PreFilter") not in seen.counted, "it skips"
    assert seen.counted["NodeResourcesFit", "Score"] == 2 * 3


def test_a_plugin_that_ends_pre_filter_is_the_last_that_is_counted():
    first = plugin("First", pre_filter=lambda *_: None)
    stops = plugin("Stops", pre_filter=lambda *_: unresolvable("never"))
    last = plugin("Last", pre_filter=lambda *_: None)
    plugins = {"First": first, "Stops": stops, "Last": last}
    seen, _ = watched(node("n1"), make_pod("a"), plugins=plugins, config=document("First", "Stops", "Last"))
    mine = {name: times for (name, point), times in seen.counted.items() if name in plugins and point == "PreFilter"}
    assert mine == {"First": 1, "Stops": 1}


def test_hints_are_timed_by_what_they_say_of_which_event():
    """scheduling_queue.go isPodWorthRequeuing: a broken hint is an Error, and counts as Queue."""
    told, broke = [], []
    seen = SimpleNamespace(
        hinted=lambda pod, *told_: told.append((pod.name, *told_)),
        hint_broke=lambda pod, *rest: broke.append((pod.name, *rest)),
    )
    bug = RuntimeError("a hint's bug")

    def broken(pod, old, new):
        raise bug

    hints = {"Yes": None, "No": lambda *_: QueueingHint.SKIP, "Buggy": broken}
    table = WakeTable(Registered(name, NODE_ADD, hint) for name, hint in hints.items())
    timed = TimedWakeTable(table, seen, iter(range(100)).__next__)
    pod = QueuedPod(make_pod("web").info(), 0.0)
    for name, expected in (("Yes", Strategy.AFTER_BACKOFF), ("No", Strategy.SKIP), ("Buggy", Strategy.AFTER_BACKOFF)):
        pod.unschedulable_plugins = frozenset({name})
        assert strategy(pod, InFlightEvent(NODE_ADD, None, None), {NAME: timed}) is expected
    assert told == [
        ("web", "Yes", "NodeAdd", "Queue", 1),
        ("web", "No", "NodeAdd", "QueueSkip", 1),
        ("web", "Buggy", "NodeAdd", "Error", 1),
    ]
    assert broke == [("web", "Buggy", "NodeAdd", bug)]


@pytest.mark.parametrize("by_shape", [True, False])
def test_hints_are_told_of_for_every_pod_whoever_was_asked(by_shape):
    """Upstream asks about each pod, and counts that."""
    told = Counter()
    seen = SimpleNamespace(
        hinted=lambda pod, plugin, event, said, seconds: told.update({(plugin, said): 1, (pod.name, plugin, said): 1}),
        hinted_alike=lambda pods, plugin, event, said: told.update(
            {(plugin, said): len(pods), **{(pod.name, plugin, said): 1 for pod in pods}}
        ),
        hint_broke=lambda pod, *_: told.update({(pod.name, "broke"): 1}),
    )

    def broken(pod, old, new):
        raise RuntimeError("a hint's bug")

    hints = {"Yes": None, "No": lambda *_: QueueingHint.SKIP, "Buggy": broken}
    table = WakeTable(Registered(name, NODE_ADD, hint, by_shape) for name, hint in hints.items())
    timed = TimedWakeTable(table, seen, iter(range(100)).__next__)
    waiting, shapes = UnschedulablePods(), PodShapes()
    for index in range(12):
        pod = make_pod(f"w{index}").build()
        queued = QueuedPod(PodInfo.of(pod, shapes.of(pod)), 0.0)
        queued.unschedulable_plugins = frozenset({("Yes", "No", "Buggy")[index % 3]})
        waiting[queued.pod.uid] = queued
    woken = dict(strategies(waiting, InFlightEvent(NODE_ADD, None, None), {NAME: timed}))
    assert len(woken) == 8
    said = {"Yes": "Queue", "No": "QueueSkip", "Buggy": "Error"}
    assert told == (
        dict.fromkeys(said.items(), 4)
        | {(f"w{index}", name, said[name]): 1 for index in range(12) if (name := ("Yes", "No", "Buggy")[index % 3])}
        | {(f"w{index}", "broke"): 1 for index in range(2, 12, 3)}
    )


@pytest.fixture
def traced():
    """A runner that tells of the pod `followed`, and what it has told."""
    told = []
    instrument = SimpleNamespace(
        extension_point=lambda *_: None,
        point_run=lambda pod, point, status, seconds: told.append((pod.name, point, status, seconds)),
        answered=lambda pod, asked, error, seconds: told.append((pod.name, asked, error, seconds)),
    )
    return TracedRunner(NAME, instrument, iter(range(100)).__next__, {"default/followed"}), told


def waits():
    """Steps that ask twice, and end with what they were answered."""
    found = []
    for asked in ("first", "second"):
        try:
            found.append((yield asked))
        except TimeoutError as late:
            found.append(late)
    return found


def test_of_a_pod_that_is_followed_it_is_told_what_its_points_wait_for(traced):
    """And an interruption reaches the steps, as it does where nobody looks on."""
    runner, told = traced
    for name in ("followed", "another"):
        steps, late = runner.steps("Bind", waits(), make_pod(name).info()), TimeoutError("late")
        assert next(steps) == "first"
        refused = Answer(1, None, "refused")
        assert steps.send(refused) == "second"
        with pytest.raises(StopIteration) as end:
            steps.throw(late)
        assert end.value.value == [refused, late]
    (first, second, bind) = told
    assert first[:3] == ("followed", "first", "refused") and second[:3] == ("followed", "second", "late")
    assert bind[:3] == ("followed", "Bind", "Success") and min(each[3] for each in told) > 0


def test_of_a_pod_that_is_followed_it_is_told_which_points_are_run(traced):
    runner, told = traced
    for name in ("followed", "another"):
        assert runner.run("Reserve", lambda pod: unschedulable(pod.name), make_pod(name).info()).reasons == (name,)
    assert told == [("followed", "Reserve", "Unschedulable", 3)]
    assert runner.run("Filter", lambda number: number, 5) == 5


def test_a_plugin_that_does_not_score_domains_is_timed_once_an_attempt():
    """Though it is where whole zones might be scored, as from the second time on that pods of a shape come."""
    pods = [make_pod(f"p{n}").label("app", "x") for n in range(EVERY + 1)]
    mine = plugin("Mine", score=lambda *_: 1)
    seen, _ = watched(*(node(f"n{n}") for n in range(4)), *pods, plugins={"Mine": mine}, config=document("Mine"))
    assert seen.plugins["Mine", "Score", "Success"] == 2


def test_decisions_are_the_same_with_and_without():
    assert run(20, timed=True).chosen == run(20, timed=False).chosen
