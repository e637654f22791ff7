"""The rows of the tables that grow with the cluster, a part at a time: those that match, in the order that is wanted.

The rows are made once for each state of the cluster and not for each view; the first of them go with the page, and
`rows.js` fetches others when somebody searches, sorts or wants more.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from berth.decisions.node_columns import NodeColumns
from berth.decisions.pending import PendingReport
from berth.decisions.placements import PodColumns
from berth_workbench.showing.numbers import NOTHING, amount, number, percent
from berth_workbench.sources.model import (
    NodeLine,
    WorkloadLine,
    groups_of_workload,
    node_lines,
    pods_of_workload,
    workload_lines,
)
from berth_workbench.sources.shared import EVERYTHING
from berth_workbench.sources.source import Source

Row = list[Any]
"""Its cells, as `rows.js` knows them."""
WORKLOADS_KEPT = 4
"""For so many workloads the rows of their pods are kept."""
_DIGITS = re.compile("[0-9]+")


class RowPart(msgspec.Struct, frozen=True):
    """Some rows of a table, how many match what is searched for, and how many there are."""

    rows: list[Row]
    matching: int
    all: int


class PartRows:
    """A table whose rows are made of some answers of the source, anew once these are others."""

    __slots__ = ("_ask", "_found", "_make", "_rows", "_texts")

    def __init__(self, make: Callable[..., list[Row]], *ask: Callable[[], Awaitable[Any]]) -> None:
        self._make = make
        self._ask = ask
        self._found: list[Any] = []
        self._rows: list[Row] = []
        self._texts: list[str] = []

    async def part(self, count: int, find: str = "", by: int = -1, *, is_down: bool = True) -> RowPart:
        """Return the first `count` rows with all words of `find`, by a column or as they come. Raises `SourceError`."""
        found = [await ask() for ask in self._ask]
        if len(found) != len(self._found) or any(
            new is not old for new, old in zip(found, self._found, strict=True)
        ):  # answers are values that never change, so the same one has the same rows
            self._rows = await asyncio.to_thread(self._make, *found)
            self._found, self._texts = found, []
        rows = self._rows
        if words := find.lower().split():
            self._texts = self._texts or [" ".join(map(_text, row)).lower() for row in rows]
            rows = [row for row, text in zip(rows, self._texts, strict=True) if all(word in text for word in words)]
        if rows and 0 <= by < len(rows[0]):
            rows = sorted(rows, key=lambda row: _order(row[by]), reverse=is_down)
        return RowPart(rows[: max(count, 0)], len(rows), len(self._rows))


class ClusterRows:
    """The tables of one cluster."""

    __slots__ = ("_of_workload", "_source", "nodes", "workloads")

    def __init__(self, source: Source) -> None:
        self._source = source
        self.nodes = PartRows(_node_rows, source.nodes)
        self.workloads = PartRows(_workload_rows, self._everything, source.pending)
        self._of_workload: dict[tuple[str, str, str], PartRows] = {}

    def of_workload(self, kind: str, namespace: str, name: str) -> PartRows:
        """Return the table of a workload's pods, those that are pending first."""
        key = kind, namespace, name
        table = self._of_workload.pop(key, None)
        if table is None:
            # A scheduler tells only some of many pods; asked for those of a name it tells them all.
            pods = (lambda: self._source.pods(f"{namespace}/{name}")) if self._source.is_live else self._everything
            table = PartRows(lambda pods, pending: _pod_rows(pods, pending, *key), pods, self._source.pending)
        self._of_workload[key] = table
        while len(self._of_workload) > WORKLOADS_KEPT:
            del self._of_workload[next(iter(self._of_workload))]
        return table

    async def _everything(self) -> PodColumns:
        return await self._source.pods(EVERYTHING)


def pod_path(pod: str) -> str:
    """The page of a pod, by `namespace/name`."""
    return f"/pods/{'/'.join(quote(part, safe='') for part in pod.split('/', 1))}"


def _node_rows(columns: NodeColumns) -> list[Row]:
    """All nodes, the fullest first."""
    lines = sorted(node_lines(columns), key=lambda line: (-(line.shares.get("cpu") or 0.0), line.name))
    return [node_row(line, [resource.name for resource in columns.resources]) for line in lines]


def node_row(line: NodeLine, resources: Sequence[str]) -> Row:
    """Return the row of a node."""
    states = (("cordoned", line.is_unschedulable), ("tainted", line.is_tainted))
    state = ", ".join(word for word, holds in states if holds) or "open"
    shares = [{"share": line.shares.get(name)} if line.shares.get(name) is not None else NOTHING for name in resources]
    return [
        {"text": line.name, "href": f"/map?{urlencode({'node': line.name})}"},
        line.pool or NOTHING, line.zone or NOTHING, state, *shares,
        {"text": f"{number(line.pods)} of {number(line.allowed_pods)}", "value": line.pods},
    ]  # fmt: skip


def _workload_rows(pods: PodColumns, pending: PendingReport) -> list[Row]:
    return [_workload_row(line) for line in workload_lines(pods, pending)]


def _workload_row(line: WorkloadLine) -> Row:
    pending = {"text": number(line.pending), "value": line.pending, "tone": "warn" if line.pending else ""}
    requests = [(name, line.requested.get(name, 0)) for name in ("cpu", "memory")]
    amounts = [{"text": amount(name, requested), "value": requested} for name, requested in requests]
    name = {"text": line.name, "href": line.path}
    return [name, line.kind or "Pod", line.pods, pending, line.nodes, *amounts]


def _pod_rows(pods: PodColumns, pending: PendingReport, kind: str, namespace: str, name: str) -> list[Row]:
    waiting = [pod for group in groups_of_workload(pending, kind, namespace, name) for pod in group.named]
    rows: list[Row] = [[{"text": pod, "href": pod_path(pod)}, {"text": "pending", "tone": "warn"}] for pod in waiting]
    for at in pods_of_workload(pods, kind, namespace, name):
        pod, node = f"{namespace}/{pods.names[at]}", pods.nodes.names[pods.nodes.of[at]]
        rows.append([{"text": pod, "href": pod_path(pod)}, {"text": node, "href": f"/nodes/{quote(node, safe='')}"}])
    return rows


def _text(cell: Any) -> str:
    """What can be read in a cell."""
    if not isinstance(cell, dict):
        return number(cell) if isinstance(cell, int | float) else str(cell)
    return cell["text"] if "text" in cell else percent(cell.get("share"))


def _order(cell: Any) -> tuple[bool, float, str]:
    """Texts before numbers, and numbers within a text by their value: node-9 before node-10."""
    value = cell.get("share", cell.get("value", cell.get("text"))) if isinstance(cell, dict) else cell
    if isinstance(value, int | float):
        return True, value, ""
    return False, 0.0, _DIGITS.sub(lambda digits: digits[0].zfill(12), str(value).lower())
