"""Manifests become the pods that their controllers would make, and a manifest that is wrong gets one clear line."""

import msgspec
import pytest

from berth.api.storage import PersistentVolumeClaim
from berth.core.builders import make_node, make_pod
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.daemons import pinned_to
from berth_workbench.simulation.workloads import ManifestError, expand
from berth_workbench.snapshot.documents import Document, parse_documents


def manifest(kind, name="web", *, containers=({"name": "c", "image": "i"},), labels=None, pod_spec=None, **spec):
    """A workload whose template has one container."""
    template = {"metadata": {"labels": labels or {"app": "web"}}, "spec": {"containers": list(containers)}}
    template["spec"] |= pod_spec or {}
    selector = {} if kind in ("Job", "CronJob") else {"selector": {"matchLabels": {"app": "web"}}}
    return {"kind": kind, "metadata": {"name": name}, "spec": {**selector, "template": template, **spec}}


def documents(*manifests):
    return [Document(each["kind"], msgspec.json.encode(each), "web.yaml") for each in manifests]


def pods_of(*manifests, **more):
    return list(expand(documents(*manifests), **more).pods)


def names(pods):
    return [pod.metadata.name for pod in pods]


def nodes(count=3, **more):
    return [make_node(f"n{i}").capacity(cpu="4", memory="8Gi", pods="10").build() for i in range(count)]


def test_a_deployments_pods_belong_to_a_replica_set_and_carry_its_hash():
    expansion = expand(documents(manifest("Deployment", replicas=3)))
    (replica_set,) = expansion.objects
    names_of_pods = names(expansion.pods)
    assert [name.rpartition("-")[2] for name in names_of_pods] == ["0", "1", "2"]
    assert all(name.startswith(replica_set.metadata.name + "-") for name in names_of_pods)
    pod = expansion.pods[0]
    (owner,) = pod.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == (
        "ReplicaSet",
        replica_set.metadata.name,
        replica_set.metadata.uid,
        True,
    )
    assert replica_set.metadata.owner_references[0].name == "web"
    template_hash = pod.metadata.labels["pod-template-hash"]
    assert replica_set.spec.selector.match_labels == {"app": "web", "pod-template-hash": template_hash}
    assert pod.metadata.namespace == "default"
    assert [each.key for each in pod.spec.tolerations] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_names_do_not_change_from_run_to_run_and_another_template_gets_another_hash():
    once, again = pods_of(manifest("Deployment")), pods_of(manifest("Deployment"))
    other = pods_of(manifest("Deployment", containers=[{"name": "c", "image": "newer"}]))
    assert names(once) == names(again) != names(other)


def test_replicas_default_to_one_and_a_count_given_stands_in_for_them():
    assert len(pods_of(manifest("ReplicaSet"))) == 1
    assert len(pods_of(manifest("ReplicaSet", replicas=0))) == 0
    assert len(pods_of(manifest("ReplicaSet", replicas=5), replicas={("ReplicaSet", "default/web"): 2})) == 2


def test_names_that_are_taken_are_passed_over_but_a_stateful_set_keeps_its_ordinals():
    assert names(pods_of(manifest("ReplicaSet", replicas=2), taken=["default/web-0"])) == ["web-1", "web-2"]
    assert names(pods_of(manifest("StatefulSet", replicas=3), taken=["default/web-1"])) == ["web-0", "web-2"]


def test_a_stateful_set_has_a_claim_for_each_ordinal_and_template():
    claim = {
        "metadata": {"name": "data", "labels": {"of": "web"}},
        "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
    }
    mounted = {
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "old", "persistentVolumeClaim": {"claimName": "o"}}]
    }
    expansion = expand(
        documents(
            manifest("StatefulSet", replicas=2, ordinals={"start": 5}, volumeClaimTemplates=[claim], pod_spec=mounted)
        )
    )
    assert names(expansion.pods) == ["web-5", "web-6"]
    claims = [each for each in expansion.objects if isinstance(each, PersistentVolumeClaim)]
    assert [each.metadata.name for each in claims] == ["data-web-5", "data-web-6"]
    assert claims[0].spec.storage_class_name == "fast"
    assert claims[0].metadata.labels == {"of": "web"}
    wanted = [volume.persistent_volume_claim.claim_name for volume in expansion.pods[1].spec.volumes]
    assert wanted == ["o", "data-web-6"]
    assert expansion.pods[1].metadata.labels["apps.kubernetes.io/pod-index"] == "6"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["web-0"]),
        ({"parallelism": 3, "completions": 2}, ["web-0", "web-1"]),
        ({"parallelism": 3}, ["web-0", "web-1", "web-2"]),
        ({"parallelism": 3, "suspend": True}, []),
    ],
)
def test_a_jobs_pods_are_those_that_run_at_the_same_time(spec, expected):
    assert names(pods_of(manifest("Job", **spec))) == expected


def test_an_indexed_job_numbers_its_pods():
    pods = pods_of(manifest("Job", parallelism=2, completions=2, completionMode="Indexed"))
    assert [pod.metadata.labels["batch.kubernetes.io/job-completion-index"] for pod in pods] == ["0", "1"]
    assert pods[0].metadata.labels["job-name"] == "web"


def test_a_cron_job_counts_as_one_run_of_it():
    job = manifest("Job", parallelism=2)["spec"]
    cron = {"kind": "CronJob", "metadata": {"name": "nightly"}, "spec": {"jobTemplate": {"spec": job}}}
    assert names(pods_of(cron)) == ["nightly-0", "nightly-1"]


def test_a_daemon_set_has_a_pod_on_each_node_that_it_may_run_on_and_nowhere_else():
    cluster_nodes = [
        make_node("plain").build(),
        make_node("cordoned").unschedulable().build(),
        make_node("tainted").taint("gpu", "yes").build(),
        make_node("other").label("os", "windows").build(),
    ]
    cluster_nodes[0].metadata.labels["os"] = cluster_nodes[1].metadata.labels["os"] = "linux"
    cluster_nodes[2].metadata.labels["os"] = "linux"
    pods = pods_of(manifest("DaemonSet", pod_spec={"nodeSelector": {"os": "linux"}}), nodes=cluster_nodes)
    assert names(pods) == ["web-plain", "web-cordoned"]
    assert [pinned_to(pod) for pod in pods] == ["plain", "cordoned"]
    tolerated = [each for each in pods[0].spec.tolerations if each.key == "node.kubernetes.io/not-ready"]
    assert [each.toleration_seconds for each in tolerated] == [None]


def test_a_daemon_sets_pods_land_on_their_nodes():
    cluster = SimulatedCluster(nodes(3))
    expansion = expand(documents(manifest("DaemonSet")), nodes=list(cluster.nodes.values()))
    cluster.add((*expansion.objects, *expansion.pods))
    cluster.settle()
    assert cluster.placements == {f"default/web-n{i}": f"n{i}" for i in range(3)}


def test_claims_are_made_of_templates_and_the_pod_says_which():
    template = {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
    }
    wanted = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "one-gpu"}]}
    expansion = expand(documents(manifest("ReplicaSet", replicas=2, pod_spec=wanted), template))
    claims = [each for each in expansion.objects if type(each).__name__ == "ResourceClaim"]
    assert [each.metadata.name for each in claims] == ["web-0-g", "web-1-g"]
    for pod, claim in zip(expansion.pods, claims, strict=True):
        assert pod.status.resource_claim_statuses[0].resource_claim_name == claim.metadata.name
        assert claim.metadata.owner_references[0].uid == pod.metadata.uid
        assert claim.spec.devices.requests[0].exactly.device_class_name == "gpu"


def test_a_pod_that_is_replaced_gets_its_ephemeral_claim_anew():
    claim = {"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}}
    scratch = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}]}
    storage_class = {
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "disks.test",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    expansion = expand(documents(manifest("ReplicaSet", pod_spec=scratch), storage_class))
    cluster = SimulatedCluster([*nodes(2), *expansion.objects, *expansion.pods])
    cluster.settle()
    before = cluster.placements["default/web-0"]
    volumes = [name for kind, name in cluster.objects if kind == "PersistentVolume"]
    assert before
    assert len(volumes) == 1
    cluster.delete("Node", before)
    cluster.send_back("default/web-0")
    cluster.settle()
    (other,) = cluster.nodes
    assert cluster.placements == {"default/web-0": other}
    assert volumes != [name for kind, name in cluster.objects if kind == "PersistentVolume"]
    assert len([1 for kind, _ in cluster.objects if kind == "PersistentVolumeClaim"]) == 1


def test_objects_that_decisions_depend_on_go_in_as_they_are_and_others_are_told():
    service = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}}}
    secret = {"kind": "Secret", "metadata": {"name": "hidden"}, "data": {}}
    expansion = expand(documents(service, secret))
    assert [type(each).__name__ for each in expansion.objects] == ["Service"]
    assert expansion.objects[0].metadata.namespace == "default"
    assert expansion.passed_over == ("Secret hidden",)


def test_groups_are_made_of_a_workloads_templates_where_pods_name_them():
    workload = {
        "kind": "Workload",
        "metadata": {"name": "train"},
        "spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}]},
    }
    job = manifest("Job", parallelism=2, pod_spec={"schedulingGroup": {"podGroupName": "train-workers"}})
    expansion = expand(documents(workload, job))
    (group,) = (each for each in expansion.objects if type(each).__name__ == "PodGroup")
    assert group.metadata.name == "train-workers"
    assert group.spec.scheduling_policy.gang.min_count == 2
    assert not [
        each
        for each in expand(documents(workload, job), groups=["default/train-workers"]).objects
        if type(each).__name__ == "PodGroup"
    ]


def test_a_bare_pod_needs_no_namespace_and_may_have_a_generated_name():
    bare = {"kind": "Pod", "metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c"}]}}
    assert [pod.key for pod in pods_of(bare)] == ["default/p-0"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            {"kind": "Deployment", "metadata": {}, "spec": {}},
            "Deployment default/(without a name): metadata.name is missing",
        ),
        ({"kind": "Deployment", "metadata": {"name": "web"}}, "Deployment default/web: spec is missing"),
        (
            {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2}},
            "Deployment default/web: spec.template is missing",
        ),
        (
            manifest("Deployment", containers=()),
            "Deployment default/web: spec.template.spec.containers is missing or empty",
        ),
        (
            manifest("Deployment", replicas=-1),
            "Deployment default/web: spec.replicas must be a whole number, not negative; it is -1",
        ),
        (
            manifest("Deployment", replicas="3"),
            "Deployment default/web: spec.replicas must be a whole number, not negative; it is '3'",
        ),
        (
            manifest("Deployment", replicas=10_000_000),
            "Deployment default/web: spec.replicas asks for 10000000 pods; more than 1000000 are not tried",
        ),
        (
            manifest("Deployment", labels={"app": "other"}),
            "Deployment default/web: spec.selector does not match spec.template.metadata.labels",
        ),
        (
            manifest("Deployment", containers=[{"name": "c", "resources": {"requests": {"cpu": "lots"}}}]),
            "Deployment default/web: spec.template: spec.containers[0].resources.requests[cpu]: ",
        ),
        (
            manifest("StatefulSet", volumeClaimTemplates=[{"spec": {}}]),
            "StatefulSet default/web: spec.volumeClaimTemplates[0]: metadata.name is missing",
        ),
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}, "Pod default/p: spec.containers is missing or empty"),
        (
            {"kind": "CronJob", "metadata": {"name": "c"}, "spec": {}},
            "CronJob default/c: spec.jobTemplate.spec.template is missing",
        ),
    ],
)
def test_a_manifest_that_is_wrong_gets_one_line_with_file_object_and_field(broken, message):
    with pytest.raises(ManifestError) as error:
        expand(documents(broken))
    assert str(error.value).startswith(f"web.yaml: {message}")
    assert "\n" not in str(error.value)


def test_yaml_as_people_write_it_is_read():
    text = b"""
apiVersion: v1
kind: List
items:
- kind: Deployment
  metadata: {name: web, namespace: shop}
  spec:
    replicas: 2
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec:
        containers:
        - {name: c, image: i, resources: {limits: {cpu: 500m}}}
"""
    pods = expand(parse_documents(text, "shop.yaml")).pods
    assert {pod.metadata.namespace for pod in pods} == {"shop"}
    assert pods[0].spec.containers[0].resources.requests == {"cpu": "500m"}


def test_a_pod_that_is_replaced_leaves_the_devices_that_others_share():
    """A claim that two pods use stays reserved for the one that is left."""
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "shared", "namespace": "default", "uid": "c"},
        "spec": {},
        "status": {
            "allocation": {},
            "reservedFor": [{"name": "a", "uid": "default/a"}, {"name": "b", "uid": "default/b"}],
        },
    }
    uses = [{"name": "s", "resourceClaimName": "shared"}]
    cluster = SimulatedCluster(
        [
            *nodes(1),
            *expand(documents(claim)).objects,
            *(make_pod(name).set_spec(resourceClaims=uses).node("n0").build() for name in "ab"),
        ]
    )
    cluster.delete("Pod", "default/a")
    left = cluster.objects["ResourceClaim", "default/shared"]
    assert [each.uid for each in left.status.reserved_for] == ["default/b"]
    assert left.status.allocation is not None
    cluster.delete("Pod", "default/b")
    left = cluster.objects["ResourceClaim", "default/shared"]
    assert (left.status.reserved_for, left.status.allocation) == ((), None)
