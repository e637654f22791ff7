"""Workloads over time as loads: the same figures as the simulation itself, packed or drawn anew."""

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.api.node import Node
from berth.cli import main
from berth.cycle.instrument import Instrument
from berth.framework.blame import PluginBrokenError
from berth.framework.status import unschedulable
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.decisions import decide
from berth_workbench.comparison.decisions_over_time import decide_over_time
from berth_workbench.comparison.loads import ClusterLoad, DrawnLoad, packed, unpacked
from berth_workbench.comparison.run import run
from berth_workbench.comparison.sweep import Sweep, SweepError
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.traces.generator import DailyPattern, daily_pattern
from berth_workbench.traces.run import STEPS, TraceRun
from berth_workbench.traces.trace import JobStarts, NodeComes, PodShapeGiven, TimedWorkload, TraceHeader, write_trace
from packages.workbench.tests.comparison.clusters import source, with_plugin
from packages.workbench.tests.comparison.stateful import Heard, Steered

FIT, BALANCED = "NodeResourcesFit", "NodeResourcesBalancedAllocation"
PATTERN = DailyPattern(pods=60, nodes=4, load=1.2, seconds=6 * 3600.0, services=2, teams=2)
DEFAULT = ConfigurationSource("default")


def two_jobs():
    """One node with two CPUs; a job that takes both for 1000 s, and at 100 s one that has to wait for it."""
    node = NodeComes(at=0.0, name="n0", cpu=2000, memory=2**31, price=3.0)
    spare = NodeComes(at=0.0, name="n1", cpu=100, memory=2**31, price=5.0)
    shape = PodShapeGiven(cpu=1000, memory=2**20)
    jobs = [JobStarts(at=0.0, name="a", runs=(1000.0,), pods=2, shape=shape)]
    jobs.append(JobStarts(at=100.0, name="b", runs=(2000.0,), pods=1, shape=shape))
    return TimedWorkload(TraceHeader(seconds=3600.0), (node, spare, *jobs))


def test_figures_over_time_follow_from_the_workload():
    watch = WorkWatch()
    found = run(two_jobs(), DEFAULT.load(), 0, watch=watch).figures
    # Measured at 0, 900, 1800, 2700 and 3600 s: two pods, two, one, one, none.
    assert found["utilisation.cpu"] == pytest.approx((2 + 2 + 1 + 1 + 0) / 5 / 2.1)
    assert found["packing.cpu"] == pytest.approx((1 + 1 + 0.5 + 0.5) / 4)
    assert found["nodesUsed"] == pytest.approx(4 / 5)
    assert found["cost"] == pytest.approx(3.0 * 4 / 5)
    assert (found["bound"], found["pending"], found["neverPlaced"]) == (3, 0, 0)
    assert (found["waiting.p50"], found["waiting.max"]) == (0.0, 900.0)
    assert watch.done <= STEPS
    assert run(two_jobs(), DEFAULT.load(), 0, prices=Prices(default=1.0)).figures["cost"] == pytest.approx(4 / 5)


def test_a_drawn_load_is_another_day_for_each_seed():
    load = DrawnLoad(PATTERN)
    found = [run(load, DEFAULT.load(), seed).figures for seed in (1, 2)]
    assert found[0] != found[1]
    day = daily_pattern(PATTERN, 2)
    assert run(day, DEFAULT.load(), 2).figures == found[1]
    alone = TraceRun(day, config=DEFAULT.load().config, registry=DEFAULT.load().registry, seed=2).live()
    assert (found[1]["bound"], found[1]["waiting.max"]) == (alone.bound, alone.waits.max)


@pytest.mark.parametrize(
    "load", [two_jobs(), daily_pattern(PATTERN, 1), DrawnLoad(PATTERN)], ids=["jobs", "day", "any"]
)
def test_a_packed_workload_is_the_same_unpacked(load):
    assert unpacked(packed(load)) == load
    assert packed(unpacked(packed(load))) == packed(load)


@pytest.fixture
def files(tmp_path):
    load = two_jobs()
    write_trace(tmp_path / "jobs.jsonl.gz", load.header, load.records)
    return tmp_path


def test_compare_takes_a_trace(files):
    trace = ("--trace", str(files / "jobs.jsonl.gz"))
    result = CliRunner().invoke(main, ["compare", "default", "default", *trace, "--seeds", "2", "-o", "json"])
    found = msgspec.json.decode(result.stdout)
    assert found["decisions"] == {"decided": 3, "changes": [], "leftOut": {}}
    measures = {each["name"]: each for each in found["measures"]}
    assert (measures["waiting.max"]["a"], measures["waiting.max"]["difference"]) == (900.0, 0.0)
    both = CliRunner().invoke(main, ["compare", "default", "default", *trace, "--replace-all"])
    assert both.exit_code == 2 and "--trace has nodes and pods of its own" in both.output
    none = CliRunner().invoke(main, ["compare", "default", "default", "--trace", str(files / "none")])
    assert none.exit_code == 1 and "none: No such file" in none.output


@pytest.mark.parametrize(
    ("traces", "problem"),
    [
        ({"t": "none.jsonl"}, "none.jsonl: No such file"),
        ({"t": {}}, "traces.t: either a file or a pattern is needed"),
        ({"t": {"pattern": {"load": 99}}}, "traces.t.pattern.load: 99 is not above 0 and at most 5"),
        ({"t": {"pattern": {"moons": 2}}}, "traces.t.pattern: 'moons' is not known; known are failing"),
    ],
)
def test_sweeps_take_traces_and_patterns(files, traces, problem):
    given = {"configurations": {"d": "default"}, "traces": {"jobs": "jobs.jsonl.gz"}}
    (files / "sweep.yaml").write_text(yaml.safe_dump(given))
    assert [each.load for each in Sweep.read(files / "sweep.yaml").runs] == ["jobs"]
    (files / "sweep.yaml").write_text(yaml.safe_dump({**given, "traces": traces}))
    with pytest.raises(SweepError, match=problem):
        Sweep.read(files / "sweep.yaml")


def shapes(strategy):
    return source(
        {FIT: (1, {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu"}]}}), BALANCED: (1, None)}
    )


LEAST, MOST = shapes("LeastAllocated").load(), shapes("MostAllocated").load()


@pytest.mark.parametrize(
    ("a", "b"),
    [(LEAST, MOST), (LEAST, with_plugin(Steered)), (with_plugin(Steered), LEAST)],
    ids=["plain", "b-keeps-state", "a-keeps-state"],
)
def test_decisions_over_time_are_those_of_cores_run_alone_at_that_moment(a, b):
    """The cluster is written down at each first attempt, and both configurations decide in clusters of their own.

    A plugin that counts for itself which pods run where has to know of the same pods in both.
    """
    seed = 1
    trace = daily_pattern(PATTERN, seed)
    found = decide_over_time(trace, a, b, seed=seed, samples=trace.pods)
    changes = {change.pod: change for change in found.changes}
    notes = Moments()
    run = TraceRun(trace, config=a.config, registry=a.registry, seed=seed, instrument=notes)
    notes.cluster = run.cluster
    alone = run.live()
    assert found.decided == len(notes.found) > 50
    for objects, pod in notes.found:
        standing = [obj for obj in objects if isinstance(obj, Node) or obj.spec.node_name]
        first, second = (decide(ClusterLoad(tuple(standing), (pod,)), a, each) for each in (a, b))
        assert not first.changes
        assert list(second.changes) == ([changes.pop(pod.key)] if second.changes else [])
    assert not changes and found.changes
    assert TraceRun(trace, config=a.config, registry=a.registry, seed=seed).live() == alone


def test_a_plugin_beside_a_run_hears_what_that_of_the_run_hears():
    """Pods that come, are bound, fail and go, and what is reserved for them."""
    trace = daily_pattern(DailyPattern(pods=80, nodes=3, load=1.6, seconds=4 * 3600.0, services=3, failing=0.3), 5)
    both = []

    class Told(Heard):
        def __init__(self, args, handle):
            super().__init__(args, handle)
            both.append(self)

    configuration = with_plugin(Told)
    found = decide_over_time(trace, configuration, configuration, samples=10)
    of_run, beside = both
    assert of_run.story and beside.story == of_run.story
    assert {what for what, *_ in of_run.story} == {"added", "bound", "removed", "reserved", "postBound"}
    assert not found.changes


class Moments(Instrument):
    """The objects of the cluster at the first attempt of each pod."""

    def __init__(self):
        self.found, self.cluster, self._seen = [], None, set()

    def attempting(self, queued):
        if queued.pod.key not in self._seen:
            self._seen.add(queued.pod.key)
            self.found.append((list(self.cluster.objects.values()), queued.pod.pod))


def test_what_could_not_be_bound_after_all_is_given_back_beside_the_run():
    both = []

    class Picky(Heard):
        """Refuses, at the last moment, every pod once."""

        def __init__(self, args, handle):
            super().__init__(args, handle)
            self.seen = set()
            both.append(self)

        def permit(self, state, pod, node_name):
            if pod.uid in self.seen:
                return None, 0.0
            self.seen.add(pod.uid)
            return unschedulable("not yet"), 0.0

    configuration = with_plugin(Picky)
    decide_over_time(two_jobs(), configuration, configuration)
    of_run, beside = both
    assert beside.story == of_run.story
    assert [what for what, *_ in of_run.story].count("unreserved") == 3


def test_asking_beside_a_run_changes_nothing_and_a_sample_is_spread_over_the_pods():
    trace, a, b = daily_pattern(PATTERN, 3), shapes("LeastAllocated"), shapes("MostAllocated")
    every = decide_over_time(trace, a.load(), b.load(), samples=trace.pods)
    some = decide_over_time(trace, a.load(), b.load(), samples=trace.pods // 4)
    assert some.decided == pytest.approx(every.decided / 4, abs=1)
    assert {change.pod for change in some.changes} < {change.pod for change in every.changes}


def test_a_plugin_that_breaks_beside_a_run_is_told(tmp_path):
    plugin = tmp_path / "broken_beside.py"
    plugin.write_text(
        "class BrokenBeside:\n    name = 'BrokenBeside'\n"
        "    def __init__(self, args, handle):\n        pass\n"
        "    def pre_filter(self, state, pod):\n        raise RuntimeError('no')\n"
        "    def filter(self, state, pod, node):\n        return None\n"
    )
    broken = ConfigurationSource("broken", plugins=(f"{plugin}:BrokenBeside",))
    with pytest.raises(PluginBrokenError, match="BrokenBeside"):
        decide_over_time(two_jobs(), DEFAULT.load(), broken.load())
