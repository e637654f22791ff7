"""Jobs in virtual time: completions, parallelism, failures, deadlines, what is left afterwards."""

from tests.cluster.controllers.world import World, condition, job

FAILS = {"berth.dev/exit-code": "1"}


def phases(world):
    return sorted(one["status"]["phase"] for one in world.pods())


def test_a_job_completes():
    world = World()
    world.create(job("pi"))
    world.run()
    assert world.status("Job", "pi")["active"] == 1
    world.run(3)
    found = world.get("Job", "pi")
    reached = ("True", "CompletionsReached", "Reached expected number of succeeded pods")
    assert condition(found, "Complete") == reached
    assert condition(found, "SuccessCriteriaMet") == reached
    status = found["status"]
    assert (status["succeeded"], status.get("active", 0), status["ready"]) == (1, 0, 0)
    assert status["startTime"] < status["completionTime"]
    assert phases(world) == ["Succeeded"]


def test_pods_carry_the_jobs_name_and_lose_the_tracking_finalizer():
    world = World()
    world.create(job("pi"))
    world.run()
    (running,) = world.pods()
    assert running["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "pi"
    assert running["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    world.run(3)
    (done,) = world.pods()
    assert not done["metadata"].get("finalizers")


def test_parallelism_bounds_the_active_pods():
    world = World()
    world.create(job("batch", completions=5, parallelism=2))
    world.run()
    assert world.status("Job", "batch")["active"] == 2
    world.run(2)
    assert world.status("Job", "batch")["succeeded"] == 2
    world.run(5)
    assert condition(world.get("Job", "batch"), "Complete")[0] == "True"
    assert phases(world) == ["Succeeded"] * 5


def test_failures_beyond_the_backoff_limit_end_the_job():
    world = World()
    world.create(job("bad", annotations=FAILS, backoffLimit=2))
    world.run(600)
    found = world.get("Job", "bad")
    exceeded = ("True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    assert condition(found, "Failed") == exceeded
    assert condition(found, "FailureTarget") == exceeded
    assert condition(found, "Complete") is None
    assert found["status"]["failed"] == 3
    assert phases(world) == ["Failed"] * 3


def test_failed_pods_are_replaced_after_a_growing_delay():
    world = World()
    world.create(job("bad", annotations=FAILS, backoffLimit=3))
    world.run(3)  # the first has failed after 2 s
    assert len(world.pods()) == 1
    world.run(10)  # back-off of 10 s
    assert len(world.pods()) == 2
    world.run(10)  # the second fails 2 s later; its back-off is 20 s
    assert len(world.pods()) == 2
    world.run(15)
    assert len(world.pods()) == 3


def test_on_failure_restarts_in_place():
    world = World()
    world.create(job("bad", annotations=FAILS, backoffLimit=2, restart_policy="OnFailure"))
    world.run(3)
    (restarted,) = world.pods()
    assert restarted["status"]["containerStatuses"][0]["restartCount"] == 1
    world.run(5)  # it has failed again, and is started anew after 10 s
    assert condition(world.get("Job", "bad"), "Failed") is None
    world.run(10)
    assert condition(world.get("Job", "bad"), "Failed")[1] == "BackoffLimitExceeded"


def test_the_active_deadline_ends_the_job():
    world = World()
    world.create(job("long", annotations={"berth.dev/run-seconds": "1000"}, activeDeadlineSeconds=30))
    world.run(29)
    assert condition(world.get("Job", "long"), "Failed") is None
    world.run(3)
    found = world.get("Job", "long")
    exceeded = ("True", "DeadlineExceeded", "Job was active longer than specified deadline")
    assert condition(found, "Failed") == exceeded
    assert found["status"].get("active", 0) == 0
    assert world.pods() == []


def test_a_finished_job_goes_when_its_time_to_live_is_over():
    world = World()
    world.create(job("pi", ttlSecondsAfterFinished=10))
    world.run(5)
    assert world.get("Job", "pi") is not None
    world.run(10)
    assert world.get("Job", "pi") is None
    assert world.pods() == []


def test_a_work_queue_ends_when_one_has_succeeded_and_none_is_active():
    world = World()
    queue = job("queue", parallelism=3)
    del queue["spec"]["completions"]
    world.create(queue)
    world.run()
    first, *_ = world.pods()
    assert len(world.pods()) == 3
    world.patch("Pod", first["metadata"]["name"], {"status": {"phase": "Succeeded"}}, subresource="status")
    world.run()
    assert len(world.pods()) == 3  # no new pod once one has succeeded
    assert condition(world.get("Job", "queue"), "Complete") is None
    world.run(3)
    assert condition(world.get("Job", "queue"), "Complete")[0] == "True"


def test_an_indexed_job_gives_each_completion_its_index():
    world = World()
    world.create(job("parts", completions=3, parallelism=2, completionMode="Indexed"))
    world.run()
    index = "batch.kubernetes.io/job-completion-index"
    assert sorted(one["metadata"]["annotations"][index] for one in world.pods()) == ["0", "1"]
    world.run(10)
    status = world.status("Job", "parts")
    assert (status["completedIndexes"], status["succeeded"]) == ("0-2", 3)
    assert sorted(one["metadata"]["annotations"][index] for one in world.pods()) == ["0", "1", "2"]


def test_a_suspended_job_has_no_pods_and_resumes():
    world = World()
    world.create(job("later", suspend=True))
    world.run(5)
    assert world.pods() == []
    assert condition(world.get("Job", "later"), "Suspended") == ("True", "JobSuspended", "Job suspended")
    world.patch("Job", "later", {"spec": {"suspend": False}})
    world.run(5)
    assert condition(world.get("Job", "later"), "Complete")[0] == "True"
    assert condition(world.get("Job", "later"), "Suspended")[0] == "False"


def test_a_pod_that_is_deleted_counts_as_failed_and_is_replaced():
    world = World()
    world.create(job("pi", annotations={"berth.dev/run-seconds": "100"}))
    world.run()
    world.delete("Pod", world.pods()[0]["metadata"]["name"])
    world.run(30)
    assert world.status("Job", "pi")["failed"] == 1
    assert len(world.pods()) == 1


def test_deleting_a_job_takes_its_pods_with_it():
    world = World()
    world.create(job("pi", completions=3, parallelism=3))
    world.run()
    world.delete("Job", "pi", propagationPolicy="Background")
    world.run(5)
    assert world.pods() == []
