"""One answer for all who look: a scheduler is asked no more often for many viewers than for one."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from berth.decisions.fit import Fit
from berth.decisions.node_columns import NodeColumns
from berth.decisions.pending import PendingReport
from berth.decisions.placements import NodeDetails, PodColumns
from berth.decisions.pod_report import DecisionLine, PodReport
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.page.model import QueueSample
from berth_workbench.page.source import PluginViews, Source
from berth_workbench.snapshot.snapshot import Snapshot

FRESH_S = 1.0
"""How long an answer is shown to others, too."""

_T = TypeVar("_T")


class SharedAnswer(Generic[_T]):
    """The latest answer to one question; those who ask while it is on its way wait for the same."""

    __slots__ = ("_ask", "_clock", "_fresh_until", "_task")

    def __init__(self, ask: Callable[[], Awaitable[_T]], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._fresh_until = 0.0
        self._task: asyncio.Task[_T] | None = None

    async def get(self) -> _T:
        """Return it, asked for anew where it is too old or could not be had; raises what asking raises."""
        task = self._task
        if task is None or (task.done() and self._clock() >= self._fresh_until):
            task = self._task = asyncio.create_task(self._asked(), name="shared-answer")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # somebody else may tell it
        return await asyncio.shield(task)

    async def _asked(self) -> _T:
        self._fresh_until = 0.0
        found = await self._ask()
        self._fresh_until = self._clock() + FRESH_S
        return found


class SharedSource:
    """A source whose answers about the whole cluster are shared; everything else is asked as it comes."""

    __slots__ = ("_nodes", "_pending", "_plugins", "_pods", "_recent", "_source")

    def __init__(self, source: Source, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._nodes = SharedAnswer(source.nodes, clock)
        self._pods = SharedAnswer(source.pods, clock)
        self._plugins = SharedAnswer(source.plugins, clock)
        self._pending = SharedAnswer(source.pending, clock)
        self._recent = SharedAnswer(source.recent, clock)

    @property
    def title(self) -> str:
        """What is looked at."""
        return self._source.title

    @property
    def is_live(self) -> bool:
        """Whether answers change by themselves."""
        return self._source.is_live

    async def nodes(self) -> NodeColumns:
        """All nodes."""
        return await self._nodes.get()

    async def node(self, name: str) -> NodeDetails | None:
        """One node with its pods."""
        return await self._source.node(name)

    async def pods(self) -> PodColumns:
        """The pods that are on nodes."""
        return await self._pods.get()

    async def pending(self, namespace: str = "") -> PendingReport:
        """Pending pods by reason; those of one namespace are asked for as it comes."""
        return await (self._source.pending(namespace) if namespace else self._pending.get())

    async def recent(self) -> list[DecisionLine]:
        """The decisions that are remembered."""
        return await self._recent.get()

    async def story(self, namespace: str, name: str, *, all_nodes: bool = False) -> PodReport | None:
        """Everything about a pod."""
        return await self._source.story(namespace, name, all_nodes=all_nodes)

    async def plugins(self) -> PluginViews:
        """What plugins tell."""
        return await self._plugins.get()

    async def fit(self, manifest: bytes, namespace: str = "default", *, all_nodes: bool = False) -> Fit:
        """Whether a pod or workload fits now."""
        return await self._source.fit(manifest, namespace, all_nodes=all_nodes)

    async def sample(self) -> QueueSample:
        """Queue and attempts now."""
        return await self._source.sample()

    async def snapshot(self) -> Snapshot:
        """The cluster as documents."""
        return await self._source.snapshot()

    async def configuration(self) -> ConfigurationSource:
        """The scheduler configuration in use."""
        return await self._source.configuration()

    async def close(self) -> None:
        """Close the source."""
        await self._source.close()
