"""What if: changes and new workloads tried on a copy of the cluster, and what comes of them."""

import re
from collections.abc import Callable
from typing import Any

from berth.api.codec import ObjectError
from berth.config.errors import ConfigError
from berth.framework.blame import PluginBrokenError
from berth_workbench.page.jobs import Jobs, Watch
from berth_workbench.page.source import Source
from berth_workbench.page.views.compare import figure_text
from berth_workbench.page.views.elements import NOTHING, TrialForm, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.pending import counted
from berth_workbench.page.views.trials import TrialPanel, result_place
from berth_workbench.planning.scenario import Manifests, Step
from berth_workbench.planning.whatif import PodOutcome, StoppedEarlyError, WhatIfResult, moved, what_if
from berth_workbench.simulation.changes import CHANGES, ChangeError, parse_flag
from berth_workbench.simulation.cluster import StuckError
from berth_workbench.simulation.measures import Measures, figures
from berth_workbench.simulation.workloads import ManifestError
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.text import SnapshotError

REFUSED = (
    ConfigError,
    ObjectError,
    ManifestError,
    ChangeError,
    SnapshotError,
    StuckError,
    PluginBrokenError,
    ValueError,
)
ROWS_SHOWN = 100
MAX_STEPS = 1000
ABOUT = "Everything is tried on a copy of the cluster in memory. The cluster itself is not touched."
HINT = (
    "One a line, carried out in this order: drain NODE, cordon NODE, add-nodes N=LIKE-NODE, lose-zone ZONE, "
    "scale KIND/NAME=N, upgrade NODE and so on, as the flags of berth whatif. NODE is a name, a pattern (gpu-*) or "
    "a label (pool=gpu)."
)


class WhatIfView:
    """Makes the page."""

    __slots__ = ("_frame", "_jobs", "_source")

    def __init__(self, source: Source, frame: Frame, jobs: Jobs) -> None:
        self._source = source
        self._frame = frame
        self._jobs = jobs

    async def build(self) -> None:
        """The form, and below it what came of it."""
        async with self._frame.page("What if", "/what-if"):
            tag("p", ABOUT, "soft")
            with tag("section", classes="panel"):
                form = TrialForm(
                    "Try changes",
                    "Try it",
                    [
                        {"name": "changes", "label": "Changes of the cluster", "kind": "area", "rows": 9, "hint": HINT},
                        {"name": "manifests", "label": "Manifests to apply after them", "kind": "area", "rows": 9,
                         "hint": "Pods, Deployments, StatefulSets, Jobs, DaemonSets, pod groups: YAML or JSON."},
                    ],
                )  # fmt: skip
            TrialPanel(form, result_place(), self._jobs, REFUSED).runs(self._prepare, _show)

    async def _prepare(self, values: dict[str, Any]) -> Callable[[Watch], WhatIfResult]:
        steps = typed_steps(str(values.get("changes", "")), str(values.get("manifests", "")))
        snapshot = await self._source.snapshot()
        configuration = await self._source.configuration()

        def work(watch: Watch) -> WhatIfResult:
            def progress(pods: int) -> None:
                if watch(pods):
                    raise StoppedEarlyError

            config, registry = configuration.load()
            return what_if(snapshot, steps, config=config, registry=registry, progress=progress)

        return work


def typed_steps(changes: str, manifests: str) -> list[Step]:
    """Read what was typed. Raises `ChangeError` and `SnapshotError`."""
    lines = [line.strip() for line in changes.splitlines()]
    steps: list[Step] = [_change(number, line) for number, line in enumerate(lines, 1) if line and line[0] != "#"]
    if len(steps) > MAX_STEPS:
        raise ChangeError(f"there are {len(steps)} changes; at most {MAX_STEPS} are carried out")
    if manifests.strip():
        steps.append(Manifests(list(parse_documents(manifests.encode(), "manifests")), "apply the manifests"))
    if not steps:
        raise ChangeError("nothing is to be tried: type a change, or a manifest")
    return steps


def _change(number: int, line: str) -> Step:
    word, _, text = line.removeprefix("--").replace("\t", " ").partition(" ")
    step = re.sub(r"-(.)", lambda letter: letter[1].upper(), word)
    if step not in CHANGES:
        known = ", ".join(re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", each) for each in CHANGES)
        raise ChangeError(f"changes, line {number}: no change is called {word!r}; there are {known}")
    try:
        return parse_flag(step, text.strip())
    except ChangeError as error:
        raise ChangeError(f"changes, line {number}: {error}") from None


def _show(found: WhatIfResult) -> None:
    if not found.is_complete:
        tag("p", "Stopped before the end; this is what was done by then.", "warn")
    for note in found.notes:
        tag("p", note, "soft")
    _show_summary(found)
    _show_pods(found)
    _show_left(found)
    _show_measures(found.before, found.after)


def _show_summary(found: WhatIfResult) -> None:
    counts = moved(found)
    with tag("section", classes="panel", aria_label="Outcome"):
        broken = counted(len(found.broken), "thing") if found.broken else "nothing"
        tag(
            "h2",
            f"{counted(counts['new'], 'new pod')} placed, {counts['moved']:,} moved, {counts['pending']:,} without a "
            f"node; {broken} broken",
        )
        if found.broken:
            rows = [[each.reason, f"{each.kind} {each.name}", each.message] for each in found.broken[:ROWS_SHOWN]]
            table("What breaks", ["What", "Which", "Why"], rows)
        if found.steps:
            table(
                "Step by step",
                ["Step", ("Left their nodes", "number"), ("Preempted", "number"), ("Pending after", "number")],
                [[each.step, f"{each.evicted:,}", f"{each.preempted:,}", f"{each.pending:,}"] for each in found.steps],
            )


def _show_pods(found: WhatIfResult) -> None:
    if not found.pods:
        return
    shown = sorted(found.pods, key=lambda each: each.node is not None)[:ROWS_SHOWN]
    with tag("section", classes="panel", aria_label="Pods"):
        table(
            f"Pods that are new, moved or without a node, {len(shown):,} of {len(found.pods):,}",
            ["Pod", "Before", "After", "Message"],
            [[each.pod, _before(each), each.node or "no node", each.message or NOTHING] for each in shown],
        )


def _before(each: PodOutcome) -> str:
    return each.before or ("new" if each.is_new else "pending")


def _show_left(found: WhatIfResult) -> None:
    if not found.evicted:
        return
    shown = found.evicted[:ROWS_SHOWN]
    with tag("section", classes="panel", aria_label="Evicted"):
        table(
            f"Pods that had to leave their nodes, {len(shown):,} of {len(found.evicted):,}",
            ["Pod", "From", "Because of"],
            [[each.pod, each.node, each.by] for each in shown],
        )


def _show_measures(before: Measures, after: Measures) -> None:
    was, now = figures(before), figures(after)
    with tag("section", classes="panel", aria_label="Measures"):
        table(
            "The cluster before and after",
            ["Measure", ("Before", "number"), ("After", "number")],
            [
                [name, figure_text(name, was.get(name)), figure_text(name, now.get(name))]
                for name in dict.fromkeys([*was, *now])
            ],
        )
