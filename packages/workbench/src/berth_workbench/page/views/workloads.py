"""Workloads: what is pending and what would help it, and every workload with its pods."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from nicegui import ui

from berth.decisions.pending import PendingGroup, PendingReport
from berth_workbench.page.ahead import Ahead
from berth_workbench.page.data_routes import FIRST_ROWS, WORKLOAD_ROWS
from berth_workbench.page.views.answer import show_tries
from berth_workbench.page.views.elements import link, linked, part_rows, rows, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.helps import helps_for, show_help
from berth_workbench.planning.help.result import Help
from berth_workbench.questions.remedies import OF_PENDING
from berth_workbench.showing.numbers import NOTHING
from berth_workbench.showing.words import counted
from berth_workbench.sources.model import groups_of_workload
from berth_workbench.sources.part_rows import ClusterRows, pod_path
from berth_workbench.sources.source import Source
from berth_workbench.sources.times import lasting

REFRESH_S: Final = 3.0
CARDS_SHOWN: Final = 6
NAMES_SHOWN: Final = 6
"""So many pods of a workload have a link on its card; its page has all of them."""


@dataclass(slots=True, eq=False, repr=False)
class WorkloadPages:
    """Makes both pages."""

    _source: Source
    _tables: ClusterRows
    _frame: Frame
    _ahead: Ahead

    @property
    def _refresh_s(self) -> float:
        return REFRESH_S if self._source.is_live else 0

    async def all(self) -> None:
        """What is pending, rebuilt every few seconds if something has changed, and all workloads."""
        async with self._frame.page("Workloads", "/workloads"):
            with tag("p", classes="switch-line"):
                link("What quotas guarantee and limit", "/quotas")
            problem, place = tag("div"), tag("div")
            shown: object = None

            async def make() -> None:
                nonlocal shown
                report = await self._source.pending()
                helps = await helps_for(self._source, self._ahead) if report.pods else None
                if (report, helps, self._ahead.problem) == shown:
                    return
                shown = (report, helps, self._ahead.problem)
                place.clear()
                with place, tag("div", classes="cards"):
                    self._pending(report, helps)

            await make()
            self._frame.keep_current(make, REFRESH_S, problem, lambda: self._ahead.is_at_work)
            amounts = ("On nodes", "Pending", "Nodes", "CPU", "Memory")
            heads = ["Workload", "Kind", *((name, "number") for name in amounts)]
            with tag("section", classes="panel", aria_label="All workloads"):
                first = await self._tables.workloads.part(FIRST_ROWS)
                part_rows("All workloads", heads, first, WORKLOAD_ROWS, refreshS=self._refresh_s,
                          none="The cluster has no workloads.")  # fmt: skip

    async def one(self, kind: str, namespace: str, name: str) -> None:
        """One workload: why its pods are pending, and where the others are."""
        async with self._frame.page(f"{kind} {namespace}/{name}", "/workloads"):
            groups = groups_of_workload(await self._source.pending(), kind, namespace, name)
            first = await self._tables.of_workload(kind, namespace, name).part(FIRST_ROWS)
            if not groups and not first.all:
                ui.context.client.status_code = 404
                tag("p", f"There is no {kind} {namespace}/{name} with pods.", "empty")
                return
            problem, place = tag("div"), tag("div", classes="cards")

            async def make() -> None:
                helps = await helps_for(self._source, self._ahead) if groups else None
                place.clear()
                with place:
                    for group in groups:
                        _card(group, self._ahead, helps)

            await make()
            if groups:
                self._frame.keep_current(make, REFRESH_S, problem, lambda: self._ahead.is_at_work)
            src = "/".join((WORKLOAD_ROWS, *(quote(part, safe="") for part in (kind, namespace, name))))
            with tag("section", classes="panel", aria_label="Pods"):
                part_rows("Pods", ["Pod", "Node"], first, src, refreshS=self._refresh_s)

    def _pending(self, report: PendingReport, helps: Mapping[str, Help] | None) -> None:
        if not report.pods:
            tag("p", "No pod is pending.", "good")
            return
        pending = f"{counted(report.pods, 'pod')} pending, of {counted(len(report.groups), 'workload')}."
        tag("p", pending, "soft")
        show_tries(OF_PENDING)
        for group in report.groups[:CARDS_SHOWN]:
            _card(group, self._ahead, helps)
        if rest := report.groups[CARDS_SHOWN:]:
            why = [group.missing or group.reason or NOTHING for group in rest]
            cells = [[linked(group.title, _path(group)), group.pods, why[at]] for at, group in enumerate(rest)]
            with tag("section", classes="panel wide", aria_label="More that is pending"):
                rows("More that is pending", ["Workload", ("Pods", "number"), ("What is missing", "text")], cells)


def _path(group: PendingGroup) -> str:
    """The page of the workload, or of its only pod."""
    kind, _, name = group.workload.partition("/")
    first = next(iter(group.named), "")
    return f"/workloads/{kind}{pod_path(f'{next(iter(group.namespaces))}/{name}')[5:]}" if kind else pod_path(first)


def _card(group: PendingGroup, ahead: Ahead, helps: Mapping[str, Help] | None) -> None:
    with tag("section", classes="panel card", aria_label=group.title):
        with tag("div", classes="panel-head"):
            with tag("h2"):
                link(group.title, _path(group))
            priority = f", priority {group.priority}" if group.priority else ""
            tag("span", f"{counted(group.pods, 'pod')}, pending{lasting(group.since)}{priority}", "soft")
        tag("p", group.missing, "reason")
        show_help(ahead, helps, group.named)
        with tag("details"):
            tag("summary", "Which pods, and what the scheduler said")
            tag("p", group.message or group.reason, "behind")
            for lacking in group.shortfalls:
                tag("p", lacking.sentence, "soft")
            tag("p", ", ".join(f"{count} {queue}" for queue, count in group.queues.items()), "soft")
            with tag("ul", classes="names"):
                for pod in group.named[:NAMES_SHOWN]:
                    with tag("li"):
                        link(pod, pod_path(pod))
            if (rest := group.pods - NAMES_SHOWN) > 0:
                tag("p", f"and {rest:,} more", "soft")
