"""`berth autoscale`: which nodes a backlog needs, which nodes are not needed, and what spot interruptions take away."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from berth_workbench.planning.autoscale import AutoscalePlan, autoscale_of
from berth_workbench.planning.more_nodes import MoreNodes, nodes_in_words
from berth_workbench.planning.node_groups import NodeGroupSpec, read_groups
from berth_workbench.planning.survival import who
from berth_workbench.questions.question import Question
from berth_workbench.showing.ask import HowAsked, HowSaid, NodePrices
from berth_workbench.showing.numbers import number, percent
from berth_workbench.showing.sections import KEPT, Section, Sentence, Try, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch

GROUPS_EXAMPLE = "groups:\n- {name: general, max: 20, price: 0.4}\n- {name: gpu, max: 4, price: 3.2, spot: true}\n"


class AutoscaleRequest(msgspec.Struct, frozen=True):
    """The node groups, and which nodes are tried for removal."""

    groups: Annotated[
        list[NodeGroupSpec],
        HowAsked(
            "The node groups, as in `groups: [{name: gpu, max: 10, price: 3}]`; each may have min, spot and like, too.",
            metavar="FILE",
            reads=read_groups,
        ),
        HowSaid(
            words=lambda groups: listed([each.name for each in groups], shown=4),
            example=GROUPS_EXAMPLE,
        ),
    ]
    prices: NodePrices = None
    used: Annotated[
        float,
        HowAsked("Try to remove nodes of which no more is requested.", metavar="SHARE", least=0, most=1),
        HowSaid(words=percent),
    ] = 0.5
    at_most: Annotated[
        int,
        HowAsked("Try to remove so many nodes, the least used first.", metavar="N", least=0, most=1_000_000),
        HowSaid("Try to remove at most {} nodes.", "Try to remove no node."),
    ] = 200


def answer(situation: Situation, request: AutoscaleRequest, watch: WorkWatch) -> AutoscalePlan:
    """Say what an autoscaler could do."""
    return autoscale_of(
        situation,
        request.groups,
        prices=request.prices,
        used_at_most=request.used,
        tried_at_most=request.at_most,
        watch=watch,
    )


def told(found: AutoscalePlan) -> Iterator[Section]:
    """Tell what helps the backlog, what could go, and what spot can cost."""
    yield _verdict(found)
    if found.backlog:
        yield from map(Sentence, _what_helps(found))
    if found.moving is not None:
        yield Try("Which pods would have to move?", "rebalance", {"goal": "place-pending"})
    if found.removable:
        node = found.removable[0].node
        yield Try(f"What if {node} were drained?", "whatif", {"changes": f"drain {node}"})
    if found.backlog:
        yield Try("How long would they wait without?", "wait", {"changes": KEPT, "manifests": KEPT})
    saves = f", which saves {number(found.saves)}" if found.saves else ""
    yield Sentence(f"{counted(len(found.removable), 'node')} can go{saves}; {found.tried:,} were tried.")
    if found.removable and (found.more.nodes or found.moving is not None):
        they = "It" if len(found.removable) == 1 else "They"
        yield Sentence(f"{they} can go as things are, and also after what is said above.")
    if found.cost is not None:
        yield Sentence(f"All nodes of the groups cost {number(found.cost)} now.")
    yield table(
        "",
        ("Group", ("Nodes", "number"), ("Add", "number"), ("Can go", "number"), ("Price", "number"), "Spot"),
        (
            (each.name, each.nodes, each.added, each.removed, _price(each.price), "spot" if each.is_spot else "")
            for each in found.groups
        ),
    )
    moves = found.moving.moves if found.moving is not None else ()
    yield table("", ("To be moved", "From", "To"), ((each.pod, each.before, each.after or "") for each in moves))
    yield table(
        "",
        ("Can go, in this order", "Group", ("Pods move", "number"), ("Saves", "number")),
        ((each.node, each.group, each.moved, _price(each.price)) for each in found.removable),
    )
    yield table(
        "",
        ("Spot group lost", ("Nodes", "number"), ("Pods", "number"), ("No place", "number"), ("Gone", "number"),
         ("Who", "text")),
        ((each.names[0], each.nodes, each.pods, each.unplaced, each.gone, who(each)) for each in found.spot),
    )  # fmt: skip


def _verdict(found: AutoscalePlan) -> VerdictSection:
    if not found.backlog:
        return VerdictSection("No pod waits for room.", True, len(found.removable), "nodes can go")
    none = f"{counted(found.backlog, 'pod')} {'has' if found.backlog == 1 else 'have'} no place"
    if found.moving is not None:
        moves = counted(len(found.moving.moves), "pod")
        text = f"{none}; moving {moves} makes room for {found.moving.placed:,} of them."
        return VerdictSection(text, None, found.backlog, "without a place")
    is_good = None if found.more.nodes else False
    return VerdictSection(f"{none}: {_added_in_words(found.more)}.", is_good, found.backlog, "without a place")


def _what_helps(found: AutoscalePlan) -> Iterator[str]:
    """Say what helps the backlog: moves first, since they cost nothing, and then what would have to be added."""
    more, moving = found.more, found.moving
    if moving is not None:
        if moving.placed < found.backlog:
            yield f"For the others: {_added_in_words(moving.more)}."
        yield "berth rebalance plans such moves."
        yield f"Without moving any: {_added_in_words(more)}."
    if more.nodes:
        some = f"{more.placed:,} of them {'has' if more.placed == 1 else 'have'}"
        placed = "It has" if found.backlog == 1 else "All of them have" if more.placed == found.backlog else some
        yield f"{placed} a place then{_no_fewer(more)}."
    if found.more_in_turn is not None:
        in_turn, part = nodes_in_words(found.more_in_turn), found.more_in_turn.tried_with
        by = "" if part is None else f", by a part of {part:,} of them"
        yield f"That is with the largest pods first; in the order in which they wait: {in_turn}{by}."


def _no_fewer(more: MoreNodes) -> str:
    """Say how it is known that fewer nodes are not enough, or that it is not known."""
    at_least = f"fewer than {more.at_least:,} nodes cannot do" if more.at_least > 1 else ""
    if more.is_least or sum(each.count for each in more.nodes) == 1:
        known = at_least
    elif more.one_fewer_fails:
        known = "one node fewer was tried, and does less" + (f"; {at_least}" if at_least else "")
    else:
        known = "fewer may do" + (f", but {at_least}" if at_least else "")
    return f"; {known}" if known else ""


def _added_in_words(more: MoreNodes) -> str:
    if more.nodes:
        return nodes_in_words(more)
    if more.tried_with == 0:
        bound = f"; fewer than {more.at_least:,} cannot do" if more.at_least > 1 else ""
        return f"which nodes help was not found out yet{bound}"
    return "no node of these groups helps"


def _price(price: float | None) -> str:
    return "-" if price is None else number(price)


def _so_far(found: AutoscalePlan) -> str:
    """Say which pods wait, and a number of nodes that cannot be enough: both are known before the search."""
    if not found.backlog:
        return ""
    bound = f" Fewer than {found.more.at_least:,} nodes cannot do." if found.more.at_least > 1 else ""
    return f"{counted(found.backlog, 'pod')} {'has' if found.backlog == 1 else 'have'} no place.{bound}"


QUESTION = Question(
    name="autoscale",
    title="Autoscale",
    about="""Say what an autoscaler could do: which nodes of which groups the backlog takes, which nodes nobody needs.

    The backlog is what has no place in the cluster, after the changes and with the manifests of -f. Of spot groups it
    is said who is lost when all of their nodes are taken away at once.
    """,
    asks="What could an autoscaler do with the groups {groups}, taking nodes away of which at most {used} is "
    "requested, after {changes}?",
    doing="placing pods",
    request=AutoscaleRequest,
    answer=answer,
    told=told,
    so_far=_so_far,
    is_parallel=True,
    manifests="applied",
)
