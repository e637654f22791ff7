"""An observer's findings as sections: the verdict, the lines, two pictures, and the latest differences."""

from collections.abc import Sequence

from berth.agreement.report import AgreementReport, told, verdict
from berth.agreement.results import LOST_POINTS_BUCKETS, Judgement, share_of
from berth_workbench.showing.sections import Bars, Section, Sentence, VerdictSection, table

RESULTS_IN_WORDS = {
    "agrees": "agree",
    "couldHaveSeen": "agree with what could have been seen",
    "sampled": "missed a better node by sampling",
    "otherwise": "otherwise",
}


def sections_of(report: AgreementReport) -> list[Section]:
    """Return the report as sections."""
    share = share_of(report.results)
    lines = [Sentence(line) for line in told(report)] if report.pods else []
    labels, pods = _binned(report)
    return [
        VerdictSection(verdict(report), None if share is None else not report.results["otherwise"]),
        *lines,
        Bars(
            "Pods by how the two agree",
            tuple(RESULTS_IN_WORDS.values()) if report.pods else (),
            {"pods": [report.results[result] for result in report.results]},
        ),
        Bars("Pods by the points that sampling has cost them", labels, {"pods": pods}),
        _latest("Latest pods that went otherwise", report.otherwise),
        _latest("Latest pods that sampling has cost a better node", report.sampled),
        table(
            "Latest pods that are told otherwise why they fit nowhere",
            ("Pod", ("Told", "text"), ("Here", "text")),
            [(each.pod, each.message, each.our_message or each.our_node) for each in report.otherwise_failures],
            is_folded=True,
        ),
        *(
            table(
                f"{candidate.shadow}: latest pods that it would have put elsewhere",
                ("Pod", "Node", "There", "Plugins", ("Why", "text")),
                [
                    (each.pod, each.node or "", each.shadow_node or "", each.plugins, each.why)
                    for each in candidate.differences
                ],
                is_folded=True,
            )
            for candidate in report.candidates
        ),
    ]


def _binned(report: AgreementReport) -> tuple[tuple[str, ...], list[float | None]]:
    """Return how many pods have lost how many points, in the classes of the histogram."""
    if not report.lost_points:
        return (), []
    labels, pods = [], list[float | None]()
    lower = 0
    for upper in (*LOST_POINTS_BUCKETS, max(max(report.lost_points), LOST_POINTS_BUCKETS[-1] + 1)):
        count = sum(pods for points, pods in report.lost_points.items() if lower < points <= upper)
        labels.append(str(upper) if upper == lower + 1 else f"{lower + 1}-{upper}")
        pods.append(count)
        lower = upper
        if lower >= max(report.lost_points):
            break
    return tuple(labels), pods


def _latest(title: str, judged: Sequence[Judgement]) -> Section:
    rows = [
        (
            each.decision.pod,
            each.decision.node,
            "" if each.ours is None else each.ours.node,
            each.points,
            each.plugins,
        )
        for each in reversed(judged)
    ]
    return table(title, ("Pod", "Node", "Better", ("Points", "number"), "Plugins"), rows, is_folded=True)
