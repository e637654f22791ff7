"""A recording compared with another configuration: what differs, found by brute force as well."""

import random

import msgspec
import pytest

from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.registry import Registry
from berth.framework.status import unschedulable
from berth.plugins.registry import in_tree_registry
from berth.recording.configs import config_of
from berth.recording.file_format import read_segments
from berth.recording.recorder import Recorder
from berth_workbench.replay.alternatives import of_generation, this_config, with_plugins
from berth_workbench.replay.recording_comparison import RecordingComparer
from berth_workbench.replay.verification import verify
from tests.workbench.replay.histories import LIMIT, REGISTRY, Churn, RecordedLife, no_report

ZONES = "abc"


def two_scores(affinity):
    """Room and preferred labels decide, with these weights: 1 for room, and one that is given for labels."""
    enabled = [
        {"name": "PrioritySort"},
        {"name": "NodeResourcesFit", "weight": 1},
        {"name": "NodeAffinity", "weight": affinity},
        {"name": "DefaultBinder"},
    ]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}}],
    }


class BruteForce:
    """Keeps the books of a small cluster by itself, and scores by the formulas of the documentation."""

    def __init__(self, nodes):
        self.nodes = nodes
        """By name: CPU in millicores, memory in MiB, zone."""
        self.pods = {}
        """By name: CPU, memory, node."""

    def best(self, cpu, memory, preferences, weight):
        room, wish = {}, {}
        for name, (all_cpu, all_memory, zone) in self.nodes.items():
            used_cpu = cpu + sum(pod[0] for pod in self.pods.values() if pod[2] == name)
            used_memory = memory + sum(pod[1] for pod in self.pods.values() if pod[2] == name)
            if used_cpu > all_cpu or used_memory > all_memory:
                continue
            room[name] = ((all_cpu - used_cpu) * 100 // all_cpu + (all_memory - used_memory) * 100 // all_memory) // 2
            wish[name] = sum(points for points, wanted in preferences if wanted == zone)
        if not room:
            return set()
        most = max(wish.values())
        total = {name: room[name] + weight * (wish[name] * 100 // most if most else 0) for name in room}
        return {name for name in total if total[name] == max(total.values())}


def place_randomly(directory, seed, *, before, after, pods=120):
    """Record pods that come and go; return what brute force expects to differ: (pod, recorded node) in order."""
    rng = random.Random(seed)
    sizes = {f"n{i}": (rng.choice((4000, 8000)), rng.choice((8192, 16384)), ZONES[i % 3]) for i in range(9)}
    recorder = Recorder(directory, limit=LIMIT, report=no_report)
    hosts = [
        make_node(name).capacity(cpu=f"{cpu}m", memory=f"{memory}Mi", pods=110).zone(zone)
        for name, (cpu, memory, zone) in sizes.items()
    ]
    cluster = VirtualCluster(*hosts, config=two_scores(before), build=recorder.build_core)
    books, expected = BruteForce(sizes), []
    for number in range(pods):
        cluster.now += 1.0
        name, cpu, memory = f"p{number}", rng.choice((100, 500, 1500)), rng.choice((64, 512, 3000))
        pod = make_pod(name).request(cpu=f"{cpu}m", memory=f"{memory}Mi")
        preferences = [(rng.randrange(80, 101), zone) for zone in ZONES if rng.random() < 0.9]
        for points, zone in preferences:
            expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
            pod = pod.prefer_node(points, expression)
        cluster.put(pod)
        cluster.run()
        node = cluster.nodes_of()[name]
        assert node in (books.best(cpu, memory, preferences, before) or {""})
        best = books.best(cpu, memory, preferences, after)
        if node not in (best or {""}):
            expected.append((f"default/{name}", node or None, best))
        if node:
            books.pods[name] = (cpu, memory, node)
        else:  # nobody waits, so that nobody comes in between
            cluster.delete("Pod", f"default/{name}")
        if rng.random() < 0.4 and cluster.nodes_of():
            gone = rng.choice(sorted(cluster.nodes_of()))
            cluster.delete("Pod", f"default/{gone}")
            books.pods.pop(gone, None)
    recorder.close()
    return expected


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_change_of_one_weight_is_told_where_brute_force_finds_it(tmp_path, seed):
    expected = place_randomly(tmp_path, seed, before=1, after=3)
    found = compare(tmp_path, this_config(load_config(two_scores(3))))
    assert found.not_compared == {}
    assert found.compared == found.decisions >= 100
    assert [(change.pod, change.recorded) for change in found.changes] == [each[:2] for each in expected]
    assert all(change.now in best for change, (_, _, best) in zip(found.changes, expected, strict=True))
    assert found.different == len(expected) > 3
    first = found.first
    assert (first.plugins, first.alone) == (("NodeAffinity",), True)
    assert first.time == float(first.pod.removeprefix("default/p")) + 1
    assert found.plugins["NodeAffinity"] == found.different


def compare(directory, other=None, **options):
    registry = options.pop("registry", REGISTRY)
    return RecordingComparer(registry, other=other, **options).follow(read_segments(directory))


def same(header):
    return config_of(header.config)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: Churn(path, 2),
        lambda path: RecordedLife(path, 5),
        lambda path: RecordedLife(path, 6, crowded=True),
        lambda path: RecordedLife(path, 8),
    ],
)
def test_the_recorded_configuration_decides_what_was_recorded(tmp_path, make):
    """The recorded cluster is followed exactly: with volumes, devices, preemption, refusals."""
    lived = make(tmp_path)
    lived.live(150)
    lived.close()
    for other in (None, same):
        found = compare(tmp_path, other)
        assert (found.different, found.not_compared) == (0, {})
        assert found.compared == found.decisions > 20


def test_what_is_left_of_a_recording_is_compared(tmp_path):
    """The oldest segments are gone: the rest begins with all that was known then."""
    lived = Churn(tmp_path, 4, nodes=3)
    lived.recorder._files._segment_limit = 6_000
    for _ in range(20):
        lived.live(6)
        lived.recorder.write()
    lived.close()
    first, *rest = sorted(tmp_path.iterdir())
    assert len(rest) >= 2
    first.unlink()
    found = compare(tmp_path, same)
    assert found.different == 0
    assert found.compared == found.decisions > 40


def test_a_plugin_that_was_not_there_is_named(tmp_path):
    class NotFirst:
        name = "NotFirst"

        def __init__(self, _args, _handle):
            pass

        def filter(self, _state, _pod, node):
            return unschedulable("not there") if node.name == "n0" else None

    recorder = Recorder(tmp_path, limit=LIMIT, report=no_report)
    cluster = VirtualCluster(
        make_node("n0").capacity(cpu="64"), make_node("n1").capacity(cpu="1"), build=recorder.build_core
    )
    for number in range(5):
        cluster.put(make_pod(f"p{number}").request(cpu="500m"))
        cluster.run()
    recorder.close()
    registry = in_tree_registry().merge(Registry({"NotFirst": NotFirst}, "a test"))
    found = compare(tmp_path, with_plugins(["NotFirst"]), registry=registry)
    on_first = sum(node == "n0" for node in cluster.nodes_of().values())
    assert found.different == on_first >= 3
    assert found.plugins == {"NotFirst": on_first}
    assert found.kinds["elsewhere"] >= 1


def test_a_plugin_that_breaks_where_it_reserves_or_gives_back_ends_nothing(tmp_path):
    """The recorded core has put up with it, and what it decided is compared all the same."""

    class Breaks:
        name = "Breaks"

        def __init__(self, _args, _handle):
            pass

        def reserve(self, _state, pod, _node_name):
            if pod.name == "p1":
                raise RuntimeError("no room for this")

        def unreserve(self, _state, _pod, _node_name):
            raise RuntimeError("never")

    registry = in_tree_registry().merge(Registry({"Breaks": Breaks}, "a test"))
    recorder = Recorder(tmp_path, limit=LIMIT, report=no_report)
    document = two_scores(1)
    document["profiles"][0]["plugins"]["multiPoint"]["enabled"].append({"name": "Breaks"})
    cluster = VirtualCluster(
        make_node("n").capacity(cpu="1"), config=document, registry=registry, build=recorder.build_core
    )
    for number in range(3):
        cluster.put(make_pod(f"p{number}").request(cpu="500m"))
        cluster.run()
    recorder.close()
    for other in (None, same, of_generation("v1.36")):
        found = compare(tmp_path, other, registry=registry)
        assert (found.different, found.not_compared) == (0, {})
        assert found.compared == found.decisions >= 3


def test_another_generation_is_compared(tmp_path):
    lived = Churn(tmp_path, 2)
    lived.live(40)
    lived.close()
    assert compare(tmp_path, of_generation("v1.36")).different == 0
    found = compare(tmp_path, of_generation("v1.20"))
    assert found.compared == found.decisions > 10
    assert found.different == len(found.changes)


def test_another_seed_is_compared_draw_by_draw(tmp_path):
    recorder = Recorder(tmp_path, limit=LIMIT, report=no_report)
    cluster = VirtualCluster(*(make_node(f"n{i}").capacity(cpu="4") for i in range(8)), build=recorder.build_core)
    for number in range(20):
        cluster.put(make_pod(f"p{number}").request(cpu="100m"))
        cluster.run()
    recorder.close()
    (seed,) = [segment.header.seed for segment in read_segments(tmp_path)]
    assert compare(tmp_path, seed=seed).different == 0
    found = compare(tmp_path, seed=seed + 1)
    assert 3 < found.different < 20
    assert {change.plugins for change in found.changes} == {()}


def test_a_scheduler_name_without_a_profile(tmp_path):
    recorder = Recorder(tmp_path, limit=LIMIT, report=no_report)
    cluster = VirtualCluster(make_node("n").capacity(cpu="4"), build=recorder.build_core)
    cluster.put(make_pod("p").request(cpu="100m"))
    cluster.run()
    recorder.close()
    document = two_scores(1)
    document["profiles"][0]["schedulerName"] = "another"
    found = compare(tmp_path, this_config(load_config(document)))
    assert [(change.pod, change.recorded, change.now) for change in found.changes] == [("default/p", "n", None)]
    assert found.first.message == "there is no profile 'default-scheduler'"


def test_a_result_is_plain_values(tmp_path):
    place_randomly(tmp_path, 1, before=1, after=3, pods=30)
    found = compare(tmp_path, this_config(load_config(two_scores(3))))
    assert msgspec.json.decode(msgspec.json.encode(found))["changes"][0]["plugins"] == ["NodeAffinity"]


def test_who_stops_it_gets_what_was_found(tmp_path):
    lived = Churn(tmp_path, 2)
    for _ in range(3):
        lived.live(20)
        lived.recorder.write()
    lived.close()
    whole = compare(tmp_path)

    def stopping(segments):
        for segment in segments:
            frames = iter((False, True))
            segment.is_stopped = lambda: next(frames)  # noqa: B023 - it is asked before the next segment comes
            yield segment

    for part in (
        RecordingComparer(REGISTRY).follow(stopping(read_segments(tmp_path))),
        verify(stopping(read_segments(tmp_path)), REGISTRY),
    ):
        assert not part.is_complete
        assert 0 < part.decisions < whole.decisions
