"""The PodGroupScheduled condition of pod groups. Of a group's conditions only the newest is written."""

from datetime import UTC, datetime

import msgspec

from berth.api.resources import RESOURCES
from berth.framework.effects import SetPodGroupCondition
from berth.runtime.acting.status_patcher import StatusPatcher

CONDITION = "PodGroupScheduled"


class GroupStatusPatcher(StatusPatcher[SetPodGroupCondition]):
    """Writes the status of pod groups."""

    resource, noun, workers = RESOURCES["PodGroup"], "pod group", 2

    def target(self, patch: SetPodGroupCondition) -> SetPodGroupCondition:
        """The group, which the effect names."""
        return patch

    def body(self, patch: SetPodGroupCondition) -> bytes:
        """What the server is sent."""
        return condition_patch(patch, self.clock())


def condition_patch(effect: SetPodGroupCondition, now: datetime) -> bytes:
    """A strategic merge patch; its uid makes the server refuse it for a later group of the same name."""
    condition = {
        "type": CONDITION,
        "status": effect.condition_status,
        "observedGeneration": effect.observed_generation,
        "reason": effect.reason,
        "message": effect.message,
    }
    if effect.has_changed:
        condition["lastTransitionTime"] = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return msgspec.json.encode({"metadata": {"uid": effect.uid}, "status": {"conditions": [condition]}})
