"""`berth upgrade-plan`: nodes in batches, the surge that they need, what moves, and what stands in the way."""

from collections.abc import Iterator

from berth.decisions.reasons import cause_of
from berth_workbench.planning.upgrade.plan import BlockedPod, PoolUpgrade, UpgradePlan, UpgradeStep
from berth_workbench.planning.upgrade.search import UpgradeRequest, plan_upgrade
from berth_workbench.questions.question import Fails, Question
from berth_workbench.showing.sections import Behind, Cell, Section, Sentence, Try, VerdictSection, table
from berth_workbench.showing.words import counted, listed

NAMES_SHOWN = 3


def told(plan: UpgradePlan) -> Iterator[Section]:
    """Tell what the plan comes to, what it cannot do, and then its steps."""
    yield _verdict(plan)
    yield from map(Sentence, _summary(plan))
    if plan.blocked:
        yield Try(
            f"What if {plan.blocked[0].node} were drained?", "whatif", {"changes": f"drain {plan.blocked[0].node}"}
        )
    yield table(
        "",
        ("Pool", ("Nodes", "number"), ("Surge", "number"), "Like", ("Without one of them", "text")),
        (
            (
                each.pool or "(none)",
                each.nodes,
                len(each.surge),
                _likes(each),
                why,
            )
            for each in plan.pools
            for why in [
                _without(each.surge[0].without if each.surge else "", is_minimal=each.is_minimal or not each.surge)
            ]
        ),
    )
    yield table(
        "",
        ("Blocked node", "Pod", "Budget", ("What would free it", "text")),
        ((node.node, pod.pod, pod.budget, _frees(pod)) for node in plan.blocked for pod in node.pods),
    )
    yield table(
        "",
        ("Lost pod", "With", ("Why", "text")),
        (
            (pod, step.nodes, "has no controller, so that nothing replaces it")
            for step in plan.steps
            for pod in step.lost
        ),
    )
    yield table(
        "",
        (("#", "number"), "Step", ("Nodes", "number"), ("Moves", "number"), ("Waves", "number"), ("Which", "text")),
        (
            (at, step.action, len(step.nodes), len(step.moves), step.waves or "", _which(step))
            for at, step in enumerate(plan.steps, 1)
        ),
    )
    yield table(
        "Every move",
        (("#", "number"), "Pod", "From", "To"),
        (
            (at, move.pod, move.node or "(pending)", move.to or "(pending)")
            for at, step in enumerate(plan.steps, 1)
            for move in step.moves
        ),
        is_folded=True,
    )


def _verdict(plan: UpgradePlan) -> VerdictSection:
    batches = sum(step.action == "upgrade" for step in plan.steps)
    moves = sum(len(step.moves) for step in plan.steps)
    surge = {0: "no surge node", 1: "1 surge node"}.get(plan.surge, f"{plan.surge} surge nodes at a time")
    blocked = f"; {counted(len(plan.blocked), 'node')} cannot be upgraded" if plan.blocked else ""
    nodes, steps = counted(plan.upgraded, "node"), counted(batches, "batch", "batches")
    return VerdictSection(
        f"{nodes} in {steps} with {surge}: {counted(moves, 'move')}{blocked}.",
        not _is_held_up(plan),
        len(plan.blocked) or plan.upgraded,
        "nodes cannot be upgraded" if plan.blocked else "nodes can be upgraded",
    )


def _summary(plan: UpgradePlan) -> Iterator[str]:
    if plan.blocked:
        yield f"{counted(len(plan.blocked), 'node')} left out, since not all pods can leave."
    if lost := sum(len(step.lost) for step in plan.steps):
        yield f"{counted(lost, 'pod')} without a controller would be lost."
    if waiting := sum(len(step.waiting) for step in plan.steps):
        yield f"{counted(waiting, 'pod')} would wait for their own node to come back: no other takes them."
    for gang, count in plan.gang_stops.items():
        yield f"PodGroup {gang} would be stopped {'once' if count == 1 else f'{count} times'}."
    if plan.pending_before or plan.pending_after:
        yield f"{plan.pending_before:,} pending before, {plan.pending_after:,} after."


def _likes(pool: PoolUpgrade) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.like for one in pool.surge))


def _without(why: str, *, is_minimal: bool) -> Cell:
    """Say what happens without one of the surge nodes: which pod has no node then, and behind that the message."""
    if not is_minimal:
        return "fewer may do: not all was tried"
    who, colon, _ = why.partition(" has no node: ")
    return Behind(f"{who} has no node: {cause_of(why)}", why) if colon else why.partition(". ")[0]


def _frees(pod: BlockedPod) -> Cell:
    """What lets a pod go; where nothing does, why it stays, in our words."""
    return pod.frees or Behind(cause_of(pod.why), pod.why)


def _which(step: UpgradeStep) -> str:
    return _some(step.nodes) + (f", like {_some(step.like)}" if step.like else "")


def _some(names: tuple[str, ...] | list[str]) -> str:
    return listed(names, shown=NAMES_SHOWN)


def _is_held_up(plan: UpgradePlan) -> bool:
    return bool(plan.blocked) or any(step.lost for step in plan.steps)


def _so_far(plan: UpgradePlan) -> str:
    return f"{counted(plan.upgraded, 'node')} had a place in the plan by then." if plan.upgraded else ""


QUESTION = Question(
    name="upgrade-plan",
    title="Upgrade",
    about="""Plan how to upgrade nodes: batches, surge nodes, what moves, what budgets block.

    Pool by pool, nodes are drained within disruption budgets and come back. Every step is tried with the scheduler's
    own plugins on the cluster in memory; surge nodes are added until no step leaves a pod without a node. Nothing is
    done to the cluster itself.

    NODE is a name, a pattern (`gpu-*`) or a label selector (`pool=gpu`).
    """,
    asks="Upgrade {nodes} of {pools}, {at_once}, with {max_surge}, after {changes}.",
    doing="trying drains",
    request=UpgradeRequest,
    answer=plan_upgrade,
    told=told,
    so_far=_so_far,
    fails=Fails("--fail-on-blocked", "Exit with 1 where a node cannot be upgraded, or a pod is lost.", _is_held_up),
)
