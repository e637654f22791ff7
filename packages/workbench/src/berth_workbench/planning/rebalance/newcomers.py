"""Newcomers: the pods that need a place, and the others that the scheduler would try before them.

A plan makes room for the pods that it was asked about, but the scheduler gives room to whatever waits for it: pods that
are pending come before pods that have yet to be created, and among them the more important ones come first. All of them
are newcomers to the board, in that order, and no newcomer gets room that an earlier one would take (`Board.fits`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from berth.api.node import Node
from berth.api.pod import Pod
from berth.engine.verdicts import Mask
from berth_workbench.planning.rebalance.board import Mover, mover_of
from berth_workbench.planning.rebalance.movability import workload_of as controller_of
from berth_workbench.planning.rebalance.request import PLACING, RebalanceRequest
from berth_workbench.simulation.admission import AdmissionGate
from berth_workbench.simulation.budgets import is_active, workload_of
from berth_workbench.simulation.claims import ClaimTemplate
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.measures import is_pending
from berth_workbench.simulation.workloads import REPLICATED, Expansion, WorkloadManifest, expand

MOST = 20
"""The most newcomers that one plan considers."""


class NewcomerError(ValueError):
    """No room can be made for these pods; the message says why."""


class Newcomers(NamedTuple):
    """The pods without a node that a plan has to consider."""

    movers: tuple[Mover, ...] = ()
    """In the order in which the scheduler tries them."""
    wanted: tuple[str, ...] = ()
    """The pods that the request is about, by `namespace/name`; some of them may run already."""
    passed_over: int = 0
    """How many more there are than the plan considers."""

    def like(self, newcomer: Mover) -> tuple[Mover, ...]:
        """Return a newcomer and all that are like it."""
        return tuple(each for each in self.movers if each.is_like(newcomer))

    def that_count(self, room_of: Callable[[Mover], Mask]) -> "Newcomers":
        """Return the wanted newcomers that have any hope of a place, with those that could take it before them.

        `room_of` gives the nodes where a newcomer would fit with all movers out of the way. Returns at most `MOST`.
        """
        rooms: dict[int, Mask] = {}
        for mover in self.movers:
            if id(mover.fresh.shape) not in rooms:
                rooms[id(mover.fresh.shape)] = room_of(mover)
        shared = [rooms[id(mover.fresh.shape)] for mover in self.movers if mover.is_wanted]
        room = np.logical_or.reduce(shared) if shared else np.zeros(0, dtype=np.bool_)
        found = [mover for mover in self.movers if (rooms[id(mover.fresh.shape)] & room).any()]
        return Newcomers(tuple(found[:MOST]), self.wanted, max(len(found) - MOST, 0))


def expanded(cluster: SimulatedCluster, request: RebalanceRequest, templates: Mapping[str, ClaimTemplate]) -> Expansion:
    """Return the pods that the manifests of a request would add to those that the cluster has. Raises `ManifestError`.

    Pods of these workloads that the cluster has but that have no node yet are included.
    """
    pods = list(cluster.of(Pod))
    made_by = [workload_of(pod, cluster.objects) if is_active(pod) else None for pod in pods]
    has = Counter(made_by)
    named = [(each.kind, f"{each.namespace or request.namespace}/{each.name}") for each in request.manifests]
    wanted = (WorkloadManifest(each, request.namespace) for each in request.manifests if each.kind in REPLICATED)
    made = expand(
        request.manifests,
        nodes=list(cluster.of(Node)),
        templates=templates,
        taken={pod.key for pod in pods},
        replicas={
            (each.kind, each.key): max((each.replicas or 0) - has[each.kind, each.key], 0)
            for each in wanted
            if each.kind != "StatefulSet"  # whose pods are told apart by their names
        },
        groups=[key for kind, key in cluster.objects if kind == "PodGroup"],
        namespace=request.namespace,
    )
    waiting = [pod for pod, owner in zip(pods, made_by, strict=True) if owner in named and not pod.spec.node_name]
    return msgspec.structs.replace(made, pods=(*waiting, *made.pods))


def newcomers_of(cluster: SimulatedCluster, request: RebalanceRequest, named: Sequence[Pod]) -> Newcomers:
    """Return the newcomers of a request; `named` are the pods of its manifests. Raises `NewcomerError`.

    A request that names no pods is about all that are pending.
    """
    if request.goal not in PLACING:
        return Newcomers()
    pending = [mover_of(cluster.core, pod, controller_of(pod)) for pod in _waiting(cluster)]
    gate = AdmissionGate(cluster.admission)
    asked = [_known(cluster, gate, pod) for pod in (*request.pods, *named)]
    if request.manifests and not asked:
        raise NewcomerError("-f: no pod is to be made that the cluster does not run already")
    new = [mover_of(cluster.core, pod, controller_of(pod)) for pod in asked if ("Pod", pod.key) not in cluster.objects]
    wanted = dict.fromkeys([pod.key for pod in asked] or [mover.key for mover in pending])
    movers = [mover._replace(is_wanted=mover.key in wanted) for mover in pending]
    movers += [mover._replace(is_new=True) for mover in new]
    return Newcomers(tuple(movers), tuple(wanted))


def _waiting(cluster: SimulatedCluster) -> Iterable[Pod]:
    """Return the pods that wait for room, in the order of the queue: by priority, then by age."""
    found = []
    for pod in cluster.of(Pod):
        profile = cluster.core.profiles.get(pod.spec.scheduler_name)
        if is_pending(pod) and profile is not None and profile.run_pre_enqueue(cluster.core.intake.info(pod)) is None:
            found.append(pod)
    return sorted(found, key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.key))


def _known(cluster: SimulatedCluster, gate: AdmissionGate, pod: Pod) -> Pod:
    """Return a pod as the cluster has it, or as admission would let it in."""
    found: Pod | None = cluster.objects.get(("Pod", pod.key))
    if found is None:
        found, why = gate.let_in(pod)
        if why:
            raise NewcomerError(f"-f: the API server refuses pod {pod.key}: {why}")
    if found.spec.scheduler_name not in cluster.core.profiles:
        raise NewcomerError(f"pod {pod.key} is for the scheduler {found.spec.scheduler_name}, which is another")
    return found
