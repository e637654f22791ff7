"""Rebalance: which running pods to move, step by step, and the cluster before and after."""

from collections.abc import Callable
from typing import Any

from berth.api.codec import ObjectError
from berth.config.errors import ConfigError
from berth.framework.blame import PluginBrokenError
from berth.runtime.serving.node_columns import NodeColumns
from berth_workbench.page.jobs import Jobs, Watch
from berth_workbench.page.moves import MovePicture, picture_of_plan
from berth_workbench.page.source import Source
from berth_workbench.page.views.elements import MoveMap, TrialForm, percent, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.trials import TrialPanel, result_place
from berth_workbench.planning.rebalance.plan import Balance, PlanStep, RebalancePlan, in_groups
from berth_workbench.planning.rebalance.rebalance import rebalance
from berth_workbench.planning.rebalance.request import GoalName, RebalanceRequest
from berth_workbench.simulation.cluster import StuckError

REFUSED = (ConfigError, ObjectError, StuckError, PluginBrokenError, ValueError)
MOST_MOVES = 200
EFFORT_S = 3.0
ABOUT = (
    "Every move is proven with the scheduler's own plugins, in this order, within the disruption budgets. The page "
    "only plans; berth rebalance --execute carries a plan out."
)
GOAL_WORDS: dict[GoalName, str] = {
    "empty-nodes": "empty nodes", "even-out": "make nodes equally full", "repair-spread": "repair spread and affinity",
    "place-pending": "make room for pending pods",
}  # fmt: skip
"""The goals that the page offers: all that need no manifest."""


class RebalanceView:
    """Makes the page."""

    __slots__ = ("_frame", "_jobs", "_source")

    def __init__(self, source: Source, frame: Frame, jobs: Jobs) -> None:
        self._source = source
        self._frame = frame
        self._jobs = jobs

    async def build(self) -> None:
        """The form, and below it what came of it."""
        async with self._frame.page("Rebalance", "/rebalance"):
            tag("p", ABOUT, "soft")
            with tag("section", classes="panel"):
                form = TrialForm(
                    "Plan moves",
                    "Plan",
                    [
                        {"name": "goal", "label": "Goal", "kind": "select", "options": list(GOAL_WORDS),
                         "value": next(iter(GOAL_WORDS)),
                         "hint": "; ".join(f"{name}: {words}" for name, words in GOAL_WORDS.items())},
                        {"name": "moves", "label": "Evictions at most", "kind": "number", "value": "20"},
                    ],
                )  # fmt: skip
            TrialPanel(form, result_place(), self._jobs, REFUSED).runs(self._prepare, _show)

    async def _prepare(self, values: dict[str, Any]) -> Callable[[Watch], tuple[RebalancePlan, MovePicture]]:
        goal = next((each for each in GOAL_WORDS if each == values.get("goal")), None)
        if goal is None:
            raise ValueError(f"the goals are {', '.join(GOAL_WORDS)}")
        moves = str(values.get("moves", "20"))
        if not moves.isdecimal() or not 0 < int(moves) <= MOST_MOVES:
            raise ValueError(f"evictions at most: a number from 1 to {MOST_MOVES} is expected, not {moves!r}")
        request = RebalanceRequest(goal=goal, max_moves=int(moves), effort_s=EFFORT_S)
        snapshot, configuration = await self._source.snapshot(), await self._source.configuration()
        nodes: NodeColumns = await self._source.nodes()

        def work(watch: Watch) -> tuple[RebalancePlan, MovePicture]:
            config, registry = configuration.load()

            def say(_what: str) -> None:
                watch(1)

            plan = rebalance(snapshot, request, config=config, registry=registry, is_stopped=lambda: watch(0), say=say)
            return plan, picture_of_plan(nodes, plan)

        return work


def _show(found: tuple[RebalancePlan, MovePicture]) -> None:
    plan, picture = found
    with tag("section", classes="panel", aria_label="Plan"):
        tag("p", headline(plan), "summary")
        for note in plan.notes:
            tag("p", note, "soft")
        if plan.moves:
            moves = [f"{number}. {step.pod}: {step.node} → {step.to}" for number, step in enumerate(plan.evictions, 1)]
            MoveMap(picture.nodes(), picture.moves, headline(plan), steps=moves)
    with tag("div", classes="charts"):
        with tag("section", classes="panel", aria_label="Figures"):
            _balance(plan.before, plan.after)
        if plan.disruption:
            with tag("section", classes="panel", aria_label="Who is disturbed"):
                rows = [[each.workload, f"{each.moves} of {each.pods}"] for each in plan.disruption[:20]]
                table("Who is disturbed", ["Workload", ("Pods moved", "number")], rows)
    if plan.steps:
        with tag("section", classes="panel", aria_label="Steps"), tag("details"):
            tag("summary", f"All steps ({len(in_groups(plan.steps))})")
            rows = [_step(number, group) for number, group in enumerate(in_groups(plan.steps), 1)]
            table("Each begins when the pod of the one before runs again",
                  [("#", "number"), ("Step", "short"), "Pod or nodes", "From", "To", "Why"], rows)  # fmt: skip
    if plan.left_alone:
        with tag("section", classes="panel", aria_label="Left alone"), tag("details"):
            tag("summary", "Which pods may not be moved")
            rows = [[f"{each.pods:,}", each.reason] for each in plan.left_alone]
            table("", [("Pods", "number"), "Because"], rows)


def headline(plan: RebalancePlan) -> str:
    """What the plan does, in a sentence."""
    if not plan.moves:
        return "No moves: nothing better was found within the limits."
    moves = "1 move" if plan.moves == 1 else f"{plan.moves} moves"
    if plan.emptied:
        nodes = "1 node" if len(plan.emptied) == 1 else f"{len(plan.emptied)} nodes"
        return f"{moves} empty {nodes}."
    return f"{moves} to {GOAL_WORDS[plan.goal]}."


def _step(number: int, group: tuple[PlanStep, ...]) -> list[str]:
    step = group[0]
    what = step.pod if step.to else ", ".join(each.node for each in group)
    return [str(number), step.action, what, step.node if step.to else "", step.to, step.reason]


def _balance(before: Balance, after: Balance) -> None:
    rows = [
        ["nodes used", f"{before.nodes_used} of {before.nodes}", f"{after.nodes_used} of {after.nodes}"],
        ["CPU requested on used nodes", percent(before.cpu), percent(after.cpu)],
        ["memory requested on used nodes", percent(before.memory), percent(after.memory)],
        ["fullest node", percent(before.highest), percent(after.highest)],
        ["deviation between nodes", percent(before.deviation), percent(after.deviation)],
        ["free CPU of no use to these pods", percent(before.fragmentation), percent(after.fragmentation)],
        ["pods that break their own rules", str(before.violations), str(after.violations)],
        ["pending pods", str(before.pending), str(after.pending)],
    ]
    table("Before and after", ["", ("Before", "number"), ("After", "number")], rows)
