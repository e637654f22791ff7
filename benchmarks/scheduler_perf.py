"""Reads workloads in the vocabulary of kube-scheduler's benchmark, scheduler_perf, from its files as they are.

A file is a list of tests; a test has a `workloadTemplate`, which is a list of operations, and `workloads`, which fill
its parameters in (`countParam: $initNodes`). Pods and nodes are made from files named beside it, Go templates of which
only `{{.Index}}` and `{{.Count}}` are used. Facts: test/integration/scheduler_perf of kubernetes/kubernetes, v1.36.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]

NODE_TEMPLATE: Document = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"generateName": "scheduler-perf-"},
    "status": {
        "capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "allocatable": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
"""What nodes are where a test names no template for them."""


@dataclass
class Step:
    """One thing to do: wait a while, create objects, wait until pods have nodes."""

    documents: Iterable[Document] = ()
    is_measured: bool = False
    """Whether the pods among them are what is measured."""
    is_before_start: bool = False
    """Whether this comes before the scheduler is started."""
    awaited: list[str] = field(default_factory=list)
    """Pods, as `namespace/name`, that have to have a node before the next step."""
    pause_s: float = 0.0


class PerfError(SystemExit):
    """A file that cannot be used; says which, where in it, and why."""


def read_case(path: Path, test: str, case: str) -> list[Step]:
    """The steps of one workload of one test of a file; the first ones where no names are given."""
    try:
        tests = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    except (OSError, yaml.YAMLError) as error:
        raise PerfError(f"{path}: cannot be read: {error}") from None
    if not isinstance(tests, list):
        raise PerfError(f"{path}: holds no list of tests")
    chosen = _named(tests, test, f"{path}: test")
    workload = _named(chosen.get("workloads") or [], case, f"{path}: {chosen.get('name')}: workload")
    return _Reader(path, chosen, workload.get("params") or {}).steps()


def _named(among: list[Document], name: str, where: str) -> Document:
    found = [one for one in among if not name or one.get("name") == name]
    if not found:
        raise PerfError(f"{where} {name!r} is not there; there are {', '.join(str(one.get('name')) for one in among)}")
    return found[0]


class _Reader:
    """Turns the operations of one workload into steps."""

    def __init__(self, path: Path, test: Document, params: Mapping[str, Any]) -> None:
        self._path = path
        self._test = test
        self._params = params
        self._pods: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
        """What was made so far, by namespace: keys and labels."""
        self._serial = itertools.count()

    def steps(self) -> list[Step]:
        found: list[Step] = []
        for number, operation in enumerate(self._test.get("workloadTemplate") or []):
            opcode = operation.get("opcode")
            read: Callable[..., Iterator[Step]] | None = _READERS.get(opcode)
            if read is None:
                where = f"{self._path}: {self._test.get('name')}: operation {number}"
                known = ", ".join(sorted(_READERS))
                raise PerfError(f"{where}: opcode {opcode!r} is not understood; understood are {known}")
            found += read(self, operation)
        return found

    # -- operations ----------------------------------------------------------------------------------------------

    def nodes(self, operation: Document) -> Iterator[Step]:
        count = self._count(operation)
        template = self._template(operation.get("nodeTemplatePath")) or (lambda _: _copy(NODE_TEMPLATE))
        yield Step(self._nodes(template, count, operation), is_before_start=True)

    def namespaces(self, operation: Document) -> Iterator[Step]:
        prefix, count = operation["prefix"], self._count(operation)
        yield Step([_namespace(f"{prefix}-{number}") for number in range(count)])

    def pods(self, operation: Document) -> Iterator[Step]:
        path = operation.get("podTemplatePath") or self._test.get("defaultPodTemplatePath")
        template = self._template(path)
        if template is None:
            raise PerfError(f"{self._path}: {self._test.get('name')}: createPods has no podTemplatePath")
        serial = next(self._serial)
        namespace = operation.get("namespace") or f"namespace-{serial}"
        pods = [_at(template(number), namespace, f"p{serial}-{number}") for number in range(self._count(operation))]
        keys = [f"{namespace}/{pod['metadata']['name']}" for pod in pods]
        labels = [pod["metadata"].get("labels") or {} for pod in pods]
        self._pods.setdefault(namespace, []).extend(zip(keys, labels, strict=True))
        yield Step([_namespace(namespace)])
        waits = not operation.get("skipWaitToCompletion")
        yield Step(pods, is_measured=bool(operation.get("collectMetrics")), awaited=keys if waits else [])

    def pod_sets(self, operation: Document) -> Iterator[Step]:
        for number in range(self._count(operation)):
            made = dict(operation["createPodsOp"], namespace=f"{operation['namespacePrefix']}-{number}")
            yield from self.pods(made)

    def any(self, operation: Document) -> Iterator[Step]:
        template = self._template(operation.get("templatePath"))
        assert template is not None
        objects = [template(number) for number in range(self._count(operation, 1))]
        namespace = operation.get("namespace")
        yield Step([_at(one, namespace, "") if namespace else one for one in objects])

    def barrier(self, operation: Document) -> Iterator[Step]:
        wanted = operation.get("labelSelector") or {}
        among = operation.get("namespaces") or list(self._pods)
        yield Step(awaited=[key for namespace in among for key, labels in self._pods.get(namespace, ())
                            if wanted.items() <= labels.items()])  # fmt: skip

    def churn(self, operation: Document) -> Iterator[Step]:
        """Objects that keep coming while others are scheduled: those of `number`, one each interval; all are created.

        The stock benchmark goes on in the background; here they come before the next operation, since that is what is
        measured: a queue with pods that fit nowhere, nodes that are new.
        """
        templates = [self._template(path) for path in operation["templatePaths"]]
        namespace = operation.get("namespace") or f"namespace-{next(self._serial)}"
        interval_s = operation.get("intervalMilliseconds", 500) / 1000
        yield Step([_namespace(namespace)])
        for number in range(operation.get("number") or 10):
            made = [_at(template(number), namespace, f"churn-{number}-{at}")
                    for at, template in enumerate(templates) if template is not None]  # fmt: skip
            yield Step(made, pause_s=interval_s if number else 0.0)

    def sleep(self, operation: Document) -> Iterator[Step]:
        yield Step(pause_s=_seconds(str(self._value(operation, "duration"))))

    def nothing(self, operation: Document) -> Iterator[Step]:
        """Which operation's pods are measured is said by themselves."""
        return iter(())

    # -- values --------------------------------------------------------------------------------------------------

    def _count(self, operation: Document, default: int = 0) -> int:
        return int(self._value(operation, "count", default))

    def _value(self, operation: Document, name: str, default: Any = 0) -> Any:
        param = operation.get(f"{name}Param")
        if not param:
            return operation.get(name, default)
        key = str(param).removeprefix("$")
        if key not in self._params:
            raise PerfError(f"{self._path}: {self._test.get('name')}: the workload has no parameter {param}")
        return self._params[key]

    def _template(self, path: str | None) -> Callable[[int], Document] | None:
        if not path:
            return None
        whole = self._path.parent / path
        try:
            text = whole.read_text()
        except OSError as error:
            raise PerfError(f"{whole}: cannot be read: {error.strerror}") from None

        def made(number: int) -> Document:
            filled = re.sub(r"{{\s*\.Index\s*}}", str(number), text)
            document: Document = yaml.load(re.sub(r"{{\s*\.Count\s*}}", "0", filled), Loader=yaml.CSafeLoader)
            return document

        return made

    def _nodes(self, template: Callable[[int], Document], count: int, operation: Document) -> Iterator[Document]:
        serial = next(self._serial)
        labelled, unique = operation.get("labelNodePrepareStrategy"), operation.get("uniqueNodeLabelStrategy")
        allocatable = (operation.get("nodeAllocatableStrategy") or {}).get("nodeAllocatable")
        for number in range(count):
            node = _at(template(number), None, f"node-{serial}-{number}")
            labels = node["metadata"].setdefault("labels", {})
            labels.setdefault("kubernetes.io/hostname", node["metadata"]["name"])
            if labelled:
                values = labelled.get("labelValues") or [labelled.get("labelValue")]
                labels[labelled["labelKey"]] = values[number % len(values)]
            if unique:
                labels[unique["labelKey"]] = node["metadata"]["name"]
            if allocatable:
                node["status"].setdefault("allocatable", {}).update(allocatable)
            yield node


_READERS: dict[str, Callable[[_Reader, Document], Iterator[Step]]] = {
    "createNodes": _Reader.nodes,
    "createNamespaces": _Reader.namespaces,
    "createPods": _Reader.pods,
    "createPodSets": _Reader.pod_sets,
    "createAny": _Reader.any,
    "barrier": _Reader.barrier,
    "churn": _Reader.churn,
    "sleep": _Reader.sleep,
    "startCollectingMetrics": _Reader.nothing,
    "stopCollectingMetrics": _Reader.nothing,
}


def _namespace(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _at(document: Document, namespace: str | None, name: str) -> Document:
    """The document with a namespace, and with a name where it only says how one is to begin."""
    meta = document.setdefault("metadata", {})
    if namespace and document.get("kind") != "Node":
        meta["namespace"] = namespace
    prefix = meta.pop("generateName", None)
    if "name" not in meta:
        meta["name"] = f"{prefix or ''}{name}"
    return document


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(duration: str) -> float:
    """Go's durations: `500ms`, `1m30s`."""
    parts = re.findall(r"([\d.]+)(ms|s|m|h)", duration)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
