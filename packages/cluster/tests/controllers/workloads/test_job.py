"""Jobs in virtual time: completions, parallelism, failures, deadlines, what is left afterwards."""

from berth_cluster.hollow.kubelet import KubeletSettings
from packages.cluster.tests.controllers.world import World, condition, job

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


# --- policies, one index at a time, what is replaced when; named as upstream's conformance specs ---------------------

INDEX = "batch.kubernetes.io/job-completion-index"


def indexed(name="j", **spec):
    return job(name, **{"completions": 3, "parallelism": 3, "completionMode": "Indexed", **spec})


def running(manifest, **settings):
    """A world in which the Job's pods run until a test ends them."""
    world = World(kubelet=KubeletSettings(run_s=1e9, **settings))
    world.create(manifest)
    world.run()
    return world


def pod_of(world, index):
    [found] = [one for one in world.pods() if is_of(one, index) and one["status"]["phase"] == "Running"]
    return found["metadata"]["name"]


def is_of(one, index):
    return one["metadata"]["annotations"].get(INDEX) == str(index)


def end(world, name, code=0):
    """The pod ends within this instant."""
    annotations = {"berth.dev/run-seconds": "0", "berth.dev/exit-code": str(code)}
    world.patch("Pod", name, {"metadata": {"annotations": annotations}})
    world.run()


def test_job_should_create_pods_for_an_indexed_job_with_completion_indexes_and_specified_hostname():
    """[sig-apps] Job should create pods for an Indexed job with completion indexes and specified hostname"""
    world = running(indexed())
    for one in world.pods():
        index = one["metadata"]["annotations"][INDEX]
        assert one["metadata"]["labels"][INDEX] == index
        assert one["metadata"]["name"].startswith(f"j-{index}-")
        assert one["spec"]["hostname"] == f"j-{index}"
        [variable] = one["spec"]["containers"][0]["env"]
        field = f"metadata.labels['{INDEX}']"
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}
        assert variable == {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}


def test_job_should_execute_all_indexes_despite_some_failing_when_using_backofflimitperindex():
    """[sig-apps] Job should execute all indexes despite some failing when using backoffLimitPerIndex"""
    world = World()
    failing = indexed(completions=4, parallelism=4, backoffLimitPerIndex=1)
    world.create(failing)
    world.run()
    for _ in range(2):
        for index in (0, 2):
            end(world, pod_of(world, index), code=1)
        world.run(10)
    found = world.get("Job", "j")
    assert condition(found, "Failed") == ("True", "FailedIndexes", "Job has failed indexes")
    status = found["status"]
    assert (status["failedIndexes"], status["completedIndexes"]) == ("0,2", "1,3")
    assert (status["failed"], status["succeeded"]) == (4, 2)


def test_a_failed_pod_is_kept_until_its_index_has_another_which_counts_the_failures():
    """KEP-3850: the annotation job-index-failure-count, and a back-off for each index."""
    world = running(indexed(backoffLimitPerIndex=3))
    first = pod_of(world, 1)
    end(world, first, code=1)
    assert world.get("Pod", first)["metadata"]["finalizers"]
    world.run(9)
    assert len([one for one in world.pods() if is_of(one, 1)]) == 1
    world.run(1)
    again = world.get("Pod", pod_of(world, 1))
    assert again["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
    assert not world.get("Pod", first)["metadata"].get("finalizers")
    assert world.status("Job", "j")["failed"] == 1
    end(world, again["metadata"]["name"], code=1)
    world.run(19)
    assert world.status("Job", "j")["active"] == 2
    world.run(1)
    assert world.status("Job", "j")["active"] == 3


def test_job_should_terminate_job_execution_when_the_number_of_failed_indexes_exceeds_maxfailedindexes():
    """[sig-apps] Job should terminate job execution when the number of failed indexes exceeds maxFailedIndexes"""
    world = running(indexed(backoffLimitPerIndex=0, maxFailedIndexes=1))
    end(world, pod_of(world, 0), code=1)
    assert condition(world.get("Job", "j"), "FailureTarget") is None
    end(world, pod_of(world, 1), code=1)
    exceeded = "Job has exceeded the specified maximal number of failed indexes"
    found = world.get("Job", "j")
    assert condition(found, "FailureTarget") == ("True", "MaxFailedIndexesExceeded", exceeded)
    assert condition(found, "Failed") is None  # a pod is still being ended
    assert (found["status"]["terminating"], found["status"]["failed"]) == (1, 3)
    world.run(1)
    assert condition(world.get("Job", "j"), "Failed") == ("True", "MaxFailedIndexesExceeded", exceeded)


def policy(action, **requirement):
    return {"rules": [{"action": action, **requirement}]}


EXIT_42 = {"onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}}
DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget"}]}


def test_job_should_fail_the_job_when_the_pod_failure_policy_says_so():
    """[sig-apps] Job should allow to use the pod failure policy on exit code to fail the job early"""
    world = running(job("j", completions=3, parallelism=3, podFailurePolicy=policy("FailJob", **EXIT_42)))
    first = world.pods()[0]["metadata"]["name"]
    end(world, first, code=42)
    words = f"Container main for pod default/{first} failed with exit code 42 matching FailJob rule at index 0"
    assert condition(world.get("Job", "j"), "FailureTarget") == ("True", "PodFailurePolicy", words)
    assert condition(world.get("Job", "j"), "Failed") is None
    world.run(1)
    assert condition(world.get("Job", "j"), "Failed") == ("True", "PodFailurePolicy", words)
    assert world.status("Job", "j")["failed"] == 3


def test_job_should_allow_to_use_the_pod_failure_policy_to_not_count_the_failure_towards_the_backofflimit():
    """[sig-apps] Job should allow to use the pod failure policy to not count the failure towards the backoffLimit"""
    world = running(job("j", backoffLimit=0, podFailurePolicy=policy("Ignore", **DISRUPTED)))
    [victim] = world.pods()
    world.store.evict("default", victim["metadata"]["name"])
    world.run(1)
    assert world.status("Job", "j").get("failed", 0) == 0
    world.run(10)
    assert world.status("Job", "j")["active"] == 1
    [one] = [one for one in world.pods() if one["status"]["phase"] == "Running"]
    end(world, one["metadata"]["name"], code=1)  # this one counts
    assert condition(world.get("Job", "j"), "Failed")[1] == "BackoffLimitExceeded"


def test_job_should_mark_indexes_as_failed_when_the_failindex_action_is_matched():
    """[sig-apps] Job should mark indexes as failed when the FailIndex action is matched in podFailurePolicy"""
    world = running(indexed(backoffLimitPerIndex=5, podFailurePolicy=policy("FailIndex", **EXIT_42)))
    end(world, pod_of(world, 0), code=42)
    assert world.status("Job", "j")["failedIndexes"] == "0"
    for index in (1, 2):
        end(world, pod_of(world, index))
    assert condition(world.get("Job", "j"), "Failed")[1] == "FailedIndexes"


def test_job_with_successpolicy_succeededindexes_rule_should_succeeded_even_when_some_indexes_remain_pending():
    """[sig-apps] Job with successPolicy succeededIndexes rule should succeeded even when some indexes remain pending"""
    world = running(indexed(successPolicy={"rules": [{"succeededIndexes": "1"}]}))
    end(world, pod_of(world, 1))
    met = ("True", "SuccessPolicy", "Matched rules at index 0")
    found = world.get("Job", "j")
    assert (condition(found, "SuccessCriteriaMet"), condition(found, "Complete")) == (met, None)
    world.run(1)
    found = world.get("Job", "j")
    assert condition(found, "Complete") == met
    assert (found["status"]["completedIndexes"], found["status"].get("failed", 0)) == ("1", 0)


def test_job_should_not_create_pods_while_terminating_ones_are_there_with_podreplacementpolicy_failed():
    """[sig-apps] Job should recreate pods only after they have failed if pod replacement policy is set to Failed"""
    for replacement, pods, failed in (("Failed", 1, 0), ("TerminatingOrFailed", 2, 1)):
        world = running(job("j", podReplacementPolicy=replacement), max_grace_s=60)
        world.delete("Pod", world.pods()[0]["metadata"]["name"])
        world.run(10)
        status = world.status("Job", "j")
        assert (len(world.pods()), status.get("failed", 0), status["terminating"]) == (pods, failed, 1)
        world.run(30)
        status = world.status("Job", "j")
        assert (len(world.pods()), status["failed"], status["terminating"]) == (1, 1, 0)


def test_job_should_delete_pods_when_suspended():
    """[sig-apps] Job should delete pods when suspended; they do not count as failed, and time begins anew."""
    world = running(job("j", completions=2, parallelism=2, activeDeadlineSeconds=100))
    world.run(60)
    world.patch("Job", "j", {"spec": {"suspend": True}})
    world.run(1)
    status = world.status("Job", "j")
    assert world.pods() == []
    assert (status.get("failed", 0), status.get("active", 0), status.get("startTime")) == (0, 0, None)
    world.run(100)
    world.patch("Job", "j", {"spec": {"suspend": False}})
    world.run(99)
    assert world.status("Job", "j")["active"] == 2
    assert world.events("Job", "Suspended") == ["Job suspended"]
    assert world.events("Job", "Resumed") == ["Job resumed"]
    world.run(1)
    assert condition(world.get("Job", "j"), "FailureTarget")[1] == "DeadlineExceeded"


def test_job_should_adopt_matching_orphans_and_release_non_matching_pods():
    """[sig-apps] Job should adopt matching orphans and release non-matching pods"""
    world = running(job("j", completions=2, parallelism=2))
    orphan, *_ = (one["metadata"]["name"] for one in world.pods())
    world.patch("Pod", orphan, {"metadata": {"ownerReferences": None, "finalizers": None}})
    world.run()
    [owner] = world.get("Pod", orphan)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "j", True)
    assert world.get("Pod", orphan)["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert len(world.pods()) == 2
    world.patch("Pod", orphan, {"metadata": {"labels": None}})
    world.run()
    metadata = world.get("Pod", orphan)["metadata"]
    assert not metadata.get("ownerReferences") and not metadata.get("finalizers")
    assert (len(world.pods()), world.status("Job", "j")["active"]) == (3, 2)


def test_with_scalable_indexed_job_the_completions_may_change():
    """[sig-apps] Job should allow to delegate …; KEP-3715: completions and parallelism of an Indexed Job together"""
    world = running(indexed(completions=4, parallelism=4))
    end(world, pod_of(world, 3))
    assert world.status("Job", "j")["completedIndexes"] == "3"
    world.patch("Job", "j", {"spec": {"parallelism": 2, "completions": 2}})
    world.run(1)
    status = world.status("Job", "j")
    assert (status["active"], status.get("succeeded", 0), status.get("completedIndexes")) == (2, 0, None)
    assert sorted(one["metadata"]["annotations"][INDEX] for one in world.pods()) == ["0", "1", "3"]


def test_fewer_pods_run_when_the_parallelism_shrinks():
    world = running(job("j", completions=8, parallelism=4))
    world.patch("Job", "j", {"spec": {"parallelism": 1}})
    world.run(1)
    assert (len(world.pods()), world.status("Job", "j").get("failed", 0)) == (1, 0)
    assert len(world.events("Job", "SuccessfulDelete")) == 3


def test_a_job_that_somebody_else_manages_is_left_alone():
    """[sig-apps] Job should allow to delegate reconciliation to external controller"""
    world = running(job("j", managedBy="example.com/custom-job-controller"))
    assert (world.pods(), world.status("Job", "j")) == ([], {})


def test_pods_of_a_job_that_is_gone_do_not_wait_for_one_of_its_name():
    world = running(job("j"))
    [before] = (one["metadata"]["name"] for one in world.pods())
    world.delete("Job", "j", propagationPolicy="Orphan")
    world.run()
    world.patch("Pod", before, {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}})
    gone = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "gone", "controller": True}
    world.create(job("j"))
    world.patch("Pod", before, {"metadata": {"ownerReferences": [gone]}})
    world.run()
    found = world.get("Pod", before)
    assert found is None or not found["metadata"].get("finalizers")
