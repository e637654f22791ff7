"""The CronJob controller: a Job when the schedule says so, and no more finished Jobs than are to be kept.

Driven by changes of CronJobs and their Jobs, and by time. Which run is due is decided by `berth_workloads.cron_jobs`.
Upstream: pkg/controller/cronjob.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    controller_reference,
    format_time,
    int_of,
    is_being_deleted,
    is_condition_true,
    key_of,
    new_controller_reference,
    parse_time,
    uid_of,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_workloads.cron_jobs import MANY_MISSED, Schedule, due_run, read_schedule

KIND = "CronJob"
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
TOO_MANY_MISSED = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
STILL_RUNNING = "Not starting job because prior execution is running and concurrency policy is Forbid"


class CronJobController(KeyedController):
    """Jobs for CronJobs."""

    __slots__ = ("_client", "_index")

    name = "cronjob-controller"
    kinds = frozenset({KIND, "Job"})

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._index = client.index

    def handle(self, change: ObjectChange) -> None:
        """Look at changed CronJobs, and at those of changed Jobs."""
        if change.kind == KIND and change.type != "DELETED":
            self.queue.add(key_of(change.obj))
        elif change.kind == "Job":
            owner = controller_reference(change.obj)
            if owner is not None and owner["kind"] == KIND:
                self.queue.add(f"{change.obj['metadata']['namespace']}/{owner['name']}")

    def sync(self, key: str, now_s: float) -> None:
        """Make the Job that is due, forget finished ones, and come back for the next run."""
        cron_job = self._index.get(KIND, key)
        if cron_job is None:
            return
        status = self._status_without_finished(cron_job, now_s)
        self._trim(cron_job, now_s)
        if not is_being_deleted(cron_job) and not cron_job["spec"].get("suspend"):
            try:
                schedule = read_schedule(cron_job["spec"]["schedule"], zone_of(cron_job["spec"]))
            except (ValueError, OSError, KeyError) as error:  # of ZoneInfo, too
                message = f'unparseable schedule: "{cron_job["spec"]["schedule"]}" : {error}'
                self._warn(cron_job, "UnparseableSchedule", message, now_s)
            else:
                status = self._run_due(cron_job, status, schedule, now_s)
                following = schedule.next_after(now_s)
                if following is not None:
                    self.queue.add_at(key, following)
        if status != (cron_job.get("status") or {}):
            self._client.update_status(KIND, {**cron_job, "status": status})

    def _jobs(self, cron_job: Object) -> list[Object]:
        return self._index.controlled(uid_of(cron_job), "Job")

    def _status_without_finished(self, cron_job: Object, now_s: float) -> Object:
        """The status without the active Jobs that have ended or are gone."""
        status = dict(cron_job.get("status") or {})
        jobs = {uid_of(job): job for job in self._jobs(cron_job)}
        active = []
        for reference in status.pop("active", None) or []:
            job = jobs.get(reference["uid"])
            if job is None:
                message = f"Active job went missing: {reference['name']}"
                self._say(cron_job, "MissingJob", message, now_s)
            elif (ended := end_of(job)) is None:
                active.append(reference)
            else:
                message = f"Saw completed job: {reference['name']}, condition: {ended}"
                self._say(cron_job, "SawCompletedJob", message, now_s)
        for job in jobs.values():
            finished = (job.get("status") or {}).get("completionTime")
            if finished and parse_time(finished) > parse_time(status.get("lastSuccessfulTime")):
                status["lastSuccessfulTime"] = finished
        return {"active": active, **status} if active else status

    def _trim(self, cron_job: Object, now_s: float) -> None:
        """Delete the oldest finished Jobs beyond the limits of the history."""
        spec = cron_job["spec"]
        for condition, limit in (
            ("Complete", int_of(spec, "successfulJobsHistoryLimit", 3)),
            ("Failed", int_of(spec, "failedJobsHistoryLimit", 1)),
        ):
            ended = [job for job in self._jobs(cron_job) if end_of(job) == condition and not is_being_deleted(job)]
            ended.sort(
                key=lambda job: (parse_time((job.get("status") or {}).get("startTime")), job["metadata"]["name"])
            )
            self._delete(cron_job, ended[: max(0, len(ended) - limit)], now_s)

    def _delete(self, cron_job: Object, jobs: Sequence[Object], now_s: float) -> None:
        for job in jobs:
            self._client.delete("Job", job)
            self._say(cron_job, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}", now_s)

    def _run_due(self, cron_job: Object, status: Object, schedule: Schedule, now_s: float) -> Object:
        """Make the Job of the run that is due, if the CronJob lets it; return the status with it."""
        spec = cron_job["spec"]
        since_s = parse_time(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
        deadline_s = spec.get("startingDeadlineSeconds")
        if deadline_s is not None:
            since_s = max(since_s, now_s - deadline_s)
        due = due_run(schedule, since_s, now_s)
        if due.missed > MANY_MISSED:
            self._warn(cron_job, "TooManyMissedTimes", f"{TOO_MANY_MISSED} (missed {due.missed})", now_s)
        active = status.get("active") or []
        if due.at_s is None:
            return status
        policy = spec.get("concurrencyPolicy")
        if policy == "Forbid" and active:
            self._say(cron_job, "JobAlreadyActive", STILL_RUNNING, now_s)
            return status
        if policy == "Replace":
            uids = {reference["uid"] for reference in active}
            self._delete(cron_job, [job for job in self._jobs(cron_job) if uid_of(job) in uids], now_s)
            active = []
        job = self._create(cron_job, due.at_s, now_s)
        reference = {"apiVersion": "batch/v1", "kind": "Job", "namespace": job["metadata"]["namespace"]}
        reference |= {name: job["metadata"][name] for name in ("name", "uid", "resourceVersion")}
        return {**status, "active": [*active, reference], "lastScheduleTime": format_time(due.at_s)}

    def _create(self, cron_job: Object, at_s: float, now_s: float) -> Object:
        metadata, template = cron_job["metadata"], cron_job["spec"]["jobTemplate"]
        scheduled = datetime.fromtimestamp(at_s, zone_of(cron_job["spec"])).isoformat().replace("+00:00", "Z")
        meta = {
            "name": f"{metadata['name']}-{int(at_s // 60)}",
            "namespace": metadata["namespace"],
            "labels": dict((template.get("metadata") or {}).get("labels") or {}),
            "annotations": {**((template.get("metadata") or {}).get("annotations") or {}), SCHEDULED_AT: scheduled},
            "ownerReferences": [new_controller_reference(cron_job, "batch/v1", KIND)],
        }
        try:
            job = self._client.create("Job", {"metadata": meta, "spec": template["spec"]})
        except StoreError as error:
            known = self._index.get("Job", f"{meta['namespace']}/{meta['name']}")
            if known is not None and (controller_reference(known) or {}).get("uid") == uid_of(cron_job):
                return known
            self._warn(cron_job, "FailedCreate", f"Error creating job: {error}", now_s)
            raise
        self._say(cron_job, "SuccessfulCreate", f"Created job {meta['name']}", now_s)
        return job

    def _say(self, cron_job: Object, reason: str, message: str, now_s: float) -> None:
        self._client.events.normal(self.name, KIND, cron_job, reason, message, now_s)

    def _warn(self, cron_job: Object, reason: str, message: str, now_s: float) -> None:
        self._client.events.warning(self.name, KIND, cron_job, reason, message, now_s)


def end_of(job: Object) -> str | None:
    """How a Job has ended: Complete or Failed; None while it has not."""
    return next((name for name in ("Complete", "Failed") if is_condition_true(job, name)), None)


def zone_of(spec: Object) -> tzinfo:
    """The time zone of a CronJob's schedule: UTC if it names none. Raises ValueError, OSError or KeyError."""
    return ZoneInfo(spec["timeZone"]) if spec.get("timeZone") else UTC
