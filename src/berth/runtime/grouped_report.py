"""One line in the log where every informer has the same complaint.

When the API server goes away, each of some twenty watches reports it at every try. `GroupedReport` stands between them
and the log: of complaints that many informers share (no connection, credentials no longer accepted, a history that
begins anew, an older server) it passes on the first, and makes one line of those that follow within a second. A
complaint about one kind only (no permission, a broken line) always passes.
"""

import asyncio
from collections.abc import Callable

WINDOW_S = 1.0
SHARED_TROUBLE = (
    "cannot connect to",
    "the connection broke",
    "timed out",
    "the proxy cannot be reached",
    "HTTP 401",
    "restored or replaced",
    "does not serve them",
)

Report = Callable[[str], None]


class GroupedReport:
    """A report function for informers, whose messages begin with the plural of their kind and a colon.

    A message that begins otherwise passes as it is.
    """

    __slots__ = ("_is_open", "_others", "_report", "_window_s")

    def __init__(self, report: Report, window_s: float = WINDOW_S) -> None:
        self._report = report
        self._window_s = window_s
        self._is_open = False
        self._others: set[str] = set()

    def __call__(self, message: str) -> None:
        """Pass a message on, or keep its kind for the line that ends the window."""
        kind = message.partition(":")[0]
        if " " in kind or not any(words in message for words in SHARED_TROUBLE):
            self._report(message)
        elif self._is_open:
            self._others.add(kind)
        else:
            self._report(message)
            self._is_open = True
            asyncio.get_running_loop().call_later(self._window_s, self._close)

    def _close(self) -> None:
        """End the window with one line for all kinds that were kept."""
        others, self._others = self._others, set()
        self._is_open = False
        if others:
            self._report(f"the same goes for {', '.join(sorted(others))}")
