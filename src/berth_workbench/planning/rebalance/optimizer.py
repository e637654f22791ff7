"""CP-SAT and the filters in turn: the solver proposes the best placement, the filters say whether moves lead there.

What cannot be reached is forbidden, and the solver asked again, until a placement is as good as its model promises
(then no plan is better), or nothing better is left, or the effort is used up. It begins with the greedy search's plan,
and only ever looks for better ones, so that it is never worse. One worker, a fixed seed and the solver's own
deterministic time make the answer the same everywhere.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from berth_workbench.planning.rebalance.board import Board
from berth_workbench.planning.rebalance.goals import Goal, total_of
from berth_workbench.planning.rebalance.model import AssignmentModel, Placement
from berth_workbench.planning.rebalance.neighbourhood import Neighbourhood, neighbourhood_of
from berth_workbench.planning.rebalance.order import Ordering, is_valid

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

Move = tuple[str, str, str]
Stop = Callable[[], bool]

ROUNDS = 400
"""At most so many placements are put in order."""
LEAST_EFFORT_S = 0.001
LOOK_EVERY_S = 0.1
"""How often it is asked whether somebody wants the search to end."""


class Optimum(NamedTuple):
    """The best moves that were found."""

    moves: list[Move]
    proven: bool
    """Whether no plan within the limits has a lower total."""
    part: Neighbourhood


def optimize(
    board: Board,
    goal: Goal,
    begin_with: Sequence[Move],
    broken: frozenset[str],
    accepts: Callable[[], bool],
    is_stopped: Stop,
    seed: int,
) -> Optimum:
    """Return moves that are no worse than `begin_with`; the board is left as it was. Raises `ImportError`.

    `accepts` says whether the board is in a state that a plan may end in.
    """
    part = neighbourhood_of(board, goal, begin_with)
    best = list(begin_with)
    if not is_valid(board, best):
        raise AssertionError("the plan to begin with is valid in its order")
    best_total = total_of(goal, board)
    warm = {key: board.where.get(key, "") for key in (*part.keys, *board.guests)}
    board.undo()
    model = AssignmentModel(board, goal, part, broken)
    model.hint(warm)
    model.demand_less_than(best_total)
    effort, is_exact = board.request.effort_s, part.is_whole
    for _ in range(ROUNDS):
        if effort < LEAST_EFFORT_S or is_stopped():
            return Optimum(best, proven=False, part=part)
        solver, answer = _solve(model, effort, seed, is_stopped)
        effort -= solver.response_proto.deterministic_time + LEAST_EFFORT_S
        if answer == "none":
            return Optimum(best, is_exact, part)
        if answer == "unknown":
            return Optimum(best, proven=False, part=part)
        placement = model.placement(solver.boolean_value)
        goes_to = {
            key: placement.get(key, "") for key in model.keys if placement.get(key, "") != board.where.get(key, "")
        }
        ordered = Ordering(board, goes_to, accepts).find()
        is_exact = is_exact and ordered.is_complete
        found = None
        if ordered.moves is not None:
            is_valid(board, ordered.moves)
            found = total_of(goal, board)
            board.undo()
        if found is not None and ordered.moves is not None and found < best_total:
            best, best_total = ordered.moves, found
            model.demand_less_than(found)
            if answer == "best" and found <= round(solver.objective_value):
                return Optimum(best, is_exact, part)
        _forbid(model, board, placement, goes_to, is_small=ordered.is_complete)
    return Optimum(best, proven=False, part=part)


def _forbid(model: AssignmentModel, board: Board, placement: Placement, goes_to: Placement, *, is_small: bool) -> None:
    """Take a placement out; in a problem too large for all orders, all that makes the same moves goes with it."""
    if is_small:
        model.forbid(placement, model.keys)
    else:
        model.forbid(placement, [key for key in goes_to if key in board.movers] or model.keys)


def _solve(model: AssignmentModel, effort: float, seed: int, is_stopped: Stop) -> "tuple[cp_model.CpSolver, str]":
    """Let CP-SAT search, in a thread so that Ctrl-C is heard; say whether it found the best, something, or none."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = seed
    parameters.max_deterministic_time = effort
    parameters.catch_sigint_signal = False
    status: list[Any] = []
    thread = threading.Thread(target=lambda: status.append(solver.solve(model.model)), name="cp-sat", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(LOOK_EVERY_S)
        if is_stopped():
            solver.stop_search()
    words = {cp_model.OPTIMAL: "best", cp_model.FEASIBLE: "some", cp_model.INFEASIBLE: "none"}
    return solver, words.get(status[0], "unknown") if status else "unknown"
