"""`berth rebalance`: which running pods to move, in which order, so that the cluster becomes better."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from berth.decisions.node_columns import copy_columns
from berth_workbench.planning.rebalance.plan import Balance, NodeFill, RebalancePlan, in_groups
from berth_workbench.planning.rebalance.rebalance import rebalance
from berth_workbench.planning.rebalance.request import PLACING, RebalanceRequest
from berth_workbench.questions.moves import moves_of_plan
from berth_workbench.questions.question import NamedThings, Question
from berth_workbench.showing.numbers import number
from berth_workbench.showing.sections import Bars, Moves, Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch

NAMES_SHOWN = 6
NODES_DRAWN = 40
"""Bars of more nodes than this could not be told apart; those that change are drawn, and of more the most changed."""
METHODS = {"cp-sat": "CP-SAT", "greedy": "greedy search"}


class PicturedPlan(NamedTuple):
    """A plan, and how its moves look."""

    plan: RebalancePlan
    moves: Moves

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known to read it."""
        return self.plan.notes

    @property
    def is_complete(self) -> bool:
        """A plan that was stopped is a plan, a shorter one, whose notes say so; without a move it says nothing."""
        return self.plan.is_complete or bool(self.plan.moves)


def answer(situation: Situation, request: RebalanceRequest, watch: WorkWatch) -> PicturedPlan:
    """Plan the moves."""
    site = situation.untouched(watch)
    nodes = copy_columns(site.cluster.core.cache.table).columns()
    asked = {pod.key: pod.requests for pod in site.cluster.core.intake.pods}
    plan = rebalance(situation, request, watch, site)

    def requests(key: str) -> Mapping[str, int]:
        return asked.get(key, {})

    return PicturedPlan(plan, moves_of_plan(nodes, plan, headline(plan), requests))


def told(pictured: PicturedPlan) -> Iterator[Section]:
    """Tell what the plan does, its steps, and the cluster before and after."""
    plan = pictured.plan
    fits_now = plan.goal in PLACING and not plan.moves and all(each.node for each in plan.shapes)
    yield VerdictSection(headline(plan), bool(plan.moves) or fits_now or None, plan.moves, "moves")
    if plan.moves:
        yield pictured.moves
    yield table(
        "",
        (("#", "number"), "Step", "Pod or node", "From", "To", ("Why", "text")),
        _steps(plan),
    )
    if plan.steps:
        yield Sentence("Each step begins when the pod of the one before runs again.")
    yield from map(Sentence, _places(plan))
    if not fits_now:
        yield table("", ("The cluster", ("Before", "number"), ("After", "number")), _balance(plan.before, plan.after))
    yield from _fills(plan)
    yield table(
        "",
        ("Disrupted workload", ("Evictions", "number"), ("Of", "number")),
        ((each.workload, each.moves, each.pods) for each in plan.disruption),
    )
    yield table(
        "",
        (("Pods", "number"), ("Left alone, because", "text")),
        ((each.pods, each.reason) for each in plan.left_alone),
    )
    if plan.considered:
        yield Sentence(f"Considered: {plan.considered}.")


def headline(plan: RebalancePlan) -> str:
    """Say in one sentence what the plan does."""
    how = METHODS[plan.method]
    if plan.method == "cp-sat":
        how += ", nothing better exists" if plan.proven_best else ", not proven to be the best"
    placed, wanted = sum(each.node is not None for each in plan.shapes), len(plan.shapes)
    if not plan.moves:
        if plan.goal in PLACING and not wanted:
            return "No pod waits for room: no moves are needed."
        if wanted and placed == wanted:
            what = "It fits" if wanted == 1 else f"All {wanted:,} pods fit"
            often = plan.fits_now or 0
            times = {0: "", 1: ", once", 2: ", twice"}.get(often, f", {often:,} times")
            return f"{what} now{times}: no moves are needed."
        if not plan.may_move:
            return "No moves: there is no running pod that may be moved."
        if wanted:
            return f"No moves: within the limits, none were found that make room for {counted(wanted, 'pod')} ({how})."
        return f"No moves: nothing better was found within the limits ({how})."
    moves = counted(plan.moves, "move")
    if plan.emptied:
        return f"{moves} empty {listed(plan.emptied, shown=NAMES_SHOWN)} ({how})."
    if wanted:
        room = "makes room" if plan.moves == 1 else "make room"
        return f"{moves} {room} for {f'{placed} of ' if placed < wanted else ''}{counted(wanted, 'pod')} ({how})."
    return f"{moves} for {plan.goal} ({how})."


def _steps(plan: RebalancePlan) -> Iterator[tuple[str | int, ...]]:
    for at, group in enumerate(in_groups(plan.steps), 1):
        step = group[0]
        what = step.pod if step.to else ", ".join(each.node for each in group)
        placed = "".join(f"; then {each.pod} goes to {each.node}" for each in step.placed)
        yield at, step.action, what, step.node if step.to else "", step.to, step.reason + placed


def _places(plan: RebalancePlan) -> Iterator[str]:
    """Say where the pods go that room is made for, who has none, and who would take it before them."""
    for each in plan.shapes:
        if each.node:
            yield f"{each.pod} {'goes' if plan.moves else 'would go'} to {each.node}."
    without = [each.pod for each in plan.shapes if not each.node]
    if without:
        yield f"Still without a place: {listed(without, shown=NAMES_SHOWN)}."
    placed = sum(each.placed for each in plan.taken_first)
    if plan.taken_first and (without or placed):
        who = ", ".join(f"{each.pods} of {each.workload}" for each in plan.taken_first)
        does = f", and {placed} of them do here" if placed else "; --goal place-pending makes room for them"
        yield f"Pods that are pending already take such room first: {who}{does}."


def _balance(before: Balance, after: Balance) -> Iterator[tuple[str, str, str]]:
    def percent(share: float) -> str:
        return f"{number(100 * share)}%"

    yield "nodes used", f"{before.nodes_used} of {before.nodes}", f"{after.nodes_used} of {after.nodes}"
    yield "cost of the used nodes", number(before.cost), number(after.cost)
    yield "CPU requested on used nodes", percent(before.cpu), percent(after.cpu)
    yield "memory requested on used nodes", percent(before.memory), percent(after.memory)
    yield "fullest node", percent(before.highest), percent(after.highest)
    yield "deviation between nodes", percent(before.deviation), percent(after.deviation)
    yield "free CPU of no use to these pods", percent(before.fragmentation), percent(after.fragmentation)
    yield "pods that break own rules", str(before.violations), str(after.violations)
    yield "pending pods", str(before.pending), str(after.pending)


def _fills(plan: RebalancePlan) -> Iterator[Section]:
    """How full the nodes are that change the most."""
    by_change = sorted(plan.fills, key=lambda each: (-_change(each), each.node))
    changed = (each for each in by_change[:NODES_DRAWN] if _change(each))
    drawn = sorted(changed, key=lambda each: each.node)
    names = tuple(each.node for each in drawn)
    for what, field in (("CPU", "cpu"), ("memory", "memory")):
        series = {
            when: tuple(100 * float(getattr(each, f"{field}_{when}")) for each in drawn) for when in ("before", "after")
        }
        yield Bars(f"{what} requested on each node", names, series, unit="%")


def _change(fill: NodeFill) -> float:
    return abs(fill.cpu_after - fill.cpu_before) + abs(fill.memory_after - fill.memory_before)


def _named(pictured: PicturedPlan) -> Iterable[str]:
    return (each.pod for each in pictured.plan.steps if each.pod)


QUESTION = Question(
    name="rebalance",
    title="Rebalance",
    about="""Plan moves of running pods: which to evict, in which order, and where the scheduler puts them then.

    Every move is proven with the scheduler's own plugins in the order given, keeps the disruption budgets, and waits
    for the one before. Nodes are cordoned where the scheduler would choose others than the plan; the plan says so.
    """,
    asks="Move running pods {goal}, evicting {max_moves} at most.",
    doing="rebalancing",
    request=RebalanceRequest,
    answer=answer,
    told=told,
    takes_changes=False,
    names=NamedThings("the pods that are moved", _named),
    document=lambda pictured: pictured.plan,
)
