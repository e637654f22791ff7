"""CronJobs in virtual time, after upstream's specs "[sig-apps] CronJob should …" of the same names."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from packages.cluster.tests.controllers.world import START_S, World, job, meta

MINUTE = 60


def cron_job(schedule="*/1 * * * *", run_s=10, exit_code=0, **spec):
    annotations = {"berth.dev/run-seconds": str(run_s), "berth.dev/exit-code": str(exit_code)}
    template = {"metadata": {"labels": {"of": "cron"}}, "spec": {**job("x", annotations, backoffLimit=0)["spec"]}}
    spec = {"schedule": schedule, "jobTemplate": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta("cron"), "spec": spec}


@pytest.fixture
def world():
    assert START_S % MINUTE == 0
    return World()


def jobs(world):
    return sorted(one["metadata"]["name"] for one in world.all("Job"))


def test_should_schedule_multiple_jobs_concurrently(world):
    world.create(cron_job(run_s=300))
    world.run(2 * MINUTE)
    assert len(world.status("CronJob", "cron")["active"]) == 2
    minutes = int(START_S // MINUTE)
    assert jobs(world) == [f"cron-{minutes + 1}", f"cron-{minutes + 2}"]
    first = world.get("Job", f"cron-{minutes + 1}")["metadata"]
    assert first["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2027-01-15T08:01:00Z"
    assert (first["labels"]["of"], first["ownerReferences"][0]["kind"]) == ("cron", "CronJob")


def test_should_not_schedule_jobs_when_suspended(world):
    world.create(cron_job(suspend=True))
    world.run(5 * MINUTE)
    assert jobs(world) == []


def test_should_not_schedule_new_jobs_when_forbid_concurrent(world):
    world.create(cron_job(run_s=150, concurrencyPolicy="Forbid"))
    world.run(3 * MINUTE)
    assert len(jobs(world)) == 1
    assert len(world.status("CronJob", "cron")["active"]) == 1
    world.run(MINUTE)
    assert len(jobs(world)) == 2
    assert world.events("CronJob", "JobAlreadyActive")


def test_should_replace_jobs_when_replace_concurrent(world):
    world.create(cron_job(run_s=300, concurrencyPolicy="Replace"))
    world.run(MINUTE)
    first = jobs(world)
    world.run(MINUTE)
    assert len(jobs(world)) == 1 and jobs(world) != first


def test_should_be_able_to_schedule_after_more_than_100_missed_schedule(world):
    world.create(cron_job(suspend=True, run_s=1))
    world.run(200 * MINUTE)
    world.patch("CronJob", "cron", {"spec": {"suspend": False}})
    world.run()
    assert len(jobs(world)) == 1
    assert world.status("CronJob", "cron")["lastScheduleTime"] == "2027-01-15T11:20:00Z"
    (told,) = world.events("CronJob", "TooManyMissedTimes")
    assert told.startswith("too many missed start times.")


def test_a_run_that_is_later_than_its_deadline_is_left_out(world):
    world.create(cron_job("0 * * * *", suspend=True, startingDeadlineSeconds=100))
    world.run(60 * MINUTE + 101)
    world.patch("CronJob", "cron", {"spec": {"suspend": False}})
    world.run()
    assert jobs(world) == []
    world.run(60 * MINUTE - 101)
    assert len(jobs(world)) == 1


def test_should_remove_from_active_list_jobs_that_have_been_deleted(world):
    world.create(cron_job(run_s=300))
    world.run(MINUTE)
    (name,) = jobs(world)
    world.delete("Job", name, propagationPolicy="Background")
    world.run()
    assert "active" not in world.status("CronJob", "cron")
    assert world.events("CronJob", "MissingJob") == [f"Active job went missing: {name}"]


@pytest.mark.parametrize(("exit_code", "field"), [(0, "successfulJobsHistoryLimit"), (1, "failedJobsHistoryLimit")])
def test_should_delete_finished_jobs_with_limit_of_one_job(world, exit_code, field):
    world.create(cron_job(exit_code=exit_code, **{field: 1}))
    world.run(5 * MINUTE + 30)
    assert jobs(world) == [f"cron-{int(START_S // MINUTE) + 5}"]
    status = world.status("CronJob", "cron")
    assert ("lastSuccessfulTime" in status) is (exit_code == 0) and "active" not in status


def test_should_support_timezone(world):
    world.create(cron_job("0 9 * * *", timeZone="Europe/Berlin"))
    world.run(1)
    assert jobs(world) == []
    world.run(24 * 60 * MINUTE)
    (made,) = world.all("Job")
    scheduled = made["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert scheduled == "2027-01-16T09:00:00+01:00"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"schedule": "* * *"}, 'spec.schedule: Invalid value: "* * *": expected exactly 5 fields, found 3: [* * *]'),
        ({"timeZone": "Mars/Base"}, 'spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base'),
        ({"schedule": "TZ=UTC 0 * * * *"}, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        ({"timeZone": "Local"}, "timeZone must be an explicit time zone as defined in"),
        ({"timeZone": ""}, "timeZone must be nil or non-empty string"),
        ({"concurrencyPolicy": "Maybe"}, 'Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"'),
    ],
)
def test_what_is_refused(world, spec, why):
    with pytest.raises(StoreError) as refused:
        world.create(cron_job(**spec))
    assert why in refused.value.message
