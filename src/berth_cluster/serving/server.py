"""The embedded API server: the store behind HTTPS, with a kubeconfig that lets clients in.

`ApiServer` is what `berth apiserver`, `berth up` and the tests start and stop inside their event loop.
"""

import secrets
from asyncio import Task
from pathlib import Path

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from berth_cluster.serving.app import Application
from berth_cluster.serving.bodies import MAX_BODY_BYTES
from berth_cluster.serving.certificates import make_identity
from berth_cluster.serving.kubeconfig_file import write_kubeconfig
from berth_cluster.storage.store import Store

SHUTDOWN_TIMEOUT_S = 1.0


class ApiServer:
    """Serves a store; `port` 0 takes any free port, and the real one is in `url` after `start`."""

    __slots__ = ("_host", "_port", "_runner", "app", "directory", "store", "token")

    def __init__(
        self, store: Store, directory: Path, *, host: str = "127.0.0.1", port: int = 0, token: str = ""
    ) -> None:
        self.store = store
        self.directory = directory
        self.token = token or secrets.token_urlsafe(32)
        self.app = Application(store, self.token)
        self._host = host
        self._port = port
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        """Where the server listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"https://{host}:{self._port}"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig that clients use."""
        return self.directory / "kubeconfig"

    async def start(self) -> None:
        """Listen, then write the kubeconfig, so that whoever sees the file can connect."""
        identity = make_identity(self._host)
        # Cancel the handler of a client that disconnects; else its watches would live on until the next event.
        server = web.Server(self.app, request_factory=_make_request, handler_cancellation=True)
        runner = web.ServerRunner(server, handle_signals=False, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
        await runner.setup()
        site = web.TCPSite(runner, self._host, self._port, ssl_context=identity.context, backlog=1024)
        try:
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self._port = runner.addresses[0][1]
        self.app.address = f"{self._host}:{self._port}"
        self.directory.mkdir(parents=True, exist_ok=True)
        write_kubeconfig(self.kubeconfig, self.url, identity.ca_pem, self.token)

    async def stop(self) -> None:
        """End all watches and stop listening."""
        self.app.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


def _make_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: "Task[None]",
) -> web.BaseRequest:
    """The same as aiohttp's own factory, but with the API server's limit on the size of bodies."""
    loop = task.get_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES)
