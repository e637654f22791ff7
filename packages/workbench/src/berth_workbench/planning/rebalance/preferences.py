"""Exchanges the nodes of a plan for ones that the scheduler likes better, where that costs nothing.

A search is indifferent among nodes that serve its goal equally. The scheduler is not: each node that it likes better
than the planned one has to be cordoned. So each move is tried with its own favourites first.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from berth_workbench.planning.rebalance.board import Board
from berth_workbench.planning.rebalance.goals import Goal, total_of
from berth_workbench.planning.rebalance.order import is_valid
from berth_workbench.simulation.watch import StoppedError

Move = tuple[str, str, str]

FAVOURITES = 4
"""So many nodes are tried in place of the one planned."""


def eased(board: Board, goal: Goal, moves: Sequence[Move], accepts: Callable[[], bool]) -> list[Move]:
    """Return moves of the same pods in the same order, with a total that is no higher; the board is left as it was."""
    best = list(moves)
    if not is_valid(board, best):
        raise AssertionError("moves are valid in their order before they are eased")
    total = total_of(goal, board)
    board.undo()
    with suppress(StoppedError), board.pace.heeded():  # what has been exchanged by then is as good as the others
        _ease(board, goal, best, total, accepts)
    board.undo()
    return best


def _ease(board: Board, goal: Goal, best: list[Move], total: int, accepts: Callable[[], bool]) -> None:
    """Exchange what can be exchanged of `best`, one move after the other; some may be left on the board."""
    for at, (key, origin, target) in enumerate(best):
        if origin and all(other != key for other, _, _ in best[at + 1 :]):
            for name in _favourites(board, key, target):
                instead = [(key, origin, name), *best[at + 1 :]]
                if is_valid(board, instead) and total_of(goal, board) <= total and accepts():
                    best[at:] = instead
                    total = total_of(goal, board)
                    board.undo(at)
                    break
                board.undo(at)
        board.move(key, best[at][2])


def _favourites(board: Board, key: str, target: str) -> list[str]:
    """The nodes that the scheduler likes better than the target, the best first."""
    scoring = board.scores(key)
    if scoring.totals is None:
        return []
    names = board.core.cache.table.names
    liked = [names[row] for row in scoring.rows[np.argsort(-scoring.totals, kind="stable")].tolist()]
    better = liked[: liked.index(target)] if target in liked else liked
    considered = set(board.nodes)
    return [name for name in better if name in considered and name != board.where[key]][:FAVOURITES]
