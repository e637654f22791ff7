"""A snapshot of 5,000 nodes and 100,000 pods is read, structs and all, in less than 15 s."""

import time
from pathlib import Path

import msgspec

from berth.core.builders import make_node, make_pod
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.snapshot import Snapshot, read_cluster
from berth_workbench.snapshot.writer import with_counts, write_snapshot

NODES, PODS, REPLICAS = 5_000, 100_000, 20
SECONDS = 15.0


def cluster() -> Snapshot:
    documents = []
    for number in range(NODES):
        node = make_node(f"node-{number:05}").capacity(cpu="32", memory="128Gi", pods="110").zone(f"zone-{number % 3}")
        for image in range(number % 7, 200, 7):
            node.image(f"registry.example.com/team/app-{image}:v1", size_bytes=50_000_000 + image)
        documents.append(Document("Node", msgspec.json.encode(node.document), "", "v1", "", f"node-{number:05}"))
    for number in range(PODS):
        app, name = f"app-{number // REPLICAS}", f"app-{number // REPLICAS}-{number:06}"
        pod = (
            make_pod(name).node(f"node-{number * 7 % NODES:05}").phase("Running").label("app", app)
            .owned_by("ReplicaSet", app, uid=app).container(f"registry.example.com/team/{app}:v1",
                requests={"cpu": f"{100 + number // REPLICAS % 50 * 10}m", "memory": "512Mi"})
            .prefer_pod_anti_affinity(100, "kubernetes.io/hostname", {"app": app})
            .spread("topology.kubernetes.io/zone", labels={"app": app}, when="ScheduleAnyway")
        )  # fmt: skip
        documents.append(Document("Pod", msgspec.json.encode(pod.document), "", "v1", "default", name))
    return with_counts(documents, Header())


def test_a_large_snapshot_is_read_in_time(tmp_path: Path) -> None:
    write_snapshot(cluster(), tmp_path / "large.jsonl.gz")
    begun = time.process_time()
    structs = list(read_cluster([tmp_path / "large.jsonl.gz"]).structs())
    taken = time.process_time() - begun
    assert len(structs) == NODES + PODS
    assert taken < SECONDS
