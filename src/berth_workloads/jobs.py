"""How many pods a Job wants, which completion indexes it still needs, and when it is complete.

Source: manageJob, finishedCondition and firstPendingIndexes in pkg/controller/job, v1.36.
"""

from collections.abc import Collection, Iterable
from itertools import islice
from typing import NamedTuple

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
