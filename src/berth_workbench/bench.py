"""Measures how fast the core is: a workload goes through the scheduling cycle in process, without API calls.

A workload is JSON lines: nodes, running pods, pending pods. Loading is not timed; the clock runs from the first Pop
to the last Reserve, one pod at a time, through the same `Core` that `berth run` drives. Bindings are not answered;
pods that are evicted leave at once, and the pod that preempted them is tried again.
"""

import contextlib
import gc
import random
import resource
import time
from collections.abc import Iterable, Iterator
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
from berth.framework.effects import Answer, CallExtenders, Effect, EvictPod, Request
from berth.framework.registry import Registry


class Figures(msgspec.Struct, frozen=True):
    """What a run measured. `seconds` is wall-clock time, `rss_mb` the highest resident memory of the whole process."""

    nodes: int
    pods: int
    failed: int
    seconds: float
    ms_per_pod: float
    pods_per_s: float
    nodes_used: int
    rss_mb: float
    checked: int = 0


class CheckError(AssertionError):
    """A decision with memos differs from the same decision without them, which is a bug of ours."""


class WorkloadError(ValueError):
    """A line of a workload that cannot be used; the message says which, and what is wrong with it."""


def load(core: Core, lines: Iterable[bytes]) -> int:
    """Take a workload in; return how many pods are pending. Raises `WorkloadError`."""
    for number, line in enumerate(lines, 1):
        if not line.isspace():
            core.handle(_event(number, line), 0.0)
    return len(core.queue)


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
    pods = load(core, lines)
    checks = set(random.Random(seed).sample(range(pods), min(check, pods)))
    with long_lived():
        seconds = _drive(core, checks, rng, answer_call)
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
        checked=len(checks),
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


def _drive(core: Core, checks: set[int], rng: random.Random, answer_call: AnswerCall) -> float:
    seconds, number = 0.0, 0
    while core.has_work:
        expected = _without_memos(core, rng, answer_call) if number in checks else None
        started = time.perf_counter()
        victims = _let_go(core, _with_extenders(core, core.step(0.0), answer_call))
        seconds += time.perf_counter() - started
        if expected is not None:
            _compare(core, expected, victims)
        number += 1
    return seconds


def _with_extenders(core: Core, effects: list[Effect], answer_call: AnswerCall) -> list[Effect]:
    """Have extenders answer until the core asks them nothing more; return everything it asks for."""
    for effect in effects:  # the list grows in the loop
        if isinstance(effect, Request) and isinstance(effect.effect, CallExtenders):
            effects += core.handle(answered(effect.ticket, effect.effect, answer_call), 0.0)
    return effects


def _let_go(core: Core, effects: list[Effect]) -> list[str]:
    """Let evicted pods leave at once; return their keys, sorted. The last victim is asked once the others have gone."""
    evicted = []
    for effect in effects:  # the list grows in the loop
        if isinstance(effect, Request) and isinstance(effect.effect, EvictPod):
            evicted.append(effect.effect.pod.key)
            state = core.cache.state_of(effect.effect.pod.uid)
            if state is not None:
                effects += core.handle(ObjectEvent("DELETED", "Pod", state.pod.pod), 0.0)
            effects += core.handle(Answer(effect.ticket), 0.0)
    return sorted(evicted)


def _without_memos(core: Core, rng: random.Random, answer_call: AnswerCall) -> Attempt:
    """Decide about the next pod without memos, and leave everything as it was."""
    queued = core.queue.active.peek() or core.queue.backoff.peek()
    assert queued is not None
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
