"""Reads workloads in the vocabulary of kube-scheduler's benchmark, scheduler_perf, from its files as they are.

A file is a list of tests; a test has a `workloadTemplate`, which is a list of operations, and `workloads`, which fill
its parameters in (`countParam: $initNodes`). Pods and nodes are made from files named beside it, which are Go templates
of a few functions. Source: test/integration/scheduler_perf, v1.36.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from berth.api.user_error import UserError
from berth.config.feature_gates import SWITCHED

Document = dict[str, Any]

OPCODES: Final = (
    "allocResourceClaims", "barrier", "churn", "createAny", "createNamespaces", "createNodes", "createPods",
    "createPodSets", "createResourceClaims", "createResourceDriver", "deletePods", "sleep", "startCollectingMetrics",
    "stopCollectingMetrics", "updateAny",
)  # fmt: skip
"""All operations of v1.36; a file that has others is of another version."""


class PerfError(UserError, ValueError):
    """A file that cannot be used; the message says which, where in it, and why."""


class PerfTemplate:
    """A file that objects are made from, by their number."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises `PerfError`."""
        self._path = path
        try:
            self._text = path.read_text()
        except OSError as error:
            raise PerfError(f"{path}: {error.strerror or error}") from None
        self._same = None if "{{" in self._text else self._parsed(self._text)

    def made(self, index: int, count: int) -> Document:
        """Return the object of a number, of so many. Its metadata is its own; the rest may be shared."""
        if self._same is not None:
            return {**self._same, "metadata": dict(self._same.get("metadata") or {})}
        values = {".Index": index, ".Count": count}
        return self._parsed(re.sub(r"{{(.*?)}}", lambda part: str(self._value(part[1].split(), values)), self._text))

    def _value(self, words: list[str], values: Mapping[str, int]) -> int | float:
        named = [values[word] if word in values else _number(word) for word in words[len(words) > 1 :]]
        arguments = [each for each in named if each is not None]
        function = FUNCTIONS.get(words[0]) if len(words) > 1 else _only
        if function is None or not arguments or None in named:
            raise PerfError(f"{self._path}: {{{{{' '.join(words)}}}}} is not understood")
        return function(arguments)

    def _parsed(self, text: str) -> Document:
        try:
            document = yaml.load(text, Loader=yaml.CSafeLoader)
        except yaml.YAMLError as error:
            raise PerfError(f"{self._path}: {error}") from None
        if not isinstance(document, dict) or not document.get("kind"):
            raise PerfError(f"{self._path}: holds no object")
        return document


FUNCTIONS: Final[Mapping[str, Callable[[list[Any]], int | float]]] = {
    "AddInt": lambda given: int(sum(given)),
    "AddFloat": lambda given: float(sum(given)),
    "SubtractInt": lambda given: int(given[0] - given[1]),
    "SubtractFloat": lambda given: float(given[0] - given[1]),
    "MultiplyInt": lambda given: int(math.prod(given)),
    "MultiplyFloat": lambda given: float(math.prod(given)),
    "DivideInt": lambda given: int(given[0] / given[1]),
    "DivideFloat": lambda given: float(given[0] / given[1]),
    "Mod": lambda given: int(given[0]) % int(given[1]),
}


def _only(given: list[Any]) -> int | float:
    value: int | float = given[0]
    return value


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


class Operation:
    """One operation of a workload, with its parameters filled in."""

    __slots__ = ("_document", "_folder", "_params", "number", "opcode", "where")

    def __init__(self, document: Document, number: int, params: Mapping[str, Any], folder: Path, where: str) -> None:
        self._document = document
        self._params = params
        self._folder = folder
        self.number = number
        """Its place in the workload, after which its namespace is named unless it names one."""
        self.opcode: str = document.get("opcode") or ""
        self.where = where

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or the parameter that stands for it. Raises `PerfError`."""
        param = self._document.get(f"{name}Param")
        if not param:
            return self._document.get(name, default)
        key = str(param).removeprefix("$")
        if key not in self._params:
            raise PerfError(f"{self.where}: the workload has no parameter {param}")
        return self._params[key]

    def template(self, name: str) -> PerfTemplate | None:
        """Return the template that a field names, if it does. Raises `PerfError`."""
        path = self.get(name)
        return PerfTemplate(self._folder / path) if path else None

    def templates(self, name: str) -> list[PerfTemplate]:
        """Return the templates that a list of paths names. Raises `PerfError`."""
        return [PerfTemplate(self._folder / path) for path in self.get(name, ())]

    def seconds(self, name: str) -> float:
        """Return a duration as Go writes them: `500ms`, `1m30s`."""
        parts = re.findall(r"([\d.]+)(ms|s|m|h)", str(self.get(name, "0s")))
        return sum(float(number) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[unit] for number, unit in parts)

    def within(self, **fields: Any) -> "Operation":
        """Return the operation that this one repeats, as one of its own."""
        default = {"opcode": "createPods", "podTemplatePath": self._document.get("podTemplatePath")}
        inner = {**default, **self._document["createPodsOp"], **fields}
        return Operation(inner, self.number, self._params, self._folder, self.where)


class PerfWorkload(msgspec.Struct, frozen=True):
    """One workload of one test."""

    test: str
    name: str
    labels: frozenset[str]
    threshold: float | None
    """How many pods a second upstream's own CI demands; None where it demands nothing."""
    gates: Mapping[str, bool]
    config_file: str
    """The scheduler's configuration, where the test has one of its own."""
    operations: tuple[Operation, ...]
    unused: tuple[str, ...]
    """Parameters that no operation reads: what upstream's Go code does with them is not done here."""

    @property
    def gates_here(self) -> dict[str, bool]:
        """The feature gates that switch something in this scheduler."""
        return {name: value for name, value in self.gates.items() if name in SWITCHED}

    @property
    def title(self) -> str:
        """Return the name by which upstream's results have it."""
        return f"{self.test}/{self.name}"


def read_workloads(path: Path) -> Iterator[PerfWorkload]:
    """Yield all workloads of a file. Raises `PerfError`."""
    try:
        tests = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    except (OSError, yaml.YAMLError) as error:
        raise PerfError(f"{path}: {error}") from None
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise PerfError(f"{path}: holds no list of tests")
    for test in tests:
        for workload in test.get("workloads") or ():
            yield _workload(path, test, workload)


def _workload(path: Path, test: Document, workload: Document) -> PerfWorkload:
    params = workload.get("params") or {}
    title = f"{test.get('name')}/{workload.get('name')}"
    default = {"podTemplatePath": test["defaultPodTemplatePath"]} if test.get("defaultPodTemplatePath") else {}
    documents = [{**default, **each} for each in test.get("workloadTemplate") or ()]
    text = repr(documents)
    config = test.get("schedulerConfigPath")
    return PerfWorkload(
        str(test.get("name")),
        str(workload.get("name")),
        frozenset((*(test.get("labels") or ()), *(workload.get("labels") or ()))),
        _threshold(path, test, workload),
        {**(test.get("featureGates") or {}), **(workload.get("featureGates") or {})},
        str(path.parent / config) if config else "",
        tuple(
            Operation(document, number, params, path.parent, f"{path}: {title}: operation {number}")
            for number, document in enumerate(documents)
        ),
        tuple(name for name in params if f"'${name}'" not in text),
    )


def _threshold(path: Path, test: Document, workload: Document) -> float | None:
    """Return what is demanded of the pods a second; a map has it by topic, which upstream names like the folder."""
    selector = workload.get("thresholdMetricSelector") or test.get("defaultThresholdMetricSelector")
    demanded = workload.get("threshold")
    if isinstance(demanded, dict):
        demanded = demanded.get(path.parent.name)
    return float(demanded) if demanded and not selector else None
