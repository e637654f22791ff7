"""Logs one line when every informer has the same trouble.

When the API server goes away, each of some twenty watches reports it at every try. `GroupedReport` sits between them
and the log: for trouble that informers share (no connection, credentials no longer accepted, a history that starts
over, an older server) it passes on the first report, and makes one line of those that follow within a second. Trouble
with a single kind (no permission, a broken line) is always passed on.
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
        """Pass the trouble on, or keep its kind for the line at the end of the window."""
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
