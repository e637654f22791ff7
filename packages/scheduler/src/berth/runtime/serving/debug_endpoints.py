"""What a running scheduler shows about itself: its decisions, pods' stories, and what is pending and why.

Values ready for JSON. The health server gives these out under `/debug`; `berth explain` reads them.
"""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from berth.api.redaction import redact
from berth.decisions.by_plugins import rejection_details
from berth.decisions.explanation import NAMES_SHOWN, TOP_NODES, explain
from berth.decisions.keeper import LogKeeper
from berth.decisions.named_in_vain import named_in_vain
from berth.decisions.pending import PendingReport, pending_report
from berth.decisions.pod_report import DecisionLine, PodReport
from berth.decisions.stories import Story, lines_of, rfc3339
from berth.decisions.waits import PendingPod, pending_pod, permit_wait, queued_pods

if TYPE_CHECKING:
    from berth.core.core import Core
    from berth.runtime.scheduler import LiveScheduler


class Debugging:
    """Views of one live scheduler."""

    __slots__ = ("_keeper", "_scheduler")

    def __init__(self, scheduler: "LiveScheduler", keeper: LogKeeper | None = None) -> None:
        """`keeper` has the decision log, if there is one."""
        self._scheduler = scheduler
        self._keeper = keeper

    @property
    def _core(self) -> "Core":
        return self._scheduler.core

    def cluster_id(self) -> str:
        """Return the identity of the cluster, however it is reached; empty until known."""
        found = self._scheduler.following.find("Namespace", "", "kube-system")
        return "" if found is None else str(found.metadata.uid)

    def decisions(self) -> Iterator[DecisionLine]:
        """The decisions that are remembered, the latest last."""
        for key, decision in self._core.trace.items():
            when = self.wall_time(decision.at)
            yield DecisionLine(
                key, decision.outcome, decision.chosen, decision.message, decision.attempts, when
            )  # fmt: skip

    async def full_report(
        self, key: str, timeout_s: float, *, all_nodes: bool = False, nodes: Iterable[str] = ()
    ) -> PodReport | None:
        """Everything about a pod, with what the decision log has; None if it is unknown. Raises `CycleBusy`."""
        lives: list[Story] = []
        if self._keeper is not None:
            lives = await self._keeper.lives(self._scheduler, key)
        async with self._scheduler.between_cycles(timeout_s):
            return self.report(key, all_nodes=all_nodes, nodes=nodes, lives=lives)

    def report(
        self, key: str, *, all_nodes: bool = False, nodes: Iterable[str] = (), lives: Iterable[Story] = ()
    ) -> PodReport | None:
        """Everything about a pod; None where it is unknown. `lives` are its stories, the latest last."""
        core = self._core
        known = core.intake.pod(key)
        pending, told = self._find_pending(key), list(lives)
        decision = core.trace.get(key)
        if decision is not None and known is not None and decision.pod.uid != known.uid:
            decision = None  # it was about another pod of this name
        uid = known.uid if known is not None else pending.uid if pending is not None else ""
        story = next((one for one in reversed(told) if uid in ("", one.uid)), None)
        permit = core.waiting.get(uid) if uid else None
        if decision is None and pending is None and story is None and permit is None:
            return None
        explanation = story.decision if story is not None else None
        if decision is not None:
            everything = decision.node_count if all_nodes else 0
            explanation = explain(
                decision,
                top=max(TOP_NODES, everything),
                names_shown=max(NAMES_SHOWN, everything),
                nodes=nodes,
                waits_for=pending.waits_for if pending is not None else {},
                time=self.wall_time(decision.at),
                table=core.cache.table,
                details=rejection_details(decision, core.profiles.get(decision.profile)),
                profile=core.profiles.get(decision.profile),
                missing=named_in_vain(core, decision.pod),
            )
        steps = () if story is None else story.steps
        since = self._keeper.not_helping(uid) if self._keeper is not None and pending is not None else None
        return PodReport(
            key,
            explanation,
            pending,
            None if permit is None else permit_wait(core, permit, self.wall_time),
            lines_of(steps if since is None else (*steps, since)),
            is_gone=known is None and pending is None,
        )

    def unknown(self, key: str) -> str:
        """Why there is no report about a pod."""
        known = self._core.intake.pod(key)
        if known is not None and known.node_name:
            return (
                f"pod {key} is on node {known.node_name}, and nobody remembers why: it was bound before this "
                "scheduler began, or by another one"
            )
        names = ", ".join(profile.scheduler_name for profile in self._scheduler.config.profiles)
        return (
            f"nothing is known of pod {key}: no recent decision was about it, and it is not pending here, "
            f"where pods of schedulerName {names} are scheduled"
        )

    def queue(self) -> Iterator[PendingPod]:
        """Every pod in a queue."""
        for name, queued in queued_pods(self._core):
            yield pending_pod(self._core, queued, name, self.wall_time)

    def pending_groups(self, namespace: str = "") -> PendingReport:
        """All pending pods by what keeps them, in one namespace or in all."""
        told = self._keeper.told if self._keeper is not None else _nothing
        return pending_report(self._core, self.wall_time, told, namespace)

    def wall_time(self, at: float) -> str:
        """A time of the core's clock as RFC 3339."""
        return rfc3339(time.time() - (self._scheduler.clock() - at))

    def _find_pending(self, key: str) -> PendingPod | None:
        core = self._core
        found = next(((name, queued) for name, queued in queued_pods(core) if queued.pod.key == key), None)
        return None if found is None else pending_pod(core, found[1], found[0], self.wall_time)


def _nothing(_uid: str) -> str:
    return ""


def as_json(value: Any) -> bytes:
    """Return indented JSON, since people read it with curl; what looks like a secret in messages is left out."""
    return redact(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()).encode() + b"\n"
