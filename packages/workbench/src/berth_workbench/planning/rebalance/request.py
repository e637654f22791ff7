"""What a plan should achieve, and what it may cost."""

from typing import Annotated, Literal

import msgspec

from berth.api.pod import Pod
from berth_workbench.showing.ask import HowAsked, HowSaid, NodePrices
from berth_workbench.snapshot.documents import Document

GoalName = Literal["empty-nodes", "even-out", "repair-spread", "free-shape", "place-pending"]
PLACING: tuple[GoalName, ...] = ("free-shape", "place-pending")
"""The goals that make room for pods."""
SOLVED: tuple[GoalName, ...] = ("empty-nodes", *PLACING)
"""The goals for which CP-SAT looks for better moves than the greedy search has found."""

AlsoMove = Literal["bare", "critical", "empty-dir", "jobs"]
"""Pods that stay where they are unless they are asked for by one of these words."""

Method = Literal["cp-sat", "greedy"]


class RebalanceRequest(msgspec.Struct, frozen=True):
    """A goal and its limits."""

    goal: Annotated[
        GoalName,
        HowAsked("Empty nodes (or save the most with --prices), make nodes equally full, repair spread, affinity and "
            "anti-affinity that running pods break, make room for the pods and workloads of -f, or for what is "
            "pending."),
        HowSaid("{}", words={
            "empty-nodes": "to empty nodes", "even-out": "to make nodes equally full",
            "repair-spread": "to repair spread and affinity", "place-pending": "to make room for what is pending",
            "free-shape": "to make room for new pods"}),
    ]  # fmt: skip
    pods: tuple[Pod, ...] = ()
    """For `PLACING`: the pods that need a place; without any, the pending pods of the cluster that fit nowhere."""
    manifests: tuple[Document, ...] = ()
    """Pods and workloads of any kind that need places, with what goes with them, in addition to `pods`."""
    namespace: str = "default"
    """Of manifests that name none."""
    max_moves: Annotated[
        int, HowAsked("Evictions in all.", least=0, most=10_000), HowSaid("{} pods", "no pod", one="1 pod")
    ] = 20
    max_per_workload: Annotated[
        int | None,
        HowAsked("Evictions of one workload's pods.", "--max-disruption-per-workload", metavar="N", least=0),
        HowSaid("Evict at most {} pods of a workload.", "Evict any number of pods of a workload."),
    ] = None
    max_per_namespace: Annotated[
        int | None,
        HowAsked("Evictions in one namespace.", "--max-disruption-per-namespace", metavar="N", least=0),
        HowSaid("Evict at most {} pods of a namespace.", "Evict any number of pods of a namespace."),
    ] = None
    max_cordons: Annotated[
        int,
        HowAsked("Nodes cordoned at a time so that the scheduler goes along, beside those to be emptied.", least=0),
        HowSaid("Cordon at most {} nodes at a time.", "Cordon no node."),
    ] = 50
    also_move: Annotated[
        tuple[AlsoMove, ...],
        HowAsked("Move pods that otherwise stay: without a controller, of system-critical priority, with an emptyDir, "
            "of Jobs. May be repeated."),
        HowSaid("Move {}, too.", "Leave alone bare and critical pods, those with an emptyDir, and of Jobs.",
            {"bare": "pods without a controller", "critical": "pods of critical priority",
             "empty-dir": "pods with an emptyDir", "jobs": "pods of Jobs"}),
    ] = ()  # fmt: skip
    nodes: frozenset[str] | None = None
    """The nodes to take pods from and to move them to; None for all."""
    prices: NodePrices = None
    """What a node costs; one without a price costs 1."""
    method: Annotated[
        Method | None,
        HowAsked("To empty nodes and make room, CP-SAT is the default where OR-Tools is installed."),
        HowSaid(
            "Search with {}.", "Search with whatever is installed.", {"cp-sat": "CP-SAT", "greedy": "a greedy search"}
        ),
    ] = None
    effort_s: Annotated[
        float,
        HowAsked("How long CP-SAT may search and have its moves put in order, in seconds that are the same on every "
            "machine.", "--effort", metavar="SECONDS", least=0, most=3600),
        HowSaid("Let CP-SAT search for {} s.", "Do not let CP-SAT search."),
    ] = 3.0  # fmt: skip
    """The solver's own deterministic seconds, so that the result does not depend on the machine."""
