"""The HTTP connections of a transport: a bounded pool for requests, and unbounded ones for long or urgent calls.

The HTTP transport takes its aiohttp sessions from here, and the messages for failures of a connection.
"""

import os
import socket
import ssl
import sys
from collections.abc import Sequence
from typing import Any

import aiohttp

from berth.api.errors import ConnectionLost
from berth.api.redaction import redact
from berth.kube.http.curl import CurlRequests

# HTTP/1.1 carries one request a connection; more than this many at once only queue up at the server.
MAX_CONNECTIONS = 64
# Half a minute of silence, then a probe each half minute, three times: a dead peer is noticed within two minutes.
KEEPALIVE_S = 30
KEEPALIVE_PROBES = 3
# Bytes of a stream held ready to read; more of them makes fewer and larger batches of watch events.
READ_BUFFER_BYTES = 256 * 1024


class Connections:
    """Three aiohttp sessions, and connections of libcurl for short requests, opened when first used."""

    __slots__ = ("_curl", "_curl_leases", "_leases", "_requests", "_streams", "_with_curl")

    def __init__(self, *, with_curl: bool) -> None:
        """`with_curl` says whether libcurl is there, and can do what is needed."""
        self._with_curl = with_curl
        self._curl: CurlRequests | None = None
        self._curl_leases: CurlRequests | None = None
        self._leases: aiohttp.ClientSession | None = None
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    def requests(self) -> aiohttp.ClientSession:
        """For calls that may wait for a free connection."""
        if self._requests is None:
            self._requests = _open(MAX_CONNECTIONS)
        return self._requests

    def streams(self) -> aiohttp.ClientSession:
        """For watches, which hold a connection for minutes."""
        if self._streams is None:
            self._streams = _open(0)
        return self._streams

    def leases(self) -> aiohttp.ClientSession:
        """For leases, which cannot wait, and must not be affected by what happens to other connections."""
        if self._leases is None:
            self._leases = _open(0)
        return self._leases

    def curl(self, *, for_leases: bool) -> CurlRequests | None:
        """For requests with a short answer, or leases, as above; None where aiohttp has to do."""
        if not self._with_curl:
            return None
        if for_leases:
            if self._curl_leases is None:
                self._curl_leases = CurlRequests(0, _set_options)
            return self._curl_leases
        if self._curl is None:
            self._curl = CurlRequests(MAX_CONNECTIONS, _set_options)
        return self._curl

    def give_curl_up(self) -> None:
        """Use aiohttp for everything from now on: libcurl cannot handle the server's TLS, but aiohttp can."""
        self._with_curl = False

    async def close(self) -> None:
        """Close all."""
        for connections in (self._curl, self._curl_leases):
            if connections is not None:
                connections.close()
        for session in (self._requests, self._streams, self._leases):
            if session is not None:
                await session.close()


def _open(limit: int) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=limit, keepalive_timeout=90, socket_factory=_socket)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_BUFFER_BYTES,
        auto_decompress=False,
    )


def _socket(address: Sequence[Any]) -> socket.socket:
    """A socket that notices when its peer is gone, as Go's do by default."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    _set_options(made)
    return made


def _set_options(made: socket.socket) -> None:
    # Not every event loop sets it on a socket that it is given, and Nagle's delays would halve the bindings a second.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)


def connection_problem(error: BaseException, action: str, where: str) -> ConnectionLost:
    """Return the error for people: what we did, what broke, and what to look at."""
    found = _problem(error, action, where)
    return ConnectionLost(redact(str(found)), sent=found.sent, is_of_all_requests=found.is_of_all_requests)


def _problem(error: BaseException, action: str, where: str) -> ConnectionLost:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return ConnectionLost(f"{action}: {_tls_words(error)} ({where})", sent=False)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        message = f"{action}: the proxy cannot be reached: {reason_of(error)} ({where})"
        return ConnectionLost(message, sent=False, is_of_all_requests=True)
    if isinstance(error, aiohttp.ClientConnectorError):
        message = f"cannot connect to {error.host}:{error.port}: {reason_of(error)}"
        message += "; is the API server up, and the address right?"
        return ConnectionLost(f"{action}: {message} ({where})", sent=False, is_of_all_requests=True)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ConnectionLost(f"{action}: timed out while connecting ({where})", sent=False, is_of_all_requests=True)
    if isinstance(error, TimeoutError):
        return ConnectionLost(f"{action}: timed out waiting for the server ({where})", is_of_all_requests=True)
    message = f"{action}: the connection broke: {reason_of(error)} ({where})"
    return ConnectionLost(message, is_of_all_requests=True)


def reason_of(error: BaseException) -> str:
    """Return in words why there is no connection, or no more.

    What aiohttp says itself names the address once more, and shows TLS contexts and other errors as Python does.
    """
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause: BaseException = error.certificate_error
        return getattr(cause, "verify_message", "") or str(cause)
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if cause.errno and not isinstance(cause, ssl.SSLError | socket.gaierror):  # these have numbers of their own
            return os.strerror(cause.errno)
        return cause.strerror or str(cause)
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer ended in the middle"
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return f"the server answered {error.status}"
    if isinstance(error, TimeoutError):
        return "it took too long"
    return str(error) or type(error).__name__


def _tls_words(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError) and isinstance(
        error.certificate_error, ssl.SSLCertVerificationError
    ):
        return (
            f"the certificate of {error.host}:{error.port} is not accepted: {reason_of(error)}; "
            "check certificate-authority and tls-server-name of the cluster"
        )
    return f"no TLS connection to {error.host}:{error.port}: {reason_of(error)}"
