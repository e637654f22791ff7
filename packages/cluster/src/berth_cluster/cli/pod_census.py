"""What happens in the cluster of `berth up`, in one line: how many pods run, start and end, and why others wait.

On a terminal the line is renewed in place; elsewhere one is written when it has changed, every few seconds at most.
"""

import asyncio
import contextlib
import re
import select
import shutil
import sys
from collections import Counter
from typing import TextIO

from berth_cluster.apimachinery.meta import Object, find_condition, is_being_deleted, uid_of
from berth_cluster.apimachinery.resource_types import PODS, ResourceType
from berth_cluster.storage.store import Store

RENEW_S, SAY_S = 0.25, 5.0
MOST_REASONS = 4
_STATES = ("running", "starting", "ending", "succeeded", "failed", "pending")
_PHASES = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}
_COUNT = re.compile(r"^\d+ ")


class PodCensus:
    """Counts pods by their state, and pending ones by what keeps them waiting."""

    __slots__ = ("_counts", "_seen")

    def __init__(self, store: Store) -> None:
        self._seen: dict[str, tuple[str, str]] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        for pod in store.objects(PODS):
            self._on_change("ADDED", PODS, pod, None)
        store.subscribe(self._on_change)

    def line(self) -> str:
        """All of it in one line; the empty string while there are no pods."""
        states = Counter[str]()
        reasons = Counter[str]()
        for (state, reason), count in self._counts.items():
            states[state] += count
            if reason:
                reasons[reason] += count
        told = [f"{states[state]} {state}" for state in _STATES if states[state]]
        why = [f"{count}: {reason}" for reason, count in sorted(reasons.items(), key=lambda one: (-one[1], one[0]))]
        more = [f"and {len(why) - MOST_REASONS} more reasons"] if len(why) > MOST_REASONS else []
        waiting = f" ({'; '.join([*why[:MOST_REASONS], *more])})" if why else ""
        return f"pods: {', '.join(told)}{waiting}" if told else ""

    def _on_change(self, change_type: str, resource: ResourceType, pod: Object, _old: Object | None) -> None:
        if resource is not PODS:
            return
        uid = uid_of(pod)
        before = self._seen.pop(uid, None)
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if change_type != "DELETED":
            now = self._seen[uid] = state_of(pod)
            self._counts[now] += 1


def state_of(pod: Object) -> tuple[str, str]:
    """A pod's state, and if it is pending, what keeps it waiting."""
    phase = (pod.get("status") or {}).get("phase", "Pending")
    if is_being_deleted(pod):
        return "ending", ""
    if pod["spec"].get("nodeName") or phase != "Pending":
        return _PHASES.get(phase, "starting"), ""
    condition = find_condition(pod, "PodScheduled")
    if condition is None:
        return "pending", "not looked at yet"
    if condition.get("reason") == "SchedulingGated":
        return "pending", "scheduling gates"
    message = str(condition.get("message", "")).partition("available: ")
    reasons = (message[2] or message[0]).partition(". ")[0].rstrip(".").split(", ")
    return "pending", ", ".join(sorted({_COUNT.sub("", reason) for reason in reasons}))


async def tell(census: PodCensus, out: TextIO = sys.stdout) -> None:
    """Keep the line up to date until cancelled; end early when nobody can read it any more."""
    is_terminal, shown = out.isatty(), ""
    with contextlib.suppress(OSError, ValueError):
        try:
            while True:
                await asyncio.sleep(RENEW_S if is_terminal else SAY_S)
                line = census.line()
                if line == shown or not _is_read(out):
                    continue
                shown = line
                width = shutil.get_terminal_size().columns - 1
                out.write(f"\r\x1b[K{line[:width]}" if is_terminal else f"{line or 'pods: none'}\n")
                out.flush()
        finally:
            if is_terminal and shown:
                out.write("\n")


def _is_read(out: TextIO) -> bool:
    """Whether a line can be written without waiting for whoever reads it, or forgot to."""
    return bool(select.select([], [out], [], 0)[1])
