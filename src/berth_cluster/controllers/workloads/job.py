"""The Job controller: makes pods until enough of them have succeeded, or too many have failed.

Driven by changes of Jobs and their pods, and by time (deadlines, back-off, `ttlSecondsAfterFinished`). A pod carries a
finalizer until its end has been counted in the Job's status. The status is written first and the finalizer removed
afterwards; upstream needs `uncountedTerminatedPods` for the time in between, in which a pod might be counted twice.
Here both writes happen in one look at the Job, with nothing in between. Upstream: pkg/controller/job and
ttlafterfinished.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    controller_reference,
    find_condition,
    format_time,
    int_of,
    is_being_deleted,
    is_condition_true,
    key_of,
    parse_time,
    set_condition,
    uid_of,
    without_finalizer,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import (
    first_to_go,
    is_active,
    is_terminal,
    phase_of,
    pod_from_template,
    ready_since,
)
from berth_workloads.jobs import COMPLETION_INDEX, JobBounds, index_of, is_complete, missing_indexes, wanted_pods
from berth_workloads.replica_sets import BURST

COMPONENT = "job-controller"
KIND = "Job"
FIRST_BACKOFF_S = 10.0
MAX_BACKOFF_S = 600.0
TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
DEFAULT_BACKOFF_LIMIT = 6


class FinishedCondition(NamedTuple):
    """How a Job has finished (`complete`, or else failed) and why, as its condition says it."""

    complete: bool
    reason: str
    message: str


class JobPods(NamedTuple):
    """A Job's pods: numbers of those that have finished, and the pods that are active."""

    succeeded: int
    failed: int
    active: list[Object]
    terminating: int
    ready: int
    done_indexes: set[int]
    uncounted: list[Object]


def is_finished(job: Object) -> bool:
    """The Job is Complete or Failed."""
    return is_condition_true(job, "Complete") or is_condition_true(job, "Failed")


def is_indexed(job: Object) -> bool:
    """Each completion has its own index."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def bounds_of(job: Object) -> JobBounds:
    """What the Job asks for."""
    spec = job["spec"]
    completions = spec.get("completions")
    return JobBounds(
        int_of(spec, "parallelism", 1), None if completions is None else int(completions), bool(spec.get("suspend"))
    )


def _indexes_of(pods: Iterable[Object]) -> set[int]:
    found = (index_of(annotations_of(pod).get(COMPLETION_INDEX)) for pod in pods)
    return {index for index in found if index is not None}


def count_pods(job: Object, pods: Sequence[Object]) -> JobPods:
    """Count the pods: what the status already holds, plus the ended ones not yet counted (by their finalizer)."""
    status = job.get("status") or {}
    uncounted = [pod for pod in pods if _has_ended(pod) and _is_tracked(pod)]
    succeeded = sum(phase_of(pod) == "Succeeded" for pod in uncounted)
    active = [pod for pod in pods if is_active(pod)]
    done = parse_indexes(status.get("completedIndexes", ""))
    done |= _indexes_of(pod for pod in uncounted if phase_of(pod) == "Succeeded")
    return JobPods(
        succeeded=len(done) if is_indexed(job) else int_of(status, "succeeded") + succeeded,
        failed=int_of(status, "failed") + len(uncounted) - succeeded,
        active=active,
        terminating=sum(is_being_deleted(pod) and not is_terminal(pod) for pod in pods),
        ready=sum(ready_since(pod) is not None for pod in active),
        done_indexes=done,
        uncounted=uncounted,
    )


def finished_condition(job: Object, counted: JobPods, now_s: float) -> FinishedCondition | None:
    """How the Job has finished, or None if it has not; failure is looked at first."""
    spec = job["spec"]
    if _exceeds_backoff_limit(spec, counted):
        return FinishedCondition(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline_s = active_deadline(job)
    if deadline_s is not None and now_s >= deadline_s:
        return FinishedCondition(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    if is_complete(bounds_of(job), len(counted.active), counted.succeeded):
        return FinishedCondition(True, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def active_deadline(job: Object) -> float | None:
    """When `activeDeadlineSeconds` is over; None without one, before the start and while suspended."""
    limit_s = job["spec"].get("activeDeadlineSeconds")
    started = (job.get("status") or {}).get("startTime")
    if limit_s is None or not started or job["spec"].get("suspend"):
        return None
    return parse_time(started) + float(limit_s)


def job_status(job: Object, counted: JobPods, end: FinishedCondition | None, now_s: float) -> Object:
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


def _suspension(conditions: list[Object], suspended: bool, now: str) -> list[Object]:
    known = any(condition["type"] == "Suspended" for condition in conditions)
    if not suspended and not known:
        return conditions
    reason, message = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
    return _with(conditions, "Suspended", str(suspended), (reason, message), now)


def _ended(conditions: list[Object], end: FinishedCondition, now: str) -> list[Object]:
    """The interim condition (criteria met, target failed) and the final one."""
    interim, final = ("SuccessCriteriaMet", "Complete") if end.complete else ("FailureTarget", "Failed")
    why = (end.reason, end.message)
    return _with(_with(conditions, interim, "True", why, now), final, "True", why, now)


def _with(conditions: list[Object], condition_type: str, status: str, why: tuple[str, str], now: str) -> list[Object]:
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


def _exceeds_backoff_limit(spec: Object, counted: JobPods) -> bool:
    """Too many pods have failed, or (restartPolicy OnFailure) were too often restarted."""
    limit = int_of(spec, "backoffLimit", DEFAULT_BACKOFF_LIMIT)
    if counted.failed > limit:
        return True
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(_restarts(pod) for pod in counted.active)
    return restarts >= limit if limit else restarts > 0


def _has_ended(pod: Object) -> bool:
    return is_terminal(pod) or is_being_deleted(pod)


def _is_tracked(pod: Object) -> bool:
    return TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or [])


def _restarts(pod: Object) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return sum(int_of(status, "restartCount") for status in statuses)


class JobController(KeyedController):
    """Pods for Jobs."""

    __slots__ = ("_client", "_index", "_last_failure")

    name = COMPONENT

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._index = client.index
        self._last_failure: dict[str, tuple[int, float]] = {}  # job uid -> failures in a row, time of the last

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Look at changed Jobs and at the Jobs of changed pods."""
        if change.kind == KIND:
            if change.type == "DELETED":
                self._last_failure.pop(uid_of(change.obj), None)
                for pod in self._index.controlled(uid_of(change.obj), "Pod"):
                    self.queue.add(f"pod {key_of(pod)}")
            else:
                self.queue.add(key_of(change.obj))
        elif change.kind == "Pod":
            self._handle_pod(change.obj)

    def _handle_pod(self, pod: Object) -> None:
        reference = controller_reference(pod)
        if reference is None or reference["kind"] != KIND:
            return
        if self._index.holds_uid(reference["uid"]):
            self.queue.add(f"{pod['metadata']['namespace']}/{reference['name']}")
        else:
            self.queue.add(f"pod {key_of(pod)}")

    # --- one Job ---------------------------------------------------------------------------------------------

    def sync(self, key: str, now_s: float) -> None:
        """Bring one Job's pods and status up to date (a key `pod …` is a pod whose Job is gone)."""
        if key.startswith("pod "):
            self._let_go(key.removeprefix("pod "))
            return
        job = self._index.get(KIND, key)
        if job is None:
            return
        pods = self._index.controlled(uid_of(job), "Pod")
        if is_finished(job) or is_being_deleted(job):
            self._wind_up(job, pods, now_s)
            return
        counted = count_pods(job, pods)
        self._note_failures(job, counted, now_s)
        end = finished_condition(job, counted, now_s)
        self._write(job, counted, end, now_s)
        for pod in counted.uncounted:
            self._untrack(pod)
        if end is not None:
            self._delete_pods(counted.active)
            self.queue.add(key)
            return
        self._manage(key, counted, now_s)

    def _let_go(self, pod_key: str) -> None:
        pod = self._index.get("Pod", pod_key)
        if pod is not None:
            self._untrack(pod)

    def _untrack(self, pod: Object) -> None:
        if TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or []):
            self._client.update("Pod", without_finalizer(pod, TRACKING_FINALIZER))

    def _delete_pods(self, pods: list[Object]) -> None:
        """Delete pods that are no longer wanted; without the finalizer they do not count as failed."""
        for pod in pods:
            self._untrack(pod)
            self._client.delete("Pod", pod)

    def _wind_up(self, job: Object, pods: list[Object], now_s: float) -> None:
        """Release the pods of a Job that has finished, and delete the Job when its time to live is over."""
        for pod in pods:
            self._untrack(pod)
        limit_s = job["spec"].get("ttlSecondsAfterFinished")
        if limit_s is None or is_being_deleted(job):
            return
        ended = find_condition(job, "Complete") or find_condition(job, "Failed") or {}
        gone_s = parse_time(ended.get("lastTransitionTime")) + float(limit_s)
        if now_s >= gone_s:
            self._client.delete(KIND, job)
        else:
            self.queue.add_at(key_of(job), gone_s)

    def _manage(self, key: str, counted: JobPods, now_s: float) -> None:
        """Create missing pods, delete surplus ones, come back at the deadline."""
        job = self._index.get(KIND, key)
        if job is None:
            return
        deadline_s = active_deadline(job)
        if deadline_s is not None:
            self.queue.add_at(key, deadline_s)
        active = len(counted.active)
        missing = wanted_pods(bounds_of(job), active, counted.succeeded) - active
        if missing < 0:
            self._delete_pods(first_to_go(counted.active, counted.active, -missing))
        elif missing > 0:
            ready_s = self._backoff_until(job)
            if now_s < ready_s:
                self.queue.add_at(key, ready_s)
                return
            self._create_pods(job, counted, min(missing, BURST), now_s)
            self.queue.add(key)

    def _create_pods(self, job: Object, counted: JobPods, count: int, now_s: float) -> None:
        indexes: list[int | None] = [None] * count
        if is_indexed(job):
            taken = counted.done_indexes | _indexes_of(counted.active)
            indexes = list(missing_indexes(range(int_of(job["spec"], "completions")), taken, count))
        for index in indexes:
            try:
                created = self._client.create("Pod", _new_pod(job, index))
            except StoreError as error:
                message = f"Error creating: {error}"
                self._client.events.warning(COMPONENT, KIND, job, "FailedCreate", message, now_s)
                raise
            message = f"Created pod: {created['metadata']['name']}"
            self._client.events.normal(COMPONENT, KIND, job, "SuccessfulCreate", message, now_s)

    def _note_failures(self, job: Object, counted: JobPods, now_s: float) -> None:
        """Note failures in a row, which lengthen the back-off until a pod succeeds."""
        before = job.get("status") or {}
        new_failures = counted.failed - int_of(before, "failed")
        if counted.succeeded > int_of(before, "succeeded"):
            self._last_failure.pop(uid_of(job), None)
        elif new_failures > 0:
            in_a_row, _ = self._last_failure.get(uid_of(job), (0, 0.0))
            self._last_failure[uid_of(job)] = (in_a_row + new_failures, now_s)

    def _backoff_until(self, job: Object) -> float:
        failures, last_s = self._last_failure.get(uid_of(job), (0, 0.0))
        if not failures:
            return 0.0
        return last_s + float(min(FIRST_BACKOFF_S * 2 ** min(failures - 1, 10), MAX_BACKOFF_S))

    # --- status ----------------------------------------------------------------------------------------------

    def _write(self, job: Object, counted: JobPods, end: FinishedCondition | None, now_s: float) -> None:
        status = job_status(job, counted, end, now_s)
        if status == job.get("status"):
            return
        self._client.update_status(KIND, {**job, "status": status})
        if end is not None and end.complete:
            self._client.events.normal(COMPONENT, KIND, job, "Completed", "Job completed", now_s)
        elif end is not None:
            self._client.events.warning(COMPONENT, KIND, job, end.reason, end.message, now_s)


def _new_pod(job: Object, index: int | None) -> Object:
    pod = pod_from_template(job, "batch/v1", KIND, job["spec"]["template"])
    metadata = pod["metadata"]
    metadata["labels"] = _identity_labels(job) | metadata.get("labels", {})
    metadata["finalizers"] = [*metadata.get("finalizers", []), TRACKING_FINALIZER]
    if index is not None:
        metadata["generateName"] = f"{job['metadata']['name']}-{index}-"
        metadata["annotations"] = {**metadata.get("annotations", {}), COMPLETION_INDEX: str(index)}
        metadata["labels"] |= {COMPLETION_INDEX: str(index)}
    return pod


def _identity_labels(job: Object) -> dict[str, str]:
    """The labels by which the pods of a Job are found, under the present keys and the old ones."""
    identity = {"controller-uid": uid_of(job), "job-name": job["metadata"]["name"]}
    return {f"batch.kubernetes.io/{name}": text for name, text in identity.items()} | identity
