"""What a plan is asked to reach, and what it may cost."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from berth.api.pod import Pod
from berth_workbench.simulation.prices import PriceError
from berth_workbench.snapshot.documents import Document

GoalName = Literal["empty-nodes", "even-out", "repair-spread", "free-shape", "place-pending"]
GOALS: tuple[GoalName, ...] = ("empty-nodes", "even-out", "repair-spread", "free-shape", "place-pending")
PLACING: tuple[GoalName, ...] = ("free-shape", "place-pending")
"""The goals that make room for pods."""

AlsoMove = Literal["bare", "critical", "empty-dir", "jobs"]
ALSO_MOVE: tuple[AlsoMove, ...] = ("bare", "critical", "empty-dir", "jobs")
"""Pods that stay where they are unless they are asked for by one of these words."""

Method = Literal["cp-sat", "greedy"]


class RebalanceRequest(msgspec.Struct, frozen=True):
    """A goal and its limits."""

    goal: GoalName
    pods: tuple[Pod, ...] = ()
    """For `PLACING`: the pods that need a place; without any, the pending pods of the cluster that fit nowhere."""
    manifests: tuple[Document, ...] = ()
    """Pods and workloads of any kind that need places, with what goes with them, in addition to `pods`."""
    namespace: str = "default"
    """Of manifests that name none."""
    max_moves: int = 20
    max_per_workload: int | None = None
    """How many pods of one workload the whole plan may move."""
    max_per_namespace: int | None = None
    max_cordons: int = 50
    """How many nodes may be cordoned at a time so that a pod goes where the plan says."""
    also_move: frozenset[AlsoMove] = frozenset()
    nodes: frozenset[str] | None = None
    """The nodes to take pods from and to move them to; None for all."""
    prices: Mapping[str, float] = {}
    """What a node costs, by its name or by its instance type; nodes without a price cost 1."""
    method: Method | None = None
    """None takes CP-SAT where OR-Tools is installed."""
    effort_s: float = 3.0
    """How long CP-SAT may search, in the solver's own deterministic seconds, so that the result does not depend on the
    machine."""


def price_of(prices: Mapping[str, float], name: str, labels: Mapping[str, str]) -> float:
    """Return what a node costs: by its name, else by its instance type, else 1."""
    for key in (name, labels.get("node.kubernetes.io/instance-type", "")):
        if key in prices:
            return float(prices[key])
    return 1.0


def read_prices(values: Any) -> dict[str, float]:
    """Return the prices that a document holds: names of nodes or instance types, and numbers. Raises `PriceError`."""
    if not isinstance(values, Mapping):
        raise PriceError("a mapping of node names or instance types to prices is expected")
    found = {}
    for name, price in values.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1e9:
            raise PriceError(f"{name}: a price is a number from 0 to 10^9, not {price!r}")
        found[str(name)] = float(price)
    return found
