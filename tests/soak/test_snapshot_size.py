"""A snapshot is read, structs and all, in time in proportion to it, up to 5,000 nodes and 100,000 pods."""

from pathlib import Path

import msgspec

from berth.core.builders import make_node, make_pod
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.snapshot import Snapshot, read_cluster
from berth_workbench.snapshot.writer import with_counts, write_snapshot
from tests.effort import times_as_long

NODES, PODS, REPLICAS = 5_000, 100_000, 20
QUARTER = 4


def cluster(nodes: int, pods: int) -> Snapshot:
    documents = []
    for number in range(nodes):
        node = make_node(f"node-{number:05}").capacity(cpu="32", memory="128Gi", pods="110").zone(f"zone-{number % 3}")
        for image in range(number % 7, 200, 7):
            node.image(f"registry.example.com/team/app-{image}:v1", size_bytes=50_000_000 + image)
        documents.append(Document("Node", msgspec.json.encode(node.document), "", "v1", "", f"node-{number:05}"))
    for number in range(pods):
        app, name = f"app-{number // REPLICAS}", f"app-{number // REPLICAS}-{number:06}"
        pod = (
            make_pod(name).node(f"node-{number * 7 % nodes:05}").phase("Running").label("app", app)
            .owned_by("ReplicaSet", app, uid=app).container(f"registry.example.com/team/{app}:v1",
                requests={"cpu": f"{100 + number // REPLICAS % 50 * 10}m", "memory": "512Mi"})
            .prefer_pod_anti_affinity(100, "kubernetes.io/hostname", {"app": app})
            .spread("topology.kubernetes.io/zone", labels={"app": app}, when="ScheduleAnyway")
        )  # fmt: skip
        documents.append(Document("Pod", msgspec.json.encode(pod.document), "", "v1", "default", name))
    return with_counts(documents, Header())


def test_a_large_snapshot_is_read_in_time_in_proportion(tmp_path: Path) -> None:
    write_snapshot(cluster(NODES, PODS), tmp_path / "large.jsonl.gz")
    write_snapshot(cluster(NODES // QUARTER, PODS // QUARTER), tmp_path / "small.jsonl.gz")

    def read(name: str) -> int:
        return len(list(read_cluster([tmp_path / name]).structs()))

    assert read("large.jsonl.gz") == NODES + PODS
    ratio = times_as_long(lambda: read("large.jsonl.gz"), lambda: read("small.jsonl.gz"))
    assert ratio < 2 * QUARTER
