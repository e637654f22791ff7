"""CP-SAT and the filters in turn, for nodes to be emptied and room to be made.

The solver proposes the best placement, and the filters say whether moves lead there. What cannot be reached is
forbidden, and the solver asked again, until a placement is as good as its model promises (then no plan is better), or
nothing better is left, or the effort, which covers the solver and the filters, is used up. It begins with the greedy
search's plan, and only ever looks for better ones, so that it is never worse. One worker, a fixed seed and
deterministic time (`pace`) make the answer the same everywhere.

Nodes that are equally full and rules that are kept are left to the greedy search: in none of 25 clusters of 32 to 60
nodes did CP-SAT find anything better, at ten times the CPU.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from berth_workbench.planning.rebalance.board import Board
from berth_workbench.planning.rebalance.goals import EmptyNodes, PlaceNewcomers, total_of
from berth_workbench.planning.rebalance.model import AssignmentModel, Placement
from berth_workbench.planning.rebalance.order import Ordering, is_valid
from berth_workbench.planning.rebalance.pace import Pace
from berth_workbench.simulation.watch import StoppedError

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

Move = tuple[str, str, str]

MAX_PAIRS = 20_000
"""At most so many pairs of pod and node are decided about. With more, the usual effort ends before anything better."""
ROUNDS = 400
"""At most so many placements are put in order."""
LEAST_EFFORT_S = 0.001
LOOK_EVERY_S = 0.1
"""How often to check whether the search has been asked to stop."""


class Optimum(NamedTuple):
    """The best moves that were found."""

    moves: list[Move]
    proven: bool
    """Whether no plan within the limits has a lower total."""


def optimize(
    board: Board,
    goal: EmptyNodes | PlaceNewcomers,
    begin_with: Sequence[Move],
    broken: frozenset[str],
    accepts: Callable[[], bool],
    seed: int,
) -> Optimum | None:
    """Return moves that are no worse than `begin_with`; the board is left as it was. Raises `ImportError`.

    `accepts` says whether the board is in a state that a plan may end in. None where the cluster is too large.
    """
    if len(board.movers) * len(board.nodes) > MAX_PAIRS:
        return None
    improving = _Improving(board, goal, begin_with, accepts, seed)
    with suppress(StoppedError), board.pace.heeded(is_paid=True):
        improving.run(broken)
    return Optimum(improving.best, improving.is_proven)


class _Improving:
    """The best moves so far, and the search for better ones."""

    def __init__(
        self,
        board: Board,
        goal: EmptyNodes | PlaceNewcomers,
        begin_with: Sequence[Move],
        accepts: Callable[[], bool],
        seed: int,
    ) -> None:
        self._board, self._goal = board, goal
        self._accepts, self._seed = accepts, seed
        self.best = list(begin_with)
        self.is_proven = False
        """Whether nothing better exists."""
        if not is_valid(board, self.best):
            raise AssertionError("the plan to begin with is valid in its order")
        self._total = total_of(goal, board)
        self._warm = {key: board.where.get(key, "") for key in (*board.movers, *board.newcomers)}
        board.undo()

    def run(self, broken: frozenset[str]) -> None:
        """Look for better moves until there are none, or `StoppedError` is raised."""
        board, pace = self._board, self._board.pace
        pace.spend(LEAST_EFFORT_S)
        model = AssignmentModel(board, self._goal, broken)
        model.hint(self._warm)
        model.demand_less_than(self._total)
        is_exact = True
        for _ in range(ROUNDS):
            pace.spend(LEAST_EFFORT_S)
            solver, answer = _solve(model, self._seed, pace)
            pace.spend(solver.response_proto.deterministic_time)
            if answer in ("none", "unknown"):
                self.is_proven = is_exact and answer == "none"
                return
            placement = model.placement(solver.boolean_value)
            goes_to = {
                key: placement.get(key, "") for key in model.keys if placement.get(key, "") != board.where.get(key, "")
            }
            ordered = Ordering(board, goes_to, self._accepts).find()
            is_exact = is_exact and ordered.is_complete
            if ordered.moves is not None and self._is_better(ordered.moves):
                model.demand_less_than(self._total)
                if answer == "best" and self._total <= round(solver.objective_value):
                    self.is_proven = is_exact
                    return
            _forbid(model, board, placement, goes_to, is_small=ordered.is_complete)

    def _is_better(self, moves: list[Move]) -> bool:
        """Keep moves if they come to less than the best; say whether they do."""
        with self._board.whole():
            is_valid(self._board, moves)
            total = total_of(self._goal, self._board)
        self._board.undo()
        if total >= self._total:
            return False
        self.best, self._total = moves, total
        return True


def _forbid(model: AssignmentModel, board: Board, placement: Placement, goes_to: Placement, *, is_small: bool) -> None:
    """Take a placement out; in a problem too large for all orders, all that makes the same moves goes with it."""
    if is_small:
        model.forbid(placement, model.keys)
    else:
        model.forbid(placement, [key for key in goes_to if key in board.movers] or model.keys)


def _solve(model: AssignmentModel, seed: int, pace: Pace) -> "tuple[cp_model.CpSolver, str]":
    """Let CP-SAT search, in a thread so that Ctrl-C is heard; say whether it found the best, something, or none."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = seed
    parameters.max_deterministic_time = max(pace.effort_s, LEAST_EFFORT_S)
    parameters.catch_sigint_signal = False
    status: list[Any] = []
    thread = threading.Thread(target=lambda: status.append(solver.solve(model.model)), name="cp-sat", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(LOOK_EVERY_S)
        if pace.is_stopped:
            solver.stop_search()
    words = {cp_model.OPTIMAL: "best", cp_model.FEASIBLE: "some", cp_model.INFEASIBLE: "none"}
    return solver, words.get(status[0], "unknown") if status else "unknown"
