"""What would help a pending pod and the others of its workload: the least changes, each tried in memory."""

from collections.abc import Callable
from typing import Any

from berth_workbench.page.jobs import Jobs
from berth_workbench.page.source import Source, SourceError
from berth_workbench.page.views.elements import NOTHING, TrialForm, table, tag
from berth_workbench.page.views.trials import TrialPanel, result_place
from berth_workbench.planning.help.result import Help
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.planning.help.words import consequences, whether_ever, whom
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.watch import WorkWatch

CHANGES_SHOWN = 20
NODES_SHOWN = 3


def help_panel(source: Source, jobs: Jobs, pod: str) -> None:
    """A button that looks for changes, and below it what was found."""

    async def prepare(_values: dict[str, Any]) -> Callable[[WorkWatch], Help]:
        snapshot, configuration = await source.snapshot(), await source.configuration()

        def work(watch: WorkWatch) -> Help:
            cluster = Site.of(snapshot, configuration.load(), watch=watch).cluster
            found = cluster.pods.get(pod)
            if found is None:
                raise SourceError(f"there is no pod {pod} in the cluster any more")
            return what_would_help(cluster, found, documents=snapshot.documents, watch=watch)

        return work

    with tag("section", classes="panel", aria_label="What would help"):
        tag("h2", "What would help")
        tag("p", "Looks for the least changes of the pod, of a node or of the cluster, and tries each on a copy in "
            "memory.", "soft")  # fmt: skip
        form = TrialForm("What would help", "Look for changes", [], sends=False)
        TrialPanel(form, result_place(), jobs).runs(prepare, _show)


def _show(found: Help) -> None:
    if found.state != "pending":  # why it is pending stands above
        tag("p", f"{found.message[:1].upper()}{found.message[1:]}", "reason")
    elif found.workload:
        tag("p", f"{whom(found)}.")
    if found.never:
        tag("p", whether_ever(found), "warn")
    for note in (*found.said, *found.notes):
        tag("p", note, "soft")
    if not found.is_complete:
        tag("p", "The search was ended before it was through; there may be other changes.", "soft")
    if found.changes:
        table(
            "Changes that help, the cheapest first; each was tried",
            [("Change", "short"), "What", "Then", ("How", "mono")],
            [
                [
                    change.on,
                    f"{change.what[:1].upper()}{change.what[1:]}.",
                    " ".join(consequences(found, change)),
                    " && ".join(filter(None, (change.command, *(part.command for part in change.with_)))) or NOTHING,
                ]
                for change in found.changes[:CHANGES_SHOWN]
            ],
        )
    elif found.state == "pending":
        tag("p", "No change was found that helps.", "soft")
    if found.waits_for:
        table(
            "What may happen by itself",
            ["What", "Pods that would leave", "Enough"],
            [
                [each.what, ", ".join(each.pods[:NODES_SHOWN]) or NOTHING, "yes" if each.is_enough else "not proven"]
                for each in found.waits_for
            ],
        )
