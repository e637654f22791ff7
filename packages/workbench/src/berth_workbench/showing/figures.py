"""Figures of a comparison as people read them, the same in tables, pictures and on the page."""

from collections.abc import Sequence
from typing import Final

from berth_workbench.showing.numbers import number

SHARES = ("utilisation", "packing", "fragmentation")
_WORDS: Final = {
    "nodes": "nodes",
    "nodesUsed": "nodes used",
    "pods": "pods on nodes",
    "pending": "pending pods",
    "pendingMean": "pending pods on average",
    "neverPlaced": "pods that never got a node",
    "bound": "pods that got a node",
    "preemptions": "preemptions",
    "evictedAgainAndAgain": "pods evicted again and again",
    "utilisation": "{} requested",
    "packing": "{} requested on used nodes",
    "fragmentation": "free {} of no use to usual pods",
    "maxSkew": "largest skew over {}s",
    "meanSkew": "mean skew over {}s",
    "evenness": "evenness over {}s, 1 is best",
    "fairness": "fairness between namespaces, 1 is best",
    "cost": "cost of used nodes",
}
_WAITS: Final = {"mean": "mean wait", "p50": "wait of half the pods", "p90": "wait of 90%", "p99": "wait of 99%"}


def in_words(name: str) -> str:
    """Return what a measure of a dotted name is called: `largest skew over zones` for `spread.zone.maxSkew`."""
    first, _, rest = name.partition(".")
    if first == "waiting":
        return f"{_WAITS.get(rest, 'longest wait')}, seconds"
    if first == "spread":
        over, _, first = rest.partition(".")
        return _WORDS.get(first, first).format(over)
    resource = {"cpu": "CPU"}.get(rest, rest)
    return _WORDS.get(first, name).format(resource)


def shown_figure(name: str, value: float | None) -> str:
    """Return a figure as people read it; shares in percent, as exactly as differences between them are looked at."""
    if value is None:
        return "?"
    return f"{number(100 * value)}%" if name.split(".")[0] in SHARES else number(value)


def share(requested: Sequence[int], allocatable: Sequence[int]) -> list[float | None]:
    """What part of each is requested; None where there is nothing to request."""
    return [part / whole if whole > 0 else None for part, whole in zip(requested, allocatable, strict=True)]
