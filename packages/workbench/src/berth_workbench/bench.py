"""Measures how fast the core is: a workload goes through the scheduling cycle in process, without API calls.

A workload is JSON lines: nodes, what pods refer to (claims, classes, pod groups), running pods, pending pods. Loading
is not timed; the clock runs from the first Pop to the last Reserve, one pod at a time, through the same `Core` that
`berth run` drives. Bindings are not answered; pods that are evicted leave at once, and the pod that preempted them is
tried again. What PreBind writes is answered at once, and claims get their volumes: the time that the core takes to hear
of that counts, that of the API server and the controllers who are played here does not.
"""

import contextlib
import gc
import random
import resource
import time
from collections.abc import Iterable, Iterator, Set
from typing import Any

import msgspec
import numpy as np

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.pod import Pod
from berth.api.untrusted import UNREADABLE, problem_of
from berth.config.load import default_config
from berth.config.types import SchedulerConfiguration
from berth.core.core import Core
from berth.core.questions import decide, search_beside
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.attempt import Attempt
from berth.extender.in_process import AnswerCall, answered, nobody
from berth.framework.effects import Answer, CallExtender, CallExtenders, EvictPod, ExtenderAnswer
from berth.framework.registry import Registry
from berth.state.pod_groups import group_of
from berth.state.queued_pod import QueuedPod
from berth_workbench.simulation.measured import MeasuredCluster


class Figures(msgspec.Struct, frozen=True):
    """What a run measured. `seconds` is wall-clock time, `rss_mb` the highest resident memory of the whole process.

    `cpu_s` is the CPU time of the process meanwhile, with what is played and checked: for machines that others use.
    """

    nodes: int
    pods: int
    failed: int
    seconds: float
    ms_per_pod: float
    pods_per_s: float
    nodes_used: int
    rss_mb: float
    checked: int = 0
    cpu_s: float = 0.0


NOT_COMPLETED = "nobody has completed what the pod waits for"


class CheckError(AssertionError):
    """A decision with memos differs from the same decision without them, which is a bug of ours."""


class WorkloadError(ValueError):
    """A line of a workload that cannot be used; the message says which, and what is wrong with it."""


def load(cluster: VirtualCluster, lines: Iterable[bytes]) -> None:
    """Take a workload in. Raises `WorkloadError`."""
    for number, line in enumerate(lines, 1):
        if not line.isspace():
            cluster.put(_decoded(number, line))


def _decoded(number: int, line: bytes) -> Any:
    try:
        kind = msgspec.json.decode(line, type=_Kinded).kind
        if kind not in KINDS:
            raise WorkloadError(f"line {number}: kind is {kind!r}, not one of {', '.join(sorted(KINDS))}")
        return decode(kind, line)
    except (ObjectError, *UNREADABLE) as error:
        raise WorkloadError(f"line {number}: {problem_of(error)}") from None


def run(
    lines: Iterable[bytes],
    registry: Registry,
    *,
    config: SchedulerConfiguration | None = None,
    check: int = 0,
    seed: int = 0,
    memos: bool = True,
    answer_call: AnswerCall = nobody,
) -> Figures:
    """Schedule a workload and return the figures; `answer_call` plays the extenders, and its time is measured.

    Raises `CheckError`, `WorkloadError`.
    """
    cluster = _BenchCluster(config or default_config(), registry, seed, memos=memos, answer_call=answer_call)
    core = cluster.core
    load(cluster, lines)
    cluster.seconds = 0.0
    pods = len(core.queue)
    checks = set(random.Random(seed).sample(range(pods), min(check, pods)))
    with long_lived():
        began = time.process_time()
        checked = _drive(cluster, checks, answer_call)
        cpu_s = time.process_time() - began
    seconds = cluster.seconds
    core.call_off(NOT_COMPLETED, 0.0)  # what still waits for its claims has failed, too
    used = {state.row for state in core.cache.states().values() if state.assumed}
    failed = len(core.queue)
    return Figures(
        nodes=len(core.cache.table),
        pods=pods,
        failed=failed,
        seconds=round(seconds, 4),
        ms_per_pod=round(1000 * seconds / max(pods, 1), 4),
        pods_per_s=round(pods / seconds, 1) if seconds else 0.0,
        nodes_used=len(used),
        rss_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        checked=checked,
        cpu_s=round(cpu_s, 4),
    )


@contextlib.contextmanager
def long_lived() -> Iterator[None]:
    """Leave all that is there now out of garbage collections, as `berth run` does once it has read the cluster."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _BenchCluster(MeasuredCluster):
    """Answers the core as extenders, API server and controllers would, but for bindings and the statuses of pods."""

    def __init__(
        self, config: SchedulerConfiguration, registry: Registry, seed: int, *, memos: bool, answer_call: AnswerCall
    ) -> None:
        super().__init__(time.perf_counter, config=config, registry=registry, seed=seed, memos=memos, check_promises=0)
        self.answers_binds = self.answers_reads = self.stores_statuses = False
        self.answer_call = self._timed(answer_call)
        self.victims: list[str] = []
        """The keys of the pods that had to leave."""

    def _timed(self, answer_call: AnswerCall) -> AnswerCall:
        def answer(call: CallExtender) -> ExtenderAnswer:
            began = time.perf_counter()
            given = answer_call(call)
            self.worked(time.perf_counter() - began)
            return given

        return answer

    def evicted(self, pod: Pod, eviction: EvictPod) -> None:
        """Note a pod that had to leave."""
        self.victims.append(pod.key)


def _drive(cluster: _BenchCluster, checks: Set[int], answer_call: AnswerCall) -> int:
    """Run cycles until there is nothing left to do; return how many decisions were checked.

    `checks` are the numbers of the cycles to check. A group's cycle is not: it decides about all of its pods.
    """
    core, number, checked = cluster.core, 0, 0
    while core.has_work:
        expected = None
        if number in checks and not (core.schedules_groups and group_of(_next(core).pod) is not None):
            expected = _without_memos(core, cluster.rng, answer_call)
        cluster.victims.clear()
        cluster.step()
        cluster.requests.clear()  # bindings, which nobody answers
        if expected is not None:
            _compare(core, expected, sorted(cluster.victims))
            checked += 1
        number += 1
    return checked


def _next(core: Core) -> QueuedPod:
    queued = core.queue.active.peek() or core.queue.backoff.peek()
    assert queued is not None, "asked only while there is work"
    return queued


def _without_memos(core: Core, rng: random.Random, answer_call: AnswerCall) -> Attempt:
    """Decide about the next pod without memos, and leave everything as it was."""
    queued = _next(core)
    lots = rng.getstate()
    key = queued.pod.key

    def answer(effect: object) -> Answer:
        if not isinstance(effect, CallExtenders):
            raise CheckError(f"pod {key} needs an answer from outside, which a bench does not have")
        return answered(0, effect, answer_call)

    # A search of our own: with the core's, breaking a tie here would change how the core breaks the next.
    with core.memos.switched(on=False):
        attempt = decide(core, queued.pod, answer, search=search_beside(core))
    rng.setstate(lots)
    return attempt


def _compare(core: Core, expected: Attempt, victims: list[str]) -> None:
    decision = core.trace[expected.pod.key]
    expected_victims = sorted(victim.key for victim in expected.outcome.victims if not victim.is_terminating)
    if victims != expected_victims:
        raise CheckError(f"pod {expected.pod.key}: with memos {victims} must leave, without {expected_victims}")
    feasible = expected.found.nodes.row_array() if expected.found.nodes is not None else np.array([], dtype=np.intp)
    total = expected.found.scored.total(feasible) if expected.found.scored is not None else None
    if not (_same(decision.feasible, feasible) and _same(decision.total, total)):
        raise CheckError(
            f"pod {expected.pod.key}: with memos {_shown(decision.feasible, decision.total)}, "
            f"without {_shown(feasible, total)}"
        )


def _same(a: Any, b: Any) -> bool:
    return (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))


def _shown(feasible: Any, total: Any) -> str:
    count = 0 if feasible is None else len(feasible)
    return f"{count} feasible nodes, totals {None if total is None else total.tolist()[:8]}…"


class _Kinded(msgspec.Struct):
    kind: str = ""
