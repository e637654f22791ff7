"""[sig-apps] Jobs, CronJobs and PodDisruptionBudgets."""

import pytest

from packages.cluster.tests.suite.client import RefusedError, condition, is_running, pod, refused, spec, workload
from tests.waiting import eventually


def job(name, command=("sleep", "1000000"), **fields):
    containers = [{"name": "c", "image": "busybox", "command": list(command)}]
    policy = fields.pop("restartPolicy", "Never")
    made = {"metadata": {"labels": {"job": name}}, "spec": {"restartPolicy": policy, "containers": containers}}
    body = {"parallelism": 2, "completions": 4, "backoffLimit": 6, "template": made, **fields}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def until_ended(cluster, name, how="Complete"):
    return cluster.until("Job", name, lambda obj: condition(obj, how) == "True")


SUCCEED, FAIL = ("/bin/sh", "-c", "exit 0"), ("/bin/sh", "-c", "exit 1")
FAIL_ODD = ("sh", "-c", "\nif [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then\n  exit 1\nelse\n  exit 0\nfi\n")


def remembering(made, first, source, file="/data/foo"):
    """The job with containers that do something else when they first run, and find on a volume that they have."""
    inside = made["spec"]["template"]["spec"]
    inside["volumes"] = [{"name": "data", **source}]
    script = f"if [[ -r {file} ]]\nthen\n  exit 0\nelse\n  touch {file}\n  {first}\nfi\n"
    inside["containers"][0] |= {
        "command": ["/bin/sh", "-c"],
        "args": [script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return made


@spec("Job should run a job to completion when tasks succeed")
def test_a_job_completes(cluster):
    cluster.create(job("all-succeed", SUCCEED))
    ended = until_ended(cluster, "all-succeed")
    assert ended["status"]["succeeded"] == 4 and condition(ended, "SuccessCriteriaMet") == "True"
    assert [each["status"]["phase"] for each in cluster.list("Pod")] == ["Succeeded"] * 4


@spec("Job should run a job to completion when tasks sometimes fail and are locally restarted")
def test_a_job_whose_containers_fail_at_first(cluster):
    made = job("fail-once-local", restartPolicy="OnFailure", completions=2)
    cluster.create(remembering(made, "exit 1", {"emptyDir": {}}))
    assert until_ended(cluster, "fail-once-local")["status"]["succeeded"] == 2
    for each in cluster.list("Pod"):
        assert [one["restartCount"] for one in each["status"]["containerStatuses"]] == [1]


@spec("Job should fail to exceed backoffLimit", "Job should fail when exceeds active deadline")
@pytest.mark.parametrize("why", [pytest.param("BackoffLimitExceeded", marks=pytest.mark.long), "DeadlineExceeded"])
def test_a_job_fails(cluster, why):
    fields = {"backoffLimit": 1} if why == "BackoffLimitExceeded" else {"activeDeadlineSeconds": 1}
    cluster.create(
        job("fails", FAIL if "backoffLimit" in fields else ("sleep", "1000"), completions=1, parallelism=1, **fields)
    )
    ended = until_ended(cluster, "fails", "Failed")
    (said,) = [each for each in ended["status"]["conditions"] if each["type"] == "Failed"]
    assert said["reason"] == why
    if why == "BackoffLimitExceeded":
        assert len(cluster.list("Pod")) == 2


@spec("Job should create pods for an Indexed job with completion indexes and specified hostname")
def test_an_indexed_job(cluster):
    cluster.create(job("indexed", SUCCEED, completionMode="Indexed"))
    until_ended(cluster, "indexed")
    key = "batch.kubernetes.io/job-completion-index"
    pods = sorted(cluster.list("Pod"), key=lambda each: each["metadata"]["annotations"][key])
    assert [each["metadata"]["annotations"][key] for each in pods] == ["0", "1", "2", "3"]
    assert [each["spec"]["hostname"] for each in pods] == [f"indexed-{number}" for number in range(4)]
    assert "JOB_COMPLETION_INDEX" in [each["name"] for each in pods[0]["spec"]["containers"][0]["env"]]


@spec("Job should remove pods when job is deleted", "Job should delete a job")
def test_a_job_is_deleted(cluster):
    cluster.create(job("foo"))
    cluster.until_count("Pod", 2, is_running)
    cluster.delete("Job", "foo", propagationPolicy="Background")
    cluster.until_gone("Job", "foo")
    cluster.until_count("Pod", 0)


@spec("Job should adopt matching orphans and release non-matching pods")
def test_a_job_adopts_and_releases(cluster):
    cluster.create(job("adopt-release"))
    first = cluster.until_count("Pod", 2, is_running)[0]
    name, labels = first["metadata"]["name"], first["metadata"]["labels"]
    cluster.patch("Pod", name, {"metadata": {"ownerReferences": None}})
    cluster.until("Pod", name, lambda obj: obj["metadata"].get("ownerReferences"))
    cluster.patch("Pod", name, {"metadata": {"labels": dict.fromkeys(labels)}})
    cluster.until("Pod", name, lambda obj: not obj["metadata"].get("ownerReferences"))


@spec("Job should allow to use the pod failure policy on exit code to fail the job early")
def test_an_exit_code_fails_a_job(cluster):
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
    cluster.create(job("early", FAIL, podFailurePolicy={"rules": [rule]}))
    ended = until_ended(cluster, "early", "Failed")
    (said,) = [each for each in ended["status"]["conditions"] if each["type"] == "Failed"]
    assert said["reason"] == "PodFailurePolicy"


@spec("Job should allow to use a pod failure policy to ignore failure matching on DisruptionTarget condition")
@pytest.mark.long
def test_evictions_are_ignored(cluster):
    """Each pod that has failed puts the next off, by ten seconds at first."""
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    fields = {"completions": 2, "backoffLimit": 0, "completionMode": "Indexed"}
    made = job("ignore", podFailurePolicy={"rules": [rule]}, **fields)
    made["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": min(cluster.names("Node"))}
    shared = {"hostPath": {"path": f"/tmp/job-e2e/{cluster.namespace}", "type": "DirectoryOrCreate"}}
    cluster.create(remembering(made, "sleep 1000000", shared, "/data/foo-$JOB_COMPLETION_INDEX"))
    for each in cluster.until_count("Pod", 2, is_running):
        evict(cluster, each["metadata"]["name"])
        cluster.until_gone("Pod", each["metadata"]["name"])
    until_ended(cluster, "ignore")


@spec(
    "Job should execute all indexes despite some failing when using backoffLimitPerIndex",
    "Job should mark indexes as failed when the FailIndex action is matched in podFailurePolicy",
    "Job should terminate job execution when the number of failed indexes exceeds maxFailedIndexes",
)
@pytest.mark.parametrize(
    ("command", "fields", "expected"),
    [
        pytest.param(
            FAIL_ODD,
            {"backoffLimitPerIndex": 1},
            {"failedIndexes": "1,3", "completedIndexes": "0,2", "failed": 4, "succeeded": 2},
            marks=pytest.mark.long,
        ),
        (
            FAIL_ODD,
            {
                "backoffLimitPerIndex": 1,
                "completions": 2,
                "podFailurePolicy": {
                    "rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}]
                },
            },
            {"failedIndexes": "1", "completedIndexes": "0", "failed": 1, "succeeded": 1},
        ),
        (
            FAIL,
            {"backoffLimitPerIndex": 0, "maxFailedIndexes": 0, "parallelism": 1},
            {"failedIndexes": "0", "failed": 1},
        ),
    ],
    ids=["all are tried", "fail at once", "too many"],
)
def test_indexes_fail(cluster, command, fields, expected):
    made = job("indexed", command, completionMode="Indexed", **fields)
    del made["spec"]["backoffLimit"]
    cluster.create(made)
    status = until_ended(cluster, "indexed", "Failed")["status"]
    assert {name: status.get(name) for name in expected} == expected


@spec("Job should apply changes to a job status")
def test_the_status_of_a_job(cluster):
    cluster.create(job("status"))
    cluster.until("Job", "status", lambda obj: obj["status"].get("active") == 2)
    started = cluster.read("Job", "status")["status"]["startTime"]
    patch = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": {"startTime": started}}
    patched = cluster.patch("Job", "status", patch, "status")
    assert patched["metadata"]["annotations"]["patchedstatus"] == "true"
    said = {"type": "CustomConditionType", "status": "True"}
    read = cluster.read("Job", "status", "status")
    read["status"].setdefault("conditions", []).append(said)
    read["metadata"]["resourceVersion"] = ""
    cluster.update(read, "status")
    assert cluster.read("Job", "status", "status")["kind"] == "Job"
    cluster.delete("Job", "status", propagationPolicy="Foreground")
    cluster.until_gone("Job", "status")


@spec("Job should manage the lifecycle of a job", "Job should not create pods when created in suspend state")
def test_the_life_of_a_job(cluster):
    cluster.create(job("life", suspend=True, completions=2))
    cluster.until("Job", "life", lambda obj: condition(obj, "Suspended") == "True")
    assert cluster.list("Pod") == []
    patched = cluster.patch("Job", "life", {"metadata": {"labels": {"life": "patched"}}}, how="strategic")
    assert patched["metadata"]["labels"]["life"] == "patched"
    patched["metadata"]["annotations"] = {"updated": "true"}
    patched["metadata"]["resourceVersion"] = ""
    patched["spec"]["suspend"] = False
    cluster.update(patched)
    cluster.until_count("Pod", 2, is_running)
    selector = {"labelSelector": "life=patched"}
    assert len(cluster.list("Job", everywhere=True, **selector)) == 1
    path = cluster.path_of("Job")
    cluster.call("DELETE", path, {"propagationPolicy": "Foreground"}, selector)
    cluster.until_count("Job", 0)
    cluster.until_count("Pod", 0)


@spec("Job should delete pods when suspended")
def test_a_job_is_suspended(cluster):
    cluster.create(job("pause"))
    cluster.until_count("Pod", 2, is_running)
    cluster.patch("Job", "pause", {"spec": {"suspend": True}})
    cluster.until_count("Pod", 0)
    cluster.until("Job", "pause", lambda obj: condition(obj, "Suspended") == "True")


@spec(
    "Job with successPolicy should succeeded when all indexes succeeded",
    "Job with successPolicy succeededCount rule should succeeded even when some indexes remain pending",
    "Job with successPolicy succeededIndexes rule should succeeded even when some indexes remain pending",
)
@pytest.mark.parametrize(
    ("rule", "command", "completions", "completed"),
    [
        ({"succeededCount": 2}, SUCCEED, 2, "0,1"),
        ({"succeededCount": 1}, FAIL_ODD, 5, "0"),
        ({"succeededIndexes": "0"}, FAIL_ODD, 5, "0"),
    ],
)
def test_a_success_policy(cluster, rule, command, completions, completed):
    policy = {"successPolicy": {"rules": [rule]}}
    cluster.create(job("policy", command, completionMode="Indexed", completions=completions, **policy))
    status = until_ended(cluster, "policy")["status"]
    (met,) = (each for each in status["conditions"] if each["type"] == "SuccessCriteriaMet")
    assert (met["status"], met["reason"]) == ("True", "SuccessPolicy")
    counts = [status.get(name, 0) for name in ("active", "ready", "terminating")]
    assert (status["completedIndexes"], counts) == (completed, [0, 0, 0])


# --- cron jobs ------------------------------------------------------------------------------------------------------


def cron_job(name, schedule, command=("sleep", "300"), **fields):
    template = {"spec": {"template": job(name, command)["spec"]["template"], "parallelism": 1, "completions": 1}}
    body = {"schedule": schedule, "jobTemplate": template, **fields}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": body}


@spec("CronJob should support CronJob API operations")
def test_operations_on_cron_jobs(cluster):
    resources = [one["name"] for one in cluster.call("GET", "/apis/batch/v1")["resources"]]
    assert {"cronjobs", "cronjobs/status"} <= set(resources)
    for name in ("a", "b", "c"):
        made = cron_job(name, "0 0 1 1 *")
        made["metadata"]["labels"] = {"special": "yes"}
        cluster.create(made)
    selector = {"labelSelector": "special=yes"}
    listed = cluster.listing("CronJob", everywhere=True, **selector)
    assert len(listed["items"]) == 3
    patched = cluster.patch("CronJob", "a", {"metadata": {"annotations": {"patched": "true"}}})
    patched["metadata"]["annotations"]["updated"] = "true"
    assert cluster.update(patched)["metadata"]["annotations"] == {"patched": "true", "updated": "true"}
    cluster.watch("CronJob", lambda seen: len(seen) == 2, resourceVersion=listed["metadata"]["resourceVersion"])
    now = "2026-01-01T00:00:00Z"
    patch = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": {"lastScheduleTime": now}}
    status = cluster.patch("CronJob", "a", patch, "status")
    assert status["metadata"]["annotations"]["patchedstatus"] == "true"
    assert status["status"]["lastScheduleTime"] == now
    status["status"]["lastScheduleTime"] = "2026-01-02T00:00:00Z"
    assert cluster.update(status, "status")["status"]["lastScheduleTime"] == "2026-01-02T00:00:00Z"
    assert cluster.read("CronJob", "a", "status")["status"]["lastScheduleTime"] == "2026-01-02T00:00:00Z"
    cluster.delete("CronJob", "a")
    cluster.until_gone("CronJob", "a")
    cluster.delete_all("CronJob", **selector)
    cluster.until_count("CronJob", 0, **selector)


@spec(
    "CronJob should schedule multiple jobs concurrently",
    "CronJob should replace jobs when ReplaceConcurrent",
    "CronJob should not schedule new jobs when ForbidConcurrent",
    "CronJob should not schedule jobs when suspended",
)
@pytest.mark.long
def test_each_minute(cluster):
    """All four at the same time, since each has to wait for the turn of two minutes."""
    policies = {"allow": "Allow", "replace": "Replace", "forbid": "Forbid"}
    for name, policy in policies.items():
        cluster.create(cron_job(name, "*/1 * * * ?", concurrencyPolicy=policy))
    cluster.create(cron_job("suspended", "*/1 * * * ?", suspend=True))

    def jobs_of(name):
        return [each for each in cluster.list("Job") if each["metadata"]["name"].startswith(name)]

    eventually(lambda: len(jobs_of("replace")) == 1 and len(jobs_of("forbid")) == 1)
    replaced = jobs_of("replace")[0]["metadata"]["uid"]
    forbidding = jobs_of("forbid")[0]["metadata"]["uid"]
    eventually(lambda: len(jobs_of("allow")) == 2)
    eventually(lambda: [each["metadata"]["uid"] for each in jobs_of("replace")] not in ([], [replaced]))
    assert len(jobs_of("replace")) == 1
    assert [each["metadata"]["uid"] for each in jobs_of("forbid")] == [forbidding]
    assert len(cluster.read("CronJob", "forbid")["status"]["active"]) == 1
    assert jobs_of("suspended") == []


# --- budgets --------------------------------------------------------------------------------------------------------


def budget(name, **fields):
    body = {"selector": {"matchLabels": {"foo": "bar"}}, **fields}
    metadata = {"name": name, "labels": {"of": "spec"}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": body}


def evict(cluster, name):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return cluster.call("POST", cluster.path_of("Pod", name, "eviction"), body)


def pods(cluster, count):
    for number in range(count):
        cluster.create(pod(f"pod-{number}", labels={"foo": "bar"}))
    cluster.until_running(*(f"pod-{number}" for number in range(count)))


def until_observed(cluster, name, **expected):
    def is_so(obj):
        status = obj.get("status", {})
        return (
            status.get("observedGeneration", 0) >= obj["metadata"]["generation"] and expected.items() <= status.items()
        )

    return cluster.until("PodDisruptionBudget", name, is_so)


@spec("DisruptionController should create a PodDisruptionBudget")
def test_a_budget_is_made_changed_and_deleted(cluster):
    cluster.create(budget("foo", minAvailable="1%"))
    read = until_observed(cluster, "foo")
    read["spec"]["minAvailable"] = "2%"
    assert cluster.update(read)["spec"]["minAvailable"] == "2%"
    until_observed(cluster, "foo")
    patched = cluster.patch("PodDisruptionBudget", "foo", {"spec": {"minAvailable": "3%"}}, how="strategic")
    assert patched["spec"]["minAvailable"] == "3%"
    cluster.delete("PodDisruptionBudget", "foo")
    cluster.until_gone("PodDisruptionBudget", "foo")


@spec(
    "DisruptionController Listing PodDisruptionBudgets for all namespaces should list and "
    "delete a collection of PodDisruptionBudgets"
)
def test_budgets_as_a_collection(cluster):
    for name in ("a", "b", "c"):
        cluster.create(budget(name, minAvailable=1))
    assert len(cluster.list("PodDisruptionBudget", labelSelector="of=spec")) == 3
    assert len(cluster.list("PodDisruptionBudget", everywhere=True, labelSelector="of=spec")) == 3
    cluster.delete_all("PodDisruptionBudget", labelSelector="of=spec")
    cluster.until_count("PodDisruptionBudget", 0)


@spec(
    "DisruptionController should observe PodDisruptionBudget status updated",
    "DisruptionController should update/patch PodDisruptionBudget status",
)
def test_the_status_of_a_budget(cluster):
    cluster.create(budget("foo", minAvailable=1))
    pods(cluster, 3)
    read = until_observed(cluster, "foo", disruptionsAllowed=2)
    read["status"]["disruptedPods"] = {"ghost": "2026-01-01T00:00:00Z"}
    assert cluster.update(read, "status")["status"]["disruptedPods"]
    patched = cluster.patch("PodDisruptionBudget", "foo", {"status": {"disruptedPods": None}}, "status")
    assert not patched["status"].get("disruptedPods")


@spec(
    "DisruptionController evictions: no PDB => should allow an eviction",
    "DisruptionController evictions: too few pods, absolute => should not allow an eviction",
    "DisruptionController evictions: enough pods, absolute => should allow an eviction",
    "DisruptionController evictions: maxUnavailable allow single eviction, percentage => should allow an eviction",
    "DisruptionController evictions: maxUnavailable deny evictions, integer => should not allow an eviction",
)
@pytest.mark.parametrize(
    ("count", "of_set", "fields", "allowed"),
    [
        (1, False, None, True),
        (2, False, {"minAvailable": 2}, False),
        (3, False, {"minAvailable": 2}, True),
        (10, True, {"maxUnavailable": "10%"}, True),
        (10, True, {"maxUnavailable": 0}, False),
    ],
)
def test_evictions(cluster, count, of_set, fields, allowed):
    if of_set:
        cluster.create(workload("ReplicaSet", "rs", count, labels={"foo": "bar"}))
        cluster.until_count("Pod", count, is_running)
    else:
        pods(cluster, count)
    if fields is not None:
        cluster.create(budget("foo", **fields))
        until_observed(cluster, "foo", disruptionsAllowed=1 if allowed else 0)
    name = cluster.names("Pod")[0]
    if allowed:
        evict(cluster, name)
        cluster.until_gone("Pod", name)
    else:
        assert refused(evict, cluster, name).code == 429


@spec("DisruptionController should block an eviction until the PDB is updated to allow it")
def test_an_eviction_is_blocked_until_the_budget_is_changed(cluster):
    cluster.create(budget("foo", minAvailable=3))
    pods(cluster, 3)
    until_observed(cluster, "foo", currentHealthy=3, disruptionsAllowed=0)
    answer = refused(evict, cluster, "pod-0")
    assert answer.code == 429 and answer.details["causes"][0]["reason"] == "DisruptionBudget"
    read = cluster.read("PodDisruptionBudget", "foo")
    read["spec"]["minAvailable"] = 2
    cluster.update(read)
    until_observed(cluster, "foo", disruptionsAllowed=1)
    evict(cluster, "pod-0")
    cluster.until_gone("Pod", "pod-0")
    cluster.create(pod("pod-3", labels={"foo": "bar"}))
    until_observed(cluster, "foo", disruptionsAllowed=1)
    cluster.patch("PodDisruptionBudget", "foo", {"spec": {"minAvailable": 3}})
    until_observed(cluster, "foo", disruptionsAllowed=0)
    assert refused(evict, cluster, "pod-1").code == 429
    cluster.delete("PodDisruptionBudget", "foo")
    with pytest.raises(RefusedError):
        cluster.read("PodDisruptionBudget", "foo")
    evict(cluster, "pod-1")
