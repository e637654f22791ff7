"""`berth whatif`: a cluster before and after changes and new workloads, without touching it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from berth.decisions.node_columns import copy_columns
from berth.decisions.reasons import cause_of, in_our_words
from berth_workbench.planning.dynamic_admission import unasked
from berth_workbench.planning.whatif import PodOutcome, WhatIfResult, WhatIfRun, WhoIsWhere, broken_groups
from berth_workbench.questions.moves import moves_of
from berth_workbench.questions.question import Fails, NamedThings, Question
from berth_workbench.showing.ask import PoolLabel
from berth_workbench.showing.figures import in_words, shown_figure
from berth_workbench.showing.sections import KEPT, Behind, Moves, Section, Sentence, Try, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.measures import Measures, figures, told_resources
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch

NAMES_SHOWN = 3
SOFT = ("spread", "fragmentation", "packing", "fairness")
"""The measures that are told to those who want to know more."""


class WhatIfRequest(msgspec.Struct, frozen=True):
    """The options of the question besides the changes."""

    pool_label: PoolLabel = ""


class PicturedTrial(NamedTuple):
    """The result of a trial, and its pictures."""

    result: WhatIfResult
    moves: Moves

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known to read it."""
        return self.result.notes

    @property
    def is_complete(self) -> bool:
        """False where it was stopped before the end."""
        return self.result.is_complete


def answer(situation: Situation, request: WhatIfRequest, watch: WorkWatch) -> PicturedTrial:
    """Carry the changes out on a copy of the cluster."""
    site = situation.untouched(watch)
    nodes = site.cluster.core.cache.table
    before = copy_columns(nodes).columns()
    run = WhatIfRun(site, request.pool_label)
    result = run.run(situation.steps, situation.namespace, unasked(situation))
    return PicturedTrial(result, moves_of(before, copy_columns(nodes).columns(), result))


def told(trial: PicturedTrial) -> Iterator[Section]:
    """Tell what breaks, where pods are, and why some have no node."""
    found, who = trial.result, WhoIsWhere.of(trial.result.pods)
    yield _verdict(found, who)
    if not found.is_complete:  # where pods are in the middle of it says nothing about where they will be
        yield _what_breaks(found)
        yield _steps(found)
        return
    for sentence in who.sentences(found):
        yield Sentence(f"{sentence[0].upper()}{sentence[1:]}.")
    if found.broken:
        yield Sentence(f"{counted(len(found.broken), 'thing')} {'breaks' if len(found.broken) == 1 else 'break'}.")
    if any(not each.node for each in (*who.left, *who.new)):
        same = {"changes": KEPT, "manifests": KEPT}
        yield Try("Which nodes would an autoscaler add?", "autoscale", same)
        yield Try("How long would they wait?", "wait", same)
    yield trial.moves
    yield _what_breaks(found)
    yield _pods("Pods that left their nodes", who.left)
    yield _pods("New pods", who.new)
    yield _pods("Pods that were pending and have a node now", [each for each in who.waited if each.node])
    refused: dict[str, list[str]] = {}
    for each in found.pods:
        if each.is_refused:
            refused.setdefault(each.message, []).append(each.pod)
    yield table(
        "Refused by the API server",
        (("Pods", "number"), ("Which", "text"), ("Why", "text")),
        ((len(names), tuple(names), why) for why, names in refused.items()),
    )
    unplaced = [each for each in found.unplaced if not each.is_refused]
    yield _causes(unplaced)
    messages = Counter(each.message for each in unplaced)
    yield table(
        "What the scheduler said of them",
        (("Pods", "number"), ("Message", "text")),
        ((count, reason) for reason, count in messages.most_common()),
        is_folded=True,
    )
    preempted = (each for each in found.evicted if each.is_preempted)
    yield table("", ("Preempted", "On", "Made way for"), ((each.pod, each.node, each.by) for each in preempted))
    if len(found.steps) > 1:
        yield _steps(found)
    rows = list(_figures(found.before, found.after))
    heads = ("The cluster", ("Before", "number"), ("After", "number"))
    yield table("", heads, (row[1:] for row in rows if row[0].partition(".")[0] not in SOFT))
    yield table("More measures", heads, (row[1:] for row in rows if row[0].partition(".")[0] in SOFT), is_folded=True)


def _causes(unplaced: Sequence[PodOutcome]) -> Section:
    """Why pods have no node: by cause, whatever the numbers of nodes in their messages are."""
    causes: dict[str, list[PodOutcome]] = {}
    for each in unplaced:
        causes.setdefault(cause_of(each.message), []).append(each)
    return table(
        "Without a node, by cause",
        (("Pods", "number"), ("Why", "text"), ("Which", "text")),
        (
            (len(pods), Behind(cause, pods[0].message), tuple(each.pod for each in pods))
            for cause, pods in sorted(causes.items(), key=lambda each: -len(each[1]))
        ),
    )


def _what_breaks(found: WhatIfResult) -> Section:
    return table(
        "What breaks",
        (("Broken", "number"), "Kind", "What", ("Which", "text"), ("Why", "text")),
        (
            (len(each.names), each.kind, each.reason, each.names, Behind(in_our_words(each.message), each.message))
            for each in broken_groups(found.broken)
        ),
    )


def _steps(found: WhatIfResult) -> Section:
    return table(
        "",
        (("Step", "text"), ("Left", "number"), ("Preempted", "number"), ("Pending after", "number")),
        ((each.step, each.evicted, each.preempted, each.pending) for each in found.steps),
    )


def _verdict(found: WhatIfResult, who: WhoIsWhere) -> VerdictSection:
    without = [each for each in (*who.left, *who.new) if not each.node]
    if any(each.is_refused for each in without):
        refused = sum(each.is_refused for each in without)
        return VerdictSection(f"No: {_refused(who, without)}", False, refused, "pods are refused")
    if without:
        waited = sum(not each.node for each in who.waited)
        also = f" {waited:,} more {'pod' if waited == 1 else 'pods'} had none before." if waited else ""
        names = listed([each.pod for each in without], shown=NAMES_SHOWN)
        have = "has" if len(without) == 1 else "have"
        stopped = "".join(f" {each.stopped_in_words}." for each in found.gangs if each.is_stopped)
        text = f"No: {names} {have} no place.{stopped}{also}"
        return VerdictSection(text, False, len(without), "without a place")
    if found.broken:
        first = found.broken[0]
        others = len(found.broken) - 1
        more = f", and {counted(others, 'other thing')} {'breaks' if others == 1 else 'break'}" if others else ""
        return VerdictSection(f"No: {first.kind} {first.name} {in_our_words(first.message)}{more}.", False,
            len(found.broken), "things break")  # fmt: skip
    waiting = "".join(f" Still pending: {each.in_words}." for each in found.gangs if not each.is_stopped)
    said = "Yes: every pod that moves or is new has a place, and nothing breaks."
    return VerdictSection(f"{said}{waiting}", True, len(who.left) + len(who.new), "pods move or are new")


def _so_far(trial: PicturedTrial) -> str:
    """Where it was; and what has broken for good, since the steps up to there are those of the finished answer."""
    found = trial.result
    at = f"It came to: {found.steps[-1].step}." if found.steps else ""
    if not found.broken:
        return at
    first, others = found.broken[0], len(found.broken) - 1
    more = f", and {counted(others, 'other thing')} {'breaks' if others == 1 else 'break'}" if others else ""
    return f"{at} By then: {first.kind} {first.name} {in_our_words(first.message)}{more}."


def _refused(who: WhoIsWhere, without: Sequence[PodOutcome]) -> str:
    refused = [each for each in without if each.is_refused]
    others = len(without) - len(refused)
    of = f"{len(who.new):,} new" if all(each.is_new for each in refused) else f"{len(who.left) + len(who.new):,}"
    more = f" {counted(others, 'other pod')} {'has' if others == 1 else 'have'} no place." if others else ""
    return f"the API server refuses {len(refused):,} of {of} pods: {refused[0].message}.{more}"


def _pods(title: str, outcomes: Sequence[PodOutcome]) -> Section:
    """Where pods go, those without a node first."""
    moves = any(each.before for each in outcomes)
    made = (each for each in outcomes if not each.is_refused)
    ordered = sorted(made, key=lambda each: each.node is not None)
    rows = ((each.pod, *((each.before or "",) if moves else ()), each.node or "no node") for each in ordered)
    return table(title, ("Pod", *(("Before",) if moves else ()), "After"), rows)


def _figures(before: Measures, after: Measures) -> Iterator[tuple[str, str, str, str]]:
    was, now = figures(before), figures(after)
    for name in dict.fromkeys((*was, *now)):
        yield name, in_words(name), shown_figure(name, was.get(name)), shown_figure(name, now.get(name))
    zones = [zone for zone in dict.fromkeys((*before.utilisation_by_zone, *after.utilisation_by_zone)) if zone]
    for zone in zones:
        by_resource = [each.utilisation_by_zone.get(zone, {}) for each in (before, after)]
        for resource in told_resources(by_resource[0] | by_resource[1]):
            shares = (shown_figure("utilisation", each.get(resource)) for each in by_resource)
            yield "spread", f"{in_words(f'utilisation.{resource}')} in {zone}", *shares  # type: ignore[misc]


def _named(trial: PicturedTrial) -> Iterable[str]:
    return (each.pod for each in trial.result.pods)


QUESTION = Question(
    name="whatif",
    title="What if",
    about="""Try changes and new workloads on a cluster, and say where everything goes and what breaks.

    Changes are carried out in the order in which they are typed, and then the manifests of -f are applied: what the
    cluster does not have is created, what it has is scaled or rolled out. Nothing is done to the cluster itself.

    NODE is a name, a pattern (`gpu-*`) or a label selector (`pool=gpu`).
    """,
    asks="What if {changes}?",
    supposes=True,
    doing="placing pods",
    request=WhatIfRequest,
    answer=answer,
    told=told,
    so_far=_so_far,
    manifests="applied",
    names=NamedThings("the pods that move, are new or have no node", _named),
    fails=Fails(
        "--fail-on-broken",
        "Exit with 1 where something breaks, or a new pod has no node.",
        lambda trial: bool(trial.result.broken or any(each.is_new for each in trial.result.unplaced)),
    ),
    document=lambda trial: trial.result,
)
