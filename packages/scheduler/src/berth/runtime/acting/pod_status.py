"""The status of pods: the PodScheduled condition and nominatedNodeName.

Bindings come first: a waiting patch is dropped when the pod is being bound, and one under way is awaited, so that none
can land on the bound pod.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from berth.api.pod import Pod
from berth.api.resources import RESOURCES
from berth.framework.effects import PatchPodStatus, PodRef
from berth.kube.transport import Transport
from berth.runtime.acting.status_patcher import StatusPatcher

CONDITION = "PodScheduled"

Lookup = Callable[[PodRef], Pod | None]
"""A pod as the watch last showed it."""


class PodStatusPatcher(StatusPatcher[PatchPodStatus]):
    """Writes the status of pods."""

    resource, noun, workers = RESOURCES["Pod"], "pod", 4

    def __init__(self, transport: Transport, lookup: Lookup, **options: Any) -> None:
        super().__init__(transport, **options)
        self._lookup = lookup

    def target(self, patch: PatchPodStatus) -> PodRef:
        """The pod."""
        return patch.pod

    @staticmethod
    def merged(older: PatchPodStatus, newer: PatchPodStatus) -> PatchPodStatus:
        """Merge both patches; the newer one wins."""
        condition = newer if newer.condition_status is not None else older
        nominated = newer.nominated_node_name if newer.nominated_node_name is not None else older.nominated_node_name
        return PatchPodStatus(
            newer.pod,
            condition.condition_status,
            condition.reason,
            condition.message,
            nominated,
            condition.observed_generation,
        )

    def body(self, patch: PatchPodStatus) -> bytes:
        """What the server is sent."""
        return patch_body(patch, self._lookup(patch.pod), self.clock())


def patch_body(patch: PatchPodStatus, known: Pod | None, now: datetime) -> bytes:
    """A strategic merge patch; its uid makes the server refuse it for a later pod of the same name."""
    status: dict[str, Any] = {}
    if patch.condition_status is not None:
        condition: dict[str, Any] = {
            "type": CONDITION,
            "status": patch.condition_status,
            "reason": patch.reason,
            "message": patch.message,
        }
        if patch.observed_generation:
            condition["observedGeneration"] = patch.observed_generation
        if known is None or _condition_status(known) != patch.condition_status:
            condition["lastTransitionTime"] = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status["conditions"] = [condition]
    if patch.nominated_node_name is not None:
        status["nominatedNodeName"] = patch.nominated_node_name or None
    return msgspec.json.encode({"metadata": {"uid": patch.pod.uid}, "status": status})


def _condition_status(pod: Pod) -> str:
    return next((condition.status for condition in pod.status.conditions if condition.type == CONDITION), "")
