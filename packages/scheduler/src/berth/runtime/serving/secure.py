"""The secure port as a whole: its certificates, and for each request whether the client may have the answer.

`HealthServer` listens with the certificates and puts each request that comes over TLS to `refusal`. Refusals are
kube-scheduler's: 401 for an invalid credential, 403 for a forbidden request, 500 if the API server cannot say, and 429
if too many ask at once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from berth.kube.http.client import HttpTransport
from berth.kube.transport import Transport
from berth.runtime.observing import logs
from berth.runtime.serving.authentication import ANONYMOUS, RequestAuthenticator, UnauthenticatedError
from berth.runtime.serving.authorization import PathAuthorizer
from berth.runtime.serving.certificates import ServingCertificates
from berth.runtime.serving.options import ServingOptions
from berth.runtime.serving.reviews import ReviewError, TooManyReviews

_log = logging.getLogger("berth.serving")


class SecureServing:
    """Certificates and access of the secure port. Make it inside the event loop; raises what its parts raise."""

    __slots__ = ("_authenticator", "_authorizer", "_keeping_up", "_transports", "certificates", "options")

    def __init__(
        self, options: ServingOptions, authentication: Transport | None, authorization: Transport | None
    ) -> None:
        """The transports lead to the API servers that are asked; they are closed with this, and may be one."""
        self.options = options
        self.certificates = ServingCertificates(options.tls, options.bind_address)
        self._authenticator = RequestAuthenticator(
            options.authentication, authentication, on_change=self.certificates.trust_clients_of
        )
        self._authorizer = PathAuthorizer(options.authorization, authorization)
        self._transports = {authentication, authorization} - {None}
        self._keeping_up: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Find out whom to trust; only where failures are not to be tolerated does this wait for the API server."""
        self._authenticator.read_files()
        if not self.options.authentication.tolerate_lookup_failure:
            await self._authenticator.look_up()
        self._keeping_up = asyncio.create_task(self._authenticator.keep_up(), name="authorities")

    async def stop(self) -> None:
        """End, and close the transports; safe to call twice."""
        task, self._keeping_up = self._keeping_up, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        transports, self._transports = self._transports, set()
        for transport in transports:
            if isinstance(transport, HttpTransport):
                await transport.close()

    async def refusal(self, request: web.Request, let_in: Callable[[], bool]) -> web.Response | None:
        """The answer to a request that is refused; None for one that may have what it asks for.

        `let_in` is called once the user is known: it says whether there is room for the connection.
        """
        verb, path = request.method.lower(), request.path
        try:
            user = await self._authenticator.user_of(request)
            exists = request.match_info.http_exception is None
            if user == ANONYMOUS and not exists and not self._authorizer.is_open(path):
                return _forbidden(user.name, verb, path)  # nothing is there that a review could allow
            verdict = await self._authorizer.verdict(user, verb, path)
        except UnauthenticatedError:
            return _status(401, "Unauthorized", "Unauthorized")
        except TooManyReviews:
            return _status(429, "TooManyRequests", "too many requests wait for a review, please try again later", 1)
        except ReviewError as error:
            _log.warning("whether somebody may %s %s cannot be said, and is refused: %s", verb, path, error)
            return web.Response(status=500, text=f'Internal Server Error: "{path}": {error}')
        if verdict.is_allowed:
            has_room = user == ANONYMOUS or let_in()
            return None if has_room else _status(429, "TooManyRequests", "too many connections", 1)
        _log.log(logs.level(4), "refused %s %s to %s", verb, path, user.name)
        return _forbidden(user.name, verb, path, verdict.reason)


def _forbidden(user: str, verb: str, path: str, reason: str = "") -> web.Response:
    said = f'forbidden: User "{user}" cannot {verb} path "{path}"'
    return _status(403, "Forbidden", f"{said}: {reason}" if reason else said, details={})


def _status(
    code: int, reason: str, message: str, retry_after_s: int = 0, *, details: dict[str, Any] | None = None
) -> web.Response:
    """A metav1.Status, as the API machinery of all components answers."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    body |= {"message": message, "reason": reason}
    if details is not None:
        body["details"] = details
    if retry_after_s:
        body["details"] = {"retryAfterSeconds": retry_after_s}
    headers = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
    if retry_after_s:
        headers["Retry-After"] = str(retry_after_s)
    encoded = msgspec.json.encode({**body, "code": code})
    return web.Response(status=code, body=encoded, content_type="application/json", headers=headers)
