"""A good plan in little time: one improvement after the other, each tried on the board and kept only if it helps.

Every move is one that the filters allow at its turn, so what is left on the board is a plan in order. CP-SAT starts
from it and is never worse.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from berth_workbench.planning.rebalance.board import Board, Rules
from berth_workbench.planning.rebalance.goals import EmptyNodes, EvenOut, Goal, PlaceNewcomers, RepairRules, total_of
from berth_workbench.simulation.watch import StoppedError

NODES_TRIED = 200
"""At most so many nodes are tried to be emptied, or to be freed for one pod."""
PODS_TRIED = 200
"""At most so many different pods are tried at one step of evening out or repairing."""
TARGETS_TRIED = 12
FULLEST_NODES = 8

Move = tuple[str, str, str]
Pick = Callable[[str, list[str]], str]


class Greedy:
    """The searches, one for each goal. The moves found are left on the board."""

    def __init__(self, board: Board, goal: Goal, rules: Rules, before_that: Sequence[Move] = ()) -> None:
        """`before_that` are the moves that another search has found, of which some may be banned by now."""
        self._board = board
        self._goal = goal
        self._rules = rules
        self._before_that = before_that
        self.broken = rules.broken(board) if rules else frozenset()
        """The pods that break a rule of their own at the start."""

    def search(self) -> list[Move]:
        """Return the moves of the best plan found; the board is left as it was."""
        board, goal = self._board, self._goal
        variants: list[Callable[[], None]]
        if isinstance(goal, EmptyNodes):
            picks = (self._as_scored, self._fullest)
            variants = [partial(self._empty_nodes, goal, pick) for pick in picks]
        elif isinstance(goal, EvenOut):
            variants = [partial(self._even_out, goal)]
        elif isinstance(goal, RepairRules):
            variants = [self._repair]
        else:
            assert isinstance(goal, PlaceNewcomers)
            wanted = tuple(key for key in board.newcomers if key in goal.wanted)
            variants = [partial(self._place, wanted), partial(self._place, tuple(board.newcomers))]
        best, best_total = [], total_of(goal, board)
        for variant in (*variants, self._what_is_left):
            with suppress(StoppedError), board.pace.heeded():  # the moves made by then are a plan as well
                variant()
            if (total := total_of(goal, board)) < best_total:
                best, best_total = list(board.history), total
            board.undo()
        return best

    def breaks_nothing(self) -> bool:
        """Say whether no pod breaks a rule that it kept before."""
        return not self._rules or self._rules.broken(self._board) <= self.broken

    def _what_is_left(self) -> None:
        """Make those of the moves found before that are still allowed; CP-SAT may have found them at some expense."""
        board = self._board
        for key, origin, node in self._before_that:
            fits = board.where.get(key, "") == origin and board.is_allowed(key) and node in board.targets(key)
            if fits:
                with board.whole() as begun:
                    board.move(key, node)
                    if not self.breaks_nothing():
                        board.undo(begun)

    # -- empty nodes -------------------------------------------------------------------------------------------------

    def _empty_nodes(self, goal: EmptyNodes, pick: Pick) -> None:
        board = self._board
        emptied: set[str] = set()
        candidates = [name for name in board.nodes if name not in goal.kept and board.load[name] and goal.prices[name]]
        candidates.sort(key=lambda name: (board.load[name] / goal.prices[name], name))
        for name in candidates[:NODES_TRIED]:
            if board.load[name] > board.spending.left:
                continue
            emptied.add(name)
            if not self._move_away(
                board.movers_on(name),
                lambda target: target not in emptied and goal.is_used(board, target),
                pick,
            ):
                emptied.discard(name)

    def _move_away(self, keys: Iterable[str], is_target: Callable[[str], bool], pick: Pick) -> bool:
        """Move pods to other nodes, all or none; the largest first, since it has the fewest places."""
        board = self._board
        with board.whole() as begun:
            for key in sorted(keys, key=lambda each: (*(-amount for amount in self._size(each)), each)):
                targets = [name for name in board.targets(key) if is_target(name)] if board.is_allowed(key) else []
                if not targets:
                    board.undo(begun)
                    return False
                board.move(key, pick(key, targets))
            if not self.breaks_nothing():
                board.undo(begun)
                return False
        return True

    def _size(self, key: str) -> tuple[int, int]:
        requests = self._board.mover(key).fresh.requests
        return requests.get("cpu", 0), requests.get("memory", 0)

    def _fullest(self, _key: str, targets: list[str]) -> str:
        table = self._board.core.cache.table
        rows = [table.row_of[name] for name in targets]
        shares = (table.requested[:2, rows] / np.maximum(table.allocatable[:2, rows], 1)).max(axis=0)
        return targets[int(np.argmax(shares))]

    def _as_scored(self, key: str, targets: list[str]) -> str:
        """Return the target that the scheduler likes best, so that few nodes have to be cordoned."""
        scoring = self._board.scores(key)
        if scoring.totals is None:
            return targets[0]
        total_on = dict(zip(scoring.rows.tolist(), scoring.totals.tolist(), strict=True))
        row_of = self._board.core.cache.table.row_of
        return max(targets, key=lambda name: total_on.get(row_of[name], -1))

    # -- even out ----------------------------------------------------------------------------------------------------

    def _even_out(self, goal: EvenOut) -> None:
        board = self._board
        refused: set[tuple[str, str]] = set()
        while board.spending.left > 0:
            found = self._best_levelling(goal, refused)
            if found is None:
                return
            with board.whole() as begun:
                board.move(*found)
                if not self.breaks_nothing():
                    board.undo(begun)
                    refused.add(found)

    def _best_levelling(self, goal: EvenOut, refused: set[tuple[str, str]]) -> tuple[str, str] | None:
        """Return the move that lowers the cost the most, if it is worth one."""
        board = self._board
        shares = goal.shares(board)
        above = (shares - goal.mean).max(axis=0)
        best: tuple[int, str, str] | None = None
        for index in np.argsort(-above, kind="stable")[:FULLEST_NODES].tolist():
            asked: set[int] = set()
            for key in board.movers_on(board.nodes[index]):
                shape = id(board.movers[key].fresh.shape)
                if shape in asked or len(asked) >= PODS_TRIED // FULLEST_NODES or not board.is_allowed(key):
                    continue
                asked.add(shape)
                for gain, target in self._gains(goal, key, index):
                    if (key, target) in refused:
                        continue
                    if gain > goal.move_cost and (best is None or gain > best[0]):
                        best = gain, key, target
                    break
        return None if best is None else (best[1], best[2])

    def _gains(self, goal: EvenOut, key: str, source: int) -> list[tuple[int, str]]:
        """Return by how much the cost falls if a pod goes to each node that it fits on, the largest first."""
        board = self._board
        targets = set(board.targets(key))
        places = np.array([index for index, name in enumerate(board.nodes) if name in targets], dtype=np.intp)
        if not len(places):
            return []
        table = board.core.cache.table
        requests = board.movers[key].fresh.requests
        amount = np.array([[requests.get("cpu", 0)], [requests.get("memory", 0)]], dtype=np.int64)
        requested = table.requested[:2, goal.rows]

        def cost(
            at: "np.ndarray[tuple[int, ...], np.dtype[np.intp]]", sign: int
        ) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
            share = (requested[:, at] + sign * amount) * 1000 // np.maximum(goal.allocatable[:, at], 1)
            found: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = ((share - goal.mean) ** 2).sum(axis=0)
            return found

        own = np.array([source], dtype=np.intp)
        gains = cost(places, 0) - cost(places, 1) + int((cost(own, 0) - cost(own, -1))[0])
        order = np.argsort(-gains, kind="stable")
        return [(int(gains[at]), board.nodes[int(places[at])]) for at in order.tolist()]

    # -- repair ------------------------------------------------------------------------------------------------------

    def _repair(self) -> None:
        board = self._board
        while board.spending.left > 0:
            broken = [key for key in sorted(self._rules.broken(board)) if key in board.movers and board.is_allowed(key)]
            asked: set[tuple[int, str]] = set()
            for key in broken:
                question = (id(board.movers[key].fresh.shape), board.where[key])
                if question not in asked and len(asked) < PODS_TRIED:
                    asked.add(question)  # replicas on one node are one pod here
                    if self._repair_one(key):
                        break
            else:
                return

    def _repair_one(self, key: str) -> bool:
        """Move a pod where the fewest pods break rules; say whether they are fewer than before."""
        board, goal = self._board, self._goal
        before = goal.cost(board)
        best: tuple[int, str] | None = None
        targets = board.targets(key)
        some = targets[:: max(1, len(targets) // TARGETS_TRIED)][: TARGETS_TRIED + 1]
        if targets and (liked := self._as_scored(key, targets)) not in some:
            some.append(liked)
        with board.whole() as begun:
            for target in some:
                board.move(key, target)
                after = goal.cost(board)
                if after < before and (best is None or after < best[0]) and self.breaks_nothing():
                    best = after, target
                board.undo(begun)
        if best is not None:
            board.move(key, best[1])
        return best is not None

    # -- places ------------------------------------------------------------------------------------------------------

    def _place(self, newcomers: Sequence[str]) -> None:
        """Find a node for each of some newcomers, with the fewest pods in its way."""
        board = self._board
        placed: list[tuple[str, str]] = []
        with suppress(StoppedError):
            for key in newcomers:
                with board.whole() as begun:
                    where = self._freed_for(key)
                    if where is not None:
                        board.move(key, where)
                        if self.breaks_nothing():
                            placed.append((key, where))
                        else:
                            board.undo(begun)
        # Newcomers come when all the room is made: the moves first, in their order, then the newcomers in theirs.
        moves = [move for move in board.history if move[0] in board.movers]
        board.undo()
        for key, _, node in moves:
            board.move(key, node)
        for key, node in placed:
            board.move(key, node)

    def _freed_for(self, newcomer: str) -> str | None:
        """Make room for a newcomer on the node where that takes the fewest moves; return the node."""
        board = self._board
        direct = board.targets(newcomer)
        if direct:
            return self._as_scored(newcomer, direct)
        best: tuple[int, str] | None = None
        best_moves: list[Move] = []
        for name in self._nodes_to_free(newcomer):
            in_the_way = self._in_the_way(newcomer, name)
            if in_the_way is None or len(in_the_way) > board.spending.left:
                continue
            if best is not None and len(in_the_way) >= best[0]:
                continue
            begun = len(board.history)
            is_moved = self._move_away(in_the_way, name.__ne__, self._as_scored)
            if is_moved and board.fits(newcomer)[board.core.cache.table.row_of[name]]:
                best, best_moves = (len(in_the_way), name), list(board.history[begun:])
            board.undo(begun)
            if best is not None and best[0] == 1:
                break
        if best is None:
            return None
        for key, _, node in best_moves:
            board.move(key, node)
        return best[1]

    def _nodes_to_free(self, newcomer: str) -> list[str]:
        """The nodes with movers, those that lack the least for the newcomer first."""
        board = self._board
        table = board.core.cache.table
        requests = {name: amount for name, amount in board.mover(newcomer).fresh.requests.items() if amount}

        def lack(name: str) -> float:
            row, lacking = table.row_of[name], 0.0
            for resource, amount in requests.items():
                index = table.resource_index.get(resource)
                allocatable = 0 if index is None else int(table.allocatable[index, row])
                if amount > allocatable:
                    return float("inf")
                requested = 0 if index is None else int(table.requested[index, row])
                lacking += max(0, amount - (allocatable - requested)) / allocatable
            return lacking

        found = sorted((lack(name), name) for name in board.nodes if board.load[name])
        return [name for lacking, name in found[:NODES_TRIED] if lacking != float("inf")]

    def _in_the_way(self, newcomer: str, node: str) -> list[str] | None:
        """Return the fewest movers that have to leave a node for the newcomer, as preemption chooses its victims."""
        board = self._board
        row = board.core.cache.table.row_of[node]
        movable = [key for key in board.movers_on(node) if board.is_allowed(key)]
        with board.lifted(movable):
            if not board.fits(newcomer)[row]:
                return None
        leaving = list(movable)
        for key in sorted(movable, key=lambda each: (*(-amount for amount in self._size(each)), each)):
            without = [other for other in leaving if other != key]
            with board.lifted(without):
                if board.fits(newcomer)[row]:
                    leaving = without
        return leaving
