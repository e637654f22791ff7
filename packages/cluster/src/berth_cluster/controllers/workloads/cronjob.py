"""The CronJob controller: a Job when the schedule says so, and no more finished Jobs than are to be kept.

Driven by changes of CronJobs and their Jobs, and by time. Which run is due is decided by `berth_workloads.cron_jobs`.
Upstream: pkg/controller/cronjob.
"""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    format_time,
    int_of,
    is_being_deleted,
    parse_time,
    uid_of,
)
from berth_cluster.controllers.pods import made_from
from berth_cluster.controllers.workloads.job_status import finished_as
from berth_cluster.controllers.workloads.workload import WorkloadController
from berth_workloads.cron_jobs import MANY_MISSED, Schedule, due_run, read_schedule

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
TOO_MANY_MISSED = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
STILL_RUNNING = "Not starting job because prior execution is running and concurrency policy is Forbid"


class CronJobController(WorkloadController):
    """Jobs for CronJobs, which adopt none."""

    __slots__ = ()

    name = "cronjob-controller"
    kind = "CronJob"
    child = "Job"
    created, refused, deleted = "Created job {name}", "Error creating job: {error}", "Deleted job {name}"

    def sync(self, obj: Object, now_s: float) -> None:
        """Make the Job that is due, forget finished ones, and come back for the next run."""
        status = self._status_without_finished(obj, now_s)
        self._trim(obj, now_s)
        if not is_being_deleted(obj) and not obj["spec"].get("suspend"):
            try:
                schedule = read_schedule(obj["spec"]["schedule"], zone_of(obj["spec"]))
            except (ValueError, OSError, KeyError) as error:  # of ZoneInfo, too
                message = f'unparseable schedule: "{obj["spec"]["schedule"]}" : {error}'
                self.tell(obj, "UnparseableSchedule", message, now_s, warns=True)
            else:
                status = self._run_due(obj, status, schedule, now_s)
                following = schedule.next_after(now_s)
                if following is not None:
                    self.look_at(obj, following)
        if status or obj.get("status"):
            self.client.set_status(obj, status)

    def _status_without_finished(self, cron_job: Object, now_s: float) -> Object:
        """The status without the active Jobs that have ended or are gone."""
        status = dict(cron_job.get("status") or {})
        jobs = {uid_of(job): job for job in self.owned(cron_job)}
        active = []
        for reference in status.pop("active", None) or []:
            job = jobs.get(reference["uid"])
            if job is None:
                message = f"Active job went missing: {reference['name']}"
                self.tell(cron_job, "MissingJob", message, now_s)
            elif (ended := finished_as(job)) is None:
                active.append(reference)
            else:
                message = f"Saw completed job: {reference['name']}, condition: {ended}"
                self.tell(cron_job, "SawCompletedJob", message, now_s)
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
            ended = [job for job in self.owned(cron_job) if finished_as(job) == condition and not is_being_deleted(job)]
            ended.sort(
                key=lambda job: (parse_time((job.get("status") or {}).get("startTime")), job["metadata"]["name"])
            )
            self.delete_children(cron_job, ended[: max(0, len(ended) - limit)], now_s)

    def _run_due(self, cron_job: Object, status: Object, schedule: Schedule, now_s: float) -> Object:
        """Make the Job of the run that is due, if the CronJob lets it; return the status with it."""
        spec = cron_job["spec"]
        since_s = parse_time(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
        deadline_s = spec.get("startingDeadlineSeconds")
        if deadline_s is not None:
            since_s = max(since_s, now_s - deadline_s)
        due = due_run(schedule, since_s, now_s)
        if due.missed > MANY_MISSED:
            self.tell(cron_job, "TooManyMissedTimes", f"{TOO_MANY_MISSED} (missed {due.missed})", now_s, warns=True)
        active = status.get("active") or []
        if due.at_s is None:
            return status
        policy = spec.get("concurrencyPolicy")
        if policy == "Forbid" and active:
            self.tell(cron_job, "JobAlreadyActive", STILL_RUNNING, now_s)
            return status
        if policy == "Replace":
            uids = {reference["uid"] for reference in active}
            self.delete_children(cron_job, [job for job in self.owned(cron_job) if uid_of(job) in uids], now_s)
            active = []
        job = self._create(cron_job, due.at_s, now_s)
        reference = {"apiVersion": "batch/v1", "kind": "Job", "namespace": job["metadata"]["namespace"]}
        reference |= {name: job["metadata"][name] for name in ("name", "uid", "resourceVersion")}
        return {**status, "active": [*active, reference], "lastScheduleTime": format_time(due.at_s)}

    def _create(self, cron_job: Object, at_s: float, now_s: float) -> Object:
        name = f"{cron_job['metadata']['name']}-{int(at_s // 60)}"
        known = self.index.get("Job", f"{cron_job['metadata']['namespace']}/{name}")
        if known is not None and self.index.controller_of(known) is cron_job:
            return known
        job = made_from(cron_job, cron_job["spec"]["jobTemplate"], name=name)
        scheduled = datetime.fromtimestamp(at_s, zone_of(cron_job["spec"])).isoformat().replace("+00:00", "Z")
        job["metadata"]["annotations"] = {**annotations_of(job), SCHEDULED_AT: scheduled}
        return self.create_children(cron_job, [job], now_s)[0]


def zone_of(spec: Object) -> tzinfo:
    """The time zone of a CronJob's schedule: UTC if it names none. Raises ValueError, OSError or KeyError."""
    return ZoneInfo(spec["timeZone"]) if spec.get("timeZone") else UTC
