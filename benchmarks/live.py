"""How fast a scheduler is where users are: a whole process against an API server, with everything on.

    python benchmarks/live.py [OPTIONS] [-- COMMAND ...]

The command is any scheduler. In it `{kubeconfig}` stands for that file, which is in KUBECONFIG as well, and `{config}`
for a KubeSchedulerConfiguration that names it and lets the client send as fast as it can (the default is 50 requests a
second, and then nothing else is measured). Without a command it is `berth run --config {config}`. The API server is an
embedded one of its own process, or that of --kubeconfig, whose nodes and pods are deleted before and after each run.

A workload is a name of scenarios.py with numbers (`basic/5000/3000`: nodes, pods), a file of JSON lines as that
writes them; workloads of kube-scheduler's own benchmark are played by `berth bench --kubeconfig`. The
embedded API server has no controllers, so that scenarios with volumes need a cluster of yours that binds them; without
a command, the feature gates that a scenario needs are switched on.

    python benchmarks/live.py --workload basic/5000/3000 --workload mixed/5000/3000
    python benchmarks/live.py --workload basic/5000/3000 --rate 200          # arrivals a second, not a burst
    python benchmarks/live.py --runs 3 --against 'kube-scheduler --config {config}' -- berth run --config {config}

Each run prints one line of JSON, with machine and commit; what a table needs is repeated on standard error. Paired
commands run in turn. Timings here and everywhere are noisy: compare two things in one sitting, medians of several.
"""

import argparse
import asyncio
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.processes import Watched, cpu_s, listening_on  # noqa: E402 - runs from any directory
from benchmarks.scenarios import FEATURE_GATES, write  # noqa: E402
from berth.api.errors import ApiError, ConnectionLost  # noqa: E402
from berth.api.resources import RESOURCES, Resource  # noqa: E402
from berth.kube.credentials.access import load_access  # noqa: E402
from berth.kube.http.client import HttpTransport  # noqa: E402
from berth.kube.http.rate_limit import RateLimit  # noqa: E402

BERTH = Path(sys.executable).with_name("berth")
DEFAULT_COMMAND = (str(BERTH), "run", "--config", "{config}", "--secure-port", "0")
DEFAULT_WORKLOADS = ("basic/5000/3000", "mixed/5000/3000")
CREATES_AT_ONCE = 32
STALL_S = 60.0
"""So long without a binding, and the pods that are left are taken to fit nowhere."""
SETTLE_TRIES = 60
AT_REST = 0.05
"""A command that uses less than this share of a core has nothing left to do."""
WATCH_S = 3600.0
CLIENT_QPS = 5000
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
POD, NODE, NAMESPACE = RESOURCES["Pod"], RESOURCES["Node"], RESOURCES["Namespace"]
OURS = "berth-live-benchmark"


@dataclass
class Step:
    """Objects to create."""

    documents: Iterable[Mapping[str, Any]] = ()
    is_measured: bool = False
    """Whether they are the pods that are measured."""
    is_before_start: bool = False
    """Whether this comes before the scheduler is started."""


@dataclass
class Bindings:
    """What a watch of the cluster's pods has seen, in seconds of the monotonic clock."""

    made: dict[str, float] = field(default_factory=dict)
    """When the measured pods were asked for, by namespace/name."""
    bound: dict[str, float] = field(default_factory=dict)
    """When pods were first seen with a node."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def waiting(self, keys: Iterable[str]) -> int:
        """How many of these have no node yet."""
        return sum(key not in self.bound for key in keys)


class Cluster:
    """The benchmark's own client of the API server; it counts its requests, so that they can be left out."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport
        self.requests: Counter[str] = Counter()

    async def create(self, document: Mapping[str, Any]) -> None:
        """Create an object; one that is there already is fine. A node's status is written with it where it has one."""
        resource = resource_of(document)
        namespace = document["metadata"].get("namespace", "default") if resource.namespaced else ""
        self.requests[f"POST {resource.plural}"] += 1
        try:
            await self._transport.create(resource, namespace, json.dumps(document).encode())
        except ApiError as error:
            if error.status != 409:
                raise

    async def create_all(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Create objects, several at a time."""
        left = iter(documents)

        async def some() -> None:
            for document in left:
                await self.create(document)

        await asyncio.gather(*(some() for _ in range(CREATES_AT_ONCE)))

    async def clear(self) -> None:
        """Delete all pods and nodes."""
        for resource in (POD, NODE):
            listed = json.loads(await self._transport.list(resource))
            left = iter(listed.get("items") or ())

            async def some(left: Any = left, resource: Resource = resource) -> None:
                options = b'{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}'
                for obj in left:
                    meta = obj["metadata"]
                    with suppress(ApiError):
                        await self._transport.delete(resource, meta.get("namespace", ""), meta["name"], options)

            await asyncio.gather(*(some() for _ in range(CREATES_AT_ONCE)))

    async def delete(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object; one that is gone is fine."""
        self.requests[f"DELETE {resource.plural}"] += 1
        with suppress(ApiError):
            await self._transport.delete(resource, namespace, name)

    async def watch(self, seen: Bindings, started: asyncio.Event) -> None:
        """Note each pod's first binding, until cancelled."""
        version = json.loads(await self._transport.list(POD, limit=1))["metadata"]["resourceVersion"]
        started.set()
        while True:
            # A server ends watches that are read slowly, as they are where much else is at work: it goes on there.
            with suppress(ConnectionLost):
                async for event in self._bound_since(version):
                    meta = event["object"]["metadata"]
                    version = meta["resourceVersion"]
                    if event["type"] in ("ADDED", "MODIFIED") and event["object"]["spec"].get("nodeName"):
                        seen.bound.setdefault(f"{meta['namespace']}/{meta['name']}", time.monotonic())
                        seen.changed.set()

    async def _bound_since(self, version: str) -> AsyncIterator[Any]:
        lines = self._transport.watch(
            POD, resource_version=version, timeout_s=WATCH_S, field_selector="spec.nodeName!="
        )
        async for line in lines:
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise SystemExit(f"the watch of what is measured was lost: {event['object'].get('message')}")
            yield event

    async def answered(self) -> Counter[str]:
        """How many requests the server has answered so far, by verb and resource; empty where it does not tell."""
        try:
            text = (await self._transport.read("/metrics")).decode()
        except ApiError:
            return Counter()
        found: Counter[str] = Counter()
        for line in text.splitlines():
            name, _, rest = line.partition("{")
            if name != "apiserver_request_total":
                continue
            labels, _, value = rest.rpartition("} ")
            pairs = dict(pair.split("=", 1) for pair in labels.replace('"', "").split(",") if "=" in pair)
            what = "/".join(filter(None, (pairs.get("resource"), pairs.get("subresource"))))
            found[f"{pairs.get('verb')} {what}"] += int(float(value))
        return found


def resource_of(document: Mapping[str, Any]) -> Resource:
    """The resource of a document."""
    return RESOURCES[document["kind"]]


@asynccontextmanager
async def api_server(kubeconfig: str) -> AsyncIterator[tuple[str, int | None]]:
    """Yield a kubeconfig and the server's process, if it is on this machine: a new embedded one, or the one given."""
    if kubeconfig:
        access = load_access(kubeconfig)
        port = int(access.server.rpartition(":")[2].rstrip("/") or 443)
        is_here = any(host in access.server for host in ("127.0.0.1", "localhost", "[::1]"))
        yield kubeconfig, listening_on(port) if is_here else None
        return
    with tempfile.TemporaryDirectory() as directory:
        command = [BERTH, "apiserver", "--dir", directory]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not (Path(directory) / "kubeconfig").exists():
                if server.poll() is not None:
                    raise SystemExit(f"the embedded API server ended with {server.returncode}")
                await asyncio.sleep(0.05)
            yield f"{directory}/kubeconfig", server.pid
        finally:
            server.terminate()
            server.wait()


class Run:
    """One command and one workload."""

    def __init__(
        self, command: list[str], steps: list[Step], rate: float, kubeconfig: str, log: Path | None, directory: Path
    ) -> None:
        """`directory` is for the files that the command is given."""
        self._directory = directory
        self._command = command
        self._steps = steps
        self._rate = rate
        self._kubeconfig = kubeconfig
        self._log = log
        self._seen = Bindings()
        self._waits: list[float] = []
        self._left_behind: list[Mapping[str, Any]] = []
        """What was created beside pods and nodes."""

    async def measure(self) -> dict[str, Any]:
        """Carry the run out; return its figures."""
        async with api_server(self._kubeconfig) as (kubeconfig, server_pid):
            transport = HttpTransport(load_access(kubeconfig), rate_limit=RateLimit(qps=-1), user_agent=OURS)
            cluster = Cluster(transport)
            try:
                return await self._measured(cluster, kubeconfig, server_pid)
            finally:
                if self._kubeconfig:
                    await cluster.clear()
                    for document in self._left_behind:
                        meta = document["metadata"]
                        await cluster.delete(resource_of(document), meta.get("namespace", ""), meta["name"])
                await transport.close()

    async def _measured(self, cluster: Cluster, kubeconfig: str, server_pid: int | None) -> dict[str, Any]:
        if self._kubeconfig:
            await cluster.clear()
        started = asyncio.Event()
        watching = asyncio.create_task(cluster.watch(self._seen, started))
        await started.wait()
        before = [step for step in self._steps if step.is_before_start]
        for step in before:
            await self._carry_out(cluster, step)
        asked, server_before = await cluster.answered(), cpu_s([server_pid] if server_pid else [])
        own = cluster.requests.copy()
        began = time.monotonic()
        scheduler = self._start(kubeconfig)
        process = Watched(scheduler.pid)
        try:
            first = asyncio.create_task(self._first(process, scheduler))
            for step in self._steps[len(before) :]:
                await self._carry_out(cluster, step)
            await self._until_bound(scheduler, self._seen.made)
            at_first = await first
            await settled(process)
            cpu, server_after = process.cpu_s(), cpu_s([server_pid] if server_pid else [])
            answered = (await cluster.answered()) - asked - (cluster.requests - own)
        finally:
            watching.cancel()
            scheduler.terminate()
            with suppress(subprocess.TimeoutExpired):
                scheduler.wait(20)
            scheduler.kill()
            peak = process.end()
            await asyncio.gather(watching, return_exceptions=True)
        ours = {key: at for key, at in self._seen.bound.items() if key in self._seen.made}
        waits = sorted(at - self._seen.made[key] for key, at in ours.items())
        count, times = len(ours), sorted(ours.values())
        seconds = times[-1] - times[0] if count > 1 else 0.0
        figures = {
            "pods": len(self._seen.made),
            "bound": count,
            "pods_per_s": round((count - 1) / seconds, 1) if seconds else None,
            "first_binding_s": round(times[0] - began, 2) if times else None,
            "cpu_s": round(cpu, 2),
            "cpu_ms_per_pod": round(1000 * cpu / max(1, count), 3),
            "cpu_ms_per_pod_after_first": round(1000 * (cpu - at_first) / max(1, count - 1), 3),
            "peak_mb": round(peak, 1),
            "api_server_cpu_ms_per_pod": round(1000 * (server_after - server_before) / max(1, count), 3)
            if server_pid
            else None,
            "requests_per_pod": {what: round(n / max(1, count), 3) for what, n in answered.most_common() if n},
        }
        if self._rate:
            figures |= {"created_to_bound_ms": {f"p{p}": percentile_ms(waits, p) for p in (50, 90, 99, 100)}}
        return figures

    def _start(self, kubeconfig: str) -> "subprocess.Popen[bytes]":
        config = self._directory / "config.json"
        connection = {"kubeconfig": kubeconfig, "qps": CLIENT_QPS, "burst": CLIENT_QPS}
        config.write_text(json.dumps({**CONFIGURATION, "clientConnection": connection}))
        filled = {"{kubeconfig}": kubeconfig, "{config}": str(config)}
        command = [filled.get(part, part) for part in self._command]
        out = self._log.open("ab") if self._log else subprocess.DEVNULL
        # Python may keep compiled modules, which an installation has: to compile them anew takes half a start.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return subprocess.Popen(command, stdout=out, stderr=out, env={**environment, "KUBECONFIG": kubeconfig})

    async def _first(self, process: Watched, scheduler: "subprocess.Popen[bytes]") -> float:
        """The CPU that the command has used when the first measured pod is bound."""
        while not any(key in self._seen.made for key in self._seen.bound):
            self._seen.changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._seen.changed.wait(), 1.0)
            if scheduler.poll() is not None:
                break
        return process.cpu_s()

    async def _carry_out(self, cluster: Cluster, step: Step) -> None:
        if step.is_measured and self._rate:
            await self._arrive(cluster, list(step.documents))
        else:
            documents = list(step.documents)
            if step.is_measured:
                now = time.monotonic()
                self._seen.made |= {key_of(document): now for document in documents}
            await cluster.create_all(documents)
            self._left_behind += [one for one in documents if one["kind"] not in ("Pod", "Node", "Namespace")]

    async def _arrive(self, cluster: Cluster, documents: list[Mapping[str, Any]]) -> None:
        """Create pods at a steady pace, the first ones only to find the scheduler ready."""
        warm, rest = documents[:1], documents[1:]
        await cluster.create_all(warm)
        await self._until_bound(None, [key_of(document) for document in warm])
        began = time.monotonic()
        under_way: set[asyncio.Task[None]] = set()
        for number, document in enumerate(rest):
            due = began + number / self._rate
            if (ahead := due - time.monotonic()) > 0:
                await asyncio.sleep(ahead)
            self._seen.made[key_of(document)] = time.monotonic()
            task = asyncio.create_task(cluster.create(document))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.gather(*under_way)

    async def _until_bound(self, scheduler: "subprocess.Popen[bytes] | None", keys: Iterable[str]) -> None:
        """Wait until these pods have nodes, or nothing happens any more."""
        wanted, last, left = list(keys), time.monotonic(), None
        while now_left := self._seen.waiting(wanted):
            if scheduler is not None and scheduler.poll() is not None:
                raise SystemExit(f"the command ended with {scheduler.returncode} while {now_left} pods were waiting")
            if now_left != left:
                left, last = now_left, time.monotonic()
            elif time.monotonic() - last > STALL_S:
                return
            await asyncio.sleep(0.05)


async def settled(process: Watched) -> None:
    """Wait until the command is at rest: events are written behind the bindings, and they cost something as well."""
    for _ in range(SETTLE_TRIES):
        before = process.cpu_s()
        await asyncio.sleep(1.0)
        if process.cpu_s() - before < AT_REST:
            return


def key_of(document: Mapping[str, Any]) -> str:
    """`namespace/name`."""
    return f"{document['metadata'].get('namespace', 'default')}/{document['metadata']['name']}"


def percentile_ms(waits: list[float], percent: int) -> float | None:
    """The wait that so many percent do not exceed, in milliseconds."""
    return round(1000 * waits[max(0, -(-len(waits) * percent // 100) - 1)], 1) if waits else None


def workload(name: str, rate: float, directory: Path) -> list[Step]:
    """The steps of a workload by its name; see the module's docstring. Arrivals come to a scheduler that runs."""
    path = Path(name)
    if not path.exists():
        try:
            scenario, nodes, pods = name.split("/")
        except ValueError:
            raise SystemExit(
                f"--workload {name}: neither a file nor NAME/NODES/PODS, such as basic/5000/3000"
            ) from None
        path = directory / "workload.jsonl"
        try:
            with path.open("w") as out:
                write(scenario, int(nodes), int(pods), out)
        except (ValueError, subprocess.CalledProcessError):
            raise SystemExit(f"--workload {name}: scenarios.py cannot make that") from None
    with path.open() as lines:
        documents = [json.loads(line) for line in lines if line.strip()]
    pending = [one for one in documents if one["kind"] == "Pod" and not one["spec"].get("nodeName")]
    for pod in pending:
        pod.pop("status", None)
    kept = {id(pod) for pod in pending}
    there = [one for one in documents if id(one) not in kept]
    namespaces = sorted({one["metadata"].get("namespace", "default") for one in documents if one["kind"] == "Pod"})
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces]
    nodes_and_more = [one for one in there if one["kind"] != "Pod"]
    running = [one for one in there if one["kind"] == "Pod"]
    return [Step(made, is_before_start=True), Step(nodes_and_more, is_before_start=True),
            Step(running, is_before_start=True), Step(pending, is_measured=True, is_before_start=not rate)]  # fmt: skip


def machine() -> dict[str, Any]:
    """Where and what was measured."""
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")]  # fmt: skip
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=False
    )
    return {
        "machine": {"cpu": models[0] if models else platform.machine(), "cores": len(os.sched_getaffinity(0)),
                    "load": round(os.getloadavg()[0], 2), "python": platform.python_version()},
        "commit": described.stdout.strip(),
    }  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", default="", help="an API server to use instead of an embedded one; emptied")
    parser.add_argument("--workload", action="append", default=[], help="may be repeated")
    parser.add_argument("--rate", type=float, default=0.0, help="pods a second that arrive; a burst without it")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--against", default="", help="another command, which is run in turn with the first")
    parser.add_argument("--log", type=Path, help="where the commands' output goes")
    parser.add_argument("command", nargs="*", help="the scheduler and its options")
    return parser.parse_args()


def main() -> None:
    """Run everything, print a line for each run, and the medians."""
    asked = arguments()
    commands = [asked.command or list(DEFAULT_COMMAND)]
    if asked.against:
        commands.append(shlex.split(asked.against))
    about = machine()
    for name in asked.workload or DEFAULT_WORKLOADS:
        found: list[list[dict[str, Any]]] = [[] for _ in commands]
        for _ in range(asked.runs):
            for number, given in enumerate(commands):
                gates = FEATURE_GATES.get(name.partition("/")[0], "") if given == list(DEFAULT_COMMAND) else ""
                command = [*given, "--feature-gates", gates] if gates else given
                with tempfile.TemporaryDirectory() as directory:
                    steps = workload(name, asked.rate, Path(directory))
                    run = Run(command, steps, asked.rate, asked.kubeconfig, asked.log, Path(directory))
                    figures = asyncio.run(run.measure())
                found[number].append(figures)
                line = {"workload": name, "rate": asked.rate or None, "command": shlex.join(command)}
                print(json.dumps({**line, **figures, **about}), flush=True)
        for command, runs in zip(commands, found, strict=True):
            print(summary(name, command, runs), file=sys.stderr, flush=True)


def summary(name: str, command: list[str], runs: list[dict[str, Any]]) -> str:
    """The medians of several runs in one line."""
    keys = ("pods_per_s", "cpu_ms_per_pod", "cpu_ms_per_pod_after_first", "first_binding_s", "peak_mb",
            "api_server_cpu_ms_per_pod")  # fmt: skip
    told = []
    for key in keys:
        values = [run[key] for run in runs if run[key] is not None]
        if values:
            told.append(f"{key} {statistics.median(values):g}")
    if "created_to_bound_ms" in runs[0]:
        waits = [run["created_to_bound_ms"]["p99"] for run in runs]
        told.append(f"p99 {statistics.median(waits):g} ms")
    return f"{name}: {shlex.join(command)}: median of {len(runs)}: {', '.join(told)}"


if __name__ == "__main__":
    main()
