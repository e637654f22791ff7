"""Which pods may be moved, and for which reason the others stay.

The conventions are those of the cluster autoscaler (`safe-to-evict`) and of the descheduler (`evict`,
`prefer-no-eviction`), beside what the eviction API itself refuses.
"""

from collections.abc import Container, Iterable, Mapping

import msgspec

from berth.api.pod import Pod
from berth_workbench.planning.rebalance.request import AlsoMove
from berth_workbench.simulation.budgets import is_daemon, is_mirror
from berth_workbench.snapshot.documents import Document

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
SYSTEM_CRITICAL = 2_000_000_000


class LocalVolumes(msgspec.Struct, frozen=True):
    """The volumes of a pod whose data is on its node, by name."""

    empty_dirs: tuple[str, ...] = ()
    host_paths: tuple[str, ...] = ()


def local_volumes(documents: Iterable[Document]) -> dict[str, LocalVolumes]:
    """Return the local volumes of the pods that have any, by `namespace/name`; the scheduler's own structs drop them.

    The documents have been decoded as pods before, so they can be read.
    """
    found = {}
    for document in documents:
        if document.kind != "Pod" or not document.may_mention(b'"emptyDir"', b'"hostPath"'):
            continue
        metadata, volumes = document.manifest.get("metadata") or {}, document.manifest["spec"].get("volumes") or ()
        empty, host = (
            tuple(each["name"] for each in volumes if each.get(kind) is not None) for kind in ("emptyDir", "hostPath")
        )
        if empty or host:
            found[f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"] = LocalVolumes(empty, host)
    return found


def workload_of(pod: Pod) -> str:
    """Return the controller of a pod as `Kind/name`; empty where there is none."""
    return next((f"{owner.kind}/{owner.name}" for owner in pod.metadata.owner_references if owner.controller), "")


def reason_to_stay(
    pod: Pod,
    *,
    also_move: Container[AlsoMove],
    local: LocalVolumes | None,
    on_local_volume: bool,
    scheduler_names: Iterable[str],
) -> str:
    """Return why a running pod stays where it is; empty where it may be moved."""
    notes = pod.metadata.annotations
    if is_mirror(pod):
        return "static pod"
    if is_daemon(pod):
        return "pod of a DaemonSet"
    if pod.metadata.deletion_timestamp is not None:
        return "being deleted"
    if notes.get(SAFE_TO_EVICT) == "false":
        return f"annotation {SAFE_TO_EVICT}: false"
    if PREFER_NO_EVICTION in notes:
        return f"annotation {PREFER_NO_EVICTION}"
    if pod.spec.scheduler_name not in scheduler_names:
        return "placed by another scheduler"
    if on_local_volume:
        return "its volume is on the node"
    if any(volume.ephemeral is not None for volume in pod.spec.volumes):
        return "ephemeral volume"
    if pod.spec.resource_claims or pod.status.extended_resource_claim_status is not None:
        return "holds devices"
    if pod.spec.scheduling_group is not None:
        return "member of a pod group"
    if EVICT in notes:
        return ""
    return _unless_asked(pod, also_move, local)


def _unless_asked(pod: Pod, also_move: Container[AlsoMove], local: LocalVolumes | None) -> str:
    safe = pod.metadata.annotations.get(SAFE_TO_EVICT) == "true"
    workload = workload_of(pod)
    if not workload and not safe and "bare" not in also_move:
        return "no controller would replace it"
    if workload.startswith("Job/") and not safe and "jobs" not in also_move:
        return "a Job's work would begin anew"
    if (pod.spec.priority or 0) >= SYSTEM_CRITICAL and "critical" not in also_move:
        return "system-critical priority"
    if local is None or safe:
        return ""
    kept = set(_listed(pod.metadata.annotations, SAFE_VOLUMES))
    if not kept.issuperset(local.host_paths):
        return "hostPath volume"
    return "" if "empty-dir" in also_move or kept.issuperset(local.empty_dirs) else "emptyDir volume"


def _listed(notes: Mapping[str, str], key: str) -> list[str]:
    return [part.strip() for part in notes.get(key, "").split(",")]
