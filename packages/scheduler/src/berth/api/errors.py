"""What can go wrong between us and an API server, shared by every backend of the transport.

Raised by the transports (`berth.kube.http.client`, the embedded store's, the in-memory one of the tests) and caught
by their callers: reflectors, the event recorder, leader election, and the runtime that carries out effects. The two
kinds ask for different reactions. An `ApiError` is the server's own refusal. After `ConnectionLost` nobody knows
whether the request took effect, and the object has to be read before anything is concluded. For writes,
`outcome_unknown` tells them apart, since an answer of the 5xx class (a proxy's 502, the 504 of an etcd timeout) settles
nothing either.
"""

import msgspec

from berth.api.untrusted import UNREADABLE


class TransportError(Exception):
    """A request to the API server failed; see the two kinds below."""

    @property
    def outcome_unknown(self) -> bool:
        """Whether a write that failed in this way may have taken effect: if so, read the object first."""
        return False

    @property
    def is_of_all_requests(self) -> bool:
        """Whether it is the connection or the server that fails, so that every other request fails in the same way."""
        return False


class ApiError(TransportError):
    """The server refused: the HTTP status, the reason for programs, and the message for people."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{message} ({reason or 'no reason given'}, HTTP {status})")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def outcome_unknown(self) -> bool:
        """5xx answers may come after the write reached storage; 503 is given before anything was tried."""
        return self.status >= 500 and self.status not in (501, 503)

    @property
    def is_not_found(self) -> bool:
        """The object does not exist (404)."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Somebody else changed the object first, or it is not in the state the request needs (409)."""
        return self.status == 409

    @property
    def is_expired(self) -> bool:
        """The resourceVersion or continue token is too old (410 Gone or Expired): list again."""
        return self.status == 410 or self.reason in ("Gone", "Expired")

    @property
    def is_ahead_of_server(self) -> bool:
        """The resourceVersion is one that the server has not reached (504): it was restored, or is another one."""
        return self.status == 504 and "Too large resource version" in self.message

    @property
    def is_unauthorized(self) -> bool:
        """The credentials were not accepted (401)."""
        return self.status == 401

    @property
    def is_forbidden(self) -> bool:
        """The user may not do this (403)."""
        return self.status == 403

    @property
    def is_of_all_requests(self) -> bool:
        """Credentials that are not accepted, and a server (or its etcd) that says that it ran out of time."""
        return self.is_unauthorized or "timed out" in self.message

    @property
    def is_retryable(self) -> bool:
        """The server is overloaded or briefly unable; the same request may succeed later."""
        return self.status in (429, 500, 502, 503, 504)


class ConnectionLost(TransportError):  # noqa: N818 - it says what happened; the base says it is an error
    """No answer came, or it broke off. Unless the request was never `sent`, it may have taken effect."""

    def __init__(self, message: str, *, sent: bool = True, is_of_all_requests: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self._is_of_all_requests = is_of_all_requests

    @property
    def is_of_all_requests(self) -> bool:
        """What the code that raised it says."""
        return self._is_of_all_requests

    @property
    def outcome_unknown(self) -> bool:
        """True unless there was never a connection."""
        return self.sent


class CalledOff(TransportError):  # noqa: N818 - it says what happened; the base says it is an error
    """The request was not sent and will not be: the process is ending, or nobody wants it any more."""


class _WireStatus(msgspec.Struct, frozen=True, rename="camel"):
    """metav1.Status as far as a client reads it; a server may leave out any of it."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: "_WireDetails | None" = None


class _WireDetails(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: int | None = None


def api_error_from_body(status: int, body: bytes, *, retry_after_s: float | None = None) -> ApiError:
    """Return the error that a non-2xx answer stands for, from its metav1.Status or, with proxies, its plain text."""
    try:
        wire = msgspec.json.decode(body, type=_WireStatus)
    except UNREADABLE:
        text = body[:300].decode("utf-8", "replace").strip()
        return ApiError(status, _REASONS.get(status, ""), text or "the server gave no message", retry_after_s)
    if retry_after_s is None and wire.details is not None and wire.details.retry_after_seconds:
        retry_after_s = float(wire.details.retry_after_seconds)
    reason = wire.reason or _REASONS.get(status, "")
    return ApiError(wire.code or status, reason, wire.message or "the server gave no message", retry_after_s)


# The metav1.StatusReason that goes with an HTTP status when the body names none.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
