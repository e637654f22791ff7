"""The resulting plan: steps in order, what they lead to, and what was left alone."""

from collections.abc import Iterable
from itertools import groupby
from typing import Literal

import msgspec

from berth_workbench.planning.rebalance.request import GoalName, Method

Action = Literal["cordon", "evict", "uncordon", "create"]


class PlacedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod and the node that the scheduler gives it."""

    pod: str
    """`namespace/name`."""
    node: str | None


class TakenFirst(msgspec.Struct, frozen=True, rename="camel"):
    """Pending pods that take room before the pods that it is made for."""

    workload: str
    """`namespace/Kind/name`, or the pod's own `namespace/name`."""
    pods: int
    """How many of its pods wait for room that moves could make."""
    placed: int
    """How many of these get a node by the plan."""


class PlanStep(msgspec.Struct, frozen=True, rename="camel"):
    """One thing to do; the next is done when this one's replacement runs."""

    action: Action
    node: str
    """The node to cordon or uncordon, or the one that the pod leaves; empty for a pod that is created."""
    pod: str = ""
    """The pod to evict or to create, as `namespace/name`."""
    to: str = ""
    """Where the scheduler puts that pod, or the one that takes its place."""
    reason: str = ""
    workload: str = ""
    """Who makes the replacement, as `Kind/name`; empty for a pod without a controller."""
    replicas: int | None = None
    """How many pods that controller wants; None where the cluster's objects do not say."""
    again: bool = False
    """Whether the pod has been moved before, so that it has another name by now."""
    placed: tuple[PlacedPod, ...] = ()
    """Pending pods that get a node in consequence."""


class Balance(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster in figures; only the nodes that were considered count."""

    nodes: int
    nodes_used: int
    """Nodes with pods that are neither a DaemonSet's nor static."""
    cost: float
    """What the used nodes cost together."""
    cpu: float
    """Requested CPU of the used nodes, as a share of what they have, 0 to 1."""
    memory: float
    highest: float
    """The highest share of CPU or memory that is requested on any node."""
    deviation: float
    """The standard deviation of the nodes' shares of CPU and memory, about those of all nodes together."""
    fragmentation: float
    """The share of free CPU that is of no use to the pods here, those that wait for a place among them, 0 to 1.

    Before and after a plan it is asked for the same pods (`berth_workbench.simulation.measures.fragmentation`).
    """
    violations: int
    """Pods that run where their own filters would not let them go any more."""
    pending: int


class Disruption(msgspec.Struct, frozen=True, rename="camel"):
    """How many evictions a workload suffers."""

    workload: str
    """`namespace/Kind/name`."""
    moves: int
    pods: int
    """How many pods it has on nodes."""


class LeftAlone(msgspec.Struct, frozen=True, rename="camel"):
    """Pods that may not be moved, by reason."""

    reason: str
    pods: int


class NodeFill(msgspec.Struct, frozen=True, rename="camel"):
    """How full a node is before and after: shares of what it has, 0 to 1."""

    node: str
    cpu_before: float
    cpu_after: float
    memory_before: float
    memory_after: float
    pods_before: int
    pods_after: int


class RebalancePlan(msgspec.Struct, frozen=True, rename="camel"):
    """Which pods to move, in which order, and the result."""

    goal: GoalName
    method: Method
    proven_best: bool
    """Whether no other plan within the limits is better, as far as whole plans were compared."""
    moves: int
    steps: tuple[PlanStep, ...]
    before: Balance
    after: Balance
    emptied: tuple[str, ...] = ()
    """Nodes that are empty after the plan, and stay cordoned."""
    shapes: tuple[PlacedPod, ...] = ()
    """For `free-shape` and `place-pending`: where the pods that needed a place go; None where there is still none."""
    fits_now: int | None = None
    """How many pods like the one that is wanted fit as things are, if it does; None also where that was not counted."""
    taken_first: tuple[TakenFirst, ...] = ()
    """For `free-shape`: who is pending already, and would take the room that is made."""
    disruption: tuple[Disruption, ...] = ()
    may_move: int = 0
    """How many pods may be moved; also 0 if none has to be."""
    left_alone: tuple[LeftAlone, ...] = ()
    considered: str = ""
    """Which part of the cluster was looked at."""
    notes: tuple[str, ...] = ()
    fills: tuple[NodeFill, ...] = ()
    """The nodes that change, or where these are few, all that were considered."""
    is_complete: bool = True
    """False where the search was stopped: the plan is good as far as it goes, and another may be better."""

    @property
    def evictions(self) -> tuple[PlanStep, ...]:
        """The steps that move a pod."""
        return tuple(step for step in self.steps if step.action == "evict")


def in_groups(steps: Iterable[PlanStep]) -> list[tuple[PlanStep, ...]]:
    """Return steps as people do them: cordons, and uncordons, that follow one another for one reason are one thing.

    An eviction stands alone, and so does an uncordon that lets pending pods in: both are waited for.
    """
    numbered = enumerate(steps)

    def kind(each: tuple[int, PlanStep]) -> tuple[Action, str, int | None]:
        number, step = each
        is_waited_for = bool(step.to or step.placed)
        return step.action, step.reason, number if is_waited_for else None

    return [tuple(step for _, step in group) for _, group in groupby(numbered, kind)]
