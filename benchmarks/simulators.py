"""Pods placed a CPU second, and memory: a workload that other simulators may be given, and what ours takes for it.

    python benchmarks/simulators.py [--nodes 1000] [--pods 20000] [--write cluster.json]

The nodes have 32 CPUs and 128 GiB; the pods ask for one of eight sizes, a hundred of a size in a row, as replicas come.
The clock runs over adding and placing the pods; making the manifests and the nodes is outside. `--write` writes nodes
and pods as one List, for whoever reads manifests.
"""

import argparse
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import berth

SIZES = (("100m", "128Mi"), ("250m", "512Mi"), ("500m", "1Gi"), ("500m", "256Mi"), ("1", "2Gi"), ("1", "4Gi"),
         ("2", "1Gi"), ("200m", "2Gi"))  # fmt: skip
REPLICAS = 100


def nodes(count: int) -> Iterator[dict[str, Any]]:
    capacity = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    for number in range(count):
        labels = {"kubernetes.io/hostname": f"n{number}", "topology.kubernetes.io/zone": f"z{number % 3}"}
        metadata = {"name": f"n{number}", "labels": labels}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": capacity}}


def pods(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        cpu, memory = SIZES[number // REPLICAS % len(SIZES)]
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
        metadata = {"name": f"p{number}", "labels": {"app": f"a{number // REPLICAS}"}}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    wanted = list(pods(asked.pods))
    if asked.write:
        asked.write.write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes(asked.nodes), *wanted]})
        )
    print(f"{asked.pods:,} pods on {asked.nodes:,} nodes\n\n| how | placed | pods a CPU second |\n| --- | --- | --- |")
    for how in ("schedule_all(explain=False)", "schedule_all()", "schedule(pod)"):
        scheduler = berth.Scheduler()
        scheduler.add(*nodes(asked.nodes))
        began = time.process_time()
        if how == "schedule(pod)":
            results = [scheduler.schedule(pod) for pod in wanted]
        else:
            scheduler.add(*wanted)
            results = scheduler.schedule_all(explain="False" not in how)
        seconds = time.process_time() - began
        placed = sum(result.node is not None for result in results)
        print(f"| `{how}` | {placed:,} | {len(wanted) / seconds:,.0f} |", flush=True)
    print(f"\n{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:,} MB in all, manifests and results included")


if __name__ == "__main__":
    main()
