"""What manifests of jobs come to as Workloads; the expectations are what Kueue's integrations document of each kind."""

import pytest

from berth_kueue.jobs import JobManifestError, jobs_of, topology_request


def template(cpu="1", limits=None, annotations=None, **spec):
    resources = {"limits": limits} if limits else {"requests": {"cpu": cpu}}
    metadata = {"annotations": annotations} if annotations else {}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": resources}], **spec}}


def job(api_version, kind, spec, labels=None, name="j", **metadata):
    labels = {"kueue.x-k8s.io/queue-name": "q", **(labels or {})}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "team", "labels": labels, **metadata},
        "spec": spec,
    }


def read(*manifests, classes=None):
    return list(jobs_of(manifests, classes or {}))


def counts(manifest):
    (found,) = read(manifest)
    return [{each["name"]: each["count"] for each in one["spec"]["podSets"]} for one in found.workloads]


RAY = {
    "headGroupSpec": {"template": template()},
    "workerGroupSpecs": [{"groupName": "gpu", "replicas": 3, "numOfHosts": 2, "template": template()}],
}
KINDS = [
    (job("batch/v1", "Job", {"parallelism": 5, "completions": 3, "template": template()}), [{"main": 3}]),
    (job("batch/v1", "Job", {"template": template()}), [{"main": 1}]),
    (
        job(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "driver", "template": {"spec": {"template": template()}}},
                    {
                        "name": "workers",
                        "replicas": 3,
                        "template": {"spec": {"parallelism": 4, "template": template()}},
                    },
                ]
            },
        ),
        [{"driver": 1, "workers": 12}],
    ),
    (
        job(
            "kubeflow.org/v1",
            "PyTorchJob",
            {
                "pytorchReplicaSpecs": {
                    "Worker": {"replicas": 7, "template": template()},
                    "Master": {"template": template()},
                }
            },
        ),
        [{"master": 1, "worker": 7}],
    ),
    (
        job(
            "kubeflow.org/v2beta1",
            "MPIJob",
            {
                "mpiReplicaSpecs": {
                    "Launcher": {"template": template()},
                    "Worker": {"replicas": 2, "template": template()},
                }
            },
        ),
        [{"launcher": 1, "worker": 2}],
    ),
    (job("ray.io/v1", "RayCluster", RAY), [{"head": 1, "gpu": 6}]),
    (job("ray.io/v1", "RayJob", {"rayClusterSpec": RAY}), [{"head": 1, "gpu": 6, "submitter": 1}]),
    (job("ray.io/v1", "RayJob", {"rayClusterSpec": RAY, "submissionMode": "HTTPMode"}), [{"head": 1, "gpu": 6}]),
    (
        job(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {
                "replicas": 2,
                "leaderWorkerTemplate": {"size": 4, "leaderTemplate": template(), "workerTemplate": template()},
            },
        ),
        [{"leader": 1, "worker": 3}] * 2,
    ),
    (job("apps/v1", "Deployment", {"replicas": 3, "template": template()}), [{"main": 1}] * 3),
    (job("apps/v1", "StatefulSet", {"replicas": 3, "template": template()}), [{"main": 3}]),
    (job("v1", "Pod", template()["spec"]), [{"main": 1}]),
]


@pytest.mark.parametrize(("manifest", "wanted"), KINDS, ids=lambda each: each["kind"] if isinstance(each, dict) else "")
def test_pod_sets_by_kind(manifest, wanted):
    assert counts(manifest) == wanted
    (found,) = read(manifest)
    assert found.queue == "q" and all(one["spec"]["queueName"] == "q" for one in found.workloads)
    assert len({one["metadata"]["name"] for one in found.workloads}) == len(wanted)


def test_pods_of_a_group_are_one_workload_with_a_pod_set_for_each_shape():
    def pod(name, cpu):
        labels = {"kueue.x-k8s.io/pod-group-name": "g"}
        note = {"kueue.x-k8s.io/pod-group-total-count": "3"}
        return job("v1", "Pod", template(cpu)["spec"], labels, name, annotations=note)

    pods = [pod("a", "1"), pod("b", "2"), pod("c", "1")]
    (found,) = read(*pods)
    assert found.name == "g"
    assert [each["count"] for each in found.workloads[0]["spec"]["podSets"]] == [2, 1]
    with pytest.raises(JobManifestError, match=r"pod group team/g: .*the group has 2 of its 3 pods"):
        read(*pods[:2])


def test_limits_stand_for_requests_that_are_not_given():
    (found,) = read(job("batch/v1", "Job", {"template": template(limits={"cpu": "2", "example.com/gpu": 1})}))
    (container,) = found.workloads[0]["spec"]["podSets"][0]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "2", "example.com/gpu": 1}


def test_partial_admission_and_priority_are_read():
    classes = {"kueue/high": 100, "batch": 7, "": 3}
    note = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    plain = job(
        "batch/v1", "Job", {"parallelism": 4, "template": template(priorityClassName="batch")}, annotations=note
    )
    (found,) = read(plain, classes=classes)
    assert found.workloads[0]["spec"]["priority"] == 7
    assert found.workloads[0]["spec"]["podSets"][0]["minCount"] == 2
    of_class = job("batch/v1", "Job", {"template": template()}, {"kueue.x-k8s.io/priority-class": "high"})
    assert read(of_class, classes=classes)[0].workloads[0]["spec"]["priority"] == 100
    assert (
        read(job("batch/v1", "Job", {"template": template()}), classes=classes)[0].workloads[0]["spec"]["priority"] == 3
    )
    with pytest.raises(JobManifestError, match="there is no WorkloadPriorityClass high"):
        read(of_class)


def test_what_annotations_ask_of_a_topology():
    prefix = "kueue.x-k8s.io/podset-"
    assert topology_request({}) == {}
    assert topology_request({f"{prefix}required-topology": "rack", f"{prefix}group-name": "g"}) == {
        "required": "rack",
        "podSetGroupName": "g",
    }
    slices = {f"{prefix}slice-required-topology": "host", f"{prefix}slice-size": "4"}
    assert topology_request(slices | {f"{prefix}unconstrained-topology": "true"}) == {
        "unconstrained": True,
        "podSetSliceRequiredTopology": "host",
        "podSetSliceSize": 4,
    }


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (job("example.com/v1", "FluxJob", {}), "FluxJob team/j: pod sets of this kind .* are not known here"),
        (job("batch/v1", "Job", {}), "Job team/j: spec.template is missing"),
        (job("batch/v1", "Job", {"parallelism": "x", "template": template()}), "Job team/j: cannot be read"),
        (job("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": {}}), "TFJob team/j: has no pods"),
        (job("batch/v1", "Job", {"template": template()}, name=""), "metadata.name is missing"),
    ],
)
def test_what_cannot_be_read_is_said(manifest, said):
    with pytest.raises(JobManifestError, match=said):
        read(manifest)


def test_what_is_no_job_is_passed_over():
    assert read({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}) == []
