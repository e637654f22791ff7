"""A scheduler at work, asked through its endpoints: `/debug/nodes`, `/debug/pending`, `/debug/decisions`, `/metrics`.

How it is reached, and with which credentials, is the command's business: it gives a function that asks for a path.
"""

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from berth.agreement.report import AgreementReport
from berth.api.untrusted import UNREADABLE, problem_of, read_deep
from berth.decisions.fit import Fit
from berth.decisions.fit_question import FitManifestError
from berth.decisions.node_columns import NodeColumns
from berth.decisions.pending import PendingReport
from berth.decisions.placements import NodeDetails, PodColumns
from berth.decisions.pod_report import DecisionLine, PodReport
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.model import QueueSample, queue_sample
from berth_workbench.sources.source import PluginViews, SourceError

AGREEMENT = "/debug/agreement"
"""What an observer has come to; a scheduler that schedules has no such thing, or does not let everybody read it."""
MAX_SAID = 200

_T = TypeVar("_T")


class ReadAnswer(Protocol):
    """What the scheduler answered."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def body(self) -> bytes:
        """The body."""


Ask = Callable[[str], Awaitable[ReadAnswer]]
"""Asks for a path, with its query; raises what `refused` names."""


Send = Callable[[str, bytes], Awaitable[ReadAnswer]]
"""Posts a body to a path; raises what `refused` names."""


class _Refused(msgspec.Struct, frozen=True):
    error: str = ""
    field: str = ""


class _Decisions(msgspec.Struct, frozen=True):
    decisions: list[DecisionLine]


class LiveSource:
    """Asks one scheduler."""

    __slots__ = ("_ask", "_clock", "_configuration", "_refused", "_send", "_take", "title")

    is_live = True
    taken = ""

    def __init__(
        self,
        title: str,
        ask: Ask,
        refused: tuple[type[Exception], ...] = (),
        clock: Callable[[], float] = time.time,
        take: Callable[[ConfigurationSource | None], Awaitable[Snapshot]] | None = None,
        configuration: ConfigurationSource | None = None,
        send: Send | None = None,
    ) -> None:
        """`refused` are the errors of `ask` that tell people why there is no answer.

        `take` takes a snapshot of the cluster, with what the plugins of a configuration follow; without it nothing can
        be tried on the cluster.
        `send` posts manifests; without it the scheduler is not asked whether one fits.
        Trials have the scheduler's own configuration unless another is given.
        """
        self.title = title
        self._ask = ask
        self._refused = refused
        self._clock = clock
        self._take = take
        self._configuration = configuration
        self._send = send

    async def nodes(self) -> NodeColumns:
        """All nodes."""
        return await self._read("/debug/nodes", NodeColumns)

    async def node(self, name: str) -> NodeDetails | None:
        """One node with its pods."""
        path = f"/debug/nodes/{quote(name, safe='')}"
        answer = await self._answer(path)
        return None if answer.status == HTTPStatus.NOT_FOUND else _decoded(path, answer, NodeDetails)

    async def pods(self, find: str = "") -> PodColumns:
        """The pods that are on nodes; with `find`, those whose name or workload contains it."""
        return await self._read(f"/debug/pods?{urlencode({'find': find})}" if find else "/debug/pods", PodColumns)

    async def pending(self, namespace: str = "") -> PendingReport:
        """Pending pods by reason."""
        query = f"?namespace={quote(namespace, safe='')}" if namespace else ""
        return await self._read(f"/debug/pending{query}", PendingReport)

    async def recent(self) -> list[DecisionLine]:
        """The decisions that are remembered."""
        return (await self._read("/debug/decisions", _Decisions)).decisions

    async def story(self, namespace: str, name: str, *, all_nodes: bool = False) -> PodReport | None:
        """Everything about a pod."""
        path = f"/debug/decisions/{quote(namespace, safe='')}/{quote(name, safe='')}"
        answer = await self._answer(path + ("?allNodes=true" if all_nodes else ""))
        return None if answer.status == HTTPStatus.NOT_FOUND else _decoded(path, answer, PodReport)

    async def plugins(self) -> PluginViews:
        """What the scheduler reports about its plugins and shadows."""
        told = await self._read("/debug/plugins", PluginViews)
        shadows = (await self._read("/debug/shadows", PluginViews)).shadows
        answer = await self._answer(AGREEMENT)
        is_observer = answer.status != HTTPStatus.NOT_FOUND
        agreement = _decoded(AGREEMENT, answer, AgreementReport) if is_observer else None
        return msgspec.structs.replace(told, shadows=shadows, agreement=agreement)

    async def fit(self, manifest: bytes, namespace: str = "default", *, all_nodes: bool = False) -> Fit:
        """Whether a pod or workload fits now."""
        if self._send is None:
            raise SourceError("the page cannot send manifests to this scheduler; its own /fit answers them")
        query = urlencode({"namespace": namespace, "allNodes": "true" if all_nodes else "no"})
        try:
            answer = await self._send(f"/fit?{query}", manifest)
        except self._refused as error:
            raise SourceError(str(error)) from None
        if answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
            try:
                told = msgspec.json.decode(answer.body, type=_Refused)
            except UNREADABLE:
                raise _refusal("/fit", answer) from None
            raise FitManifestError(told.error.removeprefix(f"{told.field}: "), told.field)
        return _decoded("/fit", answer, Fit)

    async def sample(self) -> QueueSample:
        """Queue and attempts now."""
        answer = await self._answer("/metrics")
        if answer.status != HTTPStatus.OK:
            raise _refusal("/metrics", answer)
        try:
            return queue_sample(answer.body.decode(), self._clock())
        except ValueError as error:
            raise SourceError(f"the scheduler's metrics cannot be read: {error}") from None

    async def snapshot(self) -> Snapshot:
        """The cluster, read through its API server."""
        if self._take is None:
            raise SourceError("the page does not know the cluster's API server; --kubeconfig names it")
        try:
            configuration = await self.configuration()
        except SourceError:  # a scheduler that does not tell; trials will say so
            configuration = None
        try:
            return await self._take(configuration)
        except self._refused as error:
            raise SourceError(str(error)) from None

    async def configuration(self) -> ConfigurationSource:
        """The scheduler's own configuration, with the plugins that are installed here."""
        if self._configuration is not None:
            return self._configuration
        try:
            return ConfigurationSource.of_configz(await self._read("/configz", dict[str, Any]))
        except ValueError as error:
            raise SourceError(str(error)) from None

    async def _read(self, path: str, of: type[_T]) -> _T:
        return _decoded(path, await self._answer(path), of)

    async def _answer(self, path: str) -> ReadAnswer:
        try:
            return await self._ask(path)
        except self._refused as error:
            raise SourceError(str(error)) from None


def _decoded(path: str, answer: ReadAnswer, of: type[_T]) -> _T:
    if answer.status != HTTPStatus.OK:
        raise _refusal(path, answer)
    try:
        found: _T = read_deep(msgspec.json.decode, answer.body, type=of)
        return found
    except UNREADABLE as error:
        raise SourceError(f"what the scheduler answers at {path} cannot be read: {problem_of(error)}") from None


def _refusal(path: str, answer: ReadAnswer) -> SourceError:
    said = ""
    try:
        told: Any = msgspec.json.decode(answer.body)
        said = str(told.get("message") or told.get("error") or "") if isinstance(told, dict) else ""
    except (ValueError, RecursionError):
        said = answer.body.decode(errors="replace").strip()
    if answer.status == HTTPStatus.NOT_FOUND:
        said = said or "this scheduler is older than the page"
    if answer.status == HTTPStatus.FORBIDDEN:
        said = f"{said[:MAX_SAID]}; who serves this page needs the role that docs/operations.md shows (The page)"
        return SourceError(f"the scheduler does not let {path} be read: {said}")
    return SourceError(f"the scheduler answered {answer.status} when asked for {path}: {said[:MAX_SAID]}")
