"""How many nodes a partial search looks at, and in which order.

Source of the formula: pkg/scheduler/schedule_one.go, numFeasibleNodesToFind.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.engine.verdicts import Mask

MIN_FEASIBLE_NODES = 100
"""With fewer nodes than this, all are searched; and a search never stops at fewer feasible ones."""
MIN_PERCENTAGE = 5


class Sampled(NamedTuple):
    """The result of a partial search: rows in the order found, rows that failed, and where it and the next search
    start.
    """

    start: int
    feasible: NDArray[np.intp]
    failed: NDArray[np.intp]
    next_start: int


def feasible_nodes_to_find(node_count: int, percentage: int | None) -> int:
    """Return how many feasible nodes are enough. A percentage of None means all of them, 0 upstream's adaptive
    share.
    """
    if percentage is None or percentage >= 100 or node_count < MIN_FEASIBLE_NODES:
        return node_count
    share = percentage or max(50 - node_count // 125, MIN_PERCENTAGE)
    return max(node_count * share // 100, MIN_FEASIBLE_NODES)


def sample(order: NDArray[np.intp], start: int, feasible: Mask, enough: int, node_count: int) -> Sampled:
    """Walk `order` from index `start` until `enough` rows are feasible.

    The walk ends just before the next feasible row after that, so rows that fail in between count as looked at, as in a
    search with one worker. `node_count` is that of the whole cluster, for the next start.
    """
    walk = np.roll(order, -(start % len(order))) if len(order) else order
    fits = feasible[walk]
    found = np.flatnonzero(fits)
    end = int(found[enough]) if len(found) > enough else len(walk)
    looked_at, fits = walk[:end], fits[:end]
    # Modulo all nodes, not only those worth looking at: this is how upstream counts its `nextStartNodeIndex`.
    return Sampled(start, looked_at[fits], looked_at[~fits], (start + end) % max(node_count, 1))


def fewest_beside(marked: Mask, at: int, enough: int) -> int:
    """Return the fewest marked nodes that a search for `enough` can find if the node at index `at` is among them.

    `marked` has the feasible nodes in the order of the walk, which continues at the beginning after the last.
    """
    around = np.resize(np.roll(marked, enough - 1 - at), 2 * enough - 1)
    found = np.concatenate(([0], np.cumsum(around)))
    return int((found[enough:] - found[:-enough]).min())
