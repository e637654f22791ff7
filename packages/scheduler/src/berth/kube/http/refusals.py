"""Tracks whether the API server has refused us for a while: a scheduler that cannot do its work must not report ready.

The HTTP transport reports each answer; the health server asks. Three things count. Our identity is not accepted (401,
or no TLS connection), which any other answer disproves. Bindings, or leases, are forbidden (403), which only a
different answer to such a request disproves: if anything else is forbidden, scheduling goes on without it, or the
informers say what they lack.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

PATIENCE_S = 30.0
"""So long a refusal may last: certificates and permissions are replaced one after the other."""
FORGOTTEN_AFTER_S = 90.0
"""After this long without a request nothing is known any more; recurring requests come more often than that."""

IDENTITY = ""
BINDINGS, LEASES = "pods/binding", "leases"
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        IDENTITY: "the API server and we have not accepted each other",
        BINDINGS: "bindings have been forbidden",
        LEASES: "leases have been forbidden",
    }
)


@dataclass(slots=True)
class _Refusal:
    since_s: float
    last_s: float
    why: str


class Refusals:
    """What is refused, since when, and why."""

    __slots__ = ("_clock", "_refused")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: dict[str, _Refusal] = {}

    def accepted(self, what: str) -> None:
        """Note an answer that is no refusal; `what` is a resource, with its subresource."""
        if self._refused:
            self._refused.pop(IDENTITY, None)
            self._refused.pop(what, None)

    def unknown(self, why: str) -> None:
        """Note that there is no TLS connection, or that our credentials are not accepted."""
        self._refuse(IDENTITY, why)

    def forbidden(self, what: str, why: str) -> None:
        """Note that something is forbidden, which means that the credentials are accepted."""
        self._refused.pop(IDENTITY, None)
        if what in _WORDS:
            self._refuse(what, why)

    def problem(self) -> str:
        """Return what has been refused for too long, and why; empty if nothing has."""
        now_s = self._clock()
        told = [
            f"{_WORDS[what]} for {now_s - one.since_s:.0f} s: {one.why}"
            for what, one in self._refused.items()
            if one.last_s - one.since_s >= PATIENCE_S and now_s - one.last_s < FORGOTTEN_AFTER_S
        ]
        return "; ".join(told)

    def _refuse(self, what: str, why: str) -> None:
        now_s = self._clock()
        known = self._refused.get(what)
        if known is None or now_s - known.last_s >= FORGOTTEN_AFTER_S:
            known = self._refused[what] = _Refusal(now_s, now_s, why)
        known.last_s, known.why = now_s, why
