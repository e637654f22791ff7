"""A plan for upgrading nodes: steps in order, with everything that each moves, loses or cannot do."""

from collections import Counter
from typing import Literal

import msgspec

Action = Literal["addSurge", "upgrade", "removeSurge"]


class UpgradeMove(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that is on another node after a step."""

    pod: str
    """`namespace/name`."""
    node: str
    """Where it was before the step; empty where it was pending."""
    to: str
    """Where it is after the step; empty where it has no node, as before the plan."""


class UpgradeStep(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that are drained together and come back, or surge nodes that come or go."""

    action: Action
    pool: str
    nodes: tuple[str, ...]
    like: tuple[str, ...] = ()
    """For surge nodes that come: the node that each of them is like."""
    moves: tuple[UpgradeMove, ...] = ()
    lost: tuple[str, ...] = ()
    """Pods without a controller, which nothing replaces, as `namespace/name`."""
    waiting: tuple[str, ...] = ()
    """Pods that no other node takes: they wait for theirs to come back."""
    preempted: int = 0
    waves: int = 0
    """How often evictions had to wait until the pods evicted before ran elsewhere, and once more."""
    stops: tuple[str, ...] = ()
    """Pod groups that have as many pods with a node as they need before the step, and too few once its pods have left,
    as `namespace/name`.
    """


class BlockedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that keeps its node from being drained."""

    pod: str
    node: str
    budget: str
    """The PodDisruptionBudget that protects it, as `namespace/name`; empty where room is what is missing."""
    why: str
    frees: str = ""
    """What would let it go, each tried; empty where nothing is known."""


class BlockedNode(msgspec.Struct, frozen=True, rename="camel"):
    """A node that the plan leaves out."""

    node: str
    pool: str
    pods: tuple[BlockedPod, ...]


class NeededSurge(msgspec.Struct, frozen=True, rename="camel"):
    """A node that is added for the length of a pool's upgrade."""

    like: str
    without: str
    """What fails without it; empty where that was not tried."""


class PoolUpgrade(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a plan that upgrades one pool."""

    pool: str
    nodes: int
    """How many are chosen, blocked ones too."""
    surge: tuple[NeededSurge, ...]
    is_minimal: bool
    """Whether it was tried that with any one surge node fewer a step fails."""


class UpgradePlan(msgspec.Struct, frozen=True, rename="camel"):
    """How to upgrade nodes."""

    pools: tuple[PoolUpgrade, ...]
    """In the order of the plan."""
    steps: tuple[UpgradeStep, ...]
    blocked: tuple[BlockedNode, ...]
    surge: int
    """How many surge nodes there are at a time at most."""
    pending_before: int
    """How many pods have no node before the plan begins, after the scheduler has placed what it can."""
    pending_after: int
    tried: int
    """How many evictions were tried in memory for this plan."""
    left_behind: tuple[str, ...] = ()
    """Surge nodes that cannot be taken away again."""
    notes: tuple[str, ...] = ()
    is_complete: bool = True
    """False if it was stopped: the steps are those found by then."""

    @property
    def gang_stops(self) -> dict[str, int]:
        """How often each pod group is stopped that is stopped at all, the most often first."""
        return dict(Counter(name for step in self.steps for name in step.stops).most_common())

    @property
    def upgraded(self) -> int:
        """How many nodes the plan upgrades."""
        return sum(len(step.nodes) for step in self.steps if step.action == "upgrade")
