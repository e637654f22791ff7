"""Pending pods by reason, the largest group first."""

from urllib.parse import quote

from berth.decisions.pending import PendingGroup, PendingReport
from berth_workbench.page.source import Source
from berth_workbench.page.times import lasting
from berth_workbench.page.views.elements import link, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.showing.reasons import nodes_in_our_words

REFRESH_S = 5.0
NAMESPACES = 8
GROUPS_SHOWN = 100


class PendingView:
    """Makes the page."""

    __slots__ = ("_frame", "_source")

    def __init__(self, source: Source, frame: Frame) -> None:
        self._source = source
        self._frame = frame

    async def build(self) -> None:
        """The page, made anew every few seconds."""
        async with self._frame.page("Pending pods", "/pending"):
            problem, place = tag("div"), tag("div", classes="groups")
            shown = PendingReport(-1, ())

            async def make() -> None:
                nonlocal shown
                report = await self._source.pending()
                if report == shown:
                    return
                shown = report
                place.clear()
                with place:
                    _show(report)

            await make()
            self._frame.keep_current(place, make, REFRESH_S, problem)


def _show(report: PendingReport) -> None:
    if not report.pods:
        tag("p", "No pod is pending.", "empty")
        return
    tag("p", f"{counted(report.pods, 'pod')} pending, for {counted(len(report.groups), 'reason')}.", "soft")
    for group in report.groups[:GROUPS_SHOWN]:
        _group(group)
    if len(report.groups) > GROUPS_SHOWN:
        tag("p", f"{len(report.groups) - GROUPS_SHOWN} more reasons, of fewer pods each, are not shown.", "soft")


def _group(group: PendingGroup) -> None:
    with tag("section", classes="panel"):
        with tag("div", classes="panel-head"):
            tag("h2", counted(group.pods, "pod"))
            longest = lasting(group.since)
            tag("span", f"{' and '.join(group.queues)}{f', longest{longest}' if longest else ''}", "soft")
        tag("p", nodes_in_our_words(group.reason), "reason")
        if group.message and group.message != group.reason:
            with tag("details"):
                tag("summary", "What the scheduler said")
                tag("p", group.message, "soft")
        for lacking in group.shortfalls:
            tag("p", lacking.sentence)
        where = ", ".join(f"{count} in {namespace}" for namespace, count in list(group.namespaces.items())[:NAMESPACES])
        priority = f", priority up to {group.priority}" if group.priority else ""
        tag("p", f"{where}{priority}", "soft")
        with tag("details"):
            rest = group.pods - len(group.named)
            tag("summary", "Which pods" if not rest else f"{len(group.named)} of the pods")
            with tag("ul", classes="names"):
                for pod in group.named:
                    with tag("li"):
                        link(pod, pod_path(pod))


def pod_path(pod: str) -> str:
    """The page of a pod, by `namespace/name`."""
    return f"/pods/{'/'.join(quote(part, safe='') for part in pod.split('/', 1))}"


def counted(count: int, what: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
