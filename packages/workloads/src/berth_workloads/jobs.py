"""How many pods a Job wants, which completion indexes it still needs, and when it is complete.

Source: manageJob, finishedCondition, firstPendingIndexes and indexed_job_utils in pkg/controller/job, v1.36.
"""

from collections.abc import Collection, Iterable
from itertools import islice
from typing import NamedTuple

FIRST_BACKOFF_S = 10.0
MAX_BACKOFF_S = 600.0
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""The label and annotation in which a pod of an Indexed Job carries its index."""


class JobBounds(NamedTuple):
    """What a Job asks for."""

    parallelism: int = 1
    completions: int | None = 1
    """None for a work queue: one success and the end of all other pods complete it."""
    is_suspended: bool = False


def wanted_pods(bounds: JobBounds, active: int = 0, succeeded: int = 0) -> int:
    """Return how many pods should be active while so many are, and so many have succeeded."""
    if bounds.is_suspended:
        return 0
    if bounds.completions is None:  # a work queue: once one pod has succeeded, no new ones
        return active if succeeded else bounds.parallelism
    return max(0, min(bounds.parallelism, bounds.completions - succeeded))


def is_complete(bounds: JobBounds, active: int, succeeded: int) -> bool:
    """Say whether enough pods have succeeded."""
    if bounds.completions is None:
        return succeeded > 0 and not active
    return succeeded >= bounds.completions


def missing_indexes(indexes: Iterable[int], taken: Collection[int | None], count: int) -> list[int]:
    """Return the first `count` of a Job's indexes that are not taken: that have neither succeeded nor a pod."""
    return list(islice((index for index in indexes if index not in taken), count))


def index_of(text: str | None) -> int | None:
    """Return the completion index that a label or an annotation holds, or None."""
    return int(text) if text and text.isdecimal() else None


def backoff_s(failures: int) -> float:
    """Return for how long no pod is made after so many failures in a row."""
    return min(FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 10), MAX_BACKOFF_S) if failures > 0 else 0.0


def surplus_pods(indexes: Iterable[int | None], completions: int) -> list[int]:
    """Return which pods of an Indexed Job are too many, by their places in `indexes`: those to go first come first.

    Those are the pods of no index or of one beyond the completions, and all but the last of each index.
    """
    found = list(indexes)
    last_of = {index: at for at, index in enumerate(found)}
    return [at for at, index in enumerate(found) if index is None or index >= completions or last_of[index] != at]


def parse_indexes(text: str) -> set[int]:
    """Return `0,2-4` as a set of numbers."""
    result: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        result.update(range(int(first), int(last or first) + 1))
    return result


def format_indexes(indexes: Iterable[int]) -> str:
    """Return a set of numbers as `0,2-4`; two neighbours stay two numbers, as upstream writes them."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(
        str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}" for first, last in runs
    )
