"""`berth survive`: which nodes, zones and pools a cluster can lose, which pods are lost with them, and what it would
take.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from berth_workbench.planning.survival import (
    KINDS,
    Failure,
    Kind,
    KindOfFailure,
    Survival,
    named,
    pods_named,
    survival,
    takes,
    volumes_named,
    who,
)
from berth_workbench.questions.question import Fails, Question
from berth_workbench.showing.ask import HowAsked, HowSaid, NodePrices, PoolLabel
from berth_workbench.showing.sections import Bars, Section, Sentence, Try, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.gangs import held_in_words
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch

BARS_SHOWN = 30


class SurviveRequest(msgspec.Struct, frozen=True):
    """Which failures to examine, and how many of them may be simulated."""

    kinds: Annotated[
        tuple[Kind, ...],
        HowAsked("What is lost; may be repeated. By default all three.", flag="--of"),
        HowSaid("each {}", "each zone, node and pool"),
    ] = ()
    pairs: Annotated[
        bool, HowAsked("Lose two of a kind at once, too."), HowSaid("one or two at a time", "one at a time")
    ] = False
    at_most: Annotated[
        int,
        HowAsked(
            "Simulate at most this many failures; give a bound for others without a proof.", least=0, most=1_000_000
        ),
        HowSaid("Simulate at most {} failures.", "Simulate no failure."),
    ] = 200
    prices: NodePrices = None
    pool_label: PoolLabel = ""


def answer(situation: Situation, request: SurviveRequest, watch: WorkWatch) -> Survival:
    """Return which failures a cluster survives."""
    return survival(
        situation.site(watch),
        kinds=request.kinds or KINDS,
        pairs=request.pairs,
        pool_label=request.pool_label,
        prices=request.prices,
        simulated_at_most=request.at_most,
        watch=watch,
    )


def told(found: Survival) -> Iterator[Section]:
    """Tell which pods are lost with what, worst first."""
    bad = [each for each in found.failures if not each.survives]
    yield _verdict(found, bad)
    yield from map(Sentence, _any_nodes(found))
    yield from _tries(bad)
    if found.pending:
        does = "does" if found.pending == 1 else "do"
        yield Sentence(f"{counted(found.pending, 'pod')} had no place before anything was lost, and {does} not count.")
    shown = [each for each in bad if each.is_exact][:BARS_SHOWN]
    lost = {"no place": tuple(each.unplaced for each in shown), "gone": tuple(each.gone for each in shown)}
    yield Bars("Pods without a place, by what is lost", tuple(map(named, shown)), lost, is_stacked=True)
    yield table(
        "",
        ("Lost", ("Failures", "number"), ("Survived", "number"), ("Not", "number"), ("Unknown", "number")),
        (
            (
                each.kind if each.at_once == 1 else f"two {each.kind}s",
                each.failures,
                each.survived,
                each.failures - each.survived - each.unknown,
                each.unknown,
            )
            for each in found.kinds
            if each.failures
        ),
    )
    yield table(
        "",
        ("Lost", ("Pods", "number"), ("No place", "number"), ("Gone", "number"), ("Who", "text"),
         ("What it takes", "text")),
        ((named(each), each.pods, _unplaced(each), each.gone, who(each), takes(each)) for each in bad),
    )  # fmt: skip
    yield table(
        "",
        ("Lost", "Gang that stops", ("With a node", "number"), ("Needs", "number"), ("Holds for nothing", "text")),
        (
            (named(failure), each.name, each.placed, each.needed, held_in_words(each.holds))
            for failure in found.failures
            for each in failure.gangs
        ),
    )
    yield table(
        "",
        ("Lost", "Budget", ("Healthy", "number"), ("Demands", "number"), ("For how long", "text")),
        (
            (named(failure), each.name, each.healthy, each.demanded, _lasting(each.is_lasting))
            for failure in found.failures
            for each in failure.budgets
        ),
    )


def _tries(bad: list[Failure]) -> Iterator[Try]:
    """Offer to try the nodes that it takes, for the first loss of each kind."""
    kinds = set[Kind]()
    for each in bad:
        if each.more is None or not each.more.nodes or each.kind in kinds or each.kind == "pool" or not each.is_exact:
            continue
        kinds.add(each.kind)
        added = "\n".join(f"add-nodes {one.count}={one.like}" for one in each.more.nodes)
        lost = "\n".join(f"{'lose-zone' if each.kind == 'zone' else 'remove-nodes'} {name}" for name in each.names)
        nodes = listed([f"{counted(one.count, 'node')} like {one.like}" for one in each.more.nodes])
        text = f"What if {nodes} were added, and {named(each)} were lost?"
        yield Try(text, "whatif", {"changes": f"{added}\n{lost}"})


def _any_nodes(found: Survival) -> Iterator[str]:
    """Say how many nodes, whichever they are, can be lost, as far as that is known, and which pods are not replaced at
    all.
    """
    ones, twos = (_of_nodes(found, at_once) for at_once in (1, 2))
    if not found.replaced and not found.bare:
        yield "No running pod could lose its place by a failure."
    elif found.replaced and found.any_nodes >= 2:
        yield f"Any {found.any_nodes} nodes can be lost at once: every pod that is replaced finds a place, by proof."
    elif found.replaced and (found.any_nodes or ones == "placed"):
        more = "Whether any two can be lost at once was not asked: --pairs loses two of a kind."
        if twos == "placed":
            more = "So can any two at once."
        elif twos:
            more = (
                "Not every two of them can be lost at once."
                if twos == "left"
                else "For two at once, that is not known."
            )
        yield f"Any one node can be lost: every pod that is replaced finds a place. {more}"
    if found.bare:
        are = "has no controller: it is" if found.bare == 1 else "have no controller: they are"
        nodes = "its node" if found.bare == 1 else "their nodes"
        yield f"{counted(found.bare, 'pod')} {are} gone for good with {nodes}."


def _of_nodes(found: Survival, at_once: int) -> str:
    """Say whether all pods have places if so many nodes are lost: `placed`, `left`, `unknown`; empty: not asked."""
    asked = next((each for each in found.kinds if (each.kind, each.at_once) == ("node", at_once)), None)
    if asked is None or not asked.failures:
        return ""
    known = [each for each in found.failures if each.kind == "node" and len(each.names) == at_once and each.is_exact]
    if any(each.unplaced for each in known):
        return "left"
    return "unknown" if asked.unknown else "placed"


def _verdict(found: Survival, bad: list[Failure]) -> VerdictSection:
    """Answer for the smallest thing that cannot be lost, since that is what happens first."""
    exact = [each for each in bad if each.is_exact]
    unknown = sum(each.unknown for each in found.kinds)
    rest = f" Of {counted(unknown, 'failure')} it is not known." if unknown else ""
    kinds = [each for each in found.kinds if each.failures]
    if not kinds:
        several = listed([f"{each.kind}s" for each in found.kinds if each.at_once == 1], last="or")
        return VerdictSection(f"There are not two {several} of which one could be lost: with it, everything is.")
    asked = listed([each.kind if each.at_once == 1 else f"two {each.kind}s at once" for each in kinds], "or")
    if not exact:
        if unknown:
            return VerdictSection(f"Perhaps: no lost {asked} is known to leave a pod without a place.{rest}")
        return VerdictSection(
            f"Yes: whichever {asked} is lost, every pod that is replaced finds a place.", True,
            sum(each.failures for each in kinds), "losses are survived",
        )  # fmt: skip
    first = min(exact, key=lambda each: (KINDS.index(each.kind), len(each.names)))
    ordered = sorted(found.kinds, key=lambda each: (each.at_once, KINDS.index(each.kind)))
    lost = [_how_many(each) for each in ordered if each.survived + each.unknown < each.failures]
    takes_more = f"; it takes {takes(first)}" if first.more is not None and first.more.nodes else ""
    kept = first.lost[0].volumes if first.lost else ()
    there = f"; {volumes_named(kept)}" if kept else ""
    which = f"{named(first)} is lost" if len(first.names) == 1 else f"{first.kind}s {listed(first.names)} are lost"
    says = f"No: {_what_is_lost(first)} if {which}{there}{takes_more}."
    count = sum(each.failures - each.survived - each.unknown for each in found.kinds)
    return VerdictSection(f"{says} {listed(lost)} cannot be lost.{rest}", False, count, "losses are not survived")


def _so_far(found: Survival) -> str:
    """What cannot be lost is certain once it was lost in a simulation, whatever else is asked about."""
    lost = next((each for each in found.failures if not each.survives and each.is_exact), None)
    return "" if lost is None else f"By then: {named(lost)} cannot be lost, since {_what_is_lost(lost)}."


def _how_many(each: KindOfFailure) -> str:
    what = f"{each.kind}s" if each.at_once == 1 else f"pairs of {each.kind}s"
    return f"{each.failures - each.survived - each.unknown:,} of {each.failures:,} {what}"


def _what_is_lost(failure: Failure) -> str:
    if failure.unplaced + failure.gone == 0:
        budget = next(each for each in failure.budgets if each.is_lasting)
        return f"budget {budget.name} has {budget.healthy:,} of the {budget.demanded:,} pods that it demands"
    first = failure.lost[0]
    others = failure.unplaced + failure.gone - first.pods
    one = first.pods == 1 and not others
    gone = "is gone for good" if one else "are gone for good"
    what = ("has" if one else "have") + " no place" if failure.unplaced else gone
    return f"{pods_named(first)}{f' and {others:,} more' if others else ''} {what}"


def _unplaced(failure: Failure) -> str:
    return f"{'' if failure.is_exact else '≤ '}{failure.unplaced:,}"


def _lasting(is_lasting: bool) -> str:
    return "it lasts" if is_lasting else "until others have started"


QUESTION = Question(
    name="survive",
    title="Survive",
    about="""Lose every node, zone and pool of a cluster, one after the other, and say which of it the cluster survives.

    For each: who has no place then, which budgets have fewer healthy pods than they demand, and how many more nodes it
    would take. Most nodes are answered by proof; the others are lost in a simulation. Changes are carried out first.
    """,
    asks="Lose {kinds} in turn, {pairs}, after {changes}.",
    doing="losing nodes",
    request=SurviveRequest,
    answer=answer,
    told=told,
    so_far=_so_far,
    is_parallel=True,
    fails=Fails(
        "--fail-on-loss",
        "Exit with 1 unless every failure of one is survived for certain.",
        lambda found: any(each.at_once == 1 and each.survived < each.failures for each in found.kinds),
    ),
)
