"""A Gymnasium environment over a workload: the agent says on which node each pod goes, among those on which it fits.

A workload comes in (`berth_workbench.traces`), or a function that makes one of a seed; what happens in it happens in
virtual time: pods come, run for their time once they are bound, and end. At each step one pod is to be placed. Action n
is the n-th node of `node_names`, and the last action leaves the pod waiting; it is asked about again when a pod has
ended or a node has come. `action_masks()`, and `action_mask` in the info, says which actions are possible, by every
filter of the scheduler under the configuration that is given: what is masked out is treated as leaving the pod waiting.

Observations and rewards are arguments: an `Observation`, and a function of the environment.

It needs the extra `gym`.
"""

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

import berth
from berth.api.codec import decode
from berth.api.pod import Pod
from berth_workbench.traces.trace import (
    JobStarts,
    NodeComes,
    NodeGoes,
    ObjectComes,
    ObjectGoes,
    PodShapeGiven,
    ServiceScales,
    TimedWorkload,
)

try:
    import gymnasium
    from gymnasium.vector import SyncVectorEnv
except ImportError:
    raise ImportError("berth_workbench.lab.gym needs gymnasium: pip install 'berth-scheduler[gym]'") from None

Array = NDArray[Any]
HOUR_S = 3600.0


class Observation(Protocol):
    """What is observed at each step."""

    def space(self, nodes: int) -> "gymnasium.Space[Any]":
        """Return where observations of a cluster of so many nodes lie."""

    def of(self, env: "TraceEnv") -> Any:
        """Return what there is to see before `env.pod` is placed."""


class NodeShares(Observation):
    """A row for each node: whether the pod fits, then what is free and what the pod requests, as shares of the largest
    node's. CPU and memory come first, then the resources that are named."""

    def __init__(self, *resources: str) -> None:
        self._resources = ("cpu", "memory", *resources)

    def space(self, nodes: int) -> "gymnasium.Space[Any]":
        """Shares are at most 1; what is free may be less than nothing."""
        return gymnasium.spaces.Box(-1.0, 1.0, (nodes, 1 + 2 * len(self._resources)), np.float32)

    def of(self, env: "TraceEnv") -> Array:
        """Return the matrix."""
        columns: list[Array] = [env.action_masks()[:-1].astype(np.float32)]
        requests = env.requests
        for name in self._resources:
            has, used = env.amounts(name)
            largest = max(float(has.max()), 1.0)
            columns += [(has - used) / largest, np.full(len(has), requests.get(name, 0) / largest)]
        matrix: Array = np.clip(np.stack(columns, axis=1), -1.0, 1.0).astype(np.float32)
        return matrix


def hours_waited(env: "TraceEnv") -> float:
    """Minus the hours that pods have waited together since the step before."""
    return -env.waited_s / HOUR_S


Made = Callable[[int], TimedWorkload]


class TraceEnv(gymnasium.Env[Any, Any]):
    """See the module."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        workload: TimedWorkload | Made,
        *,
        config: Any = None,
        observation: Observation | None = None,
        reward: Callable[["TraceEnv"], float] = hours_waited,
        render_mode: str | None = None,
    ) -> None:
        """A function that makes workloads is called with a number for each episode; its nodes have to stay the same."""
        self._make = workload if callable(workload) else lambda _seed: workload
        self._config, self._reward = config, reward
        self._observation = observation or NodeShares()
        self.render_mode = render_mode
        self.node_names = self._make(0).nodes
        """Which node each action is; the last action is none of them."""
        self.action_space = gymnasium.spaces.Discrete(len(self.node_names) + 1)
        self.observation_space = self._observation.space(len(self.node_names))
        self.scheduler = berth.Scheduler()
        self.pod: Pod | None = None
        """The pod that is to be placed; None once the episode is over."""
        self.waited_s = 0.0
        """How long all pods together have waited since the step before."""
        self._mask: NDArray[np.int8] = np.zeros(len(self.node_names) + 1, dtype=np.int8)
        self._number = 0

    # -- Gymnasium ---------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: with a seed the workload of that seed, without one that of a number that is drawn."""
        super().reset(seed=seed)
        self.begin(self._make(int(self.np_random.integers(2**31)) if seed is None else seed))
        return self._observed(), self._info()

    def begin(self, workload: TimedWorkload) -> None:
        """Begin an episode with a workload."""
        self.scheduler = berth.Scheduler(self._config)
        self._records = deque(workload.records)
        self._until = workload.header.seconds
        self._events: list[tuple[float, int, str]] = []
        self._order = count()
        self._offered: deque[tuple[Pod, float]] = deque()
        self._left: deque[tuple[Pod, float]] = deque()
        self._services: dict[tuple[str, str], list[str]] = {}
        self._made: dict[tuple[str, str], int] = {}
        self.now = self.waited_s = self.total_waited_s = 0.0
        self.placed = 0
        self._rows: NDArray[np.intp] | None = None
        self._next()
        self.waited_s = 0.0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Put the pod on a node, or leave it waiting, and go on to the next."""
        assert self.pod is not None, "the episode is over: call reset()"
        pod, run = self._offered.popleft()
        if action < len(self.node_names) and self._mask[action]:
            self.scheduler.bind(pod, self.node_names[action])
            self.placed += 1
            if np.isfinite(run):
                heapq.heappush(self._events, (self.now + run, next(self._order), pod.key))
        else:
            self._left.append((pod, run))
        self.waited_s = 0.0
        self._next()
        return self._observed(), float(self._reward(self)), self.pod is None, False, self._info()

    def render(self) -> str:
        """Return the moment in a line."""
        return (
            f"{self.now:,.0f} s: {self.placed:,} placed, {len(self._left):,} wait, {self.pod.key if self.pod else '-'}"
        )

    def action_masks(self) -> NDArray[np.bool_]:
        """Say which actions are possible; under the name by which MaskablePPO asks."""
        return self._mask.astype(np.bool_)

    # -- what observations and rewards are made of -------------------------------------------------------------------

    @property
    def requests(self) -> Mapping[str, int]:
        """What the pod requests, CPU in thousandths."""
        return {} if self.pod is None else self._requests(self.pod)

    def amounts(self, resource: str) -> tuple[Array, Array]:
        """Return what each node has of a resource, and what is requested of it, in the order of `node_names`."""
        rows = self._node_rows()
        try:
            has, used = self.scheduler.capacity(resource), self.scheduler.requested(resource)
        except KeyError:
            return np.zeros(len(rows)), np.zeros(len(rows))
        there = rows >= 0
        return np.where(there, has[rows], 0), np.where(there, used[rows], 0)

    def default_action(self) -> int:
        """Return where the scheduler itself would put the pod, by its configuration."""
        if self.pod is None or not self._mask[:-1].any():
            return len(self.node_names)
        self.scheduler.checkpoint()
        node = self.scheduler.schedule(self.pod).node
        self.scheduler.rollback()
        return len(self.node_names) if node is None else self.node_names.index(node)

    # -- time --------------------------------------------------------------------------------------------------------

    def _next(self) -> None:
        """Go on until a pod can be asked about that fits somewhere, or the workload is over."""
        while True:
            while self._offered:
                pod = self._offered[0][0]
                fits = self.scheduler.feasible(pod)
                rows = self._node_rows()
                self._mask[:-1] = fits[rows] & (rows >= 0)
                if self._mask[:-1].any():
                    self.pod, self._mask[-1] = pod, 1
                    return
                self._left.append(self._offered.popleft())
            at = min(self._records[0].at if self._records else np.inf, self._events[0][0] if self._events else np.inf)
            if at >= self._until or at == np.inf:
                self._pass(max(0.0, self._until - self.now))
                self.pod = None
                self._mask[:] = 0
                self._mask[-1] = 1
                return
            self._pass(at - self.now)
            has_room = False
            while self._events and self._events[0][0] <= at:
                self._remove(heapq.heappop(self._events)[2])
                has_room = True
            while self._records and self._records[0].at <= at:
                has_room |= self._happen(self._records.popleft())
            if has_room:
                self._offered.extendleft(reversed(self._left))
                self._left.clear()

    def _pass(self, seconds: float) -> None:
        waited = seconds * len(self._left)
        self.waited_s += waited
        self.total_waited_s += waited
        self.now += seconds

    def _happen(self, record: Any) -> bool:
        """Take a record in; say whether it makes room."""
        if isinstance(record, NodeComes):
            self.scheduler.add(record.node())
            self._rows = None
            return True
        if isinstance(record, NodeGoes):
            placements = self.scheduler.placements
            for key in [key for key, node in placements.items() if node == record.name]:
                self._remove(key)
            self.scheduler.remove("Node", record.name)
            self._rows = None
        elif isinstance(record, JobStarts):
            for index in range(record.pods):
                run = record.runs[index] if len(record.runs) > 1 else record.runs[0]
                self._offer(record.namespace, record.name, f"{record.name}-{index}", "Job", record.shape, run)
        elif isinstance(record, ServiceScales):
            return self._scale(record)
        elif isinstance(record, ObjectComes):
            return self._object_comes(record)
        elif isinstance(record, ObjectGoes) and record.kind == "Pod":
            self._remove(record.key)
            return True
        return False

    def _object_comes(self, record: ObjectComes) -> bool:
        if record.is_of("Pod") and not record.manifest["spec"].get("nodeName"):
            pod: Pod = decode("Pod", record.manifest)
            if pod.key not in self.scheduler:  # later states of a pod that was placed change nothing here
                self._remove(pod.key)
                self._offered.append((pod, np.inf if record.runs is None else record.runs))
            return False
        self.scheduler.add(record.manifest)
        self._rows = None
        return record.is_of("Node")

    def _scale(self, service: ServiceScales) -> bool:
        key = service.namespace, service.name
        pods = self._services.setdefault(key, [])
        for _ in range(service.replicas - len(pods)):
            number = self._made[key] = self._made.get(key, -1) + 1
            name = f"{service.name}-{number}"
            pods.append(f"{service.namespace}/{name}")
            self._offer(*key, name, "ReplicaSet", service.shape, np.inf)
        gone = pods[service.replicas :]
        del pods[service.replicas :]
        for pod in gone:
            self._remove(pod)
        return bool(gone)

    def _offer(self, namespace: str, owner: str, name: str, kind: str, shape: PodShapeGiven, run: float) -> None:
        made = shape.pod(namespace, owner, kind)
        metadata = msgspec.structs.replace(made.metadata, name=name, uid=f"{namespace}/{name}")
        self._offered.append((msgspec.structs.replace(made, metadata=metadata), run))

    def _remove(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        if key in self.scheduler:
            self.scheduler.remove("Pod", name, namespace)
        for waiting in (self._offered, self._left):
            for each in [each for each in waiting if each[0].key == key]:
                waiting.remove(each)

    def _node_rows(self) -> NDArray[np.intp]:
        if self._rows is None:
            row_of = {name: row for row, name in enumerate(self.scheduler.node_names) if name}
            self._rows = np.array([row_of.get(name, -1) for name in self.node_names], dtype=np.intp)
        return self._rows

    def _requests(self, pod: Pod) -> Mapping[str, int]:
        return self.scheduler.requests_of(pod)

    def _observed(self) -> Any:
        return self._observation.of(self)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._mask.copy(), "at": self.now, "waiting": len(self._left)}


def vector_env(count: int, workload: TimedWorkload | Made, **options: Any) -> SyncVectorEnv:
    """Return so many environments beside each other, in one process."""
    return SyncVectorEnv([lambda: TraceEnv(workload, **options) for _ in range(count)])
