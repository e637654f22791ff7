"""The form of the page that rebalances: a goal that needs no manifest, and how much may be moved."""

from typing import Any

from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.page.views.questions import OwnForm, Values
from berth_workbench.planning.rebalance.request import GoalName, RebalanceRequest
from berth_workbench.snapshot.snapshot import Snapshot

MOST_MOVES = 200
GOAL_WORDS: dict[GoalName, str] = {
    "empty-nodes": "empty nodes", "even-out": "make nodes equally full", "repair-spread": "repair spread and affinity",
    "place-pending": "make room for pending pods",
}  # fmt: skip
"""The goals that the page offers: all that need no manifest."""
FIELDS: list[dict[str, Any]] = [
    {"name": "goal", "label": "Goal", "kind": "select", "options": list(GOAL_WORDS), "value": next(iter(GOAL_WORDS)),
     "hint": "; ".join(f"{name}: {words}" for name, words in GOAL_WORDS.items())},
    {"name": "moves", "label": "Evictions at most", "kind": "number", "value": "20"},
]  # fmt: skip


def _read(values: Values, _snapshot: Snapshot, _configuration: ConfigurationSource) -> RebalanceRequest:
    goal = next((each for each in GOAL_WORDS if each == values.get("goal")), None)
    if goal is None:
        raise ValueError(f"the goals are {', '.join(GOAL_WORDS)}")
    moves = str(values.get("moves", "20"))
    if not moves.isdecimal() or not 0 < int(moves) <= MOST_MOVES:
        raise ValueError(f"evictions at most: a number from 1 to {MOST_MOVES} is expected, not {moves!r}")
    return RebalanceRequest(goal=goal, max_moves=int(moves))


FORM = OwnForm(FIELDS, _read)
