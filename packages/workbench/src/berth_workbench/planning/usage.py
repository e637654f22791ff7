"""What pods use, according to `metrics.k8s.io` or a file: YAML, JSON or CSV.

A file has names with `cpu` and `memory` each, where a name is `namespace/pod` or `namespace/workload`; or it is what
`kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods` prints. If one thing was measured several times, the highest
counts.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from berth.api.pod_resources import CPU, MEMORY
from berth.api.quantity import Quantity, QuantityError, milli_value, value
from berth.api.user_error import UserError
from berth.api.yaml_census import PARSER, UnreasonableYAML, refuse_bombs, yaml_problem

WHOLE = ""
"""In place of a container's name: the pod as a whole."""
MAX_VALUES = 10_000_000
"""Enough for a cluster of 150,000 pods with several containers each."""


class UsageError(UserError, ValueError):
    """Measurements that cannot be read."""


class Used(NamedTuple):
    """The most that was measured; None if nothing was."""

    cpu_milli: int | None = None
    memory_bytes: int | None = None

    def with_other(self, other: "Used") -> "Used":
        """Return the higher of each."""
        return Used(_higher(self.cpu_milli, other.cpu_milli), _higher(self.memory_bytes, other.memory_bytes))


Usage = dict[str, dict[str, Used]]
"""By `namespace/name` of a pod or workload, by container."""


def _higher(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def add(usage: Usage, name: str, container: str, measured: Mapping[str, Any], where: str) -> None:
    """Note a measurement. Raises `UsageError`."""
    namespace, _, rest = name.partition("/")
    if not namespace or not rest:
        raise UsageError(f"{where}: {name!r} is not namespace/name")
    cpu, memory = (_amount(measured, resource, f"{where}: {name}") for resource in (CPU, MEMORY))
    known = usage.setdefault(name, {})
    known[container] = known.get(container, Used()).with_other(Used(cpu, memory))


def _amount(measured: Mapping[str, Any], resource: str, where: str) -> int | None:
    given: Quantity | None = measured.get(resource)
    if given is None or given == "":
        return None
    try:
        found = milli_value(given) if resource == CPU else value(given)
    except (QuantityError, TypeError) as error:
        raise UsageError(f"{where}: {resource}: {error}") from None
    if found < 0:
        raise UsageError(f"{where}: {resource}: {given} is less than nothing")
    return found


def of_metrics(items: Iterable[Any], usage: Usage, where: str) -> None:
    """Note the PodMetrics of a list. Raises `UsageError`."""
    for item in items:
        try:
            metadata = item["metadata"]
            name = f"{metadata['namespace']}/{metadata['name']}"
            for container in item.get("containers") or ():
                add(usage, name, container["name"], container["usage"], where)
        except (KeyError, TypeError, AttributeError):
            raise UsageError(f"{where}: a PodMetrics without namespace, name, containers or usage") from None


def read_usage(paths: Iterable[str | Path]) -> Usage:
    """Return what files say. Raises `UsageError`."""
    usage: Usage = {}
    for path in paths:
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        if str(path).endswith(".csv"):
            _of_csv(text, usage, str(path))
        else:
            _of_document(text, usage, str(path))
    return usage


def _of_csv(text: str, usage: Usage, where: str) -> None:
    rows = csv.DictReader(io.StringIO(text))
    if not {"name", CPU} <= set(rows.fieldnames or ()) and not {"name", MEMORY} <= set(rows.fieldnames or ()):
        raise UsageError(f"{where}: the first line names the columns: name, cpu, memory, and container if known")
    for row in rows:
        add(usage, row["name"] or "", row.get("container") or WHOLE, row, f"{where}:{rows.line_num}")


def _of_document(text: str, usage: Usage, where: str) -> None:
    try:
        refuse_bombs(text, max_nodes=MAX_VALUES)
        found = yaml.load(text, Loader=PARSER)
    except (yaml.YAMLError, UnreasonableYAML, ValueError) as error:
        raise UsageError(f"{where}: not readable as YAML or JSON: {yaml_problem(error)}") from None
    of_document(found, usage, where)


def of_document(found: Any, usage: Usage, where: str) -> None:
    """Note what a parsed document says: names with their amounts, or PodMetrics. Raises `UsageError`."""
    if not isinstance(found, Mapping):
        raise UsageError(f"{where}: an object is expected, with names and their cpu and memory")
    if isinstance(found.get("items"), list):
        of_metrics(found["items"], usage, where)
        return
    for name, measured in found.items():
        if not isinstance(measured, Mapping):
            raise UsageError(f"{where}: {name}: an object with cpu and memory is expected")
        add(usage, str(name), WHOLE, measured, where)
