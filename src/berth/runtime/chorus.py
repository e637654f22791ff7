"""One line where every informer has the same complaint.

When the API server goes away, each of a score of watches says so, at every try. `Chorus` stands between them and the
log: of complaints about the connection itself the first is passed on, and the others of the next second become one
line; likewise where the server accepts us no longer, or its history begins anew. Complaints of one kind's own (no
permission, a broken line) always pass.
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
)

Report = Callable[[str], None]


class Chorus:
    """A report function for informers, whose messages begin with the plural of the kind and a colon.

    What begins otherwise is nobody else's complaint too, and passes.
    """

    __slots__ = ("_is_open", "_others", "_report", "_window_s")

    def __init__(self, report: Report, window_s: float = WINDOW_S) -> None:
        self._report = report
        self._window_s = window_s
        self._is_open = False
        self._others: set[str] = set()

    def __call__(self, message: str) -> None:
        """Report, or count."""
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
        """End the window with one line for all that were counted."""
        others, self._others = self._others, set()
        self._is_open = False
        if others:
            self._report(f"the same goes for {', '.join(sorted(others))}")
