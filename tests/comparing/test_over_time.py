"""Workloads over time as loads: the same figures as the simulation itself, packed or drawn anew."""

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth.comparing.configurations import ConfigurationSource
from berth.comparing.loads import DrawnLoad, packed, steps_of, unpacked
from berth.comparing.running import run
from berth.comparing.sweeping import Sweep, SweepError
from berth.simulation.prices import Prices
from berth.traces.generating import DailyPattern, daily_pattern
from berth.traces.running import TraceRun
from berth.traces.trace import JobStarts, NodeComes, PodShapeGiven, TimedWorkload, TraceHeader, write_trace

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
    steps = []
    found = run(two_jobs(), DEFAULT.load(), 0, progress=steps.append).figures
    # Measured at 0, 900, 1800, 2700 and 3600 s: two pods, two, one, one, none.
    assert found["utilisation.cpu"] == pytest.approx((2 + 2 + 1 + 1 + 0) / 5 / 2.1)
    assert found["packing.cpu"] == pytest.approx((1 + 1 + 0.5 + 0.5) / 4)
    assert found["nodesUsed"] == pytest.approx(4 / 5)
    assert found["cost"] == pytest.approx(3.0 * 4 / 5)
    assert (found["bound"], found["pending"], found["neverPlaced"]) == (3, 0, 0)
    assert (found["waiting.p50"], found["waiting.max"]) == (0.0, 900.0)
    assert sum(steps) <= steps_of(two_jobs())
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
    assert found["decisions"] is None
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
        ({"t": {"pattern": {"load": 99}}}, "traces.t.pattern: load must be"),
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
