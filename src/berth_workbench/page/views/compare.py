"""Two configurations on the same pods: who goes elsewhere and why, and the measures side by side."""

from collections.abc import Callable, Sequence
from typing import Any

from berth.api.codec import ObjectError
from berth.config.document import parse_document
from berth.config.errors import ConfigError
from berth.decisions.exchange import ComparedDecision
from berth.framework.blame import PluginBrokenError
from berth_workbench.comparison.comparison import ConfigurationsCompared, FigureCompared, compare
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.figures import SHARES, shown_figure
from berth_workbench.comparison.loads import ClusterLoad
from berth_workbench.page.jobs import Jobs, Watch
from berth_workbench.page.source import Source, SourceError
from berth_workbench.page.views.elements import NOTHING, TrialForm, bar_chart, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.pending import counted
from berth_workbench.page.views.trials import TrialPanel, result_place
from berth_workbench.simulation.cluster import StuckError
from berth_workbench.simulation.workloads import ManifestError

REFUSED = (ConfigError, ObjectError, ManifestError, PluginBrokenError, StuckError)
CHANGES_SHOWN = 100
SEEDS = 3
EXAMPLE = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated}
"""
ABOUT = "Both configurations place the same pods on a copy of the cluster in memory. The cluster itself is not touched."
KINDS = {"elsewhere": "go elsewhere", "fitsNoMore": "fit no more", "fitsNow": "fit now"}


class CompareView:
    """Makes the page."""

    __slots__ = ("_frame", "_jobs", "_source")

    def __init__(self, source: Source, frame: Frame, jobs: Jobs) -> None:
        self._source = source
        self._frame = frame
        self._jobs = jobs

    async def build(self) -> None:
        """The form, and below it what came of it."""
        async with self._frame.page("Compare configurations", "/compare"):
            tag("p", ABOUT, "soft")
            with tag("section", classes="panel"):
                form = TrialForm(
                    "Compare two configurations",
                    "Compare",
                    [
                        {"name": "a", "label": "Configuration A", "kind": "area", "rows": 9, "value": "",
                         "hint": "A KubeSchedulerConfiguration; empty for the one in use."},
                        {"name": "b", "label": "Configuration B", "kind": "area", "rows": 9, "value": EXAMPLE},
                        {"name": "all", "label": "Place running pods anew, too", "kind": "check",
                         "hint": "Those that a controller owns; otherwise only what is pending is placed."},
                    ],
                )  # fmt: skip
            panel = TrialPanel(form, result_place(), self._jobs, REFUSED)
            panel.runs(self._prepare, _show)

    async def _prepare(self, values: dict[str, Any]) -> Callable[[Watch], ConfigurationsCompared]:
        own = await self._source.configuration()
        sources = [_configuration(name, str(values.get(name.lower(), "")), own) for name in ("A", "B")]
        snapshot = await self._source.snapshot()
        replaces_all = bool(values.get("all"))

        def work(watch: Watch) -> ConfigurationsCompared:
            load = ClusterLoad.of(snapshot, replaces_all=replaces_all)
            if not load.pods:
                raise SourceError("there are no pods to place: none is pending; place the running ones anew, too")
            return compare(load, sources[0], sources[1], seeds=range(SEEDS), watch=watch)

        return work


def _configuration(name: str, text: str, own: ConfigurationSource) -> ConfigurationSource:
    """What was typed, checked. No plugin is loaded that is not installed, or named on the command line."""
    if not text.strip():
        return own
    found = ConfigurationSource.of_document(name, parse_document(text.encode(), f"configuration {name}"), own.plugins)
    found.load()
    return found


def _show(found: ConfigurationsCompared) -> None:
    if not found.is_complete:
        tag("p", "Stopped before the end; this is what was done by then.", "warn")
    for note in found.notes:
        tag("p", note, "soft")
    if found.decisions is not None:
        _show_decisions(found)
    if found.measures:
        _show_measures(found)


def _show_decisions(found: ConfigurationsCompared) -> None:
    decisions = found.decisions
    assert decisions is not None, "who calls has looked"
    kinds = {kind: sum(change.kind == kind for change in decisions.changes) for kind in KINDS}
    told = ", ".join(f"{count:,} {KINDS[kind]}" for kind, count in kinds.items() if count)
    with tag("section", classes="panel", aria_label="Decisions"):
        tag("h2", f"{len(decisions.changes):,} of {counted(decisions.decided, 'pod')} decided differently")
        if told:
            tag("p", f"{told[0].upper()}{told[1:]}.")
        for reason, count in decisions.left_out.items():
            tag("p", f"{count:,} left out: {reason}", "soft")
        if found.causes:
            changes = {"changes": list(found.causes.values())}
            bar_chart("How many changes each plugin causes", list(found.causes), changes)
        if decisions.changes:
            shown = decisions.changes[:CHANGES_SHOWN]
            table(
                f"Pods that are decided differently, {len(shown):,} of {len(decisions.changes):,}",
                ["Pod", "A", "B", "Because of"],
                [[change.pod, change.a or "no node", change.b or "no node", _because(change)] for change in shown],
            )


def _because(change: ComparedDecision) -> str:
    if change.note:
        return change.note
    if not change.plugins:
        return "what cannot be told plugin by plugin"
    return " or ".join(change.plugins) if change.alone else f"{' and '.join(change.plugins)}, together"


def _show_measures(found: ConfigurationsCompared) -> None:
    with tag("section", classes="panel", aria_label="Measures"):
        tag("h2", "Each on its own")
        comparison_bars(found.measures)
        said = (
            f"Means of {counted(len(found.seeds), 'seed')}; “varies” is the standard deviation of the difference over "
        )
        measures_table(found.measures, f"{said}them, “better” what is better with every one")


def comparison_bars(figures: Sequence[FigureCompared]) -> None:
    """Those measures that are shares, A beside B, in percent."""
    shares = [each for each in figures if each.name.split(".")[0] in SHARES and each.a is not None]
    if shares:
        series = {name: [_percent(getattr(each, name.lower())) for each in shares] for name in ("A", "B")}
        bar_chart("Shares, in percent", [each.name for each in shares], series, most=100)


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def measures_table(figures: Sequence[FigureCompared], caption: str = "") -> None:
    """All measures of both, side by side."""
    numbers = [(name, "number") for name in ("A", "B", "B - A", "Varies")]
    table(caption, ["Measure", *numbers, ("Better", "short")], [_measure(figure) for figure in figures])


def _measure(figure: FigureCompared) -> list[str]:
    shown = [figure_text(figure.name, value) for value in (figure.a, figure.b, figure.difference, figure.deviation)]
    return [figure.name, *shown, figure.better.upper() or NOTHING]


def figure_text(name: str, value: float | None) -> str:
    """A figure for people, in a table."""
    return NOTHING if value is None else shown_figure(name, value)
