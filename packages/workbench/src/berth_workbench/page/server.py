"""Serves the page: NiceGUI behind the guard, on a socket of our own, in the event loop of the caller.

NiceGUI keeps one application for a process, so there is one `PageServer` at a time in a process.
"""

import logging
import socket
import ssl
from typing import Any

from berth.api.addresses import is_loopback
from berth.serving.acceptor import listening_at
from berth_workbench.page.access import Access
from berth_workbench.page.asgi_server import AsgiServer
from berth_workbench.page.guard import PageGuard
from berth_workbench.page.script_marks import mark_scripts, new_mark
from berth_workbench.sources.part_rows import ClusterRows
from berth_workbench.sources.recorded import RecordedHistory
from berth_workbench.sources.recorder import HistoryRecorder
from berth_workbench.sources.shared import SharedSource
from berth_workbench.sources.source import Source
from berth_workbench.sources.time_line import SimulatedTimeLine

RECONNECT_S = 10.0
"""How long the state of a page is kept for a browser that has lost the connection."""


class PageAddressTaken(RuntimeError):  # noqa: N818 - it says what happened
    """The address cannot be listened on."""


class PageServer:
    """The page of one cluster. Make it inside the event loop."""

    __slots__ = ("_history", "_host", "_hosts", "_port", "_recorded", "_server", "_source", "_time_line", "_tls",
                 "access", "address")  # fmt: skip

    def __init__(
        self,
        source: Source | None,
        access: Access,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        hosts: tuple[str, ...] = (),
        tls: ssl.SSLContext | None = None,
        time_line: SimulatedTimeLine | None = None,
        recorded: RecordedHistory | None = None,
    ) -> None:
        """What is shown is a source, the time line of a simulation, or both; or what was recorded.

        Port 0 takes a free one; `hosts` are names under which people ask. Beyond loopback there has to be TLS.
        """
        if tls is None and not is_loopback(host):
            raise ValueError("plain HTTP is for loopback only")
        self._source = SharedSource(source) if source is not None else None
        self._time_line = time_line
        self._history = HistoryRecorder(source) if source is not None else None
        self._recorded = recorded
        self.access = access
        self._host = host
        self._port = port
        self._hosts = hosts
        self._tls = tls
        self._server = AsgiServer()
        self.address = ""
        """Where it is served, once started."""

    async def start(self) -> None:
        """Listen; raises `PageAddressTaken`, and ImportError where the extra `ui` is not installed."""
        try:
            listening = listening_at(self._host, self._port)
        except OSError as error:
            reason = error.strerror or error
            raise PageAddressTaken(f"cannot serve the page on {self._host}:{self._port}: {reason}") from None
        try:
            await self._serve(listening)
        except BaseException:
            listening.close()
            raise

    async def _serve(self, listening: socket.socket) -> None:
        port = listening.getsockname()[1]
        mark = new_mark()
        application = self._application(mark)
        if self._source is not None and not self._source.is_live:
            await self._source.snapshot()  # what a file has is known at once, so all its views are listed
        guard = PageGuard(
            application,
            self.access,
            port=port,
            script_mark=mark,
            hosts=self._hosts,
            is_secure=self._tls is not None,
        )
        served: Any = guard
        if self._tls is not None:  # on loopback, compressing takes longer than it saves
            from starlette.middleware.gzip import GZipMiddleware

            served = GZipMiddleware(guard, minimum_size=1024, compresslevel=4)
        logging.getLogger("uvicorn.error").addFilter(_is_worth_a_line)
        await self._server.start(served, listening, self._tls)
        if self._history is not None:
            self._history.start()
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.address = f"{'http' if self._tls is None else 'https'}://{host}:{port}"

    async def stop(self) -> None:
        """Stop serving; safe to call twice."""
        if self._history is not None:
            await self._history.stop()
        await self._server.stop()

    def _application(self, mark: str) -> Any:
        """NiceGUI's application, with our pages and routes in it."""
        from fastapi import FastAPI
        from nicegui import ui
        from nicegui.client import templates

        from berth_workbench.page.data_routes import add_routes
        from berth_workbench.page.views.pages import register_pages

        mark_scripts(templates.env, mark)
        outer = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        tables = ClusterRows(self._source) if self._source is not None else None
        add_routes(outer, self._source, tables, self._time_line, self._history or self._recorded)
        register_pages(self._source, tables, self._history or self._recorded, self._time_line)
        ui.run_with(
            outer,
            title="Berth",
            language="en-US",
            dark=None,
            tailwind=False,
            binding_refresh_interval=None,
            reconnect_timeout=RECONNECT_S,
            gzip_middleware_factory=None,
            show_welcome_message=False,
        )
        return outer


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Uvicorn takes a WebSocket that was refused with an answer for a mistake of ours."""
    return "returned without completing handshake" not in record.getMessage()
