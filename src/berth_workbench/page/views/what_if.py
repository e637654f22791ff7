"""What if: changes and new workloads tried on a copy of the cluster, and what comes of them."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from berth.api.codec import ObjectError
from berth.config.errors import ConfigError
from berth.framework.blame import PluginBrokenError
from berth.runtime.serving.node_columns import copy_columns
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.page.data_routes import NODES, PODS
from berth_workbench.page.jobs import Jobs, Watch
from berth_workbench.page.moves import MovePicture, picture_of
from berth_workbench.page.source import Source
from berth_workbench.page.views.compare import figure_text
from berth_workbench.page.views.elements import NOTHING, MoveMap, TrialForm, TrialMap, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.pending import counted
from berth_workbench.page.views.trials import TrialPanel, result_place
from berth_workbench.planning.whatif import (
    PodOutcome,
    StoppedEarlyError,
    WhatIfResult,
    WhatIfRun,
    WhoIsWhere,
    broken_groups,
)
from berth_workbench.simulation.changes import CHANGES, ChangeError, parse_flag
from berth_workbench.simulation.cluster import StuckError
from berth_workbench.simulation.measures import Measures, figures
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.steps import Manifests, Step
from berth_workbench.simulation.workloads import ManifestError
from berth_workbench.snapshot.documents import parse_manifests
from berth_workbench.snapshot.snapshot import Snapshot
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
NAMES_SHOWN = 5
MAX_STEPS = 1000
ABOUT = "Everything is tried on a copy of the cluster in memory. The cluster itself is not touched."
HINT = (
    "One a line, carried out in this order: drain NODE, cordon NODE, add-nodes N=LIKE-NODE, lose-zone ZONE, "
    "scale KIND/NAME=N, evict POD, upgrade NODE and so on, as the flags of berth whatif. NODE is a name, a pattern "
    "(gpu-*) or a label (pool=gpu)."
)

MANIFESTS_HINT = "Pods, Deployments, StatefulSets, Jobs, DaemonSets, pod groups: YAML or JSON."


class PicturedTrial(NamedTuple):
    """What came of a trial, and how it looks."""

    result: WhatIfResult
    picture: MovePicture


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
            with tag("div", classes="trial"):
                with tag("section", classes="panel", aria_label="Choose"):
                    TrialMap(NODES, PODS)
                with tag("section", classes="panel", aria_label="What is tried"):
                    form = TrialForm(
                        "Try changes",
                        "Try it",
                        [
                            {"name": "changes", "label": "Changes of the cluster", "kind": "area", "rows": 6,
                             "hint": HINT},
                            {"name": "manifests", "label": "Manifests to apply after them; a file can be dropped here",
                             "kind": "area", "rows": 5, "hint": MANIFESTS_HINT},
                        ],
                    )  # fmt: skip
            TrialPanel(form, result_place(), self._jobs, REFUSED).runs(self._prepare, _show)

    async def _prepare(self, values: dict[str, Any]) -> Callable[[Watch], PicturedTrial]:
        steps = typed_steps(str(values.get("changes", "")), str(values.get("manifests", "")))
        snapshot = await self._source.snapshot()
        configuration = await self._source.configuration()

        def work(watch: Watch) -> PicturedTrial:
            def progress(pods: int) -> None:
                if watch(pods):
                    raise StoppedEarlyError

            return tried(snapshot, steps, configuration, progress)

        return work


def typed_steps(changes: str, manifests: str) -> list[Step]:
    """Read what was typed. Raises `ChangeError` and `SnapshotError`."""
    lines = [line.strip() for line in changes.splitlines()]
    steps: list[Step] = [_change(number, line) for number, line in enumerate(lines, 1) if line and line[0] != "#"]
    if len(steps) > MAX_STEPS:
        raise ChangeError(f"there are {len(steps)} changes; at most {MAX_STEPS} are carried out")
    if manifests.strip():
        steps.append(Manifests(list(parse_manifests(manifests.encode(), "manifests")), "apply the manifests"))
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


def tried(
    snapshot: Snapshot, steps: Sequence[Step], configuration: ConfigurationSource, progress: Callable[[int], None]
) -> PicturedTrial:
    """Carry steps out on a copy of a cluster."""
    config, registry = configuration.load()
    site = Site.of(snapshot, config=config, registry=registry, progress=progress)
    table = site.cluster.core.cache.table
    before = copy_columns(table).columns()
    result = WhatIfRun(site).run(steps)
    return PicturedTrial(result, picture_of(before, copy_columns(table).columns(), result))


def _show(found: PicturedTrial) -> None:
    result, who = found.result, WhoIsWhere.of(found.result.pods)
    if not result.is_complete:
        tag("p", "Stopped before the end; this is what was done by then.", "warn")
    with tag("section", classes="panel", aria_label="Outcome"):
        for sentence in who.sentences():
            tag("p", f"{sentence[0].upper()}{sentence[1:]}.", "summary")
        broken = counted(len(result.broken), "thing") if result.broken else "Nothing"
        tag("p", f"{broken} broken.", "summary bad" if result.broken else "summary good")
        for note in result.notes:
            tag("p", note, "soft")
        MoveMap(found.picture.nodes(), found.picture.moves, " ".join(who.sentences()))
    if result.broken:
        _show_broken(result)
    _folded("Pods that left their nodes", who.left)
    _folded("New pods", who.new)
    _folded("Pods that were pending", who.waited)
    _show_left(result)
    _show_steps(result)
    _show_measures(result.before, result.after)


def _show_broken(found: WhatIfResult) -> None:
    with tag("section", classes="panel", aria_label="What breaks"):
        table(
            "What breaks, by reason",
            [("Count", "number"), "What", "Why", "Which"],
            [
                [f"{len(group.names):,}", f"{group.kind}: {group.reason}", group.message, _names(group.names)]
                for group in broken_groups(found.broken)[:ROWS_SHOWN]
            ],
        )


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _folded(title: str, pods: Sequence[PodOutcome]) -> None:
    """A table that is opened by who wants to see it, those without a node first."""
    if not pods:
        return
    shown = sorted(pods, key=lambda each: each.node is not None)[:ROWS_SHOWN]
    with tag("section", classes="panel", aria_label=title), tag("details"):
        tag("summary", f"{title} ({len(pods):,})")
        table(
            f"{len(shown):,} of {len(pods):,}" if len(shown) < len(pods) else "",
            ["Pod", "Before", "After", "Message"],
            [[each.pod, _before(each), each.node or "no node", each.message or NOTHING] for each in shown],
        )


def _before(each: PodOutcome) -> str:
    return each.before or ("new" if each.is_new else "pending")


def _show_left(found: WhatIfResult) -> None:
    preempted = [each for each in found.evicted if each.is_preempted]
    if not preempted:
        return
    with tag("section", classes="panel", aria_label="Preempted"), tag("details"):
        tag("summary", f"Preempted ({len(preempted):,})")
        table(
            "",
            ["Pod", "On", "Made way for"],
            [[each.pod, each.node, each.by] for each in preempted[:ROWS_SHOWN]],
        )


def _show_steps(found: WhatIfResult) -> None:
    if len(found.steps) < 2:
        return
    with tag("section", classes="panel", aria_label="Step by step"):
        table(
            "Step by step",
            ["Step", ("Left their nodes", "number"), ("Preempted", "number"), ("Pending after", "number")],
            [[each.step, f"{each.evicted:,}", f"{each.preempted:,}", f"{each.pending:,}"] for each in found.steps],
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
