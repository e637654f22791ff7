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
from berth.api.untrusted import UNREADABLE, problem_of
from berth.config.load import default_config
from berth.config.types import SchedulerConfiguration
from berth.core.assembly import build_core
from berth.core.core import Core
from berth.core.intake import ObjectEvent
from berth.core.questions import decide, search_beside
from berth.cycle.attempt import Attempt
from berth.extender.in_process import AnswerCall, answered, nobody
from berth.framework.effects import Answer, ApiCall, CallExtenders, Effect, EvictPod, Request
from berth.framework.registry import Registry
from berth.state.objects import key_of
from berth.state.pod_groups import group_of
from berth.state.queued_pod import QueuedPod
from berth_workbench.simulation.api_calls import ApiCalls


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


def load(core: Core, lines: Iterable[bytes]) -> dict[tuple[str, str], Any]:
    """Take a workload in; return its objects but pods, by kind and key. Raises `WorkloadError`."""
    objects: dict[tuple[str, str], Any] = {}
    for number, line in enumerate(lines, 1):
        if not line.isspace():
            event = _event(number, line)
            core.handle(event, 0.0)
            if event.kind != "Pod":
                objects[event.kind, key_of(event.obj)] = event.obj
    return objects


def _event(number: int, line: bytes) -> ObjectEvent:
    try:
        kind = msgspec.json.decode(line, type=_Kinded).kind
        if kind not in KINDS:
            raise WorkloadError(f"line {number}: kind is {kind!r}, not one of {', '.join(sorted(KINDS))}")
        return ObjectEvent("ADDED", kind, decode(kind, line))
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
    rng = random.Random(seed)
    core = build_core(config or default_config(), registry, rng=rng, memos=memos)
    player = Player(core, load(core, lines), answer_call)
    pods = len(core.queue)
    checks = set(random.Random(seed).sample(range(pods), min(check, pods)))
    with long_lived():
        began = time.process_time()
        checked = _drive(player, checks, rng)
        cpu_s = time.process_time() - began
    seconds = player.seconds
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


class Player:
    """Answers the core as extenders, API server and controllers would, and keeps how long the core has worked."""

    def __init__(self, core: Core, objects: dict[tuple[str, str], Any], answer_call: AnswerCall) -> None:
        """`objects` are all that the core knows but pods, by kind and key."""
        self.core = core
        self.objects = objects
        self.answer_call = answer_call
        self.seconds = 0.0
        self._api_calls = ApiCalls(self)
        self._effects: list[Effect] = []

    def step(self) -> list[str]:
        """Have one cycle run and all that it asks for done; return the keys of the pods that had to leave, sorted.

        The last victim is asked once the others have gone.
        """
        started = time.perf_counter()
        self._effects = self.core.step(0.0)
        self.seconds += time.perf_counter() - started
        evicted = []
        for effect in self._effects:  # the list grows in the loop
            if not isinstance(effect, Request):
                continue
            asked = effect.effect
            if isinstance(asked, CallExtenders):
                started = time.perf_counter()
                answer = answered(effect.ticket, asked, self.answer_call)
                self.seconds += time.perf_counter() - started
                self._tell(answer)
            elif isinstance(asked, ApiCall):
                self._tell(msgspec.structs.replace(self._api_calls(asked), ticket=effect.ticket))
            elif isinstance(asked, EvictPod):
                evicted.append(asked.pod.key)
                state = self.core.cache.state_of(asked.pod.uid)
                if state is not None:
                    self._tell(ObjectEvent("DELETED", "Pod", state.pod.pod))
                self._tell(Answer(effect.ticket))
        return sorted(evicted)

    def put(self, obj: Any) -> None:
        """Create an object, or put a newer state in its place."""
        kind, key = self.core.resources.name_of(obj), key_of(obj)
        known = (kind, key) in self.objects
        self.objects[kind, key] = obj
        self._tell(ObjectEvent("MODIFIED" if known else "ADDED", kind, obj))

    def delete(self, kind: str, key: str) -> None:
        """Delete an object by `namespace/name` or name."""
        self._tell(ObjectEvent("DELETED", kind, self.objects.pop((kind, key))))

    def _tell(self, event: ObjectEvent | Answer) -> None:
        """Give the core an event, and note what it asks for in turn."""
        started = time.perf_counter()
        self._effects += self.core.handle(event, 0.0)
        self.seconds += time.perf_counter() - started


def _drive(player: Player, checks: Set[int], rng: random.Random) -> int:
    """Run cycles until there is nothing left to do; return how many decisions were checked.

    `checks` are the numbers of the cycles to check. A group's cycle is not: it decides about all of its pods.
    """
    core, number, checked = player.core, 0, 0
    while core.has_work:
        expected = None
        if number in checks and not (core.schedules_groups and group_of(_next(core).pod) is not None):
            expected = _without_memos(core, rng, player.answer_call)
        victims = player.step()
        if expected is not None:
            _compare(core, expected, victims)
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
