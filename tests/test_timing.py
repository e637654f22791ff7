"""One attempt in ten is timed, and timing changes no decision."""

import random
from collections import Counter
from types import SimpleNamespace

from berth.assembly import build_core
from berth.config.load import default_config
from berth.cycle.instrument import Instrument
from berth.framework.events import NODE_ADD, QueueingHint
from berth.intake import ObjectEvent
from berth.plugins.registry import in_tree_registry
from berth.queue.in_flight import Happened
from berth.queue.waking import Registered, Strategy, WakeTable, strategy
from berth.state.queued_pod import QueuedPod
from berth.testing.builders import make_node, make_pod
from berth.timing import EVERY, TimedWakeTable

NAME = "default-scheduler"


class Seen(Instrument):
    def __init__(self):
        self.points = Counter()
        self.plugins = Counter()
        self.chosen = {}

    def extension_point(self, profile, point, status, seconds):
        assert (profile, status) == (NAME, "Success")
        assert seconds >= 0
        self.points[point] += 1

    def plugin_run(self, plugin, point, status, seconds):
        self.plugins[plugin, point] += 1

    def decided(self, decision, seconds):
        self.chosen[decision.pod.key] = decision.chosen


def run(pods, *, timed):
    seen = Seen()
    stopwatch = iter(range(10_000)).__next__ if timed else None
    core = build_core(default_config(), in_tree_registry(), rng=random.Random(7), instrument=seen, stopwatch=stopwatch)
    for number in range(5):
        node = make_node(f"n{number}").capacity(cpu="8", memory="32Gi", pods="110").build()
        core.handle(ObjectEvent("ADDED", "Node", node), 0.0)
    for number in range(pods):
        core.handle(ObjectEvent("ADDED", "Pod", make_pod(f"p{number}").request(cpu="100m").build()), 0.0)
    while core.has_work:
        core.step(1.0)
    return seen


def test_one_attempt_in_ten_is_timed_at_every_point():
    seen = run(3 * EVERY, timed=True)
    assert len(seen.chosen) == 3 * EVERY
    assert seen.points == dict.fromkeys(("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit"), 3)
    assert seen.plugins["NodeResourcesFit", "Filter"] == seen.plugins["NodeResourcesFit", "Score"] == 3


def test_hints_are_timed_by_what_they_say_of_which_event():
    """scheduling_queue.go isPodWorthRequeuing: a broken hint is an Error, and counts as Queue."""
    told, broke = [], []
    seen = SimpleNamespace(
        hinted=lambda *told_: told.append(told_), hint_broke=lambda pod, *rest: broke.append((pod.name, *rest))
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
        assert strategy(pod, Happened(NODE_ADD, None, None), {NAME: timed}) is expected
    assert told == [
        ("Yes", "NodeAdd", "Queue", 1),
        ("No", "NodeAdd", "QueueSkip", 1),
        ("Buggy", "NodeAdd", "Error", 1),
    ]
    assert broke == [("web", "Buggy", "NodeAdd", bug)]


def test_decisions_are_the_same_with_and_without():
    assert run(20, timed=True).chosen == run(20, timed=False).chosen
