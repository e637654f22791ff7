"""Finds an order of moves in which every one is allowed by the filters when its turn comes.

A set of moves is given as where pods are to be in the end. Moves are tried in every order until one works; pods that
stand in each other's way go by a third node, with as few such detours as possible. The number of states looked at is
bounded, and the answer says whether the search was complete.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from berth_workbench.planning.rebalance.board import Board

Move = tuple[str, str, str]

STATES = 3000
"""At most so many positions are looked at for one set of moves."""
SMALL = 80
"""With at most so many pairs of pod and node, any pod may make a detour, also one that ends where it was."""
DETOURS = 2
"""How many detours larger problems may have."""


class Ordered(NamedTuple):
    """The moves in order; None where there is no such order, or (with `is_complete` false) none was found."""

    moves: list[Move] | None
    is_complete: bool


def is_valid(board: Board, moves: Sequence[Move]) -> bool:
    """Make moves one after the other while the filters and the limits allow them; say whether all were made.

    They are left on the board.
    """
    for key, _, node in moves:
        if not board.is_allowed(key) or not board.fits(key)[board.core.cache.table.row_of[node]]:
            return False
        board.move(key, node)
    return True


class Ordering:
    """The search for an order; the board is left as it was."""

    def __init__(self, board: Board, goes_to: Mapping[str, str], accepts: Callable[[], bool]) -> None:
        """`goes_to` has the node of each pod that is to be elsewhere; `accepts` is asked when all are there."""
        self._board = board
        self._goes_to = {key: node for key, node in sorted(goes_to.items()) if key in board.movers}
        self._newcomers = [(key, goes_to[key]) for key in board.newcomers if key in goes_to]
        self._accepts = accepts
        self._seen: set[object] = set()
        self._states = 0
        self._wanted_more = False

    def find(self) -> Ordered:
        """Return the order with the fewest moves. Raises `StoppedError`."""
        with self._board.whole() as begun:
            return self._find(begun)

    def _find(self, begun: int) -> Ordered:
        board = self._board
        is_small = self._is_small()
        spare = board.spending.left - len(self._goes_to)
        for detours in range((spare if is_small else min(spare, DETOURS)) + 1):
            self._seen.clear()
            self._wanted_more = False
            if self._descend(detours):
                moves = list(board.history[begun:])
                board.undo(begun)
                return Ordered(moves, is_complete=True)
            if self._states > STATES:
                return Ordered(None, is_complete=False)
            if not self._wanted_more:
                break
        return Ordered(None, is_small)

    def _is_small(self) -> bool:
        return len(self._board.movers) * len(self._board.nodes) <= SMALL

    def _descend(self, detours: int) -> bool:
        board = self._board
        left = {key: node for key, node in self._goes_to.items() if board.where[key] != node}
        away = [
            key for key in board.movers if key not in self._goes_to and board.where[key] != board.movers[key].origin
        ]
        if not left and not away:
            return self._newcomers_fit()
        state = (detours, tuple(sorted(board.where.items())), board.spending.state())
        if state in self._seen:
            return False
        self._seen.add(state)
        self._states += 1
        if self._states > STATES or len(left) + len(away) > board.spending.left:
            return False
        table = board.core.cache.table
        back = {key: board.movers[key].origin for key in away}
        fits = {}
        for key, node in (*left.items(), *back.items()):
            if not board.is_allowed(key):
                return False  # it has to move once more and may not
            fits[key] = board.fits(key)
            if fits[key][table.row_of[node]] and self._try(key, node, detours):
                return True
        for key in sorted(board.movers if self._is_small() else fits):
            price = 1 if key in fits else 2  # a pod that is where it belongs has to come back as well
            if price > detours:
                self._wanted_more = True
                continue
            if not board.is_allowed(key):
                continue
            home = left.get(key) or back.get(key)
            mask = fits[key] if key in fits else board.fits(key)
            for name in board.nodes:
                if name in (home, board.where[key]) or not mask[table.row_of[name]]:
                    continue
                if self._try(key, name, detours - price):
                    return True
        return False

    def _try(self, key: str, node: str, detours: int) -> bool:
        board = self._board
        begun = len(board.history)
        board.move(key, node)
        if self._descend(detours):
            return True
        board.undo(begun)
        return False

    def _newcomers_fit(self) -> bool:
        board = self._board
        begun = len(board.history)
        if is_valid(board, [(key, "", node) for key, node in self._newcomers]) and self._accepts():
            return True
        board.undo(begun)
        return False
