"""What makes one placement of the pods better than another: a cost in whole numbers for each goal.

A plan's total is its cost times `scale`, and `move_cost` for each move, so that every move has to pay for itself. The
greedy search, CP-SAT and the tests compare totals; the same numbers are used everywhere, so that they agree exactly.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from berth_workbench.planning.rebalance.board import Board, Rules

Int64 = NDArray[np.int64]

PRICE_UNITS = 1000
"""Prices are compared in thousandths."""
WHOLE = 1000
"""Shares of a node are counted in thousandths."""
WORTH_A_MOVE = 400
"""Evening out: the squares have to shrink by this much for each move, which is a node that differs by two percent."""
ABOVE_MOVES = 100_000
"""What one unit of other goals' cost weighs against one move; no plan has so many moves."""


class Goal(Protocol):
    """A cost of placements."""

    scale: int
    move_cost: int

    def cost(self, board: Board) -> int:
        """Return the cost of where everything is now."""


def total_of(goal: Goal, board: Board) -> int:
    """Return what the moves made so far come to, with the cost that they lead to."""
    return goal.cost(board) * goal.scale + board.spending.total * goal.move_cost


class EmptyNodes:
    """Few and cheap nodes in use."""

    scale, move_cost = ABOVE_MOVES, 1

    def __init__(self, prices: Mapping[str, float], kept: frozenset[str]) -> None:
        """`prices` by node, for all that are considered; `kept` are in use because of pods that may not be moved."""
        self.prices = {name: round(price * PRICE_UNITS) for name, price in prices.items()}
        self.kept = kept

    def is_used(self, board: Board, name: str) -> bool:
        """Say whether a node is in use."""
        return name in self.kept or board.load[name] > 0

    def cost(self, board: Board) -> int:
        """Return the price of the nodes in use, in thousandths."""
        return sum(price for name, price in self.prices.items() if self.is_used(board, name))


class EvenOut:
    """Nodes that are equally full: the squares of how far each node's CPU and memory are from the whole cluster's."""

    scale, move_cost = 1, WORTH_A_MOVE

    def __init__(self, board: Board) -> None:
        table = board.core.cache.table
        self.rows = np.array([table.row_of[name] for name in board.nodes], dtype=np.intp)
        self.allocatable: Int64 = table.allocatable[:2, self.rows]
        """CPU in milli-units and memory in bytes, of shape (2, nodes)."""
        requested = table.requested[:2, self.rows].sum(axis=1)
        whole = np.maximum(self.allocatable.sum(axis=1), 1)
        self.mean: Int64 = (requested * WHOLE // whole).reshape(2, 1)

    def shares(self, board: Board) -> Int64:
        """Return the thousandths of each node's CPU and memory that are requested, of shape (2, nodes)."""
        requested = board.core.cache.table.requested[:2, self.rows]
        found: Int64 = requested * WHOLE // np.maximum(self.allocatable, 1)
        return found

    def cost(self, board: Board) -> int:
        """Return the sum of the squares."""
        return int(((self.shares(board) - self.mean) ** 2).sum())


@dataclass(slots=True, eq=False, repr=False)
class RepairRules:
    """Few pods that break rules of their own."""

    rules: Rules

    scale, move_cost = ABOVE_MOVES, 1

    def cost(self, board: Board) -> int:
        """Return how many pods break a rule."""
        return len(self.rules.broken(board))


class PlaceNewcomers:
    """A place for every pod that is wanted to have one."""

    scale, move_cost = ABOVE_MOVES, 1

    def __init__(self, wanted: Iterable[str]) -> None:
        """`wanted` are newcomers of the board; others may be there because the scheduler tries them before."""
        self.wanted = frozenset(wanted)

    def cost(self, board: Board) -> int:
        """Return how many have none."""
        return sum(key not in board.where for key in self.wanted)
