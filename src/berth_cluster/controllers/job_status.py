"""A Job's status: pods accounted for, whether it has ended and how, in upstream's reasons and messages.

Pure functions over Jobs and pods as JSON. Called by the Job controller. Upstream: pkg/controller/job.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from berth_cluster.controllers.meta import (
    JsonObject,
    annotations_of,
    format_time,
    int_of,
    is_being_deleted,
    is_condition_true,
    parse_time,
    set_condition,
)
from berth_cluster.controllers.pods import is_active, is_terminal, phase_of, ready_since

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
DEFAULT_BACKOFF_LIMIT = 6


class Ending(NamedTuple):
    """That a Job ends, and why: `complete` or failed."""

    complete: bool
    reason: str
    message: str


class Tally(NamedTuple):
    """A Job's pods, counted: those finished for good, and those that live."""

    succeeded: int
    failed: int
    active: list[JsonObject]
    terminating: int
    ready: int
    done_indexes: set[int]
    uncounted: list[JsonObject]


def is_finished(job: JsonObject) -> bool:
    """The Job is Complete or Failed."""
    return is_condition_true(job, "Complete") or is_condition_true(job, "Failed")


def is_indexed(job: JsonObject) -> bool:
    """Each completion has its own index."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: JsonObject) -> int | None:
    """The completion index of an Indexed Job's pod."""
    text = annotations_of(pod).get(INDEX_ANNOTATION, "")
    return int(text) if text.isdecimal() else None


def tally(job: JsonObject, pods: Sequence[JsonObject]) -> Tally:
    """Count the pods: what the status already holds, plus the ended ones not yet counted (by their finalizer)."""
    status = job.get("status") or {}
    uncounted = [pod for pod in pods if _has_ended(pod) and _is_tracked(pod)]
    succeeded = sum(phase_of(pod) == "Succeeded" for pod in uncounted)
    active = [pod for pod in pods if is_active(pod)]
    done = parse_indexes(status.get("completedIndexes", ""))
    done |= {index for pod in uncounted if phase_of(pod) == "Succeeded" and (index := index_of(pod)) is not None}
    return Tally(
        succeeded=len(done) if is_indexed(job) else int_of(status, "succeeded") + succeeded,
        failed=int_of(status, "failed") + len(uncounted) - succeeded,
        active=active,
        terminating=sum(is_being_deleted(pod) and not is_terminal(pod) for pod in pods),
        ready=sum(ready_since(pod) is not None for pod in active),
        done_indexes=done,
        uncounted=uncounted,
    )


def ending(job: JsonObject, counted: Tally, now_s: float) -> Ending | None:
    """Whether the Job has reached its end, failures first."""
    spec = job["spec"]
    if _exceeds_backoff_limit(spec, counted):
        return Ending(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline_s = active_deadline(job)
    if deadline_s is not None and now_s >= deadline_s:
        return Ending(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    if _is_complete(job, counted):
        return Ending(True, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def active_deadline(job: JsonObject) -> float | None:
    """When `activeDeadlineSeconds` is over; None without one, before the start and while suspended."""
    limit_s = job["spec"].get("activeDeadlineSeconds")
    started = (job.get("status") or {}).get("startTime")
    if limit_s is None or not started or job["spec"].get("suspend"):
        return None
    return parse_time(started) + float(limit_s)


def wanted_pods(job: JsonObject, counted: Tally) -> int:
    """How many pods should be active now."""
    spec = job["spec"]
    if spec.get("suspend"):
        return 0
    parallelism = int_of(spec, "parallelism", 1)
    completions = spec.get("completions")
    if completions is None:  # a work queue: once one pod has succeeded, no new ones
        return len(counted.active) if counted.succeeded else parallelism
    return max(0, min(parallelism, int(completions) - counted.succeeded))


def missing_indexes(job: JsonObject, counted: Tally, count: int) -> list[int]:
    """The lowest `count` indexes that neither are done nor have a pod."""
    taken = counted.done_indexes | {index for pod in counted.active if (index := index_of(pod)) is not None}
    free = (index for index in range(int_of(job["spec"], "completions")) if index not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]


def job_status(job: JsonObject, counted: Tally, end: Ending | None, now_s: float) -> JsonObject:
    """The whole status: counts, times, and the conditions of suspension and of the end."""
    before = job.get("status") or {}
    now = format_time(now_s)
    suspended = bool(job["spec"].get("suspend"))
    active = 0 if end is not None else len(counted.active)
    counts = {
        "active": active,
        "succeeded": counted.succeeded,
        "failed": counted.failed + (len(counted.active) if end is not None and not end.complete else 0),
    }
    status = {name: value for name, value in before.items() if name in ("conditions", "startTime", "completionTime")}
    status |= {name: count for name, count in counts.items() if count}
    status |= {"ready": counted.ready if active else 0, "terminating": counted.terminating}
    status["uncountedTerminatedPods"] = {}
    if is_indexed(job) and counted.done_indexes:
        status["completedIndexes"] = format_indexes(counted.done_indexes)
    if not suspended:
        status.setdefault("startTime", now)
    conditions = _suspension(before.get("conditions") or [], suspended, now)
    if end is not None:
        conditions = _ended(conditions, end, now)
        if end.complete:
            status["completionTime"] = now
    if conditions:
        status["conditions"] = conditions
    return status


def _suspension(conditions: list[JsonObject], suspended: bool, now: str) -> list[JsonObject]:
    known = any(condition["type"] == "Suspended" for condition in conditions)
    if not suspended and not known:
        return conditions
    reason, message = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
    return _with(conditions, "Suspended", str(suspended), (reason, message), now)


def _ended(conditions: list[JsonObject], end: Ending, now: str) -> list[JsonObject]:
    """The interim condition (criteria met, target failed) and the final one."""
    interim, final = ("SuccessCriteriaMet", "Complete") if end.complete else ("FailureTarget", "Failed")
    why = (end.reason, end.message)
    return _with(_with(conditions, interim, "True", why, now), final, "True", why, now)


def _with(
    conditions: list[JsonObject], condition_type: str, status: str, why: tuple[str, str], now: str
) -> list[JsonObject]:
    reason, message = why
    known = next((one for one in conditions if one["type"] == condition_type), None)
    if known is not None and (known["status"], known["reason"]) == (status, reason):
        return conditions
    condition = {
        "type": condition_type,
        "status": status,
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    return set_condition(conditions, condition)


def parse_indexes(text: str) -> set[int]:
    """`0,2-4` as a set of numbers."""
    result: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        result.update(range(int(first), int(last or first) + 1))
    return result


def format_indexes(indexes: Iterable[int]) -> str:
    """A set of numbers as `0,2-4`; two neighbours stay two numbers, as upstream writes them."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(_format_run(run) for run in runs)


def _format_run(run: list[int]) -> str:
    if len(run) == 1:
        return str(run[0])
    return f"{run[0]},{run[1]}" if len(run) == 2 else f"{run[0]}-{run[-1]}"


def _exceeds_backoff_limit(spec: JsonObject, counted: Tally) -> bool:
    """Too many pods have failed, or (restartPolicy OnFailure) were too often restarted."""
    limit = int_of(spec, "backoffLimit", DEFAULT_BACKOFF_LIMIT)
    if counted.failed > limit:
        return True
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(_restarts(pod) for pod in counted.active)
    return restarts >= limit if limit else restarts > 0


def _has_ended(pod: JsonObject) -> bool:
    return is_terminal(pod) or is_being_deleted(pod)


def _is_tracked(pod: JsonObject) -> bool:
    return TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or [])


def _restarts(pod: JsonObject) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return sum(int_of(status, "restartCount") for status in statuses)


def _is_complete(job: JsonObject, counted: Tally) -> bool:
    completions = job["spec"].get("completions")
    if completions is None:
        return counted.succeeded > 0 and not counted.active
    return counted.succeeded >= int(completions)
