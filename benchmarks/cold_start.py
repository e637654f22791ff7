"""How long `berth run` takes from its start to its first binding, and how much memory, by the size of the cluster.

    python benchmarks/cold_start.py [NODES/PODS ...]

For each size a process of its own serves an embedded API server that is filled already, the pods running; then the
scheduler is started against it, with one pod pending. The time is that from starting the process to the binding; the
memory is resident, at its peak and half a minute later. Prints a table in Markdown.
"""

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

SIZES = ("100/1000", "1000/20000", "5000/100000")
SETTLE_S = 30.0
LONGEST_S = 600.0
BERTH = Path(sys.executable).with_name("berth")


def running_pod(number: int, nodes: int) -> dict:
    """A pod as a Deployment's, with about what the API server keeps of one: 3 kB."""
    workload = f"service-{number % 500}"
    labels = {
        "app": workload,
        "pod-template-hash": "7957885594",
        "tier": f"t{number % 7}",
        "team": f"team-{number % 40}",
    }
    variables = [{"name": f"SETTING_{index}", "value": f"value-{index}" * 3} for index in range(12)]
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10,
        "failureThreshold": 3,
    }
    container = {"name": "main", "image": f"registry.example.com/{workload}:1.0", "resources": resources}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": workload, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{workload}-{number}",
            "namespace": "default",
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": f"node-{number % nodes}",
            "containers": [container | {"env": variables, "livenessProbe": probe, "readinessProbe": probe}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def node(number: int) -> dict:
    """A node of 64 cores in one of three zones."""
    name = f"node-{number}"
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    images = [{"names": [f"registry.example.com/base-{index}:1"], "sizeBytes": 90_000_000} for index in range(20)]
    status = {"capacity": capacity, "allocatable": capacity, "images": images}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status | ready}


async def serve(directory: Path, nodes: int, pods: int) -> None:
    """Serve a filled cluster until told to stop, and say when a pod is bound."""
    from berth.api.resources import RESOURCES
    from berth_cluster.serving.server import ApiServer
    from berth_cluster.storage.store import Store

    store = Store(lambda: datetime.now(UTC))
    for number in range(nodes):
        store.create(RESOURCES["Node"], "", node(number))
    for number in range(pods):
        store.create(RESOURCES["Pod"], "default", running_pod(number, nodes))
    pending = running_pod(pods, nodes)
    del pending["spec"]["nodeName"], pending["status"]
    store.create(RESOURCES["Pod"], "default", pending)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    server = ApiServer(store, directory)
    await server.start()
    print("ready", flush=True)
    while not store.bindings and not stopped.is_set():
        await asyncio.sleep(0.01)
    print("bound", flush=True)
    await stopped.wait()
    await server.stop()


def measure(nodes: int, pods: int) -> tuple[float, int, int]:
    """Return seconds to the first binding, and megabytes at the peak and when all is quiet."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, __file__, "serve", name, str(nodes), str(pods)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        options = ["--kubeconfig", f"{name}/kubeconfig", "--leader-elect=false", "--secure-port=0"]
        began = time.monotonic()
        with (Path(name) / "log").open("w") as log:
            scheduler = subprocess.Popen([BERTH, "run", *options], stderr=log)
        try:
            assert server.stdout.readline() == "bound\n"
            seconds = time.monotonic() - began
            time.sleep(SETTLE_S)
            peak, now = memory_mb(scheduler.pid)
        finally:
            for process in (scheduler, server):
                process.terminate()
                process.wait(timeout=LONGEST_S)
    return seconds, peak, now


def memory_mb(pid: int) -> tuple[int, int]:
    """Return the peak and the present resident memory of a process."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return tuple(int(lines[name].split()[0]) // 1024 for name in ("VmHWM", "VmRSS"))  # type: ignore[return-value]


def main(sizes: list[str]) -> None:
    """Print the table."""
    print("| nodes | running pods | seconds to the first binding | MB at the peak | MB afterwards |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for size in sizes or SIZES:
        try:
            nodes, pods = map(int, size.split("/"))
        except ValueError:
            sys.exit(f"usage: cold_start.py [NODES/PODS ...], such as 1000/20000 and not {size!r}")
        seconds, peak, now = measure(nodes, pods)
        print(f"| {nodes:,} | {pods:,} | {seconds:.1f} | {peak} | {now} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
    else:
        main(sys.argv[1:])
