"""Plays a workload of scheduler_perf: operation by operation, on a cluster that is in process or a real one.

What time is differs between the two, so that a `PlayGround` says it: how long something took, and when the next moment
of an operation is that goes on in the background. Figures are those of the pods whose metrics are collected.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Protocol

import msgspec

from berth_workbench.scheduler_perf.documents import OPCODES, Document, Operation, PerfError, PerfTemplate, PerfWorkload

CAPACITY = {"pods": "110", "cpu": "4", "memory": "32Gi"}
NODE: Document = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {},
    "status": {
        "capacity": CAPACITY,
        "allocatable": CAPACITY,
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
"""What nodes are where a test names no template for them."""
POD: Document = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10.2",
                "ports": [{"containerPort": 80}],
                "resources": {
                    "limits": {"cpu": "100m", "memory": "500Mi"},
                    "requests": {"cpu": "100m", "memory": "500Mi"},
                },
            }
        ]
    },
}
"""What pods are where neither the test nor the operation names a template."""


class PlayedPod(msgspec.Struct):
    """A pod that was created, as far as operations wait for it."""

    namespace: str
    labels: Mapping[str, str]
    node: str = ""
    attempted: bool = False
    """Whether the scheduler has said that it fits nowhere."""


class NotPlayedError(Exception):
    """An operation that cannot be played here; says which, and why."""


class PlayGround(Protocol):
    """A cluster with a scheduler, and its time."""

    pods: dict[str, PlayedPod]
    """The pods that are there, by `namespace/name`."""
    nodes: list[str]
    left_out: set[str]
    """Kinds that the scheduler does not watch, of which objects were to be created."""
    on_bound: Callable[[str, PlayedPod], None]
    """Called with each pod that gets its node."""

    async def create(self, documents: Iterable[Document]) -> None:
        """Create objects, and leave out those that are there."""

    async def update(self, document: Document) -> None:
        """Put an object's spec and status in place of those that it has."""

    async def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; one with finalizers stays, with the time of its deletion."""

    async def allocate(self, namespace: str) -> None:
        """Give the claims of a namespace their devices, without pods. Raises `NotPlayedError`."""

    async def until(self, done: Callable[[], bool], limit_s: float | None = None) -> bool:
        """Let the scheduler work until something holds; say whether it does, by then or for too long without news."""

    async def pause(self, seconds: float) -> None:
        """Wait, in an operation that goes on in the background."""

    def start(self, job: Coroutine[Any, Any, None]) -> None:
        """Have an operation go on in the background."""

    def collecting(self) -> None:
        """Hear that what comes now is measured."""

    def stopwatch(self) -> float:
        """Return the seconds so far that count."""


class PerfFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a workload. `seconds` are from when metrics are collected to the last pod that got its node."""

    workload: str
    nodes: int = 0
    pods: int = 0
    failed: int = 0
    """Pods that were waited for and got no node."""
    seconds: float = 0.0
    pods_per_s: float = 0.0
    threshold: float | None = None
    """The pods a second that upstream's own CI demands."""
    not_played: str = ""
    """Why the workload was not played."""
    notes: tuple[str, ...] = ()


class _Collecting(msgspec.Struct):
    namespaces: frozenset[str]
    labels: Mapping[str, str]
    begun: float
    pods: int = 0
    ended: float | None = None


class Play:
    """One workload on one site."""

    def __init__(self, workload: PerfWorkload, site: PlayGround) -> None:
        self._workload = workload
        self._site = site
        self._serial = itertools.count(1)
        self._awaited: Counter[str] = Counter()
        """How many pods there are to be in each namespace that a barrier waits for."""
        self._failed = 0
        self._collecting: _Collecting | None = None
        self._collected: list[_Collecting] = []
        site.on_bound = self._note

    async def figures(self, notes: tuple[str, ...] = ()) -> PerfFigures:
        """Play the workload. Raises `PerfError`."""
        workload = self._workload
        if workload.unused:
            notes = (*notes, f"parameters that no operation reads: {', '.join(workload.unused)}")
        try:
            for operation in workload.operations:
                await self._play(operation)
        except NotPlayedError as reason:
            return PerfFigures(workload.title, threshold=workload.threshold, not_played=str(reason))
        if self._site.left_out:
            notes = (*notes, f"objects that the scheduler does not watch: {', '.join(sorted(self._site.left_out))}")
        pods = sum(each.pods for each in self._collected)
        seconds = sum((each.ended or each.begun) - each.begun for each in self._collected)
        return PerfFigures(
            workload.title,
            len(self._site.nodes),
            pods,
            self._failed,
            round(seconds, 4),
            round(pods / seconds, 1) if seconds else 0.0,
            workload.threshold,
            notes=notes,
        )

    async def _play(self, operation: Operation) -> None:
        if operation.opcode not in OPCODES:
            known = ", ".join(OPCODES)
            raise PerfError(f"{operation.where}: opcode {operation.opcode!r} is not understood; understood are {known}")
        await getattr(self, f"_{operation.opcode}")(operation)

    # -- operations, named as they are in documents ------------------------------------------------------------------

    async def _createNodes(self, op: Operation) -> None:  # noqa: N802
        template, count = op.template("nodeTemplatePath"), _count(op)
        labelled, unique = op.get("labelNodePrepareStrategy"), op.get("uniqueNodeLabelStrategy")
        allocatable = op.get("nodeAllocatableStrategy") or {}
        for index in range(count):
            made = template.made(index, count) if template else {**NODE, "metadata": {}}
            node = self._named(made, "", f"node-{op.number}-")
            name = node["metadata"]["name"]
            labels = {**(node["metadata"].get("labels") or {}), "kubernetes.io/hostname": name}
            if labelled:
                values = labelled.get("labelValues") or [labelled.get("labelValue")]
                labels[labelled["labelKey"]] = values[index % len(values)]
            if unique:
                labels[unique["labelKey"]] = name
            node["metadata"]["labels"] = labels
            more = allocatable.get("nodeAllocatable") or {}
            node["status"] = {**node["status"], "allocatable": {**node["status"]["allocatable"], **more}}
            await self._site.create([node, *_csi_node(name, allocatable)])
            self._site.nodes.append(name)

    async def _createNamespaces(self, op: Operation) -> None:  # noqa: N802
        template = op.template("namespaceTemplatePath")
        for index in range(_count(op)):
            made = template.made(index, _count(op)) if template else _namespace("")
            made["metadata"]["name"] = f"{op.get('prefix')}-{index}"
            await self._site.create([made])

    async def _createPods(self, op: Operation) -> None:  # noqa: N802
        namespace = await self._own_namespace(op)
        count, before = _count(op), self._scheduled((namespace,), {})
        if op.get("collectMetrics"):
            self._collect((namespace,), {})
        if op.get("steadyState"):
            await self._steadily(op, namespace, count)
        else:
            await self._site.create(self._pods(op, namespace, count))
            if op.get("skipWaitToCompletion"):
                self._awaited[namespace] += count
            else:
                await self._until_scheduled({namespace: before + count}, {})
        if op.get("collectMetrics"):
            self._end_collecting()

    async def _createPodSets(self, op: Operation) -> None:  # noqa: N802
        for number in range(_count(op)):
            await self._createPods(op.within(namespace=f"{op.get('namespacePrefix')}-{number}"))

    async def _createAny(self, op: Operation, count: int = 1) -> None:  # noqa: N802
        template, count = op.template("templatePath"), int(op.get("count", count))
        assert template is not None, "such operations have a template"
        if op.get("namespace"):
            await self._own_namespace(op)
        made = (template.made(index, count) for index in range(count))
        await self._site.create(self._named(each, op.get("namespace") or "") for each in made)

    async def _createResourceClaims(self, op: Operation) -> None:  # noqa: N802
        await self._createAny(op)

    async def _updateAny(self, op: Operation) -> None:  # noqa: N802
        template, count = op.template("templatePath"), int(op.get("count", 1))
        assert template is not None, "such operations have a template"
        per_second = op.get("updatePerSecond") or 0
        for index in range(count):
            if per_second:
                await self._site.until(lambda: False, 1 / per_second)
            await self._site.update(self._named(template.made(index, count), op.get("namespace") or ""))

    async def _createResourceDriver(self, op: Operation) -> None:  # noqa: N802
        driver, most = op.get("driverName"), int(op.get("maxClaimsPerNode", 0))
        names = (name for name in self._site.nodes if fnmatchcase(name, op.get("nodes")))
        await self._site.create(_slice(driver, name, most) for name in names)

    async def _allocResourceClaims(self, op: Operation) -> None:  # noqa: N802
        await self._site.allocate(op.get("namespace") or "")

    async def _deletePods(self, op: Operation) -> None:  # noqa: N802
        namespace, labels = op.get("namespace"), op.get("labelSelector") or {}
        keys = [key for key, pod in self._site.pods.items() if pod.namespace == namespace and _has(pod, labels)]
        per_second = op.get("deletePodsPerSecond") or 0

        async def deleting(pause: Callable[[float], Coroutine[Any, Any, object]]) -> None:
            for key in keys:
                if per_second:
                    await pause(1 / per_second)
                await self._site.delete("Pod", namespace, key.partition("/")[2])

        if op.get("skipWaitToCompletion"):
            self._site.start(deleting(self._site.pause))
        else:
            await deleting(lambda seconds: self._site.until(lambda: False, seconds))

    async def _churn(self, op: Operation) -> None:
        namespace = await self._own_namespace(op, awaited=False)
        self._site.start(self._churning(op, namespace, op.templates("templatePaths")))

    async def _churning(self, op: Operation, namespace: str, templates: list[PerfTemplate]) -> None:
        """Create objects, one of each template an interval, or create them and delete them again in turn."""
        number, recreates = op.get("number") or 0, op.get("mode") == "recreate"
        there: dict[int, list[Document]] = {}
        for turn in itertools.count():
            if number and turn >= number and not recreates:
                return
            await self._site.pause((op.get("intervalMilliseconds") or 500) / 1000)
            for each in there.pop(turn % number, ()) if recreates else ():
                await self._site.delete(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
            if recreates and turn // number % 2:
                continue
            made = [self._named(template.made(turn, 1), namespace) for template in templates]
            await self._site.create(made)
            if recreates:
                there[turn % number] = made

    async def _barrier(self, op: Operation) -> None:
        named = op.get("namespaces") or list(self._awaited)
        labels = op.get("labelSelector") or {}
        if op.get("stageRequirement") == "Attempted":
            await self._site.until(lambda: not self._waiting(named, labels, tried=True))
            return
        await self._site.until(lambda: not self._waiting(named, labels, tried=False))
        self._failed += self._waiting(named, labels, tried=False)
        for namespace in named:
            self._awaited.pop(namespace, None)

    async def _sleep(self, op: Operation) -> None:
        await self._site.until(lambda: False, op.seconds("duration"))

    async def _startCollectingMetrics(self, op: Operation) -> None:  # noqa: N802
        self._collect(op.get("namespaces"), op.get("labelSelector") or {})

    async def _stopCollectingMetrics(self, _op: Operation) -> None:  # noqa: N802
        self._end_collecting()

    # -- pods ----------------------------------------------------------------------------------------------------------

    async def _own_namespace(self, op: Operation, *, awaited: bool = True) -> str:
        namespace: str = op.get("namespace") or f"namespace-{op.number}"
        await self._site.create([_namespace(namespace)])
        if awaited and op.opcode == "createPods":
            self._awaited[namespace] += 0
        return namespace

    def _pods(self, op: Operation, namespace: str, count: int) -> Iterable[Document]:
        template = op.template("podTemplatePath")
        volume, claim = op.template("persistentVolumeTemplatePath"), op.template("persistentVolumeClaimTemplatePath")
        for index in range(count):
            made = template.made(index, count) if template else {**POD, "metadata": dict(POD["metadata"])}
            pod = self._named(made, namespace)
            if volume and claim:
                yield from _claimed(pod, claim.made(index, count), volume.made(index, count), index)
            yield pod

    async def _steadily(self, op: Operation, namespace: str, count: int) -> None:
        """Keep so many pods coming for a while: one that gets its node is deleted, and another one comes."""
        got: list[str] = []
        note = self._site.on_bound

        def also(key: str, pod: PlayedPod) -> None:
            note(key, pod)
            if pod.namespace == namespace:
                got.append(key)

        self._site.on_bound = also
        await self._site.create(self._pods(op, namespace, count))
        until = self._site.stopwatch() + op.seconds("duration")
        while (left := until - self._site.stopwatch()) > 0 and await self._site.until(lambda: bool(got), left):
            done, got[:] = got[:], ()
            for key in done:
                await self._site.delete("Pod", namespace, key.partition("/")[2])
            await self._site.create(self._pods(op, namespace, len(done)))
        self._site.on_bound = note

    async def _until_scheduled(self, wanted: Mapping[str, int], labels: Mapping[str, str]) -> None:
        def missing() -> int:
            return sum(max(0, count - self._scheduled((name,), labels)) for name, count in wanted.items())

        await self._site.until(lambda: not missing())
        self._failed += missing()

    def _scheduled(self, namespaces: Iterable[str], labels: Mapping[str, str]) -> int:
        pods = self._site.pods.values()
        return sum(bool(pod.node) and pod.namespace in namespaces and _has(pod, labels) for pod in pods)

    def _waiting(self, namespaces: Iterable[str], labels: Mapping[str, str], *, tried: bool) -> int:
        """Return how many pods have no node, and with `tried` were not tried either."""
        return sum(
            not pod.node and not (tried and pod.attempted) and pod.namespace in namespaces and _has(pod, labels)
            for pod in self._site.pods.values()
        )

    def _named(self, document: Document, namespace: str, prefix: str = "") -> Document:
        """Return the document with its namespace, with a name where it only says how one is to begin, and admitted."""
        meta = document["metadata"]
        if namespace and document["kind"] != "Node":
            meta["namespace"] = namespace
        if document["kind"] == "Node":
            status = document.get("status") or {}
            document["status"] = {"allocatable": status.get("capacity") or {}, **status}
        begins = meta.pop("generateName", None) or prefix or f"{document['kind'].lower()}-"
        if not meta.get("name"):
            meta["name"] = f"{begins}{next(self._serial)}"
        return document

    # -- figures -------------------------------------------------------------------------------------------------------

    def _collect(self, namespaces: Iterable[str], labels: Mapping[str, str]) -> None:
        self._site.collecting()
        self._collecting = _Collecting(frozenset(namespaces), labels, self._site.stopwatch())

    def _end_collecting(self) -> None:
        if self._collecting is not None:
            if self._collecting.ended is None:  # no pods, so what was done otherwise
                self._collecting.ended = self._site.stopwatch()
            self._collected.append(self._collecting)
            self._collecting = None

    def _note(self, _key: str, pod: PlayedPod) -> None:
        collecting = self._collecting
        if collecting is not None and pod.namespace in collecting.namespaces and _has(pod, collecting.labels):
            collecting.pods += 1
            collecting.ended = self._site.stopwatch()


def _count(op: Operation) -> int:
    return int(op.get("count", 0))


def _has(pod: PlayedPod, labels: Mapping[str, str]) -> bool:
    return labels.items() <= pod.labels.items()


def _namespace(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _claimed(pod: Document, claim: Document, volume: Document, index: int) -> Iterable[Document]:
    """Yield a claim and its volume, bound to each other, and have the pod use them; other pods go by the names, too."""
    namespace, name = pod["metadata"]["namespace"], f"pvc-{index}"
    handle = f"{namespace}-vol-{index}"
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
    spec = {**volume["spec"], "claimRef": reference}
    if "csi" in spec:
        spec["csi"] = {**spec["csi"], "volumeHandle": handle}
    if "awsElasticBlockStore" in spec:
        spec["awsElasticBlockStore"] = {"volumeID": handle}
    claimed = {**claim["metadata"], "name": name, "namespace": namespace}
    yield {
        **claim,
        "metadata": claimed,
        "spec": {**claim["spec"], "volumeName": handle},
        "status": {"phase": "Bound"},
    }
    yield {**volume, "metadata": {**volume["metadata"], "name": handle}, "spec": spec, "status": {"phase": "Bound"}}
    pod["spec"] = {**pod["spec"], "volumes": [{"name": "vol", "persistentVolumeClaim": {"claimName": name}}]}


def _csi_node(name: str, strategy: Mapping[str, Any]) -> list[Document]:
    """Return what says how many volumes a node takes, where a strategy does."""
    if not strategy:
        return []
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": allocatable}
        for driver, allocatable in (strategy.get("csiNodeAllocatable") or {}).items()
    ]
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(strategy.get("migratedPlugins") or ())}
    metadata = {"name": name, "annotations": migrated}
    return [{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}}]


def _slice(driver: str, node: str, devices: int) -> Document:
    """Return the devices of a node, as upstream's test driver publishes them."""
    attributes = {"model": {"string": "A100"}, "family": {"string": "GPU"}, "driverVersion": {"version": "1.2.3"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 0, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"instance-{number}",
                    "attributes": {**attributes, "dra.example.com/numa": {"int": number}},
                    "capacity": {"memory": {"value": "1Gi"}},
                }
                for number in range(devices)
            ],
        },
    }
