"""The embedded API server: the store behind HTTPS, with a kubeconfig that lets clients in.

`ApiServer` is what `berth apiserver`, `berth up` and the tests start and stop inside their event loop. Its directory is
its identity: a server that is started there again has the same CA, and unless it is told otherwise the same token and
port, so that a kubeconfig handed out before goes on working. Only one server at a time has a directory.
"""

import asyncio
import contextlib
import secrets
from asyncio import Task
from collections.abc import Mapping
from pathlib import Path

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from berth.serving.connections import NOT_HTTP, BoundedListener, ConnectionLimits, GuardedProtocol
from berth_cluster.apimachinery.errors import StoreError, bad_request
from berth_cluster.apimachinery.releases import DEFAULT_MINOR, release
from berth_cluster.serving.access import ClusterAuthenticator
from berth_cluster.serving.account_tokens import AccountTokens
from berth_cluster.serving.app import Application
from berth_cluster.serving.bodies import MAX_BODY_BYTES
from berth_cluster.serving.bootstrap_access import create_access_objects, publish_address
from berth_cluster.serving.certificates import ClusterAuthority
from berth_cluster.serving.delay import ApiDelay
from berth_cluster.serving.directory_lock import DirectoryLock
from berth_cluster.serving.kubeconfig_file import read_remembered, write_kubeconfig
from berth_cluster.serving.rbac import ClusterUser
from berth_cluster.serving.responses import error_response
from berth_cluster.storage.store import Store

SHUTDOWN_TIMEOUT_S = 1.0
HOUSEKEEPING_PERIOD_S = 30.0


class ApiServer:
    """Serves a store; with `port` 0 it takes its former one or any free one, which is in `url` after `start`."""

    __slots__ = ("_app", "_host", "_housekeeping", "_http", "_limits", "_listener", "_lock", "_port", "_release",
                 "_users", "authority", "delay", "directory", "store", "token")  # fmt: skip

    def __init__(
        self,
        store: Store,
        directory: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str = "",
        users: Mapping[str, ClusterUser] | None = None,
        limits: ConnectionLimits | None = None,
        kubernetes_minor: int = DEFAULT_MINOR,
        lock: DirectoryLock | None = None,
    ) -> None:
        """`lock` is the directory's where the store's objects are kept in it; the server ends the store, then, too.

        `token` is the administrator's; `users` says whose further tokens are, to which RBAC applies.

        The API of Kubernetes 1.`kubernetes_minor` is served.
        """
        self.store = store
        self.delay = ApiDelay(store)
        self.directory = directory
        self.token = token
        self.authority: ClusterAuthority | None = None
        self._app: Application | None = None
        self._host = host
        self._port = port
        self._users = users or {}
        self._release = release(kubernetes_minor)
        self._lock = lock or DirectoryLock(directory)
        self._limits = limits or ConnectionLimits()
        self._http: web.Server | None = None
        self._listener: BoundedListener | None = None
        self._housekeeping: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"https://{_authority(self._host, self._port)}"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig that clients use."""
        return self.directory / "kubeconfig"

    async def start(self) -> None:
        """Listen, then write the kubeconfig, so that a client that sees the file can connect.

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
        tokens = AccountTokens(self.store, self.authority.signing_key)
        authenticator = ClusterAuthenticator(self.token, self._users, tokens)
        self._app = Application(self.store, authenticator, self._release, _let_in, self.delay)
        if self.store.kept is not None:
            loop = asyncio.get_running_loop()
            self.store.kept.on_noted = lambda: loop.call_soon(self._flush)
            self.store.flush()
        # Cancel the handler of a client that disconnects; else its watches would live on until the next event.
        self._http = web.Server(self._handle, request_factory=_make_request, handler_cancellation=True)
        context = self.authority.server_context(self._host)
        self._listener = BoundedListener(
            self._http, lambda: context, self._limits, lambda: error_response(bad_request(NOT_HTTP))
        )
        await self._open(self._listener, remembered.port)
        self._port = self._listener.port
        self._app.address = _authority(self._host, self._port)
        publish_address(self.store, self._host, self._port)
        self._housekeeping = asyncio.create_task(self._keep_house(), name="event expiry")
        write_kubeconfig(self.kubeconfig, self.url, self.authority.certificate_pem, self.token)

    async def _open(self, listener: BoundedListener, former_port: int) -> None:
        """Listen at the port that was asked for; else at the former one, or if somebody has taken that at any."""
        if not self._port and former_port:
            with contextlib.suppress(OSError):
                await listener.open(self._host, former_port)
                return
        await listener.open(self._host, self._port)

    def _flush(self) -> None:
        with contextlib.suppress(StoreError):  # which those are told who wait for an answer
            self.store.flush()

    async def _keep_house(self) -> None:
        """Let events go when their time has come, even if nobody writes any more."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_PERIOD_S)
            while self.store.expire_events(at_most=100):
                await asyncio.sleep(0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._app is not None
        response = await self._app(request)
        protocol = request.protocol
        if isinstance(protocol, GuardedProtocol):
            protocol.answered(request, response)
            if not protocol.connection.is_let_in:
                response.force_close()
        return response

    async def stop(self) -> None:
        """End all watches and stop listening; safe to call twice."""
        if self._app is not None:
            self._app.stop()
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            await asyncio.gather(self._housekeeping, return_exceptions=True)
            self._housekeeping = None
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        if self._http is not None:
            self._http.pre_shutdown()
            await self._http.shutdown(SHUTDOWN_TIMEOUT_S)
            self._http = None
        self.store.close()
        self._lock.release()


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _let_in(request: web.BaseRequest) -> bool:
    """A request has shown a credential; whether its connection gets a place among those that have."""
    protocol = request.protocol
    return not isinstance(protocol, GuardedProtocol) or protocol.let_in_now()


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
