"""The Job controller: pods until enough of them have succeeded, or too many have failed.

Driven by changes of Jobs and their pods, and by time (deadlines, back-off, `ttlSecondsAfterFinished`). A pod
carries a finalizer until its end is counted in the Job's status, so that none is counted twice or missed.
Upstream: pkg/controller/job and ttlafterfinished.
"""

from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import Change
from berth_cluster.controllers.job_status import (
    INDEX_ANNOTATION,
    TRACKING_FINALIZER,
    Ending,
    Tally,
    active_deadline,
    ending,
    is_finished,
    is_indexed,
    job_status,
    missing_indexes,
    tally,
    wanted_pods,
)
from berth_cluster.controllers.meta import (
    JsonObject,
    controller_reference,
    find_condition,
    int_of,
    is_being_deleted,
    key_of,
    parse_time,
    uid_of,
    without_finalizer,
)
from berth_cluster.controllers.pods import pod_from_template, pods_to_delete
from berth_cluster.errors import StoreError

COMPONENT = "job-controller"
KIND = "Job"
BURST = 500
FIRST_BACKOFF_S = 10.0
MAX_BACKOFF_S = 600.0


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

    def handle(self, change: Change) -> None:
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

    def _handle_pod(self, pod: JsonObject) -> None:
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
        counted = tally(job, pods)
        self._note_failures(job, counted, now_s)
        end = ending(job, counted, now_s)
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

    def _untrack(self, pod: JsonObject) -> None:
        if TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or []):
            self._client.update("Pod", without_finalizer(pod, TRACKING_FINALIZER))

    def _delete_pods(self, pods: list[JsonObject]) -> None:
        """Delete pods that are no longer wanted; without the finalizer they do not count as failed."""
        for pod in pods:
            self._untrack(pod)
            self._client.delete("Pod", pod)

    def _wind_up(self, job: JsonObject, pods: list[JsonObject], now_s: float) -> None:
        """A Job that has ended needs no pods, and goes itself when its time to live is over."""
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

    def _manage(self, key: str, counted: Tally, now_s: float) -> None:
        """Create missing pods, delete surplus ones, come back at the deadline."""
        job = self._index.get(KIND, key)
        if job is None:
            return
        deadline_s = active_deadline(job)
        if deadline_s is not None:
            self.queue.add_at(key, deadline_s)
        missing = wanted_pods(job, counted) - len(counted.active)
        if missing < 0:
            self._delete_pods(pods_to_delete(counted.active, counted.active, -missing))
        elif missing > 0:
            ready_s = self._backoff_until(job)
            if now_s < ready_s:
                self.queue.add_at(key, ready_s)
                return
            self._create_pods(job, counted, min(missing, BURST), now_s)
            self.queue.add(key)

    def _create_pods(self, job: JsonObject, counted: Tally, count: int, now_s: float) -> None:
        indexes: list[int | None] = [None] * count
        if is_indexed(job):
            indexes = list(missing_indexes(job, counted, count))
        for index in indexes:
            try:
                created = self._client.create("Pod", _new_pod(job, index))
            except StoreError as error:
                message = f"Error creating: {error}"
                self._client.events.warning(COMPONENT, KIND, job, "FailedCreate", message, now_s)
                raise
            message = f"Created pod: {created['metadata']['name']}"
            self._client.events.normal(COMPONENT, KIND, job, "SuccessfulCreate", message, now_s)

    def _note_failures(self, job: JsonObject, counted: Tally, now_s: float) -> None:
        """Failures in a row lengthen the back-off, a success ends it."""
        before = job.get("status") or {}
        new_failures = counted.failed - int_of(before, "failed")
        if counted.succeeded > int_of(before, "succeeded"):
            self._last_failure.pop(uid_of(job), None)
        elif new_failures > 0:
            in_a_row, _ = self._last_failure.get(uid_of(job), (0, 0.0))
            self._last_failure[uid_of(job)] = (in_a_row + new_failures, now_s)

    def _backoff_until(self, job: JsonObject) -> float:
        failures, last_s = self._last_failure.get(uid_of(job), (0, 0.0))
        if not failures:
            return 0.0
        return last_s + float(min(FIRST_BACKOFF_S * 2 ** min(failures - 1, 10), MAX_BACKOFF_S))

    # --- status ----------------------------------------------------------------------------------------------

    def _write(self, job: JsonObject, counted: Tally, end: Ending | None, now_s: float) -> None:
        status = job_status(job, counted, end, now_s)
        if status == job.get("status"):
            return
        self._client.update_status(KIND, {**job, "status": status})
        if end is not None and end.complete:
            self._client.events.normal(COMPONENT, KIND, job, "Completed", "Job completed", now_s)
        elif end is not None:
            self._client.events.warning(COMPONENT, KIND, job, end.reason, end.message, now_s)


def _new_pod(job: JsonObject, index: int | None) -> JsonObject:
    pod = pod_from_template(job, "batch/v1", KIND, job["spec"]["template"])
    metadata = pod["metadata"]
    metadata["labels"] = _identity_labels(job) | metadata.get("labels", {})
    metadata["finalizers"] = [*metadata.get("finalizers", []), TRACKING_FINALIZER]
    if index is not None:
        metadata["generateName"] = f"{job['metadata']['name']}-{index}-"
        metadata["annotations"] = {**metadata.get("annotations", {}), INDEX_ANNOTATION: str(index)}
        metadata["labels"] |= {INDEX_ANNOTATION: str(index)}
    return pod


def _identity_labels(job: JsonObject) -> dict[str, str]:
    """What the pods of a Job are found by, under the present names and the old ones."""
    identity = {"controller-uid": uid_of(job), "job-name": job["metadata"]["name"]}
    return {f"batch.kubernetes.io/{name}": text for name, text in identity.items()} | identity
