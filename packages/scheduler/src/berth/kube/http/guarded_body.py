"""A request body that asks, when it is about to be written to the socket, whether it may be."""

from typing import Protocol

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload


class Guard(Protocol):
    """Decides about a write when its body is about to go to the socket."""

    def check(self) -> None:
        """Raise what is to be raised in place of sending it."""
        ...

    def left_s(self) -> float:
        """Return for how many seconds from now the write may still take effect."""
        ...


class GuardedBody(BytesPayload):
    """Bytes that are written only if the guard lets them pass.

    aiohttp writes a body when it has a connection, after any wait for one, and again when it repeats a request on
    another connection. A server does nothing about a request whose body does not come.
    """

    def __init__(self, value: bytes, guard: Guard) -> None:
        super().__init__(value, content_type="application/json")
        self._guard = guard
        self.refusal: Exception | None = None
        """What the guard raised, which aiohttp wraps into an error of its own."""

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write the whole body."""
        self._ask()
        await super().write(writer)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write so much of the body."""
        self._ask()
        await super().write_with_length(writer, content_length)

    def _ask(self) -> None:
        try:
            self._guard.check()
        except Exception as refusal:
            self.refusal = refusal
            raise
