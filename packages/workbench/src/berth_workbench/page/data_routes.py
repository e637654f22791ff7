"""The columns of the map and of its colours, as JSON, which the map's canvas fetches itself.

A map of 5,000 nodes is some hundred kilobytes. They go to the browser as they are, and not through the page's elements.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from berth.decisions.fit_question import FitManifestError
from berth.runtime.serving.server import MAX_BODY_BYTES
from berth_workbench.sources.model import NodeScores, node_scores, workload_lines
from berth_workbench.sources.part_rows import ClusterRows, PartRows, RowPart
from berth_workbench.sources.recorded import RecordedHistory
from berth_workbench.sources.recorder import HistoryRecorder
from berth_workbench.sources.search import search
from berth_workbench.sources.shared import EVERYTHING
from berth_workbench.sources.source import Source, SourceError
from berth_workbench.sources.time_line import SimulatedTimeLine

if TYPE_CHECKING:
    from starlette.requests import Request

STYLE = "/assets/page.css"
SHARED_SCRIPTS = ("numbers.js", "colours.js", "map_layout.js", "node_panel.js")
"""The modules that our components import; the components themselves are NiceGUI's to serve."""
TIME_LINE, HISTORY = "/data/time-line", "/data/history"
NODES, NODE, PODS = "/data/nodes", "/data/nodes/{name}", "/data/pods"
SEARCH, FIT = "/data/search", "/data/fit"
NAMES, NODE_ROWS, WORKLOAD_ROWS = "/data/names", "/data/rows/nodes", "/data/rows/workloads"
POD_ROWS = WORKLOAD_ROWS + "/{kind}/{namespace}/{name}"
FIRST_ROWS, MOST_DIGITS = 10, 7
SCALABLE = ("Deployment", "StatefulSet", "ReplicaSet")
BODY_S = 15.0
"""How long a manifest may take to arrive."""
SCORES = "/data/scores/{namespace}/{name}"


def add_routes(
    application: Any,
    source: Source | None,
    tables: ClusterRows | None,
    time_line: SimulatedTimeLine | None,
    history: HistoryRecorder | RecordedHistory | None = None,
) -> None:
    """Add the routes to a FastAPI application."""
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response

    async def answer(asked: Awaitable[Any]) -> Response:
        try:
            found = await asked
        except SourceError as error:
            return json({"error": str(error)}, 503)
        if found is None:
            return json({"error": "there is no such node, or no decision about such a pod is remembered"}, 404)
        body = await asyncio.to_thread(msgspec.json.encode, found)
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})

    def reading(ask: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
        async def read(request: Request) -> Response:
            return await answer(ask(request))

        return read

    def json(value: Any, status: int) -> Response:
        return Response(msgspec.json.encode(value), status, media_type="application/json")

    def asset(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def read(_request: Request) -> Response:
            return Response((Path(__file__).parent / "assets" / name).read_text("utf-8"), media_type=kind)

        return read

    application.add_route(STYLE, asset("page.css", "text/css"), methods=["GET"])
    for name in SHARED_SCRIPTS:
        application.add_route(f"/assets/{name}", asset(name, "text/javascript"), methods=["GET"])
    if source is not None and tables is not None:
        told, known = source, tables

        async def fit(request: Request) -> Response:
            try:
                async with asyncio.timeout(BODY_S):
                    body = await _body(request)
            except (TimeoutError, ClientDisconnect):
                return json({"error": "the manifest did not arrive in time"}, 408)
            if body is None:
                return json({"error": f"the manifest is longer than {MAX_BODY_BYTES} bytes"}, 413)
            namespace = request.query_params.get("namespace") or "default"
            all_nodes = request.query_params.get("allNodes", "no") in ("", "1", "true")
            try:
                return await answer(told.fit(body, namespace, all_nodes=all_nodes))
            except FitManifestError as error:
                return json({"error": str(error), "field": error.field}, 400)

        asked: dict[str, Callable[[Request], Awaitable[Any]]] = {
            NODES: lambda _: told.nodes(),
            NODE: lambda request: told.node(request.path_params["name"]),
            PODS: lambda _: told.pods(),
            SCORES: lambda request: _scores(told, **request.path_params),
            SEARCH: lambda request: search(told, request.query_params.get("find", "")),
            NAMES: lambda _: _names(told),
            NODE_ROWS: lambda request: _part(known.nodes, request),
            WORKLOAD_ROWS: lambda request: _part(known.workloads, request),
            POD_ROWS: lambda request: _part(known.of_workload(**request.path_params), request),
        }
        application.add_route(FIT, fit, methods=["POST"])
        for path, ask in asked.items():
            application.add_route(path, reading(ask), methods=["GET"])
    if history is not None:
        kept = history.levels

        async def levels(_request: Request) -> Response:
            return Response(msgspec.json.encode(kept.document()), media_type="application/json")

        application.add_route(HISTORY, levels, methods=["GET"])
    if time_line is not None:
        body = msgspec.json.encode(time_line)

        async def line(_request: Request) -> Response:
            return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})

        application.add_route(TIME_LINE, line, methods=["GET"])


async def _body(request: "Request") -> bytes | None:
    """What is sent; None where it is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            return None
    return body


async def _names(source: Source) -> dict[str, list[str]]:
    """What can be picked in a question."""
    nodes, pending = await source.nodes(), await source.pending()
    lines = workload_lines(await source.pods(EVERYTHING), pending)
    return {
        "nodes": nodes.names,
        "pools": [name for name in nodes.pools.names if name],
        "zones": [name for name in nodes.zones.names if name],
        "workloads": [f"{line.kind.lower()}/{line.name}" for line in lines if line.kind in SCALABLE],
        "pods": [pod for group in pending.groups for pod in group.named],
    }


async def _part(table: PartRows, request: "Request") -> RowPart:
    """The part of a table that is wanted; what cannot be read of the wish counts as not said."""
    wish = request.query_params

    def whole(name: str, default: int) -> int:
        text = wish.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < MOST_DIGITS else default

    return await table.part(
        whole("count", FIRST_ROWS), wish.get("find", ""), whole("by", -1), is_down=wish.get("down") == "true"
    )


async def _scores(source: Source, namespace: str, name: str) -> NodeScores | None:
    report = await source.story(namespace, name, all_nodes=True)
    return None if report is None or report.decision is None else node_scores(report.decision)
