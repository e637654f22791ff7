"""One line in the log where every informer has the same trouble.

When the API server goes away, each of some twenty watches reports it at every try. `GroupedReport` stands between them
and the log: of trouble that informers share (no connection, credentials no longer accepted, a history that begins anew,
an older server) it passes on the first, and makes one line of those that follow within a second. Trouble with one kind
only (no permission, a broken line) always passes.
"""

import asyncio
from collections.abc import Callable

from berth.kube.trouble import InformerTrouble

WINDOW_S = 1.0


class GroupedReport:
    """A report function for informers."""

    __slots__ = ("_is_open", "_others", "_say", "_window_s")

    def __init__(self, say: Callable[[str], None], window_s: float = WINDOW_S) -> None:
        self._say = say
        self._window_s = window_s
        self._is_open = False
        self._others: set[str] = set()

    def __call__(self, trouble: InformerTrouble) -> None:
        """Pass it on, or keep its kind for the line that ends the window."""
        if not trouble.is_shared:
            self._say(str(trouble))
        elif self._is_open:
            self._others.add(trouble.plural)
        else:
            self._say(str(trouble))
            self._is_open = True
            asyncio.get_running_loop().call_later(self._window_s, self._close)

    def _close(self) -> None:
        """End the window with one line for all kinds that were kept."""
        others, self._others = self._others, set()
        self._is_open = False
        if others:
            self._say(f"the same goes for {', '.join(sorted(others))}")
