"""Which part of a large cluster CP-SAT looks at: the pods that may go elsewhere, and the nodes that they may be on.

A small cluster is taken whole. Of a large one it needs a few nodes to take pods from and a few to take them to; what
the greedy search has touched is always among them. There it finds plans of fewer moves that empty nodes or make room.
For nodes that are equally full, and rules that are kept, it found nothing better in any of 25 clusters of 32 to 60
nodes, at ten times the CPU of the greedy search; so it is not asked.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from berth_workbench.planning.rebalance.board import Board
from berth_workbench.planning.rebalance.goals import EmptyNodes, EvenOut, Goal, RepairRules

MAX_PAIRS = 4000
"""At most so many pairs of pod and node are decided about."""
SOURCES = 12
TARGETS = 24


class Neighbourhood(NamedTuple):
    """The pods and nodes to decide about, both sorted."""

    keys: tuple[str, ...]
    nodes: tuple[str, ...]
    is_whole: bool


def neighbourhood_of(board: Board, goal: Goal, moves: Sequence[tuple[str, str, str]]) -> Neighbourhood | None:
    """Return what to decide about, given the moves that the greedy search has found; None where nothing is worth it."""
    if len(board.movers) * len(board.nodes) <= MAX_PAIRS:
        return Neighbourhood(tuple(sorted(board.movers)), board.nodes, is_whole=True)
    if isinstance(goal, EvenOut | RepairRules):
        return None
    touched = [name for _, origin, target in moves for name in (origin, target) if name]
    moved = [key for key, _, _ in moves if key in board.movers]
    sources, targets = _ranked(board, goal)
    nodes = list(dict.fromkeys([*touched, *sources[:SOURCES], *targets[:TARGETS]]))
    wanted = set(dict.fromkeys([*touched, *sources[:SOURCES]]))
    on_sources = [key for key in sorted(board.movers) if board.where[key] in wanted]
    keys = list(dict.fromkeys([*moved, *on_sources]))[: max(1, MAX_PAIRS // max(1, len(nodes)))]
    nodes = list(dict.fromkeys([*nodes, *(board.where[key] for key in keys)]))
    return Neighbourhood(tuple(sorted(keys)), tuple(sorted(nodes)), is_whole=False)


def _ranked(board: Board, goal: Goal) -> tuple[list[str], list[str]]:
    """Return nodes to take pods from, and nodes to take them to, the most promising first."""
    table = board.core.cache.table
    rows = np.array([table.row_of[name] for name in board.nodes], dtype=np.intp)
    shares = (table.requested[:2, rows] / np.maximum(table.allocatable[:2, rows], 1)).max(axis=0)
    by_share = [board.nodes[at] for at in np.argsort(shares, kind="stable").tolist()]
    loaded = [name for name in by_share if board.load[name]]
    if isinstance(goal, EmptyNodes):
        cheap = [name for name in loaded if name not in goal.kept and goal.prices[name]]
        cheap.sort(key=lambda name: (board.load[name] / goal.prices[name], name))
        # Nodes that are half full take the most: the full ones have no room, the empty ones are to stay empty.
        taking = [name for name in reversed(by_share) if goal.is_used(board, name)]
        room = [name for name in taking if shares[board.nodes.index(name)] < ALMOST_FULL]
        return cheap, room
    return loaded, by_share


ALMOST_FULL = 0.95
