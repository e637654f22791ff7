"""A trace lived through: what pods wait, run, fail and are scaled to follows from the trace by hand."""

import pytest

from berth_workbench.traces.generator import DailyPattern, daily_pattern
from berth_workbench.traces.run import TraceRun
from berth_workbench.traces.trace import (
    JobStarts,
    NodeComes,
    NodeGoes,
    PodShapeGiven,
    ServiceScales,
    TimedWorkload,
    TraceHeader,
)
from packages.workbench.tests.asking import stopped

GIB = 2**30
CPU = PodShapeGiven(cpu=1000, memory=GIB, labels={"app": "a"})


def node(name="n0", at=0.0, cpu=4):
    return NodeComes(at=at, name=name, cpu=1000 * cpu, memory=64 * GIB)


def lived(*records, seconds=1000.0, **options):
    run = TraceRun(TimedWorkload(TraceHeader(seconds=seconds), records), **options)
    return run.live(), run


def test_a_pod_runs_from_when_it_is_bound_and_the_next_one_waits_for_it():
    result, _ = lived(
        node(cpu=1),
        JobStarts(at=10.0, name="first", runs=(100.0,), shape=CPU),
        JobStarts(at=20.0, name="second", namespace="other", runs=(50.0,), shape=CPU),
    )
    assert (result.made, result.bound, result.finished, result.waiting) == (2, 2, 2, 0)
    assert result.waits_by_namespace["default"].max == 0
    # The first ends at 110, which wakes the second; its backoff of 1 s is long over.
    assert result.waits_by_namespace["other"].max == 90.0
    assert result.waits.p50 == 0
    assert result.waits.max == result.waits_by_namespace["other"].max


def test_nodes_have_the_labels_that_a_kubelet_gives_them():
    """So pods that are to be kept apart by host are, and those that ask for Linux find it."""
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    terms = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    shape = PodShapeGiven(
        cpu=1, labels={"app": "a"}, spec={"affinity": terms, "nodeSelector": {"kubernetes.io/os": "linux"}}
    )
    result, _ = lived(
        node("n0"), node("n1"), JobStarts(at=1.0, name="j", runs=(9.0,), pods=3, shape=shape), seconds=5.0
    )
    assert (result.bound, result.waiting) == (2, 1)
    own = NodeComes(
        at=0.0, name="n", cpu=1, memory=1, labels={"kubernetes.io/arch": "arm64", "kubernetes.io/hostname": "h"}
    )
    labels = {"kubernetes.io/hostname": "h", "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}
    assert own.node().metadata.labels == labels


def gpu_node(gpus=8):
    return NodeComes(at=0.0, name="n", cpu=16_000, memory=64 * GIB, resources={"nvidia.com/gpu": gpus})


def test_fairness_is_of_the_resource_that_a_namespace_has_most_of_whichever_it_is():
    """One namespace has all GPUs, the other half of the CPUs: shares of 1 and 1/2."""
    gpu = PodShapeGiven(cpu=1000, memory=1, resources={"nvidia.com/gpu": 1})
    result, _ = lived(
        gpu_node(),
        JobStarts(at=0.0, name="a", namespace="a", runs=(3600.0,), pods=8, shape=gpu),
        JobStarts(at=1.0, name="b", namespace="b", runs=(3600.0,), pods=8, shape=PodShapeGiven(cpu=1000, memory=1)),
        seconds=3600.0,
    )
    assert result.fairness == pytest.approx((1 + 0.5) ** 2 / (2 * (1 + 0.25)))
    assert [sample.fairness for sample in result.samples[:2]] == [1.0, pytest.approx(0.9)]  # b comes a second later
    assert [sample.resources for sample in result.samples[::12]] == [{"nvidia.com/gpu": 1.0}, {"nvidia.com/gpu": 0.0}]
    assert result.resources == {"nvidia.com/gpu": pytest.approx(12 / 13)}


def test_who_wants_nothing_has_no_part_in_fairness_and_who_waits_has():
    """One namespace's pods ask for nothing, one has ended its work, one has all, and one waits for all: 1 and 0."""
    whole = PodShapeGiven(cpu=16_000)
    result, _ = lived(
        gpu_node(),
        JobStarts(at=0.0, name="j", namespace="idle", runs=(999.0,), shape=PodShapeGiven()),
        JobStarts(at=0.0, name="j", namespace="done", runs=(50.0,), shape=whole),
        JobStarts(at=60.0, name="j", namespace="has", runs=(999.0,), shape=whole),
        JobStarts(at=70.0, name="j", namespace="waits", runs=(999.0,), shape=whole),
        seconds=300.0,
        sample_s=100.0,
    )
    assert [sample.fairness for sample in result.samples] == [1.0, 0.5, 0.5, 0.5]
    assert result.fairness == 0.5  # of the moments at which there is something to be shared


def test_samples_are_what_runs():
    result, run = lived(
        node("n0"), node("n1"), JobStarts(at=100.0, name="j", runs=(350.0,), pods=2, shape=CPU), sample_s=200.0
    )
    assert [(s.at, s.running, s.nodes_used, s.cpu) for s in result.samples[:4]] == [
        (0.0, 0, 0, 0.0),
        (200.0, 2, 2, 0.25),
        (400.0, 2, 2, 0.25),
        (600.0, 0, 0, 0.0),
    ]
    document = run.time_line.document(result)
    assert document["nodes"] == [{"from": 0, "names": ["n0", "n1"]}]
    assert document["times"][:2] == [0.0, 200.0]


def test_a_pod_that_fails_half_way_is_replaced_after_the_backoff_and_runs_for_its_whole_time():
    result, _ = lived(node(), JobStarts(at=0.0, name="j", runs=(100.0,), fails=(0,), shape=CPU), seconds=159.0)
    assert (result.bound, result.failed, result.finished) == (2, 1, 0)
    result, _ = lived(node(), JobStarts(at=0.0, name="j", runs=(100.0,), fails=(0,), shape=CPU), seconds=161.0)
    assert (result.bound, result.failed, result.finished) == (2, 1, 1)


def test_a_service_shrinks_by_its_pending_pods_first_and_the_youngest_next():
    records = [
        node(cpu=3),
        ServiceScales(at=0.0, name="s", replicas=5, shape=CPU),
        ServiceScales(at=50.0, name="s", replicas=2, shape=CPU),
    ]
    before, run = lived(*records, seconds=49.0)
    assert (before.bound, before.waiting, before.never_placed) == (3, 2, 2)
    after, run = lived(*records, seconds=60.0)
    assert (after.waiting, after.never_placed) == (0, 0)
    assert sorted(run.cluster.placements) == ["default/s-0", "default/s-1"]
    assert set(run.cluster.placements.values()) == {"n0"}


def test_a_node_that_leaves_sends_its_pods_elsewhere_and_their_time_begins_anew():
    result, run = lived(
        node("n0", cpu=1),
        JobStarts(at=0.0, name="j", runs=(100.0,), shape=CPU),
        NodeGoes(at=90.0, name="n0"),
        node("n1", at=120.0, cpu=1),
        seconds=219.0,
    )
    assert (result.bound, result.finished, run.cluster.placements) == (2, 0, {"default/j-0": "n1"})
    assert 30.0 <= result.waits.max <= 31.0


def test_a_preempted_pod_waits_and_starts_over():
    important = PodShapeGiven(cpu=1000, memory=GIB, priority=100)
    result, _ = lived(
        node(cpu=1),
        JobStarts(at=0.0, name="low", runs=(100.0,), shape=CPU),
        JobStarts(at=50.0, name="high", runs=(100.0,), shape=important),
        seconds=400.0,
    )
    assert (result.preempted, result.bound, result.finished) == (1, 3, 2)
    assert 100.0 <= result.waits.max <= 102.0


def test_the_same_seed_is_the_same_day_and_the_load_is_what_was_asked_for():
    pattern = DailyPattern(pods=1500, nodes=20, services=5, load=0.7)
    trace = daily_pattern(pattern, 3)
    assert trace == daily_pattern(pattern, 3)
    assert trace != daily_pattern(pattern, 4)
    assert trace.pods == pattern.pods
    first, second = (TraceRun(trace, seed=1).live() for _ in range(2))
    assert first == second
    assert first.made == pattern.pods
    highest = max(sample.cpu for sample in first.samples)
    assert 0.5 < highest <= 0.71  # nobody waits at this load, so what runs is what is demanded
    assert first.waits.p99 < 1


def test_somebody_may_end_it_early():
    trace = daily_pattern(DailyPattern(pods=500, nodes=5, services=2))
    run = TraceRun(trace)
    result = run.live(stopped())
    assert result.seconds < trace.header.seconds
