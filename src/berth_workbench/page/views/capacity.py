"""Capacity: how many more pods of a shape fit, pool by pool, and what limits them."""

import json
from collections.abc import Callable
from typing import Any

from berth.api.codec import ObjectError
from berth.config.errors import ConfigError
from berth.framework.blame import PluginBrokenError
from berth_workbench.page.jobs import Jobs, Watch
from berth_workbench.page.source import Source
from berth_workbench.page.views.elements import NOTHING, TrialForm, bar_chart, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.trials import TrialPanel, result_place
from berth_workbench.page.views.what_if import typed_steps
from berth_workbench.planning.capacity import Capacity, LimitedBy, capacity_after
from berth_workbench.planning.whatif import StoppedEarlyError
from berth_workbench.simulation.changes import ChangeError
from berth_workbench.simulation.cluster import StuckError
from berth_workbench.simulation.workloads import ManifestError
from berth_workbench.snapshot.documents import Document, parse_manifests
from berth_workbench.snapshot.text import SnapshotError

REFUSED = (
    ConfigError, ObjectError, ManifestError, ChangeError, SnapshotError, StuckError, StoppedEarlyError,
    PluginBrokenError, ValueError,
)  # fmt: skip
AT_MOST = 100_000
POOLS_SHOWN = 40
ABOUT = "Counted is what the scheduler would place one after the other, preempting nobody. Nothing is touched."


class CapacityView:
    """Makes the page."""

    __slots__ = ("_frame", "_jobs", "_source")

    def __init__(self, source: Source, frame: Frame, jobs: Jobs) -> None:
        self._source = source
        self._frame = frame
        self._jobs = jobs

    async def build(self) -> None:
        """The form, and below it what came of it."""
        async with self._frame.page("Capacity", "/capacity"):
            tag("p", ABOUT, "soft")
            with tag("section", classes="panel"):
                form = TrialForm(
                    "How many more fit",
                    "Count",
                    [
                        {"name": "cpu", "label": "CPU of a pod", "kind": "text", "value": "1", "hint": "1, 500m"},
                        {"name": "memory", "label": "Memory of a pod", "kind": "text", "value": "2Gi", "hint": "2Gi"},
                        {"name": "others", "label": "Other resources", "kind": "text",
                         "hint": "nvidia.com/gpu=1, one after the other, with commas."},
                        {"name": "manifests", "label": "Or the manifest of a pod or of workloads", "kind": "area",
                         "rows": 5, "hint": "Instead of the shape above; a file can be dropped here."},
                        {"name": "changes", "label": "After these changes of the cluster", "kind": "area", "rows": 3,
                         "hint": "One a line, as on the page What if."},
                    ],
                )  # fmt: skip
            TrialPanel(form, result_place(), self._jobs, REFUSED).runs(self._prepare, _show)

    async def _prepare(self, values: dict[str, Any]) -> Callable[[Watch], Capacity]:
        documents = shape_of(values)
        changes = str(values.get("changes", ""))
        steps = typed_steps(changes, "") if changes.strip() else []
        snapshot, configuration = await self._source.snapshot(), await self._source.configuration()

        def work(watch: Watch) -> Capacity:
            config, registry = configuration.load()
            return capacity_after(
                snapshot, documents, steps, config=config, registry=registry, at_most=AT_MOST, watch=watch
            )

        return work


def shape_of(values: dict[str, Any]) -> list[Document]:
    """Return what is to fit: the manifests, or a pod that requests what was typed. Raises ValueError."""
    typed = str(values.get("manifests", ""))
    if typed.strip():
        return list(parse_manifests(typed.encode(), "manifests"))
    requests = {name: str(values.get(name, "")).strip() for name in ("cpu", "memory")}
    for part in str(values.get("others", "")).split(","):
        name, equals, amount = (each.strip() for each in part.partition("="))
        if name and not (equals and amount):
            raise ValueError(f"other resources: NAME=AMOUNT is expected, not {part.strip()!r}")
        requests[name] = amount
    requests = {name: amount for name, amount in requests.items() if name and amount}
    if not requests:
        raise ValueError("what is to fit? type what a pod requests, or a manifest")
    container = {"name": "c", "image": "any", "resources": {"requests": requests, "limits": _limits(requests)}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shape"}, "spec": {"containers": [container]}}
    return list(parse_manifests(json.dumps(pod).encode(), "the shape"))


def _limits(requests: dict[str, str]) -> dict[str, str]:
    """Extended resources are requested as much as they are limited."""
    return {name: amount for name, amount in requests.items() if "/" in name}


def _show(found: Capacity) -> None:
    least = "" if found.is_complete else "At least "
    what = "more sets fit" if found.is_of_sets else "more fit"
    with tag("section", classes="panel", aria_label="Answer"):
        tag("p", f"{least}{found.fits:,} {what}.", "summary")
        for note in found.notes:
            tag("p", note, "soft")
        pools = sorted(found.by_pool.items(), key=lambda each: -each[1].fits)[:POOLS_SHOWN]
        if any(pool.fits for _, pool in pools):
            names = [f"{name or 'no pool'} ({pool.nodes:,} nodes)" for name, pool in pools]
            bar_chart("How many fit, by pool", names, {"fit": [pool.fits for _, pool in pools]})
    with tag("div", classes="charts"):
        if found.limited_by:
            with tag("section", classes="panel", aria_label="What limits them"):
                rows = [[f"{each.nodes:,}", each.reason] for each in found.limited_by]
                table("What keeps the next one away", [("Nodes", "number"), "Reason"], rows)
        if found.fragmentation:
            with tag("section", classes="panel", aria_label="What is free"):
                _free(found)
    if pools:
        with tag("section", classes="panel", aria_label="By pool"):
            table(
                "Pool by pool",
                ["Pool", ("Nodes", "number"), ("Fit", "number"), "Limited by"],
                [[name or NOTHING, f"{p.nodes:,}", f"{p.fits:,}", _first(p.limited_by)] for name, p in pools],
            )


def _free(found: Capacity) -> None:
    """What is free of each resource: the part that such pods can have, and the part that they cannot."""
    parts = {name: each for name, each in found.fragmentation.items() if each.free}
    usable = [100 * each.usable / each.free for each in parts.values()]
    series = {"usable": usable, "stranded": [100 - each for each in usable]}
    bar_chart("Of what is free, percent", list(parts), series, stacked=True, most=100)


def _first(reasons: tuple[LimitedBy, ...]) -> str:
    return ", ".join(f"{each.nodes} {each.reason}" for each in reasons[:2]) or NOTHING
