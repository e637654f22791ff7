"""A cluster in a file, shown as it was when it was taken.

Pods that were pending then are not placed: their filters and scores are asked, as in a scheduling cycle, and nothing
comes of it. A pod on a node is asked about as if it came anew, so that its node can be compared with the others.
"""

import asyncio
import sys
import time
from typing import NamedTuple

import msgspec

from berth.api.pod import Pod
from berth.core.questions import Trial, choose, decision_of, profile_of
from berth.cycle.decision import Decision
from berth.decisions.by_plugins import rejection_details
from berth.decisions.explanation import NAMES_SHOWN, TOP_NODES, explain, waits_for
from berth.decisions.fit import Fit, fit
from berth.decisions.fit_question import read_question
from berth.decisions.named_in_vain import named_in_vain
from berth.decisions.node_columns import NodeColumns, copy_columns
from berth.decisions.pending import OnePending, PendingReport, group_in, reasons_of, report_of
from berth.decisions.placements import MAX_PODS, NodeDetails, PodColumns, copy_pods, node_and_pods
from berth.decisions.plugin_views import figure_reports
from berth.decisions.pod_report import DecisionLine, PodReport
from berth.decisions.shortfall import Shortfall, shortfalls
from berth.decisions.waits import PendingPod
from berth.framework.work_budget import WorkBudget
from berth_workbench.comparison.configurations import DEFAULT, ConfigurationSource
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT
from berth_workbench.simulation.gangs import declared_gang, gang_of
from berth_workbench.simulation.site import Site
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.model import QUEUES, RESULTS, QueueSample
from berth_workbench.sources.source import PluginViews

MAX_JUDGED = 2000
"""So many pending pods are asked about; of more, the page says only how many there are."""
FITS_NOW = "fits now, and had not been placed yet"


class ClusterFileSource:
    """Answers about a cluster in memory. Its core is asked by one at a time, on a thread."""

    __slots__ = (
        "_asking",
        "_configuration",
        "_judged",
        "_snapshot",
        "_unplaced",
        "_with_place",
        "cluster",
        "taken",
        "title",
    )

    is_live = False

    def __init__(self, title: str, snapshot: Snapshot, configuration: ConfigurationSource | None = None) -> None:
        """`configuration` is the default one if none is given. Takes seconds for a large cluster.

        Raises `ObjectError`, and `ConfigError` for the configuration.
        """
        self.title = title
        self.taken = snapshot.header.taken if snapshot.header is not None else ""
        self._snapshot = snapshot
        self._configuration = configuration or ConfigurationSource(DEFAULT)
        self.cluster = Site.of(snapshot, self._configuration.load()).cluster
        """The cluster in memory; whoever asks it changes nothing."""
        if self.cluster.leaves_out_extenders:
            self.title = f"{title}; {EXTENDERS_LEFT_OUT}"
        self._asking = asyncio.Lock()
        pods = self.cluster.pods.values()
        self._unplaced = [pod for pod in pods if not pod.spec.node_name and not _has_ended(pod)]
        self._judged: list[_Judged] | None = None
        self._with_place: dict[str, tuple[int, str]] = {}
        """How many pods of each pending group have a place together, by `namespace/name`, and why the next has none."""

    async def nodes(self) -> NodeColumns:
        """All nodes."""
        async with self._asking:
            copied = copy_columns(self.cluster.core.cache.table)
        return await asyncio.to_thread(copied.columns)

    async def node(self, name: str) -> NodeDetails | None:
        """One node with its pods."""
        async with self._asking:
            found = node_and_pods(self.cluster.core.cache.table, name)
        return None if found is None else found.details()

    async def pods(self, find: str = "") -> PodColumns:
        """The pods that are on nodes; with `find`, those whose name or workload contains it."""
        async with self._asking:
            copied = copy_pods(self.cluster.core.cache.table)
        return await asyncio.to_thread(copied.columns, find, sys.maxsize if find else MAX_PODS)

    async def pending(self, namespace: str = "") -> PendingReport:
        """Pending pods by workload."""
        judged = {each.pending.pod.key: each for each in await self._all_judged()}
        pending = (each.pending for each in judged.values() if namespace in ("", each.pending.pod.namespace))
        core, work = self.cluster.core, WorkBudget()
        report = report_of(
            pending, lambda one: judged[one.pod.key].shortfalls, lambda pod: named_in_vain(core, pod, work)
        )
        pods = sum(namespace in ("", pod.metadata.namespace) for pod in self._unplaced)
        return msgspec.structs.replace(report, pods=pods)

    async def recent(self) -> list[DecisionLine]:
        """What would come of each pending pod; the longest waiting last."""
        judged = await self._all_judged()
        return [each.line for each in sorted(judged, key=lambda each: each.line.time, reverse=True)]

    async def story(self, namespace: str, name: str, *, all_nodes: bool = False) -> PodReport | None:
        """What would come of a pod."""
        pod = self.cluster.pods.get(f"{namespace}/{name}")
        if pod is None:
            return None
        async with self._asking:
            return await asyncio.to_thread(self._report, pod, all_nodes)

    async def plugins(self) -> PluginViews:
        """The figures of the plugins that the cluster was read with."""
        async with self._asking:
            return PluginViews(figures=tuple(figure_reports(self.cluster.core)))

    async def fit(self, manifest: bytes, namespace: str = "default", *, all_nodes: bool = False) -> Fit:
        """Whether a pod or workload fits now."""
        question = await asyncio.to_thread(read_question, manifest, namespace)
        async with self._asking:
            return await asyncio.to_thread(fit, self.cluster.core, question, all_nodes=all_nodes)

    async def sample(self) -> QueueSample:
        """How many are pending, and whether they fit now; nothing is attempted."""
        pending = dict.fromkeys(QUEUES, 0)
        for judged in await self._all_judged():
            pending[judged.pending.queue] += 1
        return QueueSample(time.time(), pending, dict.fromkeys(RESULTS, 0.0))

    async def snapshot(self) -> Snapshot:
        """The file's documents."""
        return self._snapshot

    async def configuration(self) -> ConfigurationSource:
        """The configuration that the cluster was read with."""
        return self._configuration

    async def _all_judged(self) -> "list[_Judged]":
        async with self._asking:
            if self._judged is None:
                self._judged = await asyncio.to_thread(self._judge_all)
            return self._judged

    # -- asking the core ---------------------------------------------------------------------------------------------

    def _report(self, pod: Pod, all_nodes: bool) -> PodReport:
        decision = self._decide_anew(pod) if pod.spec.node_name else self._decide(pod)
        everything = decision.node_count if all_nodes else 0
        profile = profile_of(self.cluster.core, pod)
        told = explain(
            decision,
            top=max(TOP_NODES, everything),
            names_shown=max(NAMES_SHOWN, everything),
            table=self.cluster.core.cache.table,
            details=rejection_details(decision, profile),
            profile=profile,
            missing=named_in_vain(self.cluster.core, decision.pod),
        )
        if not pod.spec.node_name:
            return PodReport(pod.key, told, self._pending(pod, decision))
        where = f"{pod.key} is on {pod.spec.node_name}. If it came anew: {told.summary}"
        return PodReport(pod.key, msgspec.structs.replace(told, summary=where), None)

    def _decide_anew(self, pod: Pod) -> Decision:
        """Decide about a pod that is on a node as if it were not there; it is put back at once."""
        cluster = self.cluster
        cluster.delete("Pod", pod.key)
        try:
            return self._decide(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="")))
        finally:
            cluster.put(pod)

    def _decide(self, pod: Pod) -> Decision:
        """Ask filters and scores about a pod that is on no node."""
        return decision_of(self.cluster.core, choose(self.cluster.core, pod))

    def _judge_all(self) -> "list[_Judged]":
        work = WorkBudget()
        return [self._line(pod, work) for pod in self._unplaced[:MAX_JUDGED]]

    def _line(self, pod: Pod, work: WorkBudget) -> "_Judged":
        decision = self._decide(pod)
        fits = f"fits on {len(decision.feasible)} of {decision.node_count} nodes, and had not been placed yet"
        outcome = "fits" if decision.chosen is not None else decision.outcome
        message = decision.message
        if decision.chosen is not None and (message := self._held_back(pod)):
            outcome = "unschedulable"
        line = DecisionLine(pod.key, outcome, None, message or fits, 0, _since(pod))
        core = self.cluster.core
        lacks = shortfalls(decision, core.cache.table, profile_of(core, pod), work) if decision.chosen is None else ()
        reason = reasons_of(message) if message else FITS_NOW
        queue = "unschedulable" if message else "active"
        info = core.intake.info(pod)
        group = group_in(core, info)
        return _Judged(OnePending(info, queue, reason, message or FITS_NOW, line.time, group=group), line, tuple(lacks))

    def _held_back(self, pod: Pod) -> str:
        """Say why a pod that fits would not be placed: it is gated, or there is no room for enough of its group."""
        core = self.cluster.core
        if pod.spec.scheduling_gates:
            return "waits for its scheduling gates: " + ", ".join(each.name for each in pod.spec.scheduling_gates)
        declared = declared_gang(self.cluster, pod)
        if declared is None:
            return ""
        key, needed = declared.key, declared.needed
        if key not in self._with_place and (gang := gang_of(self.cluster, pod)) is not None:
            pending = [each for each in gang.members if not each.spec.node_name and not each.spec.scheduling_gates]
            with Trial(core) as trial:
                tried = [trial.place(each) for each in pending]
            placed = sum(node is not None for node, _ in tried) + gang.placed
            why = next((f"; for the next one, {message}" for node, message in tried if node is None), "")
            self._with_place[key] = placed, why
        found, why = self._with_place[key]
        return f"{found} of the {needed} pods that group {key} needs have a place{why}" if found < needed else ""

    def _pending(self, pod: Pod, decision: Decision) -> PendingPod:
        plugins = sorted({status.plugin for status, _ in decision.rejected if status.plugin and not decision.chosen})
        profile = profile_of(self.cluster.core, pod)
        return PendingPod(
            pod=pod.key,
            uid=pod.metadata.uid,
            profile=profile.name,
            queue="active" if decision.chosen is not None else "unschedulable",
            since=_since(pod),
            attempts=0,
            rejected_by=tuple(plugins),
            waits_for=waits_for(profile, plugins),
        )


class _Judged(NamedTuple):
    """What would come of a pending pod."""

    pending: OnePending
    line: DecisionLine
    shortfalls: tuple[Shortfall, ...]


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _since(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""
