"""Survive: which nodes, zones and pools can be lost, who has no place then, and what it would take."""

from collections.abc import Callable
from typing import Any

from berth_workbench.page.jobs import Jobs, Watch
from berth_workbench.page.source import Source
from berth_workbench.page.views.capacity import REFUSED
from berth_workbench.page.views.elements import NOTHING, TrialForm, bar_chart, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.trials import TrialPanel, result_place
from berth_workbench.page.views.what_if import typed_steps
from berth_workbench.planning.survival import KINDS, Failure, Kind, Survival, named, survival_of, takes, who

BARS_SHOWN = 30
ROWS_SHOWN = 100
SIMULATED_AT_MOST = 100
ABOUT = (
    "Every node, zone and pool is lost, one after the other; the scheduler looks for other places. Nothing is touched."
)


class SurviveView:
    """Makes the page."""

    __slots__ = ("_frame", "_jobs", "_source")

    def __init__(self, source: Source, frame: Frame, jobs: Jobs) -> None:
        self._source = source
        self._frame = frame
        self._jobs = jobs

    async def build(self) -> None:
        """The form, and below it what came of it."""
        async with self._frame.page("Survive", "/survive"):
            tag("p", ABOUT, "soft")
            with tag("section", classes="panel"):
                form = TrialForm(
                    "Which failures are survived",
                    "Try all",
                    [
                        {"name": "kinds", "label": "What is lost", "kind": "text", "value": "node, zone, pool",
                         "hint": "node, zone, pool; with commas."},
                        {"name": "pairs", "label": "Two at once, too", "kind": "check", "value": False},
                        {"name": "changes", "label": "After these changes of the cluster", "kind": "area", "rows": 3,
                         "hint": "One a line, as on the page What if."},
                    ],
                )  # fmt: skip
            TrialPanel(form, result_place(), self._jobs, REFUSED, "failures tried").runs(self._prepare, _show)

    async def _prepare(self, values: dict[str, Any]) -> Callable[[Watch], Survival]:
        kinds = kinds_of(str(values.get("kinds", "")))
        changes = str(values.get("changes", ""))
        steps = typed_steps(changes, "") if changes.strip() else []
        pairs = values.get("pairs") is True
        snapshot, configuration = await self._source.snapshot(), await self._source.configuration()

        def work(watch: Watch) -> Survival:
            config, registry = configuration.load()
            return survival_of(
                snapshot, steps, config=config, registry=registry, kinds=kinds, pairs=pairs,
                simulated_at_most=SIMULATED_AT_MOST, watch=watch,
            )  # fmt: skip

        return work


def kinds_of(typed: str) -> list[Kind]:
    """Return what is to be lost, all kinds where nothing is typed. Raises ValueError."""
    words = [word.strip().removesuffix("s") for word in typed.split(",") if word.strip()]
    unknown = [word for word in words if word not in KINDS]
    if unknown:
        raise ValueError(f"what is lost: node, zone and pool are known, not {unknown[0]!r}")
    return [kind for kind in KINDS if kind in words or not words]


def _show(found: Survival) -> None:
    bad = [each for each in found.failures if not each.survives]
    with tag("section", classes="panel", aria_label="Answer"):
        tag("p", _summary(found), "summary")
        if found.any_nodes:
            what = "node" if found.any_nodes == 1 else "nodes"
            proof = "can be lost at once: every pod that is replaced finds a place, by proof."
            tag("p", f"Any {found.any_nodes:,} {what} {proof}")
        for note in found.notes:
            tag("p", note, "soft")
        if not found.is_complete:
            tag("p", "Stopped before the end.", "soft")
        shown = [each for each in bad if each.unplaced or each.gone][:BARS_SHOWN]
        if shown:
            series = {"no place": [each.unplaced for each in shown], "gone": [each.gone for each in shown]}
            bar_chart("Pods lost, by failure", [_bar(each) for each in shown], series, stacked=True)
    if bad:
        with tag("section", classes="panel", aria_label="What is not survived"):
            table(
                f"The worst {ROWS_SHOWN}" if len(bad) > ROWS_SHOWN else "What is not survived",
                ["Lost", ("Pods", "number"), ("No place", "number"), ("Gone", "number"), "Who", "What it takes"],
                [_row(each) for each in bad[:ROWS_SHOWN]],
            )
    short = [(each, budget) for each in found.failures for budget in each.budgets][:ROWS_SHOWN]
    if short:
        with tag("section", classes="panel", aria_label="Budgets"):
            table(
                "Budgets with fewer healthy pods than they demand",
                ["Lost", "Budget", ("Healthy", "number"), ("Demands", "number"), "For how long"],
                [
                    [named(each), budget.name, budget.healthy, budget.demanded,
                     "it lasts" if budget.is_lasting else "until others have started"]
                    for each, budget in short
                ],
            )  # fmt: skip


def _summary(found: Survival) -> str:
    told = []
    for each in found.kinds:
        name = f"{each.kind}s" if each.at_once == 1 else f"pairs of {each.kind}s"
        unknown = f" ({each.unknown:,} not known)" if each.unknown else ""
        told.append(f"{each.survived:,} of {each.failures:,} {name}{unknown}")
    return f"Survived: {', '.join(told)}."


def _bar(failure: Failure) -> str:
    return named(failure) if failure.is_exact else f"{named(failure)} (at most)"


def _row(failure: Failure) -> list[str]:
    most = "" if failure.is_exact else "≤ "
    return [
        named(failure),
        f"{failure.pods:,}",
        f"{most}{failure.unplaced:,}",
        f"{failure.gone:,}",
        who(failure) or NOTHING,
        takes(failure) or NOTHING,
    ]
