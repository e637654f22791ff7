"""The result of a trace: waits, utilisation and fairness over time, and what each node carried.

`SimulatedTime` is what commands print, pictures draw and pages show; `TimeLine` is its companion for the map of nodes.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth_workbench.simulation.measures import WaitingTimes


class Sample(msgspec.Struct, frozen=True, rename="camel"):
    """The cluster at one moment."""

    at: float
    """In seconds since the beginning."""
    cpu: float
    """The share of all CPUs that running pods request."""
    memory: float
    running: int
    waiting: int
    longest_wait: float
    """How long the pod has waited that waits longest, in seconds."""
    nodes: int
    nodes_used: int
    """How many nodes have a pod."""
    bound: int
    """How many pods were bound up to now."""
    preempted: int
    fairness: float
    """Jain's index over the dominant shares of the namespaces that want something: 1 where all are equal."""
    resources: dict[str, float] = {}
    """The share that running pods request of each other resource that nodes have, such as GPUs."""


class SimulatedTime(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a trace."""

    source: str
    seed: int
    seconds: float
    """How far it was lived."""
    made: int
    """How many pods were made; one that is replaced counts once."""
    bound: int
    """How many bindings there were."""
    finished: int
    failed: int
    preempted: int
    waiting: int
    """How many pods wait at the end."""
    never_placed: int
    """How many of these never had a node."""
    waits: WaitingTimes
    """Of all bindings; those that still wait are not in it."""
    waits_by_namespace: dict[str, WaitingTimes]
    cpu: float
    """The mean over the samples, as `memory` is."""
    memory: float
    fairness: float
    """The mean over the samples at which several namespaces want something."""
    cost: float
    """What the nodes cost in that time, where the trace has their prices."""
    samples: tuple[Sample, ...]
    messages: dict[str, int]
    """Why pods wait at the end, and how many for each reason; the most common twenty."""
    evicted_again_and_again: int = 0
    """How many pods would have come back and been evicted again and again by the same other pod."""
    resources: dict[str, float] = {}
    """The mean over the samples, of each other resource that nodes have, such as GPUs."""
    stranded: dict[str, float] = {}
    """Of each extended resource, such as GPUs, what share of what was free was of no use to the pods that ask for it:
    the mean over the samples (`berth_workbench.simulation.measures.fragmentation`)."""


class TimedBinding(NamedTuple):
    """A binding."""

    at: float
    """In seconds since the beginning."""
    pod: str
    """`namespace/name`."""
    node: str
    waited: float


class TimeLine:
    """What each node carries at each sample: what is requested of what it has least left of, in 1/255 of all of it."""

    __slots__ = ("_levels", "_names", "_times")

    def __init__(self) -> None:
        self._times: list[float] = []
        self._names: list[tuple[int, tuple[str, ...]]] = []
        """From which sample on the nodes are these, by position."""
        self._levels: list[bytes] = []

    def note(self, at: float, names: Sequence[str], shares: NDArray[np.float64]) -> None:
        """Add a sample: the share of each of these nodes."""
        if not self._names or self._names[-1][1] != tuple(names):
            self._names.append((len(self._times), tuple(names)))
        self._times.append(at)
        self._levels.append(np.clip(np.rint(shares * 255), 0, 255).astype(np.uint8).tobytes())

    def document(self, result: SimulatedTime) -> dict[str, Any]:
        """Return the time line with its result as JSON values."""
        return {
            "kind": "BerthTimeLine",
            "version": 1,
            "result": msgspec.to_builtins(result),
            "times": self._times,
            "nodes": [{"from": start, "names": list(names)} for start, names in self._names],
            "levels": [base64.b64encode(levels).decode() for levels in self._levels],
        }

    def write(self, path: str | Path, result: SimulatedTime) -> None:
        """Write the time line and its result for `berth ui`. Raises `OSError`."""
        Path(path).write_bytes(msgspec.json.encode(self.document(result)) + b"\n")
