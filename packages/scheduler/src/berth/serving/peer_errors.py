"""What strangers do wrong at a port is their fault: counted, and told in a line now and then, never with a traceback.

`PeerErrorLog` is told by whoever accepts connections. aiohttp's servers log by themselves, to what they are given as
their logger: a `ServerLog` tells faults of the peer from bugs, which keep their tracebacks.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from aiohttp import ClientPayloadError, InvalidURL
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

PEER_ERROR_LOG_PERIOD_S = 10.0
"""Between two lines."""
_MAX_SHOWN = 200
_FAULTS = (HttpProcessingError, RequestPayloadError, ClientPayloadError, InvalidURL)
"""What aiohttp raises for requests, and for bodies, that are not what HTTP has."""

_log = logging.getLogger(__name__)


class PeerErrorLog:
    """Counts what peers do wrong, and logs a line about it at most once in a while."""

    __slots__ = ("_counts", "_last", "_next_s", "_now")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._counts: Counter[str] = Counter()
        self._last = ""
        self._next_s = 0.0

    def note(self, what: str, peer: str, detail: str = "") -> None:
        """Count one; `what` is one of a few phrases in the plural, `detail` is shown of the last one only."""
        self._counts[what] += 1
        self._last = f"{peer}: {detail[:_MAX_SHOWN]}" if detail else peer
        if self._now() >= self._next_s:
            self.tell()

    def tell(self) -> None:
        """Log what has been counted, if anything."""
        if not self._counts:
            return
        told = ", ".join(f"{count} {what}" for what, count in self._counts.most_common())
        _log.warning(
            "connections: %s; the last from %s", told, "".join(c if c.isprintable() else "?" for c in self._last)
        )
        self._counts.clear()
        self._next_s = self._now() + PEER_ERROR_LOG_PERIOD_S


class ServerLog(logging.LoggerAdapter[logging.Logger]):
    """The logger of an aiohttp server."""

    def __init__(self, logger: logging.Logger, peer_errors: PeerErrorLog) -> None:
        super().__init__(logger)
        self._peer_errors = peer_errors

    def exception(self, msg: object, *args: object, exc_info: Any = True, **options: Any) -> None:
        """Log a bug with its traceback; what is the peer's fault, whom `args` names, is counted."""
        peer = str(args[0]) if args else "?"
        if isinstance(exc_info, _FAULTS):
            self._peer_errors.note("sent what is not HTTP", peer, type(exc_info).__name__)
        elif isinstance(exc_info, ConnectionResetError):
            self._peer_errors.note("broke off in the middle", peer)
        else:
            super().exception(msg, *args, exc_info=exc_info, **options)
