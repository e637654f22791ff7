"""Pending pods, a card for each workload: how many, since when, what is missing, and what would help."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from urllib.parse import quote

from berth.decisions.pending import PendingGroup, PendingReport
from berth_workbench.page.ahead import Ahead
from berth_workbench.page.source import Source
from berth_workbench.page.times import lasting
from berth_workbench.page.views.elements import area, link, still, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.planning.help.result import Help
from berth_workbench.planning.help.search import TRIALS_OF_ALL
from berth_workbench.planning.help.words import in_short, whether_ever
from berth_workbench.showing.words import counted

REFRESH_S = 2.0
GROUPS_SHOWN = 50
NAMES_SHOWN = 6
"""So many pods of a workload have a link; the others are found by the search."""


class PendingView:
    """Makes the page."""

    __slots__ = ("_ahead", "_frame", "_source")

    def __init__(self, source: Source, frame: Frame, ahead: Ahead) -> None:
        self._source = source
        self._frame = frame
        self._ahead = ahead

    async def build(self) -> None:
        """The page, rebuilt every few seconds if something has changed."""
        async with self._frame.page("Pending pods", "/pending"):
            problem, place = area(), area()
            shown: object = None

            async def make() -> None:
                nonlocal shown
                report = await self._source.pending()
                helps = await helps_for(self._source, self._ahead) if report.pods else None
                if (report, helps, self._ahead.problem) == shown:
                    return
                shown = (report, helps, self._ahead.problem)
                place.clear()
                with place, still(classes="cards"):
                    self._show(report, helps)

            await make()
            self._frame.keep_current(make, REFRESH_S, problem, lambda: self._ahead.is_at_work)

    def _show(self, report: PendingReport, helps: Mapping[str, Help] | None) -> None:
        if not report.pods:
            tag("p", "No pod is pending.", "empty")
            return
        tag("p", f"{counted(report.pods, 'pod')} pending, of {counted(len(report.groups), 'workload')}.", "soft")
        for group in report.groups[:GROUPS_SHOWN]:
            _card(group, partial(show_help, self._ahead, helps, group.named))
        if len(report.groups) > GROUPS_SHOWN:
            rest = counted(len(report.groups) - GROUPS_SHOWN, "more workload")
            tag("p", f"{rest}, of fewer pods each; the search finds their pods.", "soft")


async def helps_for(source: Source, ahead: Ahead) -> Mapping[str, Help] | None:
    """Return what would help, by pod, as far as it is known; what is not known is worked out. None if nothing is
    known.
    """
    found: Mapping[str, Help] | None = ahead.get("help", (await source.nodes(), await source.pending()))
    return found


def show_help(ahead: Ahead, helps: Mapping[str, Help] | None, pods: Sequence[str]) -> None:
    """Show what would help some pods of one workload: the changes, the result of each, and how to make it."""
    tag("h3", "What would help")
    found = next((helps[pod] for pod in pods if pod in helps), None) if helps is not None else None
    if helps is None:
        tag("p", ahead.problem or "This is being worked out…", "soft")
    elif found is None and ahead.is_at_work:
        tag("p", "This is being worked out…", "soft")
    elif found is None and sum(each.trials for each in _single(helps)) >= TRIALS_OF_ALL:
        tag("p", "This was not worked out, since too much is pending; for one pod, this does:", "soft")
        tag("code", f"berth explain {pods[0] if pods else 'NAMESPACE/POD'} --what-would-help")
    elif found is None:
        tag("p", "Nothing has to be done: there is a place, which the scheduler has not come to yet.", "soft")
    else:
        if len(pods) > 1 and not found.pods:  # they are looked at one by one
            tag("p", f"For {found.pod}, and each of the others by itself:", "soft")
        if found.never:
            tag("p", whether_ever(found), "warn")
        with tag("ul", classes="remedies"):
            for what, command in in_short(found):
                with tag("li", what), tag("details") if command else nullcontext():
                    if command:
                        tag("summary", "How")
                        tag("code", command)
        for note in (*found.said, *found.notes):
            tag("p", note, "soft")


def _single(helps: Mapping[str, Help]) -> Collection[Help]:
    """Return each remedy once, whichever pods it helps."""
    return {id(each): each for each in helps.values()}.values()


def _card(group: PendingGroup, tell_help: Callable[[], None]) -> None:
    with tag("section", classes="panel card", aria_label=group.title):
        with tag("div", classes="panel-head"):
            tag("h2", group.title)
            priority = f", priority {group.priority}" if group.priority else ""
            tag("span", f"{counted(group.pods, 'pod')}, pending{lasting(group.since)}{priority}", "soft")
        tag("p", group.missing, "reason")
        tell_help()
        with tag("details"):
            tag("summary", "Which pods, and what the scheduler said")
            tag("p", group.message or group.reason, "soft")
            for lacking in group.shortfalls:
                tag("p", lacking.sentence, "soft")
            tag("p", ", ".join(f"{count} {queue}" for queue, count in group.queues.items()), "soft")
            with tag("ul", classes="names"):
                for pod in group.named[:NAMES_SHOWN]:
                    with tag("li"):
                        link(pod, pod_path(pod))
            if (rest := group.pods - NAMES_SHOWN) > 0:
                tag("p", f"and {rest:,} more", "soft")


def pod_path(pod: str) -> str:
    """The page of a pod, by `namespace/name`."""
    return f"/pods/{'/'.join(quote(part, safe='') for part in pod.split('/', 1))}"
