"""The columns of the map and of its colours, as JSON, which the map's canvas fetches itself.

A map of 5,000 nodes is some hundred kilobytes. They go to the browser as they are, and not through the page's elements.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from berth.page.model import NodeScores, node_scores
from berth.page.source import Source, SourceError
from berth.runtime.serving.node_columns import NodeColumns

STYLE = "/assets/page.css"
NODES, SCORES = "/data/nodes", "/data/scores/{namespace}/{name}"


def add_routes(application: Any, source: Source) -> None:
    """Add the routes to a FastAPI application."""
    from starlette.requests import Request
    from starlette.responses import Response

    async def nodes(_request: Request) -> Response:
        return await _answer(_nodes(source))

    async def scores(request: Request) -> Response:
        return await _answer(_scores(source, request.path_params["namespace"], request.path_params["name"]))

    async def _answer(asked: Any) -> Response:
        try:
            found = await asked
        except SourceError as error:
            return _json({"error": str(error)}, 503)
        if found is None:
            return _json({"error": "no decision about this pod is remembered"}, 404)
        body = await asyncio.to_thread(msgspec.json.encode, found)
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})

    def _json(value: Any, status: int) -> Response:
        return Response(msgspec.json.encode(value), status, media_type="application/json")

    async def style(_request: Request) -> Response:
        return Response((Path(__file__).parent / "assets/page.css").read_text("utf-8"), media_type="text/css")

    application.add_route(STYLE, style, methods=["GET"])
    application.add_route(NODES, nodes, methods=["GET"])
    application.add_route(SCORES, scores, methods=["GET"])


async def _nodes(source: Source) -> NodeColumns:
    return await source.nodes()


async def _scores(source: Source, namespace: str, name: str) -> NodeScores | None:
    report = await source.story(namespace, name, all_nodes=True)
    return None if report is None or report.decision is None else node_scores(report.decision)
