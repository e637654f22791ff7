"""A trace lived through: what pods wait, run, fail and are scaled to follows from the trace by hand."""

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
    result = run.live(lambda share: True)
    assert result.seconds < trace.header.seconds
