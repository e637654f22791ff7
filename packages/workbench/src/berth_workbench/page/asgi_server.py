"""Serves an ASGI application with Uvicorn on a socket of our own, in the event loop of the caller."""

import asyncio
import logging
import socket
import ssl
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from berth_workbench.page.lateness import with_deadline

MAX_MESSAGE_BYTES = 1024 * 1024
MAX_REQUESTS_AT_ONCE = 256
STOP_WITHIN_S = 2


class AsgiServer:
    """One application at one socket."""

    __slots__ = ("_server", "_task")

    def __init__(self) -> None:
        self._server: Any = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, application: Any, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Return once it is served. Raises ImportError where Uvicorn is not installed."""
        import uvicorn

        config = uvicorn.Config(
            application,
            ws_max_size=MAX_MESSAGE_BYTES,
            limit_concurrency=MAX_REQUESTS_AT_ONCE,
            timeout_graceful_shutdown=STOP_WITHIN_S,
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            lifespan="on",
        )
        config.load()
        config.ssl = tls
        config.http_protocol_class = with_deadline(config.http_protocol_class)

        class Server(uvicorn.Server):
            """Leaves signals to the owner of the event loop."""

            def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
                return nullcontext()

        self._server = Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]), name="asgi server")
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.005)
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Stop serving; safe to call twice, or before it was started."""
        task, self._task = self._task, None
        if task is not None:
            self._server.should_exit = True
            await task
