"""Connections that do not get to the point are cut off: each has some seconds for the head of a request.

Uvicorn waits for ever for the rest of a head. On an address that strangers can reach they could hold all connections
that way.
"""

import asyncio
from typing import Any

HEAD_S = 15.0
"""How long the head of a request may take to arrive; as on the scheduler's own port."""


def with_deadline(protocol: Any, head_s: float = HEAD_S) -> Any:
    """Return a class of Uvicorn's HTTP protocol whose connections are cut off where a head takes longer."""

    class Punctual(protocol):  # type: ignore[misc] # which class that is, is Uvicorn's choice
        _sweep: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._sweep = self.loop.call_later(head_s, self._look)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_looking()
            super().connection_lost(exc)

        def _stop_looking(self) -> None:
            if self._sweep is not None:
                self._sweep.cancel()
                self._sweep = None

        def _look(self) -> None:
            """Cut the connection off if it has neither a request under way nor the time that is given between two."""
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                return  # a WebSocket has its own keeper
            is_answering = self.cycle is not None and not self.cycle.response_complete
            if not is_answering and self.timeout_keep_alive_task is None:
                self.transport.abort()
                return
            self._sweep = self.loop.call_later(head_s, self._look)

    return Punctual
