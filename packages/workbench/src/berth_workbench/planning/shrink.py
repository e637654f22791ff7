"""Which workloads request more than they use, what shrinking them frees, and which pending pods would then fit.

A cluster and what its pods use go in (`berth_workbench.planning.usage`). A container's request becomes the most that
one of the workload's pods uses of it, and a margin; it never grows. Running pods are assumed to stay where they are,
and pending ones are placed one after another, without preempting. Used by `berth shrink`.
"""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction

import msgspec

from berth.api.pod import Container, Pod
from berth.api.pod_resources import CPU, MEMORY, pod_requests
from berth.api.qos import QosClass, qos_class
from berth.api.quantity import milli_value, value
from berth.state.pod_info import PodShape
from berth_workbench.planning.usage import WHOLE, Usage, Used
from berth_workbench.simulation.budgets import workload_of
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT, SimulatedCluster
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch
from berth_workbench.snapshot.snapshot import uncollected

PATCHABLE = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")
"""Kinds whose template may be patched; a Job's may not."""
MARGIN_PERCENT = 20.0
MEBI = 1 << 20

Amounts = dict[str, int]
"""CPU in milli-units, memory in bytes."""


class ShrunkContainer(msgspec.Struct, frozen=True, rename="camel"):
    """A container of a workload; CPU in milli-units, memory in bytes."""

    name: str
    requested: Amounts
    used: Amounts
    """The most that one of the pods uses."""
    proposed: Amounts
    """The requests that become less."""


class ShrunkWorkload(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that requests more than it uses."""

    kind: str
    name: str
    """`namespace/name`."""
    pods: int
    """How many of them run."""
    measured: int
    """Of how many the usage is known; those of a workload that was measured as a whole all count."""
    containers: tuple[ShrunkContainer, ...]
    freed: Amounts
    """By all its pods that run."""
    loses_guaranteed: bool
    """Whether its pods would be Burstable and are Guaranteed."""
    command: str
    """What changes it."""


class Shrinking(msgspec.Struct, frozen=True, rename="camel"):
    """The result of shrinking all of them."""

    workloads: tuple[ShrunkWorkload, ...]
    """Those that free the largest share of the cluster first."""
    freed: Amounts
    pending: int
    fit_now: int | None
    """How many of the pending pods fit as things are; null where it was stopped before that was known."""
    fit_then: int | None
    """How many of them fit once all workloads are shrunk; the same."""
    not_measured: tuple[str, ...]
    """`Kind namespace/name` of the workloads of which nothing is known."""
    notes: tuple[str, ...] = ()
    is_complete: bool = True
    """False where it was stopped before it was known who fits."""


WorkloadKey = tuple[str, str]
NOBODY: WorkloadKey = ("", "")


Members = dict[PodShape, list[Pod]]
"""The pods of a workload, those together that request the same of the same containers."""


def shrinking(
    site: Site, usage: Usage, margin_percent: float = MARGIN_PERCENT, watch: WorkWatch = UNWATCHED
) -> Shrinking:
    """Say what shrinking frees. The cluster stays as it is; the lesser requests are tried in one of their own."""
    cluster = site.cluster
    factor = 1 + Fraction(str(margin_percent)) / 100
    members: dict[WorkloadKey, Members] = {}
    pending: list[tuple[Pod, WorkloadKey | None]] = []
    passed_over = 0
    for pod in cluster.pods.values():
        if pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp:
            continue
        owner = workload_of(pod, cluster.objects)
        if not pod.spec.node_name:
            pending.append((pod, owner))
        elif owner is None or owner[0] not in PATCHABLE or pod.spec.resources is not None:
            passed_over += 1
        else:
            info = cluster.core.intake.pod(pod.key)
            assert info is not None, "a pod that runs is known to the core"
            members.setdefault(owner, {}).setdefault(info.shape, []).append(pod)
    found: list[ShrunkWorkload] = []
    not_measured: list[str] = []
    proposals: dict[WorkloadKey, dict[str, Amounts]] = {}
    for owner, pods in sorted(members.items()):
        shrunk = _shrunk(owner, list(pods.values()), usage, factor)
        if shrunk is None:
            not_measured.append(f"{owner[0]} {owner[1]}")
        elif shrunk.containers:
            found.append(shrunk)
            proposals[owner] = {each.name: each.proposed for each in shrunk.containers}
    waiting = [pair for pair in pending if not pair[0].spec.scheduling_gates]
    keys = [pod.key for pod, _ in waiting]
    now = then = None
    with suppress(StoppedError):
        now = _placed(site, keys)
        lesser = {
            pod.key: each for pod, owner in waiting for each in _lesser([pod], proposals.get(owner or NOBODY, {}))
        }
        for owner, proposed in proposals.items():
            for group in members[owner].values():
                lesser |= {each.key: each for each in _lesser(group, proposed)}
        then = _placed(_shrunk_site(cluster, lesser, watch), keys)
    notes = [EXTENDERS_LEFT_OUT] if cluster.leaves_out_extenders else []
    if passed_over:
        notes.append(
            f"{passed_over} running pods were passed over: bare ones, of Jobs and the like, or with spec.resources"
        )
    if gated := len(pending) - len(waiting):
        notes.append(f"{gated} pending pods are held back by scheduling gates, and were not tried")
    shares = _shares(cluster)
    found.sort(key=lambda each: (-sum(each.freed[name] * shares[name] for name in each.freed), each.kind, each.name))
    freed = {name: sum(each.freed[name] for each in found) for name in (CPU, MEMORY)}
    return Shrinking(
        tuple(found), freed, len(pending), now, then, tuple(not_measured), tuple(notes), is_complete=then is not None
    )


def _turn(pod: Pod) -> tuple[int, str, str]:
    """Return the key of the order: by priority, then by age."""
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.key


# -- one workload ------------------------------------------------------------------------------------------------------


def _shrunk(
    owner: WorkloadKey, groups: Sequence[Sequence[Pod]], usage: Usage, factor: Fraction
) -> ShrunkWorkload | None:
    """Return a shrunk workload, without containers if nothing shrinks; None if nothing was measured.

    The pods of a group are alike in all but what they use.
    """
    of_all = usage.get(owner[1])
    used: dict[str, Used] = {}
    requested: dict[str, Amounts] = {}
    measured = 0
    for alike in groups:
        measurements = [found for pod in alike if (found := usage.get(pod.key) or of_all) is not None]
        measured += len(measurements)
        distinct = {id(each): each for each in measurements}.values()  # one that is said of all is worked out once
        for container in alike[0].spec.containers:
            known = requested.setdefault(container.name, {})
            for name, amount in _requests(container).items():
                known[name] = min(known.get(name, amount), amount)  # during a rollout there are two templates
            for own in distinct:
                share = _used_by(container, alike[0], own)
                used[container.name] = used.get(container.name, Used()).with_other(share)
    if not measured:
        return None
    containers = tuple(
        each for name, requests in requested.items() if (each := _container(name, requests, used.get(name), factor))
    )
    proposed = {each.name: each.proposed for each in containers}
    lesser = [_lesser(alike[:1], proposed)[0] for alike in groups]
    freed = dict.fromkeys((CPU, MEMORY), 0)
    for alike, after in zip(groups, lesser, strict=True):
        had, has = pod_requests(alike[0]), pod_requests(after)
        for name in freed:
            freed[name] += len(alike) * max(had.get(name, 0) - has.get(name, 0), 0)
    loses = qos_class(groups[0][0]) is QosClass.GUARANTEED and qos_class(lesser[0]) is not QosClass.GUARANTEED
    return ShrunkWorkload(
        owner[0], owner[1], sum(map(len, groups)), measured, containers, freed, loses, _command(owner, containers)
    )  # fmt: skip


def _requests(container: Container) -> Amounts:
    given = container.resources.requests
    found = {CPU: milli_value(given[CPU])} if CPU in given else {}
    return found | ({MEMORY: value(given[MEMORY])} if MEMORY in given else {})


def _used_by(container: Container, pod: Pod, usage: Mapping[str, Used]) -> Used:
    """What a container uses; of a pod that was measured as a whole, the part that its requests are of the pod's."""
    if container.name in usage or WHOLE not in usage:
        return usage.get(container.name, Used())
    whole, own = usage[WHOLE], _requests(container)
    parts = [_requests(each) for each in pod.spec.containers]
    shares = []
    for name, amount in ((CPU, whole.cpu_milli), (MEMORY, whole.memory_bytes)):
        of_all = sum(each.get(name, 0) for each in parts)
        shares.append(None if amount is None or not of_all else -(-amount * own.get(name, 0) // of_all))
    return Used(*shares)


def _container(name: str, requested: Amounts, used: Used | None, factor: Fraction) -> ShrunkContainer | None:
    """Return a container with what it is to request; None where that is no less than now."""
    measured = {CPU: used.cpu_milli, MEMORY: used.memory_bytes} if used is not None else {}
    known = {resource: amount for resource, amount in measured.items() if amount is not None}
    proposed = {}
    for resource, amount in known.items():
        # A request of zero would mean that the container needs nothing at all.
        unit = 1 if resource == CPU else MEBI
        wanted = max(-(-amount * factor // unit), 1) * unit
        if wanted < requested.get(resource, 0):
            proposed[resource] = int(wanted)
    return ShrunkContainer(name, requested, known, proposed) if proposed else None


def _lesser(alike: Sequence[Pod], proposed: Mapping[str, Amounts]) -> Sequence[Pod]:
    """Return pods with the same containers as the patched template would make them, which share the lesser ones.

    Nothing of a resize under way is left.
    """
    if not proposed:
        return alike
    containers = tuple(
        _with_requests(each, proposed[each.name]) if each.name in proposed else each
        for each in alike[0].spec.containers
    )
    replace = msgspec.structs.replace
    return [
        replace(
            pod,
            spec=replace(pod.spec, containers=containers),
            status=replace(
                pod.status, container_statuses=(), init_container_statuses=(), resources=None, allocated_resources={}
            ),
        )
        for pod in alike
    ]


def _with_requests(container: Container, proposed: Amounts) -> Container:
    now = _requests(container)
    lesser = {name: _quantity(name, amount) for name, amount in proposed.items() if amount < now.get(name, 0)}
    requests = {**container.resources.requests, **lesser}
    return msgspec.structs.replace(
        container, resources=msgspec.structs.replace(container.resources, requests=requests)
    )  # fmt: skip


def _quantity(resource: str, amount: int) -> str:
    return f"{amount}m" if resource == CPU else f"{amount // MEBI}Mi"


def _command(owner: WorkloadKey, containers: Iterable[ShrunkContainer]) -> str:
    changed = [
        {"name": each.name, "resources": {"requests": {name: _quantity(name, n) for name, n in each.proposed.items()}}}
        for each in containers
    ]
    patch = json.dumps({"spec": {"template": {"spec": {"containers": changed}}}}, separators=(",", ":"))
    namespace, _, name = owner[1].partition("/")
    return shlex.join(["kubectl", "-n", namespace, "patch", owner[0].lower(), name, "-p", patch])


# -- the cluster -------------------------------------------------------------------------------------------------------


def _shrunk_site(cluster: SimulatedCluster, lesser: Mapping[str, Pod], watch: WorkWatch) -> Site:
    """Return a cluster like this one, with lesser pods in their places. Raises `StoppedError`."""
    objects = [lesser.get(obj.key, obj) if isinstance(obj, Pod) else obj for obj in cluster.objects.values()]
    watch.begin("shrinking the cluster", len(objects))
    with uncollected():
        return Site(cluster.again(watch.over(objects)), watch=watch)


def _placed(site: Site, keys: Iterable[str]) -> int:
    """Count the pods that the scheduler finds a place for, and remove them again."""
    with Rehearsal(site):
        site.settle()
        pods = site.cluster.pods
        return sum(key in pods and bool(pods[key].spec.node_name) for key in keys)


def _shares(cluster: SimulatedCluster) -> dict[str, float]:
    """By resource, the part of the cluster that one unit is."""
    whole = {CPU: 0, MEMORY: 0}
    for node in cluster.nodes.values():
        whole[CPU] += milli_value(node.status.allocatable.get(CPU, "0"))
        whole[MEMORY] += value(node.status.allocatable.get(MEMORY, "0"))
    return {name: 1 / amount if amount else 0.0 for name, amount in whole.items()}
