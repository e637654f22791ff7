"""Alike pods that are placed in a run, and bound at once, fare as if each were tried and bound by itself.

Two clusters live through the same; in one each pod takes the long way, with an attempt, effects, answers and events.
"""

import random
from typing import Any

import numpy as np
import pytest

from berth.config.load import load_config
from berth.core.builders import PodBuilder, make_node, make_pod
from berth.core.core import Core
from berth.framework.handle import Handle
from berth.framework.interface import PermitPlugin, PostBindPlugin, ScorePlugin
from berth.framework.promises import Dependency, Promises
from berth.framework.registry import Registry
from berth.plugins.registry import full_registry
from berth_workbench.simulation.cluster import SimulatedCluster

ZONES, APPS = ("a", "b", "c"), ("web", "db", "job", "log")


def a_node(lots: random.Random, number: int) -> Any:
    node = make_node(f"n{number}").label("disk", lots.choice(("ssd", "hdd")))
    if lots.random() < 0.9:
        node.zone(lots.choice(ZONES))
    node.capacity(cpu=str(lots.choice((2, 4, 8))), memory="16Gi", pods=str(lots.choice((3, 20))))
    if lots.random() < 0.2:
        node.taint("dedicated", "x", lots.choice(("NoSchedule", "PreferNoSchedule")))
    return node.build()


def template(lots: random.Random) -> PodBuilder:
    app = lots.choice(APPS)
    pod = make_pod("?").label("app", app).owned_by("ReplicaSet", app)
    pod.request(cpu=lots.choice(("100m", "500m", "1", "3")), memory=lots.choice(("0", "1Gi")))
    pod.priority(lots.choice((0, 0, 0, 5)))

    zone, host = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
    other = lots.choice((app, *APPS))
    for chance, change in (
        (0.2, lambda: pod.host_port(80)),
        (0.2, lambda: pod.node_selector({"disk": "ssd"})),
        (0.15, lambda: pod.prefer_node(30, {"key": "disk", "operator": "In", "values": ["ssd"]})),
        (0.15, lambda: pod.spread(zone, {"app": app}, when="DoNotSchedule")),
        (0.15, lambda: pod.spread(zone, {"app": app}, when="ScheduleAnyway")),
        (0.15, lambda: pod.spread(host, {"app": app}, when="ScheduleAnyway")),
        (0.15, lambda: pod.prefer_pod_anti_affinity(100, host, {"app": app})),
        (0.1, lambda: pod.prefer_pod_anti_affinity(40, zone, {"app": other})),
        (0.1, lambda: pod.prefer_pod_affinity(60, zone, {"app": other})),
        (0.1, lambda: pod.pod_anti_affinity(host, {"app": app})),
        (0.05, lambda: pod.pod_affinity(zone, {"app": other})),
        (0.1, lambda: pod.prefer_pod_anti_affinity(50, host, {"index": "1"})),
        (0.05, lambda: pod.pod_anti_affinity(host, {"index": "2"})),
        (0.1, lambda: pod.spread(zone, {"index": "3"}, when="DoNotSchedule")),
        (0.3, lambda: pod.tolerate("dedicated", operator="Exists")),
    ):
        if lots.random() < chance:
            change()
    return pod


def alike(template: PodBuilder, prefix: str, count: int, *, indexed: bool = False) -> list[Any]:
    found = []
    for number in range(count):
        pod = template.copy()
        if indexed:
            pod.label("index", str(number))
        pod.metadata.update(name=f"{prefix}-{number}", uid=f"{prefix}-{number}")
        found.append(pod.build())
    return found


def live(cluster: SimulatedCluster, seed: int) -> list[Any]:
    """Live through something random; return all that can be told of it after each step."""
    lots, told = random.Random(seed), []
    templates = [template(lots) for _ in range(4)]
    for number in range(lots.randrange(3, 9)):
        cluster.put(a_node(lots, number))
    for step in range(6):
        for batch in range(lots.randrange(1, 4)):
            indexed = lots.random() < 0.4
            for pod in alike(lots.choice(templates), f"p{step}-{batch}", lots.randrange(1, 12), indexed=indexed):
                cluster.put(pod)
        what = lots.random()
        placed = sorted(cluster.pods)
        if what < 0.2:
            cluster.put(a_node(lots, 20 + step))
        elif what < 0.4 and len(cluster.nodes) > 2:
            name = lots.choice(sorted(cluster.nodes))
            for key in [key for key, node in cluster.placements.items() if node == name]:
                cluster.send_back(key)
            cluster.delete("Node", name)
        elif what < 0.7 and placed:
            for key in lots.sample(placed, min(len(placed), 5)):
                cluster.delete("Pod", key)
        cluster.settle()
        told.append(told_of(cluster))
    return told


def told_of(cluster: SimulatedCluster) -> dict[str, Any]:
    core = cluster.core
    table = core.cache.table
    core.cache.index.validate()
    rows = [table.row_of[name] for name in sorted(cluster.nodes)]
    return {
        "placements": cluster.placements,
        "order": list(cluster.pods),
        "objects": {key: obj for key, obj in cluster.objects.items() if key[0] == "Pod"},
        "messages": cluster.messages,
        "evictions": cluster.evictions,
        "changes": cluster.changes,
        "without node": [pod.key for pod in cluster.without_node],
        "placed": cluster.take_placed(),
        "random": cluster.rng.getstate(),
        "counted": {uid: (table.names[state.row], state.assumed, state.pod.node_name)
                    for uid, state in core.cache.states().items()},
        "pods of rows": [list(table.pods[row]) for row in rows],
        "requested": table.requested[:, rows].tolist(),
        "pod count": np.asarray(table.pod_count)[rows].tolist(),
        "queued": sorted((each.pod.uid, each.attempts, each.unschedulable_plugins) for each in core.queue),
        "in flight": len(core.queue.in_flight),
        "known": sorted((pod.key, pod.node_name) for pod in core.intake.pods),
        "now": cluster.now,
    }  # fmt: skip


def the_long_way(objects: Any = (), **options: Any) -> SimulatedCluster:
    cluster = SimulatedCluster(objects, **options)
    cluster.core.let_bind(None)
    return cluster


@pytest.mark.parametrize("seed", [*range(25), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(25, 400))])
def test_runs_of_alike_pods_change_nothing(seed: int) -> None:
    assert live(SimulatedCluster(seed=seed), seed) == live(the_long_way(seed=seed), seed)


@pytest.mark.parametrize("seed", range(4))
def test_so_it_is_where_nothing_is_remembered(seed: int) -> None:
    assert live(SimulatedCluster(seed=seed, memos=False), seed) == live(the_long_way(seed=seed), seed)


def wanting(*wishes: str) -> PodBuilder:
    """Return a pod that counts others of its kind in each of these ways."""
    zone, host, web = "topology.kubernetes.io/zone", "kubernetes.io/hostname", {"app": "web"}
    pod = make_pod("?").labels(web).request(cpu="1")
    changes = {
        "to be away from its host": lambda: pod.prefer_pod_anti_affinity(100, host, web),
        "to be away from its zone": lambda: pod.prefer_pod_anti_affinity(50, zone, web),
        "to be in its zone": lambda: pod.prefer_pod_affinity(50, zone, web),
        "company that is not there": lambda: pod.prefer_pod_affinity(50, zone, {"app": "db"}),
        "to be spread over zones": lambda: pod.spread(zone, web, when="ScheduleAnyway"),
        "to be spread over hosts": lambda: pod.spread(host, web, when="ScheduleAnyway"),
        "a fast disk": lambda: pod.prefer_node(30, {"key": "disk", "operator": "In", "values": ["ssd"]}),
        "must be spread over zones": lambda: pod.spread(zone, web, when="DoNotSchedule"),
        "must be alone on its host": lambda: pod.pod_anti_affinity(host, web),
        "must be in its zone": lambda: pod.pod_affinity(zone, web),
    }
    for wish in wishes:
        changes[wish]()
    return pod


@pytest.mark.parametrize(
    "wishes",
    [
        (),
        ("to be away from its host",),
        ("to be away from its zone",),
        ("to be in its zone",),
        ("company that is not there",),
        ("to be spread over zones",),
        ("to be spread over hosts",),
        ("a fast disk",),
        ("must be spread over zones",),
        ("must be alone on its host",),
        ("must be in its zone",),
        ("to be away from its host", "to be spread over zones"),
        ("to be away from its zone", "to be spread over hosts", "a fast disk"),
        ("to be spread over zones", "to be spread over hosts", "to be away from its host", "to be away from its zone"),
        ("must be spread over zones", "to be spread over hosts", "to be in its zone"),
    ],
    ids=", ".join,
)
@pytest.mark.parametrize("indexed", [False, True])
def test_alike_pods_in_a_row_are_placed_by_what_the_one_before_left(
    wishes: tuple[str, ...], indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the tests above compare two equal ways."""
    found = []
    row_for_another = Core._row_for_another

    def seen(self: Core, profile: Any, pod: Any) -> Any:
        row = row_for_another(self, profile, pod)
        found.append(row is not None)
        return row

    monkeypatch.setattr(Core, "_row_for_another", seen)

    def told(make: Any) -> dict[str, Any]:
        lots = random.Random(7)
        cluster: SimulatedCluster = make([a_node(lots, number) for number in range(20)])
        cluster.add(alike(wanting(*wishes).owned_by("ReplicaSet", "web"), "web", 60, indexed=indexed))
        cluster.settle()
        return told_of(cluster)

    told_at_once = told(SimulatedCluster)
    # An attempt each have the first of its kind, which others will count, who gets the last node, and who gets none.
    placed = sum(bool(node) for node in told_at_once["placements"].values())
    assert sum(found) > placed / 2 > 5
    assert told_at_once == told(the_long_way)


@pytest.mark.parametrize("point", ["permit", "post_bind", "reads the queue"])
def test_plugins_that_have_to_do_with_binding_are_asked_about_each_pod(point: str) -> None:
    asked = []

    class Waits(PermitPlugin):
        name = "Waits"

        def __init__(self, args: Any, handle: Handle) -> None:
            pass

        def permit(self, state: Any, pod: Any, node_name: str) -> None:
            asked.append(pod.name)

    class Tells(PostBindPlugin):
        name = "Tells"

        def __init__(self, args: Any, handle: Handle) -> None:
            pass

        def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
            asked.append(pod.name)

    class Counts(ScorePlugin):
        name = "Counts"

        def __init__(self, args: Any, handle: Handle) -> None:
            pass

        def score(self, state: Any, pod: Any, node: Any) -> int:
            if node.name == "n0":
                asked.append(pod.name)
            return 0

    plugin = {"permit": Waits, "post_bind": Tells, "reads the queue": Counts}[point]
    registry = full_registry().merge(Registry({plugin.name: plugin}, "a test"))
    config = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}]}
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **config}
    cluster = SimulatedCluster(registry=registry, config=load_config(document, "a test"))
    cluster.add(make_node(f"n{i}").capacity(cpu="20", pods="110").build() for i in range(2))
    pods = alike(make_pod("?").request(cpu="1"), "p", 12)
    cluster.add(pods)

    cluster.settle()

    assert asked == [pod.metadata.name for pod in pods]


class ByIndex(ScorePlugin):
    """Scores by a label in which the pods of an indexed Job differ, and says so in its signature."""

    name = "ByIndex"
    promises = Promises(score_depends_on=frozenset({Dependency.NODE}))

    def __init__(self, args: Any, handle: Handle) -> None:
        pass

    def signature(self, pod: Any) -> str:
        return str(pod.labels.get("index"))

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return self._of(pod, node.name)

    def score_columns(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return np.array([self._of(pod, name) for name in np.asarray(table.names, dtype=object)[rows]], dtype=np.int64)

    def _of(self, pod: Any, node_name: str) -> int:
        return 100 if node_name == f"n{int(pod.labels['index']) % 5}" else 0


def test_a_plugin_that_reads_what_alike_pods_differ_in_is_asked_about_each() -> None:
    registry = full_registry().merge(Registry({"ByIndex": ByIndex}, "a test"))
    config = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "ByIndex", "weight": 100}]}}}]}
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **config}
    cluster = SimulatedCluster(registry=registry, config=load_config(document, "a test"))
    cluster.add(make_node(f"n{i}").capacity(cpu="20", pods="110").build() for i in range(5))
    cluster.add(alike(make_pod("?").request(cpu="1"), "p", 20, indexed=True))

    cluster.settle()

    assert cluster.placements == {f"default/p-{number}": f"n{number % 5}" for number in range(20)}


class Grows(ScorePlugin):
    """Scores a node by the pods that are there, and beyond 100 where there are three."""

    name = "Grows"
    promises = Promises(score_depends_on=frozenset({Dependency.PODS_ON_NODE}), scores_by_row=True)

    def __init__(self, args: Any, handle: Handle) -> None:
        pass

    def signature(self, pod: Any) -> tuple[()]:
        return ()

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 40 * len(node.pods)

    def score_columns(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return 40 * np.asarray(table.pod_count)[rows].astype(np.int64)

    def score_row(self, state: Any, pod: Any, table: Any, row: int) -> int:
        return 40 * int(table.pod_count[row])


def test_a_score_out_of_range_ends_in_an_error_all_the_same() -> None:
    def told(make: Any) -> dict[str, Any]:
        registry = full_registry().merge(Registry({"Grows": Grows}, "a test"))
        config = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Grows", "weight": 100}]}}}]}
        document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **config}
        cluster: SimulatedCluster = make(registry=registry, config=load_config(document, "a test"))
        cluster.add(make_node(f"n{i}").capacity(cpu="20", pods="110").build() for i in range(3))
        cluster.add(alike(make_pod("?").request(cpu="1"), "p", 9))
        cluster.settle()
        return told_of(cluster)

    found = told(SimulatedCluster)
    assert found == told(the_long_way)
    assert any("returns an invalid score 120" in message for message in found["messages"].values())
