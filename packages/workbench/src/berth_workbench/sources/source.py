"""What the page and `berth top` ask, with two sources that answer: a scheduler at work, or a cluster in a file."""

from typing import Protocol

import msgspec

from berth.agreement.report import AgreementReport
from berth.decisions.fit import Fit
from berth.decisions.node_columns import NodeColumns
from berth.decisions.pending import PendingReport
from berth.decisions.placements import NodeDetails, PodColumns
from berth.decisions.plugin_views import FigureReport, PluginReport, ShadowReport
from berth.decisions.pod_report import DecisionLine, PodReport
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.model import QueueSample


class SourceError(Exception):
    """There is no answer now; the message says why, for people."""


class PluginViews(msgspec.Struct, frozen=True):
    """What plugins report besides decisions."""

    plugins: tuple[PluginReport, ...] = ()
    figures: tuple[FigureReport, ...] = ()
    shadows: tuple[ShadowReport, ...] = ()
    agreement: AgreementReport | None = None
    """Where the scheduler is an observer: what it has come to."""


class Source(Protocol):
    """Answers about one cluster. Every method raises `SourceError` if there is no answer."""

    @property
    def title(self) -> str:
        """What is looked at, in a few words."""

    @property
    def taken(self) -> str:
        """When it was as it is shown, RFC 3339; empty where that is now, or not known."""

    @property
    def is_live(self) -> bool:
        """Whether answers change by themselves, so that asking again makes sense."""

    async def nodes(self) -> NodeColumns:
        """All nodes."""

    async def node(self, name: str) -> NodeDetails | None:
        """One node with its pods; None where there is none of that name."""

    async def pods(self, find: str = "") -> PodColumns:
        """The pods that are on nodes; with `find`, those whose name or workload contains it."""

    async def pending(self, namespace: str = "") -> PendingReport:
        """Pending pods by reason, the largest group first; those of one namespace, or all."""

    async def recent(self) -> list[DecisionLine]:
        """The decisions that are remembered, the latest last."""

    async def story(self, namespace: str, name: str, *, all_nodes: bool = False) -> PodReport | None:
        """Everything about a pod; None if nothing is known about it."""

    async def plugins(self) -> PluginViews:
        """What plugins tell of what they keep, how they are doing, and what shadows would have decided."""

    async def fit(self, manifest: bytes, namespace: str = "default", *, all_nodes: bool = False) -> Fit:
        """Whether a pod or workload fits now. Raises `FitManifestError` for a manifest that cannot be asked about."""

    async def sample(self) -> QueueSample:
        """Queue and attempts now."""

    async def snapshot(self) -> Snapshot:
        """The cluster as documents, for trials in memory."""

    async def configuration(self) -> ConfigurationSource:
        """The scheduler configuration for trials if none is typed."""
