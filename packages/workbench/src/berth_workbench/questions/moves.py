"""A trial as a picture: every node before and after, and how many pods went from which node to which."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from berth.decisions.node_columns import NodeColumns, NodeGroups, grouped
from berth_workbench.planning.rebalance.plan import RebalancePlan
from berth_workbench.planning.whatif import WhatIfResult, WhoIsWhere
from berth_workbench.showing.sections import Moves

Requests = Callable[[str], Mapping[str, int]]
MOST_MOVES = 2000
"""How many pairs of nodes are drawn, those with most pods; more lines would make one blot."""
DIGITS = 3
NOWHERE, UNNAMED = "nowhere", "no name"


def moves_of(before: NodeColumns, after: NodeColumns, result: WhatIfResult) -> Moves:
    """Put the nodes of both together, and count the pods that went."""
    names = sorted({*before.names, *after.names})
    number = {name: at for at, name in enumerate(names)}
    moves = Counter[tuple[int, int]]()
    for pod in result.pods:
        at = (number.get(pod.before or "", -1), number.get(pod.node or "", -1))
        if at != (-1, -1):
            moves[at] += 1
    told = {pod.pod for pod in result.pods}
    for departed in {each.pod: each for each in result.evicted if each.pod not in told}.values():
        if departed.node in number:  # it is gone: nothing made another in its place
            moves[number[departed.node], -1] += 1
    left, came = [0] * len(names), [0] * len(names)
    for (source, target), count in moves.items():
        if source >= 0:
            left[source] += count
        if target >= 0:
            came[target] += count
    scarcest = before.scarcest_by_pool | after.scarcest_by_pool
    pools = _group([_group_of(columns, "pools") for columns in (after, before)], names)
    zones = _group([_group_of(columns, "zones") for columns in (after, before)], names)
    drawn = sorted(((*pair, count) for pair, count in moves.items()), key=lambda move: -move[2])[:MOST_MOVES]
    return Moves(
        " ".join(WhoIsWhere.of(result.pods).sentences(result)),
        names,
        pools,
        zones,
        _shares(before, names, scarcest),
        _shares(after, names, scarcest),
        left,
        came,
        drawn,
        scarcest=scarcest,
        flows={"zone": _flows(moves, zones), "pool": _flows(moves, pools)},
    )


def _flows(moves: Mapping[tuple[int, int], int], groups: NodeGroups) -> tuple[tuple[str, str, int], ...]:
    """Count the pods that went from group to group, the most first; who came from nowhere was pending, or is new."""

    def named(at: int) -> str:
        return NOWHERE if at < 0 else groups.names[groups.of[at]] or UNNAMED

    flows = Counter[tuple[str, str]]()
    for (source, target), count in moves.items():
        flows[named(source), named(target)] += count
    return tuple((*pair, count) for pair, count in flows.most_common())


def moves_of_plan(nodes: NodeColumns, plan: RebalancePlan, label: str, requests: Requests) -> Moves:
    """Return the moves of a plan in their order, one pod each; `nodes` are those that it was made for.

    `requests` says what a pod requests, by `namespace/name`.
    """
    number = {name: at for at, name in enumerate(nodes.names)}
    steps = [(number.get(step.node, -1), number.get(step.to, -1), 1) for step in plan.evictions]
    left, came = [0] * len(number), [0] * len(number)
    for source, target, count in steps:
        if source >= 0:
            left[source] += count
        if target >= 0:
            came[target] += count
    scarcest = nodes.scarcest_by_pool
    amounts = {each.name: list(each.requested) for each in nodes.resources}
    placed = (each for step in plan.steps for each in step.placed)
    gone = [(step.pod, source, target) for step, (source, target, _) in zip(plan.evictions, steps, strict=True)]
    for pod, source, target in (*gone, *((each.pod, -1, number.get(each.node or "", -1)) for each in placed)):
        for resource, amount in requests(pod).items():
            for at, sign in ((source, -1), (target, 1)):
                if at >= 0 and resource in amounts:
                    amounts[resource][at] += sign * amount
    moved = tuple(msgspec.structs.replace(each, requested=amounts[each.name]) for each in nodes.resources)
    before = _shares(nodes, nodes.names, scarcest)
    after = _shares(msgspec.structs.replace(nodes, resources=moved), nodes.names, scarcest)
    told = tuple(f"{number}. {step.pod}: {step.node} → {step.to}" for number, step in enumerate(plan.evictions, 1))
    names = list(nodes.names)
    return Moves(label, names, nodes.pools, nodes.zones, before, after, left, came, steps, told, scarcest)


def _group_of(columns: NodeColumns, which: str) -> dict[str, str]:
    groups: NodeGroups = getattr(columns, which)
    return {name: groups.names[of] for name, of in zip(columns.names, groups.of, strict=True)}


def _group(known: Sequence[dict[str, str]], names: Sequence[str]) -> NodeGroups:
    return grouped([next((of[name] for of in known if name in of), "") for name in names])


def _shares(columns: NodeColumns, names: Sequence[str], scarcest: Mapping[str, str]) -> list[float | None]:
    of = dict(zip(columns.names, columns.levels(scarcest), strict=True))
    found = [of.get(name) for name in names]
    return [None if each is None else round(each, DIGITS) for each in found]
