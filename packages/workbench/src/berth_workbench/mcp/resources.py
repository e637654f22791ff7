"""Resources: nodes, workloads and what is pending, of the cluster that the tools are asked about.

Each is one JSON document with the `state` that it is about, cut to a page as the tools' answers are. A pod and a node
have resources of their own by templates.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

import mcp_types as types
import msgspec

from berth_workbench.mcp.pages import AnswerPages
from berth_workbench.mcp.refusals import CallRefused
from berth_workbench.mcp.state import StateAsked
from berth_workbench.mcp.tools import as_json
from berth_workbench.simulation.budgets import is_active, workload_of
from berth_workbench.sources.cluster_file import ClusterFileSource

SCHEME: Final = "berth://"


JSON: Final = "application/json"
RESOURCES: Final = [
    types.Resource(uri=uri, name=uri.removeprefix(SCHEME), description=what, mime_type=JSON)
    for uri, what in (
        ("berth://nodes", "Every node: pool, zone, what it has and how much of it is requested."),
        ("berth://workloads", "Every workload: how many pods it has, and how many have no node."),
        ("berth://pending", "What is pending, by workload, with the reason and what is missing."),
    )
]
TEMPLATES: Final = [
    types.ResourceTemplate(uri_template=uri, name=name, description=what, mime_type=JSON)
    for uri, name, what in (
        ("berth://nodes/{name}", "node", "A node with its labels, taints and pods."),
        ("berth://pods/{namespace}/{name}", "pod", "What the scheduler would decide about a pod now, and why."),
    )
]
_KNOWN: Final = {("nodes", 0), ("nodes", 1), ("workloads", 0), ("pending", 0), ("pods", 2)}


class Resources:
    """Reads resources of one state after the other; the last one's cluster is kept."""

    __slots__ = ("_pages", "_source", "_state", "_turn")

    def __init__(self, pages: AnswerPages) -> None:
        self._pages = pages
        self._turn = asyncio.Lock()
        self._state: StateAsked | None = None
        self._source: ClusterFileSource | None = None

    async def read(self, uri: str, state: StateAsked) -> str:
        """Return a resource as JSON. Raises `CallRefused`, `UserError`."""
        kind, *names = map(unquote, uri.removeprefix(SCHEME).split("/"))
        if not uri.startswith(SCHEME) or (kind, len(names)) not in _KNOWN:
            there = ", ".join((*(each.uri for each in RESOURCES), *(each.uri_template for each in TEMPLATES)))
            raise CallRefused("argument", f"there is no such resource; there are {there}")
        async with self._turn:
            source = await asyncio.to_thread(self._of, state)
        found: Any
        if kind == "nodes" and not names:
            found = {"nodes": await _nodes(source)}
        elif kind == "workloads":
            found = {"workloads": list(_workloads(source))}
        elif kind == "pending":
            found = await source.pending()
        else:
            found = await (source.node(names[0]) if kind == "nodes" else source.story(*names))
            if found is None:
                raise CallRefused("argument", f"there is no {kind.removesuffix('s')} {'/'.join(names)}")
        values = {"state": state.document(datetime.now(UTC)), **msgspec.to_builtins(found, str_keys=True)}
        page = self._pages.first(values)
        return as_json({**page.value, "pages": page.pages} if page.pages else page.value)

    def _of(self, state: StateAsked) -> ClusterFileSource:
        known = self._state
        if self._source is None or known is None or known.snapshot is not state.snapshot:
            self._state = self._source = None  # before another one is loaded, for there need not be room for both
            self._source = ClusterFileSource(state.source, state.snapshot, state.decides.configuration)
            self._state = state
        return self._source


async def _nodes(source: ClusterFileSource) -> list[dict[str, Any]]:
    columns = await source.nodes()
    return [
        {
            "name": name,
            "pool": columns.pools.names[columns.pools.of[at]],
            "zone": columns.zones.names[columns.zones.of[at]],
            "isUnschedulable": columns.unschedulable[at],
            "isTainted": columns.tainted[at],
            "pods": columns.pods[at],
            "allowedPods": columns.allowed_pods[at],
            "allocatable": {each.name: each.allocatable[at] for each in columns.resources},
            "requested": {each.name: each.requested[at] for each in columns.resources},
        }
        for at, name in enumerate(columns.names)
    ]


def _workloads(source: ClusterFileSource) -> Iterator[dict[str, Any]]:
    """Yield each workload that has pods, by name, and last the pods that nothing has made."""
    cluster = source.cluster
    pods, pending = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for pod in filter(is_active, cluster.pods.values()):
        owner = workload_of(pod, cluster.objects) or ("Pod", pod.key)
        pods[owner] += 1
        pending[owner] += not pod.spec.node_name
    for owner in sorted(pods, key=lambda one: (one[0] == "Pod", one[1], one[0])):
        yield {"kind": owner[0], "name": owner[1], "pods": pods[owner], "pending": pending[owner]}
