"""Plugins: their figures, which of them are left out, and what shadow profiles would have decided differently.

Of an observer it begins with what came of observing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from berth.cycle.difference_kinds import DIFFERENCE_WORDS
from berth.decisions.plugin_views import FigureReport, PluginReport, ShadowReport
from berth_workbench.page.views.answer import show_sections
from berth_workbench.page.views.elements import bar_chart, linked, rows, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.showing.agreement import sections_of
from berth_workbench.showing.numbers import NOTHING
from berth_workbench.showing.words import counted
from berth_workbench.sources.part_rows import pod_path
from berth_workbench.sources.source import PluginViews, Source
from berth_workbench.sources.times import ago

REFRESH_S = 5.0
FIGURES_SHOWN = 40
DIFFERENCES_SHOWN = 30


@dataclass(slots=True, eq=False, repr=False)
class PluginsView:
    """Makes the page."""

    _source: Source
    _frame: Frame

    async def build(self) -> None:
        """The page, rebuilt every few seconds if something has changed."""
        async with self._frame.page("Plugins", "/plugins"):
            problem, place = tag("div"), tag("div", classes="groups")
            shown: PluginViews | None = None

            async def make() -> None:
                nonlocal shown
                found = await self._source.plugins()
                if found == shown:
                    return
                shown = found
                place.clear()
                with place:
                    _show(found)

            await make()
            self._frame.keep_current(make, REFRESH_S, problem)


def _show(found: PluginViews) -> None:
    if found.agreement is not None:
        show_sections(sections_of(found.agreement))
    elif not (found.plugins or found.figures or found.shadows):
        tag("p", "No plugin tells figures, none is optional, and no profile is a shadow of another.", "empty")
    if found.plugins:
        _health(found.plugins)
    for shadow in found.shadows:
        _shadow(shadow)
    by_name: dict[tuple[str, str], list[FigureReport]] = {}
    for figure in found.figures:
        by_name.setdefault((figure.plugin, figure.name), []).append(figure)
    with tag("div", classes="charts"):
        for (plugin, name), figures in by_name.items():
            _figures(plugin, name, figures)


def _health(plugins: Sequence[PluginReport]) -> None:
    with tag("section", classes="panel", aria_label="Health"):
        rows(
            "Optional plugins, whose failures are counted",
            ["Plugin", "Profile", "State", ("Failed", "number"), ("Left out", "number"), "Last failure"],
            [
                [
                    each.plugin,
                    each.profile,
                    {"text": each.state, "tone": "bad" if each.state == "out" else "good"},
                    f"{each.failures:,} of {each.calls:,}",
                    f"{each.times_out:,}",
                    each.last_failure or NOTHING,
                ]
                for each in plugins
            ],
        )


def _shadow(shadow: ShadowReport) -> None:
    with tag("section", classes="panel", aria_label=f"Shadow {shadow.shadow}"):
        tag("h2", f"{shadow.shadow}, a shadow of {shadow.of}")
        told = ", ".join(f"{count:,} {DIFFERENCE_WORDS.get(kind, 'the same')}" for kind, count in shadow.kinds.items())
        tag("p", f"{counted(shadow.decisions, 'attempt')} at {shadow.percentage:g}% of the pods: {told or 'none'}.")
        skipped = ", ".join(f"{count:,} because {reason}" for reason, count in shadow.skipped.items())
        if skipped:
            tag("p", f"Not looked at: {skipped}.", "soft")
        if shadow.causes:
            labels = [f"{each.plugin}: {DIFFERENCE_WORDS[each.kind]}" for each in shadow.causes]
            bar_chart("What made the difference", labels, {"attempts": [each.decisions for each in shadow.causes]})
        if shadow.differences:
            latest = [_difference(each) for each in shadow.differences[:DIFFERENCES_SHOWN]]
            columns: list[str | tuple[str, str]] = ["Pod", "Went to", "Shadow", "Because of", "When"]
            rows(f"The latest differences, {len(latest)} of {len(shadow.differences)}", columns, latest)


def _difference(each: Any) -> list[Any]:
    return [
        linked(each.pod, pod_path(each.pod)),
        each.node or "no node",
        each.shadow_node or "no node",
        ", ".join(each.plugins) or each.why,
        ago(each.time) or NOTHING,
    ]


def _figures(plugin: str, name: str, figures: Sequence[FigureReport]) -> None:
    """Numbers of one name as bars, the largest first."""
    shown = sorted(figures, key=lambda each: -each.value)[:FIGURES_SHOWN]
    labels = [" ".join(value for value in each.labels.values() if value) or each.profile for each in shown]
    with tag("section", classes="panel", aria_label=f"{plugin} {name}"):
        bar_chart(f"{plugin}: {name.replace('_', ' ')}", labels, {"value": [each.value for each in shown]})
        if len(shown) < len(figures):
            tag("p", f"{len(figures) - len(shown):,} smaller ones are not shown.", "soft")
