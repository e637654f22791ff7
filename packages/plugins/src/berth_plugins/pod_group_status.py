"""What a controller writes into the status of PodGroups of scheduling.x-k8s.io: the phase, and how many pods are how.

Pure; `controllers.py` plays the controller. Source: pkg/controllers, podgroup_controller.go. A group that has
finished or failed stays so, whatever becomes of its pods.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from berth.controller import Pod

PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"


class PodGroupStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The status of a PodGroup."""

    phase: str = ""
    occupied_by: str = ""
    """The owners of the first pod that was seen, as `namespace/name`, joined by commas."""
    running: int = 0
    succeeded: int = 0
    failed: int = 0


def next_status(status: PodGroupStatus, min_member: int, pods: Sequence[Pod]) -> PodGroupStatus:
    """Return the status that follows, given all pods that name the group; the same where there is nothing to do.

    Each call goes one phase further at most, as one round of the controller does.
    """
    if status.phase in (FINISHED, FAILED):
        return status
    if not status.phase:
        return msgspec.structs.replace(status, phase=PENDING)
    if status.phase == PENDING:
        if len(pods) < min_member:
            return status
        owners = _owners(pods[0]) if pods else ""
        return msgspec.structs.replace(status, phase=SCHEDULING, occupied_by=owners or status.occupied_by)
    counts = Counter(pod.status.phase for pod in pods)
    running, succeeded, failed = counts["Running"], counts["Succeeded"], counts["Failed"]
    phase = _phase(min_member, len(pods), running, succeeded, failed)
    return msgspec.structs.replace(status, phase=phase, running=running, succeeded=succeeded, failed=failed)


def _phase(min_member: int, pods: int, running: int, succeeded: int, failed: int) -> str:
    if pods < min_member:
        return PENDING
    if succeeded >= min_member:
        return FINISHED
    if failed and failed + running + succeeded >= min_member:
        return FAILED
    return RUNNING if succeeded + running >= min_member else SCHEDULING


def _owners(pod: Pod) -> str:
    return ",".join(sorted(f"{pod.metadata.namespace}/{owner.name}" for owner in pod.metadata.owner_references))
