"""What a Job's pods come to: how many count as succeeded or failed, how the Job ends, and its status.

Pure functions over Jobs and pods as JSON. Called by the Job controller. Upstream: pkg/controller/job, v1.36.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    find_condition,
    format_time,
    int_of,
    is_being_deleted,
    is_condition_true,
    key_of,
    new_condition,
    parse_time,
    with_condition,
)
from berth_cluster.controllers.pods import (
    container_statuses,
    ends_of,
    is_active,
    is_terminating,
    phase_of,
    ready_since,
)
from berth_workloads.job_policies import (
    FAIL_INDEX,
    FAIL_JOB,
    IGNORE,
    FailedPod,
    FailureVerdict,
    failure_verdict,
    success_met,
)
from berth_workloads.jobs import COMPLETION_INDEX, JobBounds, format_indexes, index_of, is_complete, parse_indexes

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
DEFAULT_BACKOFF_LIMIT = 6
SUCCESS_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
FINAL = {SUCCESS_MET: "Complete", FAILURE_TARGET: "Failed"}


class JobEnd(NamedTuple):
    """How a Job ends: the type of its interim condition, and why."""

    interim: str
    reason: str
    message: str

    @property
    def is_success(self) -> bool:
        """Whether the Job will be Complete, not Failed."""
        return self.interim == SUCCESS_MET


class JobPods(NamedTuple):
    """A Job's pods: numbers of those that have succeeded and failed, and those with which something is to be done."""

    succeeded: int
    failed: int
    active: list[Object]
    terminating: list[Object]
    done_indexes: set[int]
    failed_indexes: set[int] | None
    """None without backoffLimitPerIndex."""
    newly: list[Object]
    """Those whose end is counted here for the first time, and which need not be kept for that any more."""
    held: dict[int | None, Object]
    """By index, the failed pod that is kept until it is replaced, since it knows how often the index has failed."""
    verdict: FailureVerdict
    """FailJob and why, if the podFailurePolicy says so of a pod."""


def finished_as(job: Object) -> str | None:
    """How a Job has ended: Complete or Failed; None while it has not."""
    return next((name for name in FINAL.values() if is_condition_true(job, name)), None)


def is_indexed(job: Object) -> bool:
    """Each completion has its own index."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def has_backoff_per_index(job: Object) -> bool:
    """Each index has failures of its own."""
    return is_indexed(job) and job["spec"].get("backoffLimitPerIndex") is not None


def replaces_failed_only(job: Object) -> bool:
    """A pod that is being deleted is replaced, and counts as failed, only when it has ended."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed") or "podFailurePolicy" in job["spec"]


def bounds_of(job: Object) -> JobBounds:
    """What the Job asks for."""
    spec = job["spec"]
    completions = spec.get("completions")
    return JobBounds(
        int_of(spec, "parallelism", 1), None if completions is None else int(completions), bool(spec.get("suspend"))
    )


def pod_index(pod: Object) -> int | None:
    """The completion index of a pod of an Indexed Job."""
    return index_of(annotations_of(pod).get(COMPLETION_INDEX))


def failures_before(pod: Object) -> tuple[int, int]:
    """How often the pod's index had failed before it: failures that count, and those that were ignored."""
    annotations = annotations_of(pod)
    return int_of(annotations, FAILURE_COUNT), int_of(annotations, IGNORED_FAILURE_COUNT)


def failure_of(job: Object, pod: Object) -> FailureVerdict | None:
    """What the pod's failure means, None if it has not failed; one that is being deleted usually has."""
    has_failed = phase_of(pod) == "Failed" or (
        is_being_deleted(pod) and phase_of(pod) != "Succeeded" and not replaces_failed_only(job)
    )
    if not has_failed:
        return None
    exits = [(name, ended.get("exitCode", 0)) for name, ended in ends_of(pod)]
    conditions = {(one["type"], one["status"]) for one in (pod.get("status") or {}).get("conditions") or []}
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or []
    return failure_verdict(rules, FailedPod(key_of(pod), exits, conditions))


def finished_at(pod: Object) -> float:
    """When the last container of a pod ended; when it was deleted, if none has."""
    metadata, times = pod["metadata"], [ended.get("finishedAt") for _, ended in ends_of(pod)]
    given = [one for one in times if one] or [metadata.get("deletionTimestamp") or metadata.get("creationTimestamp")]
    return max(map(parse_time, given))


def count_pods(job: Object, pods: Sequence[Object]) -> JobPods:
    """Count the pods: what the status already holds, plus the ended ones not yet counted (by their finalizer)."""
    status, spec = job.get("status") or {}, job["spec"]
    tracked = [pod for pod in pods if TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or [])]
    good = [pod for pod in tracked if phase_of(pod) == "Succeeded"]
    bad = [(pod, verdict) for pod in tracked if (verdict := failure_of(job, pod)) is not None]
    active = [pod for pod in pods if is_active(pod)]
    done: set[int] = set()
    failed: set[int] | None = None
    held: dict[int | None, Object] = {}
    if is_indexed(job):
        known = parse_indexes(status.get("completedIndexes") or "") | set(map(pod_index, good))
        done = {index for index in known if index is not None and index < int_of(spec, "completions")}
    if has_backoff_per_index(job):
        failed = parse_indexes(status.get("failedIndexes") or "") | _failed_indexes(spec, bad)
        held = _held(bad, done | failed | {index for pod in active if (index := pod_index(pod)) is not None})
    kept = {id(pod) for pod in held.values()}
    newly = [pod for pod in (*good, *(pod for pod, _ in bad)) if id(pod) not in kept]
    counting = sum(verdict.action != IGNORE for pod, verdict in bad if id(pod) not in kept)
    return JobPods(
        succeeded=len(done) if is_indexed(job) else int_of(status, "succeeded") + len(good),
        failed=int_of(status, "failed") + counting,
        active=active,
        terminating=[pod for pod in pods if is_terminating(pod)],
        done_indexes=done,
        failed_indexes=failed,
        newly=newly,
        held=held,
        verdict=next((verdict for _, verdict in bad if verdict.action == FAIL_JOB), FailureVerdict()),
    )


def _failed_indexes(spec: Object, bad: Iterable[tuple[Object, FailureVerdict]]) -> set[int]:
    """The indexes that have failed too often, or for good by the podFailurePolicy."""
    limit = int_of(spec, "backoffLimitPerIndex")
    found = set()
    for pod, verdict in bad:
        index = pod_index(pod)
        too_often = verdict.action != IGNORE and failures_before(pod)[0] >= limit
        if index is not None and (verdict.action == FAIL_INDEX or too_often):
            found.add(index)
    return found


def _held(bad: Iterable[tuple[Object, FailureVerdict]], settled: set[int]) -> dict[int | None, Object]:
    held: dict[int | None, Object] = {}
    for pod, _ in sorted(bad, key=lambda one: (sum(failures_before(one[0])), finished_at(one[0]))):
        index = pod_index(pod)
        if index is not None and index not in settled:
            held[index] = pod
    return held


def failures_with(job: Object, held: Object) -> tuple[int, int]:
    """How often an index has failed with the held pod's failure: counted ones, and ignored ones."""
    verdict = failure_of(job, held)
    is_ignored = verdict is not None and verdict.action == IGNORE
    counted, ignored = failures_before(held)
    return counted + (not is_ignored), ignored + is_ignored


def end_of(job: Object, counted: JobPods, now_s: float) -> JobEnd | None:
    """How the Job ends, or None if it does not yet; what its status says already is not changed any more."""
    for interim in FINAL:
        known = find_condition(job, interim)
        if known is not None and known["status"] == "True":
            return JobEnd(interim, known["reason"], known["message"])
    return _failure(job, counted, now_s) or _success(job, counted)


def _failure(job: Object, counted: JobPods, now_s: float) -> JobEnd | None:
    spec, deadline_s, failed = job["spec"], active_deadline(job), len(counted.failed_indexes or ())
    is_over = deadline_s is not None and now_s >= deadline_s
    is_settled = failed and failed + len(counted.done_indexes) >= int_of(spec, "completions")
    too_many = spec.get("maxFailedIndexes") is not None and failed > spec["maxFailedIndexes"]
    for is_so, reason, message in (
        (counted.verdict.message, "PodFailurePolicy", counted.verdict.message),
        (_exceeds_backoff_limit(spec, counted), "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        (is_over, "DeadlineExceeded", "Job was active longer than specified deadline"),
        (too_many, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"),
        (is_settled, "FailedIndexes", "Job has failed indexes"),
    ):
        if is_so:
            return JobEnd(FAILURE_TARGET, reason, message)
    return None


def _success(job: Object, counted: JobPods) -> JobEnd | None:
    rules = (job["spec"].get("successPolicy") or {}).get("rules") or []
    met = success_met(rules, counted.done_indexes)
    if met:
        return JobEnd(SUCCESS_MET, "SuccessPolicy", met)
    if is_complete(bounds_of(job), len(counted.active), counted.succeeded):
        return JobEnd(SUCCESS_MET, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def active_deadline(job: Object) -> float | None:
    """When `activeDeadlineSeconds` is over; None without one, before the start and while suspended."""
    limit_s = job["spec"].get("activeDeadlineSeconds")
    started = (job.get("status") or {}).get("startTime")
    if limit_s is None or not started or job["spec"].get("suspend"):
        return None
    return parse_time(started) + float(limit_s)


def _exceeds_backoff_limit(spec: Object, counted: JobPods) -> bool:
    """Too many pods have failed, or (restartPolicy OnFailure) were too often restarted."""
    limit = int_of(spec, "backoffLimit", DEFAULT_BACKOFF_LIMIT)
    failed = counted.failed + len(counted.held)
    if failed > limit or spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return failed > limit
    restarts = sum(int_of(one, "restartCount") for pod in counted.active for one in container_statuses(pod))
    return restarts >= max(1, limit)


def job_status(job: Object, counted: JobPods, end: JobEnd | None, now_s: float) -> Object:
    """The whole status: counts, times, and the conditions of suspension and of the end.

    The final condition follows the interim one when no pod is left that is active or being ended.
    """
    before = job.get("status") or {}
    now = format_time(now_s)
    is_suspended = bool(job["spec"].get("suspend"))
    active = 0 if end is not None else len(counted.active)
    lost = len(counted.active) if end is not None and not end.is_success else 0
    kept = counted.held.values() if end is not None else ()
    held = sum(verdict.action != IGNORE for pod in kept if (verdict := failure_of(job, pod)) is not None)
    counts = {"active": active, "succeeded": counted.succeeded, "failed": counted.failed + lost + held}
    status = {name: value for name, value in before.items() if name in ("conditions", "startTime", "completionTime")}
    status |= {name: count for name, count in counts.items() if count}
    terminating = len(counted.terminating) + (len(counted.active) if end is not None else 0)
    ready = sum(ready_since(pod) is not None for pod in counted.active) if active else 0
    status |= {"ready": ready, "terminating": terminating, "uncountedTerminatedPods": {}}
    if counted.done_indexes:
        status["completedIndexes"] = format_indexes(counted.done_indexes)
    if counted.failed_indexes is not None:
        status["failedIndexes"] = format_indexes(counted.failed_indexes)
    was_suspended = is_condition_true(job, "Suspended")
    if end is None and is_suspended != was_suspended:
        why = ("JobSuspended", "Job suspended") if is_suspended else ("JobResumed", "Job resumed")
        status = _with(status, "Suspended", is_suspended, why, now_s)
        status.pop("startTime", None)
    if not is_suspended:
        status.setdefault("startTime", now)
    if end is not None:
        status = _with(status, end.interim, True, end[1:], now_s)
        if not terminating:
            status = _with(status, FINAL[end.interim], True, end[1:], now_s)
            status |= {"completionTime": now} if end.is_success else {}
    return status


def _with(status: Object, condition_type: str, value: bool, why: tuple[str, str], now_s: float) -> Object:
    known = find_condition({"status": status}, condition_type)
    new = new_condition(condition_type, value, *why, now_s)
    if known is not None and (known["status"], known["reason"]) == (new["status"], new["reason"]):
        return status
    return with_condition(status, {**new, "lastProbeTime": new["lastTransitionTime"]})
