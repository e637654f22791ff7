"""The cache debugger: on SIGUSR2 it compares cache and queue with what the API server has said, and dumps both.

`berth run` calls `debug` when it gets the signal, between two cycles. Differences are warnings; the dump is always
shown, since it was asked for. Lines: pkg/scheduler/internal/cache/debugger of release-1.20 (today's are the same).
"""

import logging
from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING, NamedTuple

from berth.api.pod import Pod
from berth.api.pod_resources import CPU, MEMORY
from berth.core.intake import FINISHED_PHASES
from berth.runtime.observing.logs import level
from berth.runtime.turns import CycleBusy
from berth.state.pod_info import PodInfo

if TYPE_CHECKING:
    from berth.core.core import Core
    from berth.runtime.scheduler import LiveScheduler

EPHEMERAL_STORAGE = "ephemeral-storage"
CORE_TIMEOUT_S = 10.0
NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)

_log = logging.getLogger("berth.scheduler")


class Mismatch(NamedTuple):
    """What the API server has and the cache lacks, and the other way round; sorted."""

    missed: list[str]
    redundant: list[str]


async def debug_between_cycles(scheduler: "LiveScheduler") -> None:
    """Do `debug` as soon as no cycle is running; if none ends, say so."""
    try:
        async with scheduler.between_cycles(CORE_TIMEOUT_S):
            debug(scheduler)
    except CycleBusy as busy:
        _log.warning("cache and queue cannot be looked at: %s", busy)


def debug(scheduler: "LiveScheduler") -> None:
    """Log how cache and queue differ from the informers' objects, then what is in them."""
    _log.log(level(3), "cache comparer started")
    for line in differences(scheduler):
        _log.warning("%s", line)
    _log.log(level(3), "cache comparer finished")
    _log.info("Dump of cached NodeInfo")
    for text in dump_nodes(scheduler.core):
        _log.info("%s", text)
    _log.info("Dump of scheduling queue:\n%s", dump_queue(scheduler.core))


def differences(scheduler: "LiveScheduler") -> Iterator[str]:
    """Yield a line for nodes and one for pods, where they differ. Pods are named by uid."""
    core = scheduler.core
    nodes = compare({node.metadata.name for node in scheduler.following.objects("Node")}, cached_nodes(core))
    ours = (pod for pod in scheduler.following.objects("Pod") if _is_ours(core, pod))
    pods = compare({pod.metadata.uid for pod in ours}, cached_pods(core))
    for plural, found in (("nodes", nodes), ("pods", pods)):
        if any(found):
            yield (
                f"cache mismatch: missed {plural}: {_list(found.missed)}; redundant {plural}: {_list(found.redundant)}"
            )


def compare(actual: Set[str], cached: Set[str]) -> Mismatch:
    """Return what is in one and not in the other."""
    return Mismatch(sorted(actual - cached), sorted(cached - actual))


def cached_nodes(core: "Core") -> set[str]:
    """The names of the nodes in the cache."""
    table = core.cache.table
    return {table.names[row] for row in table.rows().tolist()}


def cached_pods(core: "Core") -> set[str]:
    """The uids of the pods in cache and queue, and of those being scheduled."""
    queued = {queued.pod.uid for queued in core.queue}
    return queued | set(core.cache.states()) | set(core.queue.in_flight)


def dump_nodes(core: "Core") -> Iterator[str]:
    """Yield what is known of each node: room, pods, nominated pods."""
    table = core.cache.table
    for name in sorted(table.row_of):
        row = table.row_of[name]
        amounts = {
            kind: {resource: int(column[index, row]) for resource, index in table.resource_index.items()}
            for kind, column in (("requested", table.requested), ("allocatable", table.allocatable))
        }
        pods = table.pods[row].values()
        lines = [
            f"\nNode name: {name}",
            f"Deleted: {str(not table.valid[row]).lower()}",
            f"Requested Resources: {_resource(amounts['requested'], 0)}",
            f"Allocatable Resources:{_resource(amounts['allocatable'], int(table.allowed_pods[row]))}",
            f"Scheduled Pods(number: {len(pods)}):",
            *map(_pod, pods),
        ]
        nominated = core.nominator.pods_on(name)
        if nominated:
            lines += [f"Nominated Pods(number: {len(nominated)}):", *map(_pod, nominated)]
        yield "\n".join(lines)


def dump_queue(core: "Core") -> str:
    """Return a line for each pending pod."""
    return "\n".join(_pod(queued.pod) for queued in core.queue)


def _is_ours(core: "Core", pod: Pod) -> bool:
    """Say whether a pod belongs in cache or queue; finished pods and other schedulers' pending ones do not."""
    if pod.status.phase in FINISHED_PHASES:
        return False
    is_pending_here = pod.spec.scheduler_name in core.profiles and pod.metadata.deletion_timestamp is None
    return bool(pod.spec.node_name) or is_pending_here


def _pod(pod: PodInfo) -> str:
    return (
        f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.uid}, phase: {pod.status.phase}, "
        f"nominated node: {pod.status.nominated_node_name}"
    )


def _resource(amounts: dict[str, int], allowed_pods: int) -> str:
    """Amounts as Go prints a Resource."""
    scalars = " ".join(f"{name}:{amount}" for name, amount in sorted(amounts.items()) if name not in NATIVE)
    return (
        f"&{{MilliCPU:{amounts.get(CPU, 0)} Memory:{amounts.get(MEMORY, 0)} "
        f"EphemeralStorage:{amounts.get(EPHEMERAL_STORAGE, 0)} AllowedPodNumber:{allowed_pods} "
        f"ScalarResources:map[{scalars}]}}"
    )


def _list(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"
