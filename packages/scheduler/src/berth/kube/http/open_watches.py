"""The open watches of a transport: ended, to be resumed by their readers, when credentials have been replaced.

A watch lasts for minutes, and the server looks at a certificate only when a connection begins. After a certificate is
replaced, the old one should not stay in use much longer. client-go closes such connections, too.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator

import aiohttp

from berth.api.errors import TransportError
from berth.kube.credentials.sources import ClusterAccess


class OpenWatch:
    """One watch, and whether it was ended here."""

    __slots__ = ("context", "is_ended", "response")

    def __init__(self, response: aiohttp.ClientResponse, context: ssl.SSLContext | None) -> None:
        self.response = response
        self.context = context
        self.is_ended = False


class OpenWatches:
    """While there are watches, checks from time to time which TLS context a new one would use."""

    __slots__ = ("_access", "_look", "_open", "_period_s", "_timer")

    def __init__(self, access: ClusterAccess, period_s: float) -> None:
        self._access = access
        self._period_s = period_s
        self._open: set[OpenWatch] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watching(self, watch: OpenWatch) -> Iterator[None]:
        """Count a watch as open for the length of a block."""
        self._open.add(watch)
        if self._timer is None and self._access.may_change:
            self._wake_later()
        try:
            yield
        finally:
            self._open.discard(watch)

    def close(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
        if self._look is not None:
            self._look.cancel()

    async def look(self) -> None:
        """End the watches that were opened with a different context from the current one."""
        try:
            context = self._access.tls_context(await self._access.credential())
        except TransportError:
            return  # whoever asks next is told
        for watch in self._open:
            if watch.context is not context:
                watch.is_ended = True
                watch.response.close()

    def _wake_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._period_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._open:
            self._look = asyncio.get_running_loop().create_task(self.look(), name="credentials of watches")
            self._wake_later()
