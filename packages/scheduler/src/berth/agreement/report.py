"""An observer's findings in ten lines: how often the two agree, what differed and why, what sampling cost.

A value ready for JSON, made from an observer's counts. `berth observe --report` prints it, and fetches it from a
running observer under `/debug/agreement`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from berth.agreement.observer import ObservingCore
from berth.agreement.results import RESULTS, FailureResult, JudgedFailure, Judgement, Result, share_of
from berth.cycle.difference_kinds import DIFFERENCE_WORDS
from berth.decisions.pending import pending_report
from berth.decisions.plugin_views import ShadowReport, shadow_reports
from berth.decisions.waits import WallTime

PENDING_TOLD: Final = 8
LATEST_TOLD: Final = 32
"""How many of the latest judgements a report has, of each kind."""


class FigureCompared(msgspec.Struct, frozen=True, rename="camel"):
    """One measure of a cluster under two configurations, A and B: means over the seeds."""

    name: str
    a: float | None
    b: float | None
    difference: float | None
    """What B has more than A."""
    deviation: float | None
    """The standard deviation of the difference over the seeds; None if there was only one seed."""
    better: Literal["a", "b", ""]
    """Which is better, if the measure says so and every seed agrees."""


class AgreementReport(msgspec.Struct, frozen=True, rename="camel"):
    """The results of observing so far."""

    pods: int
    results: Mapping[Result, int]
    last_hour: Mapping[Result, int]
    lags_ms: Mapping[int, int]
    """How long before their bindings the agreeing states were, rounded up to powers of two."""
    lost_points: Mapping[int, int]
    """By how many points the best node was better than the sampled one, and for how many pods."""
    lost_by: Mapping[str, int]
    """How often a plugin's points were most of that."""
    otherwise_by: Mapping[str, int]
    """How often, among the others, a plugin makes the difference, or rejects the node."""
    failures: Mapping[FailureResult, int]
    """Pods that fit nowhere, by whether the same reasons are found here."""
    preemptions: Mapping[FailureResult, int]
    """Room that was made, by whether the same or as good victims are found here."""
    skipped: Mapping[str, int]
    """What was not judged because the observer did not keep up."""
    otherwise: tuple[Judgement, ...] = ()
    """The latest."""
    sampled: tuple[Judgement, ...] = ()
    otherwise_failures: tuple[JudgedFailure, ...] = ()
    candidates: tuple[ShadowReport, ...] = ()
    """What other configurations would have decided about the same pods."""
    measures: Mapping[str, tuple[FigureCompared, ...]] = {}
    """By candidate, B, how the cluster would end up if that decided about all pods, if it was tried."""
    pending: Mapping[str, int] = {}
    """What keeps the pods that are pending now, most frequent first, and how many."""


def report_of(core: ObservingCore, wall_time: WallTime) -> AgreementReport:
    """Return the report of an observer's findings so far."""
    agreement, now = core.agreement, core.now
    return AgreementReport(
        agreement.pods,
        _by_result(agreement.results),
        _by_result(agreement.lately(now)),
        dict(sorted(agreement.lags_ms.items())),
        dict(sorted(agreement.lost_points.items())),
        dict(agreement.lost_by.most_common()),
        dict(agreement.otherwise_by.most_common()),
        dict(agreement.failures),
        dict(agreement.preemptions),
        dict(agreement.skipped),
        tuple(agreement.latest)[-LATEST_TOLD:],
        tuple(agreement.latest_sampled)[-LATEST_TOLD:],
        tuple(agreement.latest_failures)[-LATEST_TOLD:],
        tuple(shadow_reports(core, wall_time)),
        pending={
            group.reason: group.pods for group in pending_report(core, wall_time, lambda _uid: "").groups[:PENDING_TOLD]
        },
    )


def _by_result(counts: Counter[Result]) -> dict[Result, int]:
    return {result: counts[result] for result in RESULTS}


def verdict(report: AgreementReport) -> str:
    """Return the main sentence."""
    if not report.pods:
        return "No pod was seen that another scheduler bound."
    share = share_of(report.results)
    return f"{_percent(share or 0.0)} of {report.pods:,} pods went where they would have gone here."


def told(report: AgreementReport) -> list[str]:
    """Return the other findings, one per line."""
    results = report.results
    lines = [
        f"{results['agrees']:,} are on one of the best nodes, in the state at their binding; "
        f"{results['couldHaveSeen']:,} in a state that the scheduler could have seen before"
        + (f", at most {max(report.lags_ms):,} ms earlier." if report.lags_ms else "."),
    ]
    if results["sampled"]:
        points = sum(points * pods for points, pods in report.lost_points.items())
        lines.append(
            f"{results['sampled']:,} fit, but a better node was not looked at: {points:,} points lost, "
            f"{points / results['sampled']:.1f} a pod and {max(report.lost_points):,} at most, "
            f"{_first(report.lost_by)}."
        )
    else:
        lines.append("Looking at a part of the nodes has cost no pod a better one.")
    if results["otherwise"]:
        lines.append(f"{results['otherwise']:,} went otherwise: {_first(report.otherwise_by)}.")
        lines += [f"  {_difference(judged)}" for judged in report.otherwise[-2:]]
    else:
        lines.append("None went otherwise.")
    if report.failures:
        same = report.failures.get("agrees", 0) + report.failures.get("couldHaveSeen", 0)
        lines.append(f"{same:,} of {sum(report.failures.values()):,} failures are told in the same words here.")
    if report.preemptions:
        same = report.preemptions.get("agrees", 0) + report.preemptions.get("couldHaveSeen", 0)
        total = sum(report.preemptions.values())
        lines.append(f"{same:,} of {total:,} preemptions have the same victims here, or as good ones.")
    lines += [f"  {_failure(failure)}" for failure in report.otherwise_failures[-1:]]
    if report.pending:
        reasons = "; ".join(f"{reason} ({pods:,})" for reason, pods in list(report.pending.items())[:3])
        lines.append(f"Pending now: {reasons}.")
    lines += [_candidate(candidate) for candidate in report.candidates]
    lines += [_simulated(name, measures) for name, measures in report.measures.items()]
    lately = share_of(report.last_hour)
    if lately is not None:
        lines.append(f"In the last hour {_percent(lately)} of {sum(report.last_hour.values()):,} pods agree.")
    if skipped := sum(report.skipped.values()):
        lines.append(f"{skipped:,} were not looked at, since the observer did not keep up.")
    return lines


def _candidate(report: ShadowReport) -> str:
    kinds = report.kinds
    parts = [f"{kinds[kind]:,} {words}" for kind, words in DIFFERENCE_WORDS.items() if kinds.get(kind)]
    because = Counter[str]()
    for cause in report.causes:
        because[cause.plugin] += cause.decisions
    why = f", {_first(dict(because.most_common()))}" if because else ""
    skipped = sum(report.skipped.values())
    rest = f" {skipped:,} more were not looked at." if skipped else ""
    said = ", ".join(parts) or "nothing"
    return f"{report.shadow} would have decided otherwise: {said} of {report.decisions:,} pods{why}.{rest}"


def _simulated(name: str, measures: Iterable[FigureCompared]) -> str:
    gains, losses = (
        ", ".join(f"{each.name} {_amount(each.a)} → {_amount(each.b)}" for each in measures if each.better == side)
        or "none"
        for side in "ba"
    )
    return f"If {name} had decided about all of them, in a simulation, better: {gains}; worse: {losses}."


def _amount(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _percent(share: float) -> str:
    """Return a share that is 100 % only if it is all of it."""
    return "100 %" if share == 1 else f"{min(share * 100, 99.9):.1f} %"


def _first(counts: Mapping[str, int]) -> str:
    parts = [f"{plugin} ({count:,})" for plugin, count in list(counts.items())[:3]]
    return "because of " + ", ".join(parts) if parts else "no plugin alone accounts for it"


def _difference(judged: Judgement) -> str:
    decision, ours = judged.decision, judged.ours
    if judged.theirs is not None and judged.theirs.rejected_by:
        why = "; ".join(f"{name}: {', '.join(said)}" for name, said in judged.theirs.rejected_by.items())
        return f"{decision.pod} is on {decision.node}, which is rejected here ({why})"
    if ours is None:
        return f"{decision.pod} is on {decision.node} and fits nowhere here: {judged.message}"
    because = f", most of them {judged.plugins[0]}'s" if judged.plugins else ""
    return f"{decision.pod} is on {decision.node}, and {ours.node} is {judged.points} points better{because}"


def _failure(failure: JudgedFailure) -> str:
    if failure.preemption is not None:
        theirs, ours = failure.preemption.victims, failure.preemption.our_victims
        return f"{failure.pod} preempts {_listed(theirs)} on {failure.preemption.node}, and here {_listed(ours)}"
    if failure.our_node:
        return f"{failure.pod} is said to fit nowhere, and fits {failure.our_node} here"
    return f"{failure.pod} is told {failure.message!r}, and here {failure.our_message!r}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nobody"
