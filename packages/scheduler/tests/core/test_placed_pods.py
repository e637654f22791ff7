"""Pods on nodes that are taken in at once, while the cluster is read, leave what they leave one by one."""

import random
from typing import Any

import pytest

from berth.core.builders import PodBuilder, make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.instrument import Instrument
from berth.state.pod_groups import GroupKey
from berth.testing.invariants import check

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ("web", "db", "job")


class _Heard(Instrument):
    """Keeps what observers are told of events."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.pods: list[tuple[str, str]] = []

    def event_handled(self, event: str, seconds: float) -> None:
        self.events.append(event)

    def pod_heard_of(self, change: str, pod: Any) -> None:
        self.pods.append((change, pod.key))


def _template(lots: random.Random) -> PodBuilder:
    app = lots.choice(APPS)
    pod = make_pod("?").label("app", app).owned_by("ReplicaSet", app).priority(lots.choice((0, 0, 5)))
    pod.request(cpu=lots.choice(("100m", "1")), memory=lots.choice(("0", "1Gi")))
    for chance, change in (
        (0.3, lambda: pod.host_port(80)),
        (0.3, lambda: pod.spread(ZONE, {"app": app}, when="DoNotSchedule")),
        (0.3, lambda: pod.prefer_pod_anti_affinity(100, HOST, {"app": app})),
        (0.3, lambda: pod.pod_anti_affinity(HOST, {"app": app})),
        (0.1, lambda: pod.phase("Succeeded")),
        (0.1, lambda: pod.terminating()),
        (0.1, lambda: pod.scheduler("another")),
    ):
        if lots.random() < chance:
            change()
    return pod


def _listed(lots: random.Random, gated: float) -> list[Any]:
    """What a list of pods may hold, in any order: nodes may be listed later than their pods, or not at all."""
    templates = [_template(lots) for _ in range(5)]
    found: list[Any] = []
    for number in range(60):
        pod = lots.choice(templates).copy().uid(f"uid-{number}")
        pod.metadata["name"] = f"p{number}"
        if lots.random() < 0.8:
            pod.node(f"n{lots.randrange(7)}")
        elif lots.random() < gated:
            pod.gate("wait")
        found.append(pod.build())
    for number in range(6):
        node = make_node(f"n{number}").zone(lots.choice("ab")).capacity(cpu="8", memory="32Gi", pods="20").build()
        found.insert(lots.randrange(len(found)), node)
    return found


def _taken_in(listed: list[Any], chunks: random.Random | None) -> tuple[VirtualCluster, _Heard]:
    heard = _Heard()
    cluster = VirtualCluster(seed=1, instrument=heard)
    core, waiting = cluster.core, []
    for obj in [*listed, None]:
        is_placed = obj is not None and type(obj).__name__ == "Pod" and bool(obj.spec.node_name)
        if chunks is not None and is_placed and chunks.random() < 0.9:
            waiting.append(obj)
            continue
        if waiting:
            core.handle_placed(waiting, cluster.now)
            waiting = []
        if obj is not None:
            core.handle(ObjectEvent("ADDED", type(obj).__name__, obj), cluster.now)
    return cluster, heard


def _told_of(cluster: VirtualCluster) -> dict[str, Any]:
    core = cluster.core
    check(core)
    core.cache.index.validate()
    table = core.cache.table
    rows = [table.row_of[name] for name in sorted(table.row_of)]
    return {
        "counted": {uid: (table.names[state.row], state.pod.key) for uid, state in core.cache.states().items()},
        "pods of rows": [list(table.pods[row]) for row in rows],
        "requested": table.requested[:, rows].tolist(),
        "queued": [(each.pod.key, each.attempts) for each in core.queue],
        "known": [(pod.key, pod.node_name) for pod in core.intake.pods],
    }


def _decided(cluster: VirtualCluster) -> list[Any]:
    found = []
    while cluster.core.has_work:
        found.append([repr(effect) for effect in cluster.core.step(cluster.now)])
    return found


@pytest.mark.parametrize("gated", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(25))
def test_many_at_once_are_as_many_one_by_one(seed: int, gated: float) -> None:
    listed = _listed(random.Random(seed), gated)
    (alone, heard_alone), (together, heard) = _taken_in(listed, None), _taken_in(listed, random.Random(seed))
    assert _told_of(together) == _told_of(alone)
    assert sorted(heard.events) == sorted(heard_alone.events)
    assert heard.pods == heard_alone.pods
    assert _decided(together) == _decided(alone)


def test_pods_that_appear_at_work_wake_those_that_wait_for_them() -> None:
    cluster = VirtualCluster(make_node("n").zone("a").capacity(cpu="8", pods="20"))
    cluster.put(make_pod("late").pod_affinity(ZONE, {"app": "db"}))
    cluster.run()
    cluster.core.handle_placed([make_pod("db").label("app", "db").node("n").build()], cluster.now)
    cluster.advance(60)
    assert cluster.nodes_of()["late"] == "n"


def test_members_that_run_when_a_cluster_is_read_count_for_their_group() -> None:
    cluster = VirtualCluster(make_node("n").capacity(cpu="8", pods="20"), gates={"GenericWorkload": True})
    running = [make_pod(name).group("g").node("n").build() for name in ("a", "b")]
    cluster.core.handle_placed(running, cluster.now)
    groups = cluster.core.intake.groups
    assert groups is not None
    assert [pod.name for pod in groups.placed(GroupKey("default", "g"))] == ["a", "b"]
