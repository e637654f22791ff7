"""`berth check`: whether a pull request fits: what is new, gone and changed between two trees of manifests."""

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from berth.api.pod_resources import CPU
from berth_workbench.planning.check import LEVELS, Check, CheckedWorkload, Fits, Level, check, worst
from berth_workbench.questions.question import Question
from berth_workbench.showing.sections import Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.budgets import Owner
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.places import ManifestPlace

FINDINGS_SHOWN = 50
MARKS: Mapping[Level, str] = {"ok": "✅", "warning": "⚠️", "error": "❌"}
IS_GOOD: Mapping[Level, bool | None] = {"ok": True, "warning": None, "error": False}
_FITS: Mapping[Fits, str] = {"now": "fits now", "afterPreemptions": "fits after preemptions", "no": "does not fit"}


class CheckRequest(msgspec.Struct, frozen=True):
    """The manifests of before and after."""

    head: tuple[Document, ...]
    base: tuple[Document, ...] | None = None
    """None where the cluster itself is what there was before."""
    places: Mapping[Owner, ManifestPlace] = {}
    """Where the manifests of after are, by kind and `namespace/name`."""


class CheckOfSeveral(msgspec.Struct, frozen=True, rename="camel"):
    """What the same change comes to in several clusters."""

    verdict: Level
    """The worst of them."""
    clusters: dict[str, Check]
    """By name."""
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """False where one of the answers was cut short."""
        return all(each.is_complete for each in self.clusters.values())


def answer(situation: Situation, request: CheckRequest, watch: WorkWatch) -> Check:
    """Apply both sides to a copy of the cluster."""
    return check(situation, request.base, request.head, request.places, watch)


def told(found: Check) -> Iterator[Section]:
    """Tell what is wrong, worst first, and then what is well."""
    lines = list(lines_of(found))
    yield VerdictSection(lines[0], IS_GOOD[found.verdict])
    yield from map(Sentence, lines[1:])
    yield table(
        "Workloads",
        ("Workload", "Kind", "", ("Before", "number"), ("After", "number"), ("With a node", "number")),
        ((each.name, each.kind, each.difference, each.before, each.after, each.placed) for each in found.workloads),
        is_folded=True,
    )


def lines_of(found: Check) -> Iterator[str]:
    """Yield a line for each finding, and one about all that is well; there is always one."""
    for finding in found.findings[:FINDINGS_SHOWN]:
        yield f"{MARKS[finding.level]} {finding.text}"
    if len(found.findings) > FINDINGS_SHOWN:
        yield f"{len(found.findings) - FINDINGS_SHOWN:,} more of the kind; -o json has all of them"
    well = [each for each in found.workloads if each.level == "ok" and each.difference != "unchanged"]
    cost = ", ".join(f"{more} {'CPU' if name == CPU else name}" for name, more in found.requests.items())
    cost = cost.replace(" memory", "")
    if well:
        yield f"{MARKS['ok']} {_well(well, is_all=len(well) == len(found.workloads))}" + (
            f"; cost of requests {cost}" if cost else ""
        )
    elif cost:
        yield f"Cost of requests: {cost}"
    elif not found.findings:
        yield f"{MARKS['ok']} no workload changes"


def _well(well: list[CheckedWorkload], *, is_all: bool) -> str:
    pods = sum(each.after for each in well)
    kinds = Counter(each.difference for each in well)
    gone = f" ({kinds['gone']:,} gone)" if kinds["gone"] else ""
    others = counted(len(well), "workload" if is_all else "other workload")
    return f"{others}{gone}: {counted(pods, 'pod')}, all placed" if pods else f"{others}{gone}"


def of_several(clusters: Mapping[str, Check]) -> CheckOfSeveral:
    """Put the answers for several clusters together."""
    notes = (f"{name}: {note}" for name, found in clusters.items() for note in found.notes)
    return CheckOfSeveral(worst(each.verdict for each in clusters.values()), dict(clusters), tuple(notes))


def told_of_several(found: CheckOfSeveral) -> Iterator[Section]:
    """Tell in a line for each cluster whether the change fits there."""
    counts = Counter(each.fits for each in found.clusters.values())
    verdict = listed([f"{_FITS[fits]} in {counts[fits]}" for fits in _FITS if counts[fits]])
    of = counted(len(found.clusters), "cluster")
    yield VerdictSection(f"{MARKS[found.verdict]} {of}: {verdict}", IS_GOOD[found.verdict])
    for name, each in found.clusters.items():
        first = f": {each.findings[0].text}" if each.findings else ""
        yield Sentence(f"{MARKS[each.verdict]} {name}: {_FITS[each.fits]}{first}")


def is_at_least(found: Check | CheckOfSeveral, level: Level) -> bool:
    """Say whether something is as bad as this, or worse."""
    return LEVELS.index(found.verdict) >= LEVELS.index(level)


QUESTION = Question(
    name="check",
    title="Check",
    about="""Say whether a pull request fits a cluster: what becomes of the workloads that it touches.

    --base are the manifests of before, which the cluster is brought to first, and --head those of after. What is gone
    is deleted, what is new is created, what has changed is scaled or rolled out. Without --base, what the cluster has
    is what there was before. Several --cluster are several clusters: each is asked, and has a line.
    """,
    doing="placing pods",
    request=CheckRequest,
    answer=answer,
    told=told,
    takes_changes=False,
)
