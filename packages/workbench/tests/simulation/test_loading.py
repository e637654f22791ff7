"""A snapshot's cluster is loaded at once, and is then what it would be had its objects come one by one."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from berth.api.codec import decode
from berth.api.meta import Struct
from berth.core.builders import PodBuilder, make_node, make_pod
from berth.state.pod_index import TERM_KINDS
from berth.testing.invariants import check
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.site import Site
from berth_workbench.snapshot.documents import Document, complete
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.snapshot import read_cluster
from berth_workbench.snapshot.writer import with_counts, write_snapshot

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
INDEX = "batch.kubernetes.io/job-completion-index"
Json = dict[str, Any]


def a_template(lots: random.Random) -> PodBuilder:
    app = lots.choice(("web", "db", "job"))
    pod = make_pod("?", lots.choice(("default", "other"))).label("app", app).owned_by("ReplicaSet", app)
    pod.request(cpu=lots.choice(("100m", "1")), memory=lots.choice(("0", "1Gi")))
    for chance, change in (
        (0.5, lambda: pod.priority(lots.choice((0, 5)))),
        (0.2, lambda: pod.host_port(lots.choice((80, 81)))),
        (0.2, lambda: pod.request({"example.com/gpu": "1"})),
        (0.2, lambda: pod.spread(ZONE, {"app": app}, when="DoNotSchedule")),
        (0.2, lambda: pod.prefer_pod_anti_affinity(100, HOST, {"app": app})),
        (0.2, lambda: pod.pod_anti_affinity(HOST, {"app": app})),
        (0.2, lambda: pod.pod_affinity(ZONE, {"app": "db"})),
        (0.2, lambda: pod.volume("data", gcePersistentDisk={"pdName": lots.choice("ab")})),
        (0.2, lambda: pod.claim("data")),
        (0.1, lambda: pod.phase("Succeeded")),
        (0.1, lambda: pod.terminating()),
        (0.1, lambda: pod.annotation("note", app)),
        (
            0.1,
            lambda: pod.set_status(allocatedResources={}, containerStatuses=[{"name": "c", "allocatedResources": {}}]),
        ),
    ):
        if lots.random() < chance:
            change()
    return pod


def a_cluster(lots: random.Random) -> list[Json]:
    """Nodes and pods in any order: replicas, pods of DaemonSets and of indexed Jobs, on nodes that may not be there."""
    templates = [a_template(lots) for _ in range(5)]
    differ = [(lots.random() < 0.3, lots.random() < 0.3) for _ in templates]
    found: list[Json] = []
    for number in range(60):
        place = lots.randrange(len(templates))
        pod, (is_daemon, is_indexed) = templates[place].copy().uid(f"uid-{number}"), differ[place]
        pod.metadata["name"] = f"p{number}"
        node = f"n{lots.randrange(7)}"
        if is_daemon:
            pod.require_node(fields=[{"key": "metadata.name", "operator": "In", "values": [node]}])
        if is_indexed:
            pod.label(INDEX, str(number)).annotation(INDEX, str(number))
        if lots.random() < 0.8:
            pod.node(node).set_status(startTime=lots.choice(("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")))
        found.append(pod.document)
    for number in range(6):
        node_ = make_node(f"n{number}").zone(lots.choice("ab")).capacity({"example.com/gpu": 2}, cpu="8", pods="20")
        found.insert(lots.randrange(len(found)), node_.document)
    found.append(found[-1 - lots.randrange(5)])  # copied by hand: the last counts
    return found


def at_once(manifests: list[Json], path: Path) -> SimulatedCluster:
    documents = [Document(each["kind"], json.dumps(each).encode(), "here", each["apiVersion"]) for each in manifests]
    write_snapshot(with_counts(documents, Header()), path)
    return Site.of(read_cluster([path])).cluster


def one_by_one(manifests: list[Json]) -> SimulatedCluster:
    cluster = SimulatedCluster()
    last = {(each["kind"], each["metadata"]["name"]): each for each in manifests}
    structs: list[Struct] = [decode(each["kind"], each) for each in last.values()]
    for (kind, _), obj in zip(last, structs, strict=True):
        complete(kind, obj)
    # Nodes and all before pods, and of these the running ones first, as nothing waits for room when they come.
    for obj in sorted(structs, key=lambda each: type(each).__name__ == "Pod" and 1 + (not each.spec.node_name)):  # type: ignore[attr-defined]
        cluster.add([obj])
    return cluster


def counted(cluster: SimulatedCluster) -> Json:
    core = cluster.core
    check(core)
    core.cache.index.validate()
    table = core.cache.table
    states = core.cache.states()
    return {
        "objects": list(cluster.objects.items()),
        "pods": list(cluster.pods),
        "without node": cluster.without_node,
        "rows": table.row_of,
        "columns": {
            name: [table.allocatable[at].tolist(), table.requested[at].tolist()]
            for name, at in table.resource_index.items()
        },
        "scoring": table.scoring_requested.tolist(),
        "counts": table.pod_count.tolist(),
        "pods of rows": [list(pods) for pods in table.pods],
        "priorities": table.pods_by_priority,
        "states": [(uid, state.row, state.assumed, told(state.pod)) for uid, state in states.items()],
        "known": [told(pod) for pod in core.intake.pods],
        "queued": [each.pod.key for each in core.queue],
        "terms": {
            kind.name: {each.term: each.weights.tolist() for each in core.cache.index.terms(kind)}
            for kind in TERM_KINDS
        },
    }


def told(pod: Any) -> tuple[Any, ...]:
    derived = pod.requests, pod.scoring_requests, pod.qos_class, pod.host_ports, pod.label_key
    return pod.pod, pod.key, pod.priority, pod.profile_name, *derived, pod.required_affinity_terms


@pytest.mark.parametrize("seed", range(40))
def test_a_snapshot_is_loaded_as_if_its_objects_came_one_by_one(seed: int, tmp_path: Path) -> None:
    manifests = a_cluster(random.Random(seed))
    loaded, added = at_once(manifests, tmp_path / "s.gz"), one_by_one(manifests)

    assert counted(loaded) == counted(added)
    for cluster in (loaded, added):
        cluster.settle()
    assert loaded.placements == added.placements
    assert loaded.messages == added.messages


def test_what_was_loaded_can_be_read_only(tmp_path: Path) -> None:
    loaded = at_once(a_cluster(random.Random(1)), tmp_path / "s.gz")
    for pod in loaded.core.intake.pods:
        maps = [pod.labels, pod.metadata.annotations, pod.status.allocated_resources, pod.requests]
        maps += [each.resources.requests for each in pod.spec.containers]
        maps += [each.allocated_resources for each in pod.status.container_statuses]
        for each in maps:
            with pytest.raises(TypeError, match="cannot be changed"):
                each["new"] = "1"  # type: ignore[index]
