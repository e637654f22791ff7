"""The Job controller: makes pods until enough of them have succeeded, or too many have failed.

Driven by changes of Jobs and their pods, and by time (deadlines, back-off, `ttlSecondsAfterFinished`). A pod carries a
finalizer until its end has been counted in the Job's status. The status is written first and the finalizer removed
afterwards; upstream needs `uncountedTerminatedPods` for the time in between, in which a pod might be counted twice.
Here both writes happen in one look at the Job, with nothing in between. Upstream: pkg/controller/job and
ttlafterfinished.
"""

from collections.abc import Iterable

from berth_cluster.apimachinery.meta import (
    Object,
    find_condition,
    int_of,
    is_being_deleted,
    parse_time,
    uid_of,
    without_finalizer,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.pods import first_to_go, pod_from_template
from berth_cluster.controllers.workloads.job_status import (
    FAILURE_COUNT,
    IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
    JobEnd,
    JobPods,
    active_deadline,
    bounds_of,
    count_pods,
    end_of,
    failures_with,
    finished_as,
    finished_at,
    has_backoff_per_index,
    is_indexed,
    job_status,
    pod_index,
    replaces_failed_only,
)
from berth_cluster.controllers.workloads.workload import WorkloadController
from berth_cluster.strategies.workloads import job_labels
from berth_workloads.jobs import COMPLETION_INDEX, backoff_s, missing_indexes, surplus_pods, wanted_pods
from berth_workloads.replica_sets import BURST

MANAGED_HERE = (None, "kubernetes.io/job-controller")
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


class JobController(WorkloadController):
    """Pods for Jobs."""

    __slots__ = ("_last_failure",)

    name = "job-controller"
    kind = "Job"
    finalizer = TRACKING_FINALIZER

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._last_failure: dict[str, tuple[int, float]] = {}  # job uid -> failures in a row, time of the last

    # --- changes ---------------------------------------------------------------------------------------------

    def forget(self, workload: Object) -> None:
        """Look at the pods of a Job that is gone: they must not be kept for it."""
        self._last_failure.pop(uid_of(workload), None)
        for pod in self.owned(workload):
            self.look_at(pod)

    def look_at_owner(self, key: str, uid: str, child: Object) -> None:
        """Look at the Job of a pod, or at the pod itself where the Job is gone."""
        if self.index.holds_uid(uid):
            self.look_up(self.kind, key)
        else:
            self.look_at(child)

    # --- one Job ---------------------------------------------------------------------------------------------

    def sync(self, obj: Object, now_s: float) -> None:
        """Bring one Job's pods and status up to date, or let go of a pod whose Job is gone."""
        if obj["kind"] == "Pod":
            self._untrack(obj)
        elif obj["spec"].get("managedBy") not in MANAGED_HERE:
            return
        elif finished_as(obj) or is_being_deleted(obj):
            self._wind_up(obj, now_s)
        else:
            self._go_on(obj, now_s)

    def _go_on(self, job: Object, now_s: float) -> None:
        self.claim(job, self.owned(job))
        counted = count_pods(job, self.owned(job))
        self._note_failures(job, counted, now_s)
        end = end_of(job, counted, now_s)
        job = self._write(job, counted, end, now_s)
        for pod in (*counted.newly, *(counted.held.values() if end is not None else ())):
            self._untrack(pod)
        if end is not None:
            self._delete(job, counted.active, now_s)
        else:
            self._manage(job, counted, now_s)

    def _untrack(self, pod: Object) -> None:
        if TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or []):
            self.client.update("Pod", without_finalizer(pod, TRACKING_FINALIZER))

    def _delete(self, job: Object, pods: list[Object], now_s: float) -> None:
        """Delete pods that are no longer wanted; without the finalizer they do not count as failed."""
        for pod in pods:
            self._untrack(pod)
        self.delete_children(job, pods, now_s)

    def _wind_up(self, job: Object, now_s: float) -> None:
        """Release the pods of a Job that has finished, and delete the Job when its time to live is over."""
        for pod in self.owned(job):
            self._untrack(pod)
        limit_s = job["spec"].get("ttlSecondsAfterFinished")
        if limit_s is None or is_being_deleted(job):
            return
        ended = find_condition(job, "Complete") or find_condition(job, "Failed") or {}
        gone_s = parse_time(ended.get("lastTransitionTime")) + float(limit_s)
        if now_s >= gone_s:
            self.client.delete(self.kind, job, policy="Foreground")
        else:
            self.look_at(job, gone_s)

    def _manage(self, job: Object, counted: JobPods, now_s: float) -> None:
        """Delete surplus pods, or else create missing ones; come back at the deadline."""
        deadline_s = active_deadline(job)
        if deadline_s is not None:
            self.look_at(job, deadline_s)
        active = len(counted.active)
        wanted = wanted_pods(bounds_of(job), active, counted.succeeded)
        surplus = self._surplus(job, counted.active, active - wanted)[:BURST]
        missing = wanted - active - (len(counted.terminating) if replaces_failed_only(job) else 0)
        if surplus:
            self._delete(job, surplus, now_s)
        elif missing > 0:
            self._create(job, counted, min(missing, BURST), now_s)

    def _surplus(self, job: Object, active: list[Object], count: int) -> list[Object]:
        """The pods to delete: those that an Indexed Job has no use for, and others up to that number."""
        ordered = first_to_go(active, active, len(active))
        useless: list[int] = []
        if is_indexed(job) and count < len(active):
            useless = surplus_pods(map(pod_index, ordered), int_of(job["spec"], "completions"))
        chosen = [ordered[at] for at in useless]
        left = (pod for at, pod in enumerate(ordered) if at not in set(useless))
        return [*chosen, *(pod for _, pod in zip(range(count - len(chosen)), left, strict=False))]

    def _create(self, job: Object, counted: JobPods, count: int, now_s: float) -> None:
        indexes: list[int | None] = [None] * count
        if is_indexed(job):
            busy = [*counted.active, *(counted.terminating if replaces_failed_only(job) else ())]
            taken = counted.done_indexes | {*map(pod_index, busy)} | (counted.failed_indexes or set())
            indexes = list(missing_indexes(range(int_of(job["spec"], "completions")), taken, count))
        ready_s = {index: self._ready_at(job, counted.held.get(index)) for index in indexes}
        due = [index for index in indexes if ready_s[index] <= now_s]
        if not due and ready_s:
            self.look_at(job, min(ready_s.values()))
        self.create_children(job, (_new_pod(job, index, counted.held.get(index)) for index in due), now_s)

    def _ready_at(self, job: Object, held: Object | None) -> float:
        """When a pod may be made after those that have failed: of the same index, or of the whole Job."""
        if has_backoff_per_index(job):
            return 0.0 if held is None else finished_at(held) + backoff_s(sum(failures_with(job, held)))
        failures, last_s = self._last_failure.get(uid_of(job), (0, 0.0))
        return last_s + backoff_s(failures)

    def _note_failures(self, job: Object, counted: JobPods, now_s: float) -> None:
        """Note failures in a row, which lengthen the back-off until a pod succeeds."""
        before = job.get("status") or {}
        new_failures = sum(pod["status"].get("phase") != "Succeeded" for pod in counted.newly)
        if counted.succeeded > int_of(before, "succeeded"):
            self._last_failure.pop(uid_of(job), None)
        elif new_failures > 0:
            in_a_row, _ = self._last_failure.get(uid_of(job), (0, 0.0))
            self._last_failure[uid_of(job)] = (in_a_row + new_failures, now_s)

    # --- status ----------------------------------------------------------------------------------------------

    def _write(self, job: Object, counted: JobPods, end: JobEnd | None, now_s: float) -> Object:
        written = self.client.set_status(job, job_status(job, counted, end, now_s))
        if written is not job:
            for reason, message, is_warning in _news(job, written, end, counted.succeeded):
                self.tell(job, reason, message, now_s, warns=is_warning)
        return written


def _news(before: Object, job: Object, end: JobEnd | None, succeeded: int) -> Iterable[tuple[str, str, bool]]:
    """What a change of the status is told of: reason, message, and whether that is a warning."""
    was, now = find_condition(before, "Suspended"), find_condition(job, "Suspended")
    if now is not None and now["status"] != (was or {}).get("status"):
        yield ("Suspended" if now["status"] == "True" else "Resumed"), now["message"], False
    if end is not None and finished_as(job):
        if end.is_success and succeeded > job["spec"].get("completions", succeeded):
            yield "TooManySucceededPods", "Too many succeeded pods running after completion count reached", True
        why = ("Completed", "Job completed") if end.is_success else (end.reason, end.message)
        yield *why, not end.is_success


def _new_pod(job: Object, index: int | None, held: Object | None) -> Object:
    pod = pod_from_template(job, job["spec"]["template"])
    metadata = pod["metadata"]
    metadata["labels"] = job_labels(job) | metadata.get("labels", {})
    metadata["finalizers"] = [*metadata.get("finalizers", []), TRACKING_FINALIZER]
    if index is None:
        return pod
    name = f"{job['metadata']['name']}-{index}"
    metadata["generateName"] = f"{name}-"
    metadata["annotations"] = {**metadata.get("annotations", {}), COMPLETION_INDEX: str(index)}
    metadata["labels"] |= {COMPLETION_INDEX: str(index)}
    if has_backoff_per_index(job):
        counted, ignored = (0, 0) if held is None else failures_with(job, held)
        metadata["annotations"] |= {FAILURE_COUNT: str(counted)}
        metadata["annotations"] |= {IGNORED_FAILURE_COUNT: str(ignored)} if ignored else {}
    spec = pod["spec"] = {**pod["spec"], "hostname": name}
    for section in ("initContainers", "containers"):
        if section in spec:
            spec[section] = [_told_its_index(container) for container in spec[section]]
    return pod


def _told_its_index(container: Object) -> Object:
    """The container with a variable that holds its pod's index, if it has none of that name."""
    given = container.get("env") or []
    if any(one.get("name") == INDEX_VARIABLE for one in given):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    return {**container, "env": [*given, {"name": INDEX_VARIABLE, "valueFrom": source}]}
