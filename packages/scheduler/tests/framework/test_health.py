"""An optional plugin that fails again and again is left out, and tried again after a while.

Expectations are those of docs/living-with-plugins.md; the numbers are the constants of `berth.framework.health`.
"""

import pytest

from berth.cycle.instrument import Instrument
from berth.framework.health import FAILURES, LONGEST_PAUSE_S, PAUSE_S, TRIAL_ATTEMPTS
from berth.framework.loader import misfits
from berth.plugin import CycleState, unschedulable
from berth.testing import VirtualCluster, make_node, make_pod
from berth.testing.invariants import check, check_memos


class Mood:
    """What a test's plugin does; one for each test."""

    broken = True
    asked = 0


class Flaky:
    """Prefers n1, bars n2, and breaks when it is in that mood."""

    name = "Flaky"
    optional = True
    at = "filter"
    mood = Mood

    def __init__(self, args, handle):
        pass

    def _break(self, where):
        if where == self.at:
            self.mood.asked += 1
            if self.mood.broken:
                raise ValueError("boom")

    def pre_filter(self, state, pod):
        self._break("pre_filter")

    def filter(self, state, pod, node):
        self._break("filter")
        return unschedulable("barred") if node.name == "n2" else None

    def pre_score(self, state, pod, nodes):
        self._break("pre_score")

    def score(self, state, pod, node):
        self._break("score")
        return 100 * (node.name == "n1")

    def reserve(self, state, pod, node_name):
        self._break("reserve")

    def unreserve(self, state, pod, node_name):
        pass

    def permit(self, state, pod, node_name):
        self._break("permit")

    def pre_enqueue(self, pod):
        self._break("pre_enqueue")


class Watcher(Instrument):
    """What an observer is told."""

    def __init__(self):
        self.told = []

    def plugin_health(self, health):
        self.told.append((health.name, health.state))


def broken_at(point, **more):
    """A plugin that breaks at a point, with a mood of its own."""
    mood = type("Mood", (Mood,), {})
    return type("Flaky", (Flaky,), {"optional": True, "at": point, "mood": mood, **more})


def cluster_of(plugin, **options):
    nodes = [make_node(f"n{number}").capacity(cpu="64", memory="64Gi") for number in range(3)]
    return VirtualCluster(*nodes, plugins=[plugin], **options)


def health_of(cluster):
    (health,) = cluster.core.health
    return health


POINTS = ("pre_filter", "filter", "pre_score", "score", "reserve", "permit", "pre_enqueue")


@pytest.mark.parametrize("point", POINTS)
def test_one_that_keeps_failing_is_left_out_and_its_pods_are_placed(point):
    plugin, watcher = broken_at(point), Watcher()
    cluster = cluster_of(plugin, instrument=watcher)
    for number in range(FAILURES):
        cluster.put(make_pod(f"p{number}"))
    cluster.run()
    assert watcher.told == [("Flaky", "out")]
    worst = health_of(cluster).worst
    assert (worst.failures, worst.calls) == (FAILURES, FAILURES)
    assert "ValueError: boom (packages/scheduler/tests/framework/test_health.py:" in health_of(cluster).last_failure
    asked = plugin.mood.asked
    cluster.put(make_pod("late"))
    cluster.run()
    assert plugin.mood.asked == asked, "it is not asked while it is out"
    assert cluster.nodes_of()["late"]
    if point != "pre_enqueue":  # pods that are kept out of the queue wait for an event
        for _ in range(int(PAUSE_S) - 5):
            cluster.advance(1.0)
        assert all(cluster.nodes_of().values()), "those that it broke are tried again without it"
    check(cluster.core)


def test_left_out_its_filter_passes_and_its_score_counts_nothing():
    plugin = broken_at("filter")
    cluster = cluster_of(plugin)
    for number in range(FAILURES):
        cluster.put(make_pod(f"p{number}"))
    cluster.run()
    for number in range(3):  # one on each node, as without the plugin: it would bar n2 and pile them on n1
        cluster.put(make_pod(f"q{number}").request(cpu="8"))
        cluster.run()
    assert sorted(node for pod, node in cluster.nodes_of().items() if pod[0] == "q") == ["n0", "n1", "n2"]
    check_memos(cluster.core, make_pod("x").info())


def test_after_its_pause_it_is_tried_again_and_back_when_it_works():
    plugin, watcher = broken_at("filter"), Watcher()
    cluster = cluster_of(plugin, instrument=watcher)
    for number in range(FAILURES):
        cluster.put(make_pod(f"p{number}"))
    cluster.run()
    plugin.mood.broken = False
    cluster.advance(PAUSE_S - 1)
    cluster.put(make_pod("before"))
    cluster.run()
    assert health_of(cluster).state == "out"
    cluster.advance(1.0)
    for number in range(TRIAL_ATTEMPTS + 1):
        assert health_of(cluster).state != "in"
        cluster.put(make_pod(f"q{number}"))
        cluster.run()
    assert watcher.told == [("Flaky", "out"), ("Flaky", "on trial"), ("Flaky", "in")]
    assert {node for pod, node in cluster.nodes_of().items() if pod[0] == "q"} == {"n1"}, "it has its say again"


def test_one_failure_on_trial_and_it_is_out_for_twice_as_long():
    plugin = broken_at("filter")
    cluster = cluster_of(plugin)
    for number in range(FAILURES):
        cluster.put(make_pod(f"p{number}"))
    cluster.run()
    pause, pauses = PAUSE_S, []
    for number in range(8):
        cluster.advance(pause)
        cluster.put(make_pod(f"q{number}"))
        cluster.run()
        health = health_of(cluster)
        assert health.state == "out"
        pause = health.until - cluster.now
        pauses.append(pause)
    assert pauses[:4] == [2 * PAUSE_S, 4 * PAUSE_S, 8 * PAUSE_S, 16 * PAUSE_S]
    assert max(pauses) == pauses[-1] == LONGEST_PAUSE_S
    assert health.worst.failures == FAILURES + 8, "one attempt for each trial"


def test_rare_failures_leave_it_in():
    plugin = broken_at("filter")
    cluster = cluster_of(plugin)
    for number in range(200):
        plugin.mood.broken = number % 20 == 0
        cluster.put(make_pod(f"p{number}").request(cpu="10m"))
        cluster.run()
        plugin.mood.broken = False
        cluster.advance(0.1)
    assert health_of(cluster).worst.failures >= 10
    assert health_of(cluster).state == "in"


def test_one_that_uses_up_the_budget_again_and_again_is_left_out():
    def filter_(self, state, pod, node):
        state.work.spend(self.name, 10_000, lambda: "which dawdles")

    plugin = broken_at("", filter=filter_)
    cluster = cluster_of(plugin, work_limit=5_000)
    for number in range(FAILURES + 1):
        cluster.put(make_pod(f"p{number}"))
    cluster.run()
    assert health_of(cluster).state == "out"
    assert "by Flaky, which dawdles" in health_of(cluster).last_failure
    assert sum(bool(node) for node in cluster.nodes_of().values()) == 1


def test_without_its_authors_word_it_stays_in():
    mood = type("Mood", (Mood,), {})
    needed = type("Flaky", (Flaky,), {"at": "filter", "mood": mood})  # what a base class says does not count
    cluster = cluster_of(needed)
    for number in range(20):
        cluster.put(make_pod(f"p{number}"))
    cluster.run()
    assert not list(cluster.core.health)
    assert not any(cluster.nodes_of().values())


def test_thousands_of_pods_that_it_hears_of_do_not_hide_that_it_breaks_in_attempts():
    plugin = broken_at("filter", pod_added=lambda self, pod: None, pod_removed=lambda self, pod: None)
    cluster = cluster_of(plugin)
    for number in range(1000):
        cluster.put(make_pod(f"run-{number}").node("n0"))
    for number in range(FAILURES):
        cluster.put(make_pod(f"p{number}"))
    cluster.run()
    assert health_of(cluster).state == "out"


def test_what_orders_the_queue_cannot_be_left_out():
    faults = misfits(broken_at("", less=lambda self, a, b: True))
    assert faults == ["is optional, but orders the queue, which cannot do without"]
    assert misfits(broken_at("", optional="yes")) == ["has optional = 'yes', which is neither True nor False"]


def test_an_attempt_that_began_without_it_goes_on_without_it():
    """Its pause may be over between PreFilter and Reserve; what PreFilter would have prepared is not there."""

    def reserve(self, state, pod, node_name):
        raise AssertionError("asked although its PreFilter was not")

    plugin = broken_at("filter", reserve=reserve)
    cluster = cluster_of(plugin)
    for number in range(FAILURES):
        cluster.put(make_pod(f"p{number}"))
    cluster.run()
    health = health_of(cluster)
    profile = cluster.core.profiles["default-scheduler"]
    state = CycleState()
    pod = make_pod("x").info()
    profile.run_pre_filter(state, pod)
    cluster.advance(PAUSE_S)
    assert not health.is_out()
    assert profile.run_reserve(state, pod, "n0") is None
