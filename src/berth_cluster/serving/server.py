"""The embedded API server: the store behind HTTPS, with a kubeconfig that lets clients in.

`ApiServer` is what `berth apiserver`, `berth up` and the tests start and stop inside their event loop. Its directory is
its identity: a server that is started there again has the same CA, and unless it is told otherwise the same token and
port, so that a kubeconfig handed out before goes on working. Only one server at a time has a directory.
"""

import contextlib
import secrets
import ssl
from asyncio import Task
from collections.abc import Mapping
from pathlib import Path

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from berth_cluster.serving.access import ClusterAuthenticator
from berth_cluster.serving.app import Application
from berth_cluster.serving.bodies import MAX_BODY_BYTES
from berth_cluster.serving.bootstrap_access import create_access_objects
from berth_cluster.serving.certificates import ClusterAuthority
from berth_cluster.serving.directory_lock import DirectoryLock
from berth_cluster.serving.kubeconfig_file import read_remembered, write_kubeconfig
from berth_cluster.serving.rbac import ClusterUser
from berth_cluster.storage.store import Store

SHUTDOWN_TIMEOUT_S = 1.0


class ApiServer:
    """Serves a store; with `port` 0 it takes its former one or any free one, which is in `url` after `start`."""

    __slots__ = ("_app", "_host", "_lock", "_port", "_runner", "_users", "authority", "directory", "store", "token")

    def __init__(
        self,
        store: Store,
        directory: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str = "",
        users: Mapping[str, ClusterUser] | None = None,
    ) -> None:
        """`token` is the administrator's; `users` says whose further tokens are, to which RBAC applies."""
        self.store = store
        self.directory = directory
        self.token = token
        self.authority: ClusterAuthority | None = None
        self._app: Application | None = None
        self._host = host
        self._port = port
        self._users = users or {}
        self._lock = DirectoryLock(directory)
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"https://{_authority(self._host, self._port)}"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig that clients use."""
        return self.directory / "kubeconfig"

    async def start(self) -> None:
        """Listen, then write the kubeconfig, so that whoever sees the file can connect.

        Raises `DirectoryInUseError`, `ClusterAuthorityError` and OSError, after which nothing is held.
        """
        self._lock.acquire()
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        remembered = read_remembered(self.kubeconfig)
        self.token = self.token or remembered.token or secrets.token_urlsafe(32)
        self.authority = ClusterAuthority.kept_in(self.directory / "pki")
        create_access_objects(self.store, self.authority.certificate_pem)
        self._app = Application(self.store, ClusterAuthenticator(self.token, self._users))
        # Cancel the handler of a client that disconnects; else its watches would live on until the next event.
        server = web.Server(self._app, request_factory=_make_request, handler_cancellation=True)
        runner = web.ServerRunner(server, handle_signals=False, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
        self._runner = runner
        await runner.setup()
        await self._listen(runner, self.authority.server_context(self._host), remembered.port)
        self._port = runner.addresses[0][1]
        self._app.address = _authority(self._host, self._port)
        write_kubeconfig(self.kubeconfig, self.url, self.authority.certificate_pem, self.token)

    async def _listen(self, runner: web.ServerRunner, context: ssl.SSLContext, former_port: int) -> None:
        """Listen at the port that was asked for; else at the former one, or if somebody has taken that at any."""
        if not self._port and former_port:
            with contextlib.suppress(OSError):
                await web.TCPSite(runner, self._host, former_port, ssl_context=context, backlog=1024).start()
                return
        await web.TCPSite(runner, self._host, self._port, ssl_context=context, backlog=1024).start()

    async def stop(self) -> None:
        """End all watches and stop listening; safe to call twice."""
        if self._app is not None:
            self._app.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._lock.release()


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
