"""How the core does under a crowd of pods that fit nowhere: what one attempt costs, and whether newcomers get through.

    python benchmarks/overload.py [--nodes 5000] [--waiting 20000] [--shapes 50] [--seconds 20] [--rate 50]
                                  [--priority 0] [--memos off] [--clock wall] [SITUATION ...]

Nodes are full but for a little room. A crowd of pods that ask for more than that waits, in so many shapes; pods that
fit arrive at a steady rate. What is done beside that is the situation:

    tried      nothing: only how long it takes to try the whole crowd once
    quiet      nothing
    deletions  as many running pods a second end, each on a node of its own, and wake the whole crowd
    flaps      a thousand nodes lose readiness one after the other, with the taint that goes with it, and gain it back
    labels     a thousand nodes lose the label that half of the crowd selects, and gain it back

The real core, in this process: events are taken in and cycles run in slices of 5 ms, as `berth run` does it. The clock
is the CPU time of this process, and idle time is skipped, so that others on the machine do not count; with
`--clock wall` it is the wall clock. Bindings and status patches are answered at once, and come back as watch events.
The crowd counts as having waited for a while, so that it backs off for the longest time, and each situation has lasted
longer than that before newcomers come. With a `--priority` the crowd may preempt, and one pod on each node has a lower
priority, but without it there is too little room as well.

Prints a table in Markdown: CPU in per cent of one core, the crowd's attempts a second, and how long after its creation
a newcomer was bound.
"""

import argparse
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec

from berth.api.codec import decode
from berth.api.pod import PodCondition
from berth.config.load import default_config
from berth.core.assembly import build_core
from berth.core.intake import ObjectEvent
from berth.core.options import Clocks, CoreOptions, DecisionOptions
from berth.framework.effects import Answer, Bind, EvictPod, PatchPodStatus, Request
from berth.plugins.registry import in_tree_registry
from berth_workbench.bench import long_lived

SITUATIONS = ("tried", "quiet", "deletions", "flaps", "labels")
SLICE_S = 0.005
PODS_PER_NODE = 7
FLAPPING = 1000
FLAP_S = 2.0
"""How long a node stays as it has become."""
ATTEMPTS_SO_FAR = 5
"""What the crowd is taken to have behind it; from there on its backoff grows no more."""
WARM_UP_S = 12.0
"""How long a situation has lasted when the first newcomer comes: longer than any backoff."""
HOSTNAME, ZONE, POOL = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "pool"
_NUMBERS = count()
Due = tuple[float, Callable[[], list[ObjectEvent]]]


def node(number: int, *, ready: bool = True, pooled: bool = True) -> Any:
    """Return a node of 32 CPU in one of three zones; one in ten is kept for others by a taint."""
    name = f"node-{number:05d}"
    labels = {HOSTNAME: name, ZONE: f"zone-{number % 3}"} | ({POOL: "batch"} if pooled and number % 5 else {})
    taints = [{"key": "dedicated", "value": "others", "effect": "NoSchedule"}] if number % 10 == 7 else []
    if not ready:
        taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"capacity": room, "allocatable": room, "conditions": conditions}
    return decode("Node", {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status})


def pod(name: str, cpu: str, memory: str, **spec: Any) -> Any:
    """Return a pod; with a `nodeName` it runs."""
    requests = {"cpu": cpu, "memory": memory}
    containers = [{"name": "main", "image": "registry.example.com/app:1", "resources": {"requests": requests}}]
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": name.rsplit("-", 1)[0]}}
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"} if "nodeName" in spec else {"phase": "Pending"}
    return decode("Pod", {"metadata": meta, "spec": {"containers": containers, **spec}, "status": status})


def running(nodes: int, priority: int) -> Iterator[Any]:
    """Yield the pods that run: seven on each node leave it 4 CPU; at most one of them may be preempted."""
    for number in range(nodes * PODS_PER_NODE):
        spec = {"priority": priority} if priority and number % PODS_PER_NODE else {}
        yield pod(f"running-{number}", "4", "8Gi", nodeName=f"node-{number // PODS_PER_NODE:05d}", **spec)


def waiting(number: int, shapes: int, priority: int) -> Any:
    """Return a pod of the crowd: it asks for more than is free anywhere, even if one or two more pods are gone."""
    shape = number % shapes
    spec: dict[str, Any] = {"priority": priority} if priority else {}
    if shape % 2:
        spec["nodeSelector"] = {POOL: "batch"}
    return pod(f"waiting-{shape}-{number}", f"{20_000 + 10 * shape}m", "1Gi", **spec)


class Measured(msgspec.Struct, frozen=True):
    """What came of a situation. Times from creation to binding are in seconds, ascending."""

    seconds: float
    cpu_s: float
    attempts: int
    bound_after_s: list[float]
    missing: int


class Driver:
    """Drives a core as `berth run` does, and plays an API server that answers at once."""

    def __init__(self, *, memos: bool, seed: int, wall: bool) -> None:
        self._clock = time.perf_counter if wall else time.process_time
        self._is_wall = wall
        self._skipped = 0.0
        decisions, clocks = DecisionOptions(memos=memos), Clocks(core=self.now)
        options = CoreOptions(rng=random.Random(seed), decisions=decisions, clocks=clocks)
        self.core = build_core(default_config(), in_tree_registry(), options)
        self.arrivals: deque[ObjectEvent | Answer] = deque()
        self.pods: dict[str, Any] = {}
        self.created: dict[str, float] = {}
        self.bound_after_s: list[float] = []

    def now(self) -> float:
        """Return the time in seconds."""
        return self._clock() + self._skipped

    def tell(self, *objects: Any, change: str = "ADDED") -> None:
        """Tell the core of objects at once."""
        for obj in objects:
            self._know(obj)
            self._carry_out(self.core.handle(ObjectEvent(change, type(obj).__name__, obj), self.now()))

    def slice(self) -> bool:
        """Take in what has arrived, then run cycles for a few milliseconds; say whether there is more to do."""
        until, due, effects = self.now() + SLICE_S, len(self.arrivals), list[Any]()
        while due:
            effects += self.core.handle(self.arrivals.popleft(), self.now())
            due -= 1
            if self.now() >= until:
                self._carry_out(effects)
                return True
        until = self.now() + SLICE_S
        while True:
            effects += self.core.step(self.now())
            if not self.core.has_work or self.now() >= until:
                break
        self._carry_out(effects)
        return bool(self.arrivals) or self.core.has_work

    def drain(self) -> None:
        """Work until there is nothing more to do at once."""
        while self.slice():
            pass

    def run(self, seconds: float, events: list[Due]) -> Measured:
        """Let events happen at their times, from now on, and work for so long."""
        timeline = deque(sorted(events, key=lambda due: due[0]))
        began, cpu, cycles = self.now(), time.process_time(), self.core.queue.scheduling_cycle
        self.created, self.bound_after_s = {}, []
        while (passed := self.now() - began) < seconds:
            while timeline and timeline[0][0] <= passed:
                at, happen = timeline.popleft()
                for event in happen():
                    if event.type == "ADDED":
                        self.created[event.obj.metadata.uid] = began + at
                    self._know(event.obj)
                    self.arrivals.append(event)
            if not self.slice():
                self._sleep(began + (timeline[0][0] if timeline else seconds))
        return Measured(
            self.now() - began,
            time.process_time() - cpu,
            self.core.queue.scheduling_cycle - cycles,
            sorted(self.bound_after_s),
            len(self.created),
        )

    def _sleep(self, until: float) -> None:
        deadline = self.core.next_deadline()
        delay = (until if deadline is None else min(until, deadline)) - self.now()
        if delay > 0 and self._is_wall:
            time.sleep(delay)
        elif delay > 0:
            self._skipped += delay

    def _know(self, obj: Any) -> None:
        if type(obj).__name__ == "Pod":
            self.pods[obj.metadata.uid] = obj

    def _carry_out(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, PatchPodStatus):
                self._patch(effect)
            elif isinstance(effect, Request):
                if isinstance(effect.effect, Bind):
                    self._bind(effect.effect)
                elif isinstance(effect.effect, EvictPod):
                    raise SystemExit("the crowd has found somebody to preempt; this workload is wrong")
                self.arrivals.append(Answer(effect.ticket))

    def _patch(self, patch: PatchPodStatus) -> None:
        known = self.pods[patch.pod.uid]
        others = tuple(c for c in known.status.conditions if c.type != "PodScheduled")
        told = PodCondition(type="PodScheduled", status="False", reason=patch.reason, message=patch.message)
        status = msgspec.structs.replace(known.status, conditions=(*others, told))
        self._changed(msgspec.structs.replace(known, status=status))

    def _bind(self, binding: Bind) -> None:
        uid = binding.pod.uid
        created = self.created.pop(uid, None)
        if created is not None:
            self.bound_after_s.append(self.now() - created)
        known = self.pods[uid]
        spec = msgspec.structs.replace(known.spec, node_name=binding.node_name)
        self._changed(msgspec.structs.replace(known, spec=spec))

    def _changed(self, obj: Any) -> None:
        self._know(obj)
        self.arrivals.append(ObjectEvent("MODIFIED", "Pod", obj))


def newcomers(seconds: float, rate: float) -> list[Due]:
    """Pods that fit, at a steady rate."""

    def arrives() -> list[ObjectEvent]:
        return [ObjectEvent("ADDED", "Pod", pod(f"newcomer-{next(_NUMBERS)}", "100m", "100Mi"))]

    return [(number / rate, arrives) for number in range(int(seconds * rate))]


def deletions(driver: Driver, seconds: float, rate: float, nodes: int) -> list[Due]:
    """Running pods that end, each on a node of its own as long as there are enough."""

    def ends(number: int) -> Callable[[], list[ObjectEvent]]:
        which = (number * 7919) % nodes * PODS_PER_NODE + 1 + number // nodes % (PODS_PER_NODE - 1)
        return lambda: [ObjectEvent("DELETED", "Pod", driver.pods[f"running-{which}"])]

    return [((number + 0.5) / rate, ends(number)) for number in range(int(seconds * rate))]


def changes(seconds: float, nodes: int, **differently: bool) -> list[Due]:
    """Nodes that change one after the other, and change back."""
    flapping = min(FLAPPING, nodes)
    step = (seconds - FLAP_S) / flapping

    def becomes(number: int, **how: bool) -> Callable[[], list[ObjectEvent]]:
        return lambda: [ObjectEvent("MODIFIED", "Node", node(number, **how))]

    which = [(number * nodes // flapping + 1) % nodes for number in range(flapping)]  # with the label, most of them
    there = [(turn * step, becomes(number, **differently)) for turn, number in enumerate(which)]
    back = [(turn * step + FLAP_S, becomes(number)) for turn, number in enumerate(which)]
    return there + back


def crowded(options: argparse.Namespace) -> tuple[Driver, float]:
    """Return a driver whose crowd has been tried once, and how much CPU that took, in seconds."""
    driver = Driver(memos=options.memos == "on", seed=options.seed, wall=options.clock == "wall")
    for number in range(options.nodes):
        driver.tell(node(number))
    for one in running(options.nodes, options.priority):
        driver.tell(one)
    driver.drain()
    for number in range(options.waiting):
        driver.tell(waiting(number, options.shapes, options.priority))
    began = time.process_time()
    cycles = driver.core.queue.scheduling_cycle
    # Status patches come back meanwhile, as they would: the crowd is tried once when every pod has had its attempt.
    while driver.core.queue.scheduling_cycle - cycles < options.waiting:
        driver.slice()
    seconds = time.process_time() - began
    driver.drain()
    for queued in driver.core.queue:
        queued.unschedulable_count = max(queued.unschedulable_count, ATTEMPTS_SO_FAR)
    return driver, seconds


def measure(situation: str, driver: Driver, options: argparse.Namespace) -> Measured:
    """Let a situation happen; once it has lasted for a while, newcomers come."""
    lasts_s, rate, nodes = WARM_UP_S + options.seconds, options.rate, options.nodes
    events: list[Due] = []
    if situation == "deletions":
        events = deletions(driver, lasts_s, rate, nodes)
    elif situation == "flaps":
        events = changes(lasts_s, nodes, ready=False)
    elif situation == "labels":
        events = changes(lasts_s, nodes, pooled=False)
    driver.run(WARM_UP_S, [due for due in events if due[0] < WARM_UP_S])
    later = [(at - WARM_UP_S, happen) for at, happen in events if at >= WARM_UP_S]
    return driver.run(options.seconds, later + newcomers(options.seconds, rate))


def row(situation: str, found: Measured) -> str:
    """Return a line of the table."""
    after = [1000 * s for s in found.bound_after_s]
    p50, p99 = (statistics.quantiles(after, n=100)[at] for at in (49, 98)) if len(after) > 1 else (0.0, 0.0)
    others = found.attempts - len(after)
    return (
        f"| {situation} | {100 * found.cpu_s / found.seconds:.0f} | {others / found.seconds:.0f} | "
        f"{p50:.1f} | {p99:.1f} | {after[-1] if after else 0:.1f} | {found.missing} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--waiting", type=int, default=20_000)
    parser.add_argument("--shapes", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--priority", type=int, default=0)
    parser.add_argument("--memos", choices=("on", "off"), default="on")
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("situations", nargs="*", metavar="SITUATION", help=", ".join(SITUATIONS))
    options = parser.parse_args()
    situations = options.situations or SITUATIONS
    if unknown := set(situations) - set(SITUATIONS):
        parser.error(f"no such situation: {', '.join(sorted(unknown))}; there are {', '.join(SITUATIONS)}")
    driver, seconds = crowded(options)
    print(f"{options.waiting} pods of {options.shapes} shapes on {options.nodes} nodes tried once:", end=" ")
    print(f"{seconds:.1f} s of CPU, {1000 * seconds / options.waiting:.2f} ms each\n", flush=True)
    print("| situation | CPU % | crowd's attempts/s | p50 ms | p99 ms | longest ms | not bound |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with long_lived():
        for situation in situations:
            if situation != "tried":
                print(row(situation, measure(situation, driver, options)), flush=True)


if __name__ == "__main__":
    main()
