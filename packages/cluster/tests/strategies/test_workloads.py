"""Workloads: defaults, selectors, templates."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import MERGE_PATCH
from berth_cluster.apimachinery.resource_types import BY_KEY
from packages.cluster.tests.objects import DEPLOYMENTS, JOBS, deployment, make_store

CONTROLLERS = BY_KEY["", "replicationcontrollers"]
STATEFUL_SETS = BY_KEY["apps", "statefulsets"]
DAEMON_SETS = BY_KEY["apps", "daemonsets"]
CRON_JOBS = BY_KEY["batch", "cronjobs"]


def job(**spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}
    return {"metadata": {"name": "sum"}, "spec": {"template": template, **spec}}


def test_the_defaults_of_a_deployment():
    spec = make_store().create(DEPLOYMENTS, "default", deployment())["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    # A template is not a pod yet: admission's part comes when pods are made from it.
    assert not {"tolerations", "priority", "serviceAccountName"} & set(spec["template"]["spec"])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (STATEFUL_SETS, {"podManagementPolicy": "OrderedReady", "replicas": 1}),
        (
            DAEMON_SETS,
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}},
        ),
    ],
)
def test_the_defaults_of_other_workloads(kind, expected):
    spec = make_store().create(kind, "default", deployment())["spec"]
    assert {key: spec[key] for key in expected} == expected


def test_a_replication_controller_takes_its_selector_from_the_template():
    obj = deployment()
    del obj["spec"]["selector"]
    assert make_store().create(CONTROLLERS, "default", obj)["spec"]["selector"] == {"app": "web"}


def test_a_job_finds_its_pods_by_its_uid():
    made = make_store().create(JOBS, "default", job())
    uid, spec = made["metadata"]["uid"], made["spec"]
    assert spec["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    assert spec["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "sum",
        "controller-uid": uid,
        "job-name": "sum",
    }
    expected = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}
    assert {key: spec[key] for key in expected} == expected


def test_a_job_with_parallelism_alone_is_a_work_queue():
    spec = make_store().create(JOBS, "default", job(parallelism=3))["spec"]
    assert spec["parallelism"] == 3 and "completions" not in spec


def test_a_cron_job():
    obj = {"metadata": {"name": "nightly"}, "spec": {"schedule": "0 1 * * *", "jobTemplate": {"spec": job()["spec"]}}}
    spec = make_store().create(CRON_JOBS, "default", obj)["spec"]
    assert (spec["concurrencyPolicy"], spec["successfulJobsHistoryLimit"]) == ("Allow", 3)
    with pytest.raises(StoreError, match=r"spec\.schedule: Required value"):
        make_store().create(CRON_JOBS, "default", {**obj, "spec": {**obj["spec"], "schedule": ""}})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"selector": None}, "spec.selector: Required value"),
        ({"selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
        (
            {"selector": {"matchLabels": {"app": "other"}}},
            'spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`',
        ),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ({"template": None}, "spec.template.spec.containers: Required value"),
        ({"strategy": {"type": "Slowly"}}, 'spec.strategy.type: Unsupported value: "Slowly"'),
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]}},
            'spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator',
        ),
    ],
)
def test_deployments_that_are_wrong(change, why):
    with pytest.raises(StoreError) as caught:
        make_store().create(DEPLOYMENTS, "default", deployment(**change))
    assert caught.value.status_code == 422 and why in caught.value.message
    assert caught.value.message.startswith('Deployment.apps "web" is invalid: ')


@pytest.mark.parametrize(
    ("kind", "obj", "policy", "why"),
    [
        (DEPLOYMENTS, deployment(), "Never", 'restartPolicy: Unsupported value: "Never": supported values: "Always"'),
        (JOBS, job(), "Always", 'restartPolicy: Required value: valid values: "OnFailure", "Never"'),
    ],
)
def test_the_restart_policy_must_suit_the_workload(kind, obj, policy, why):
    obj["spec"]["template"]["spec"]["restartPolicy"] = policy
    with pytest.raises(StoreError) as caught:
        make_store().create(kind, "default", obj)
    assert why in caught.value.message


def test_a_selector_is_for_ever():
    store = make_store()
    store.create(DEPLOYMENTS, "default", deployment())
    patch = {
        "spec": {
            "selector": {"matchLabels": {"app": "web", "tier": "x"}},
            "template": {"metadata": {"labels": {"tier": "x"}}},
        }
    }
    with pytest.raises(StoreError, match="field is immutable"):
        store.patch(DEPLOYMENTS, "default", "web", patch, MERGE_PATCH)


def stateful_set(pods=None, **spec):
    """One whose pods have these fields, or these of the set."""
    made = deployment("db", **{"serviceName": "db", **spec})
    made["spec"]["template"]["spec"] |= pods or {}
    return made


def claim(name, **fields):
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": wanted | fields}


def mounting(*names):
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return [{"name": "main", "image": "nginx:1.27", "volumeMounts": mounts}]


def test_the_pods_of_a_stateful_set_mount_its_claims():
    # As upstream: a claim is a volume, and takes the place of a volume of its name; pods get names from the controller.
    pods = {
        "containers": mounting("data", "logs", "scratch"),
        "initContainers": [mounting("data")[0] | {"name": "prepare"}],
        "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "logs", "hostPath": {"path": "/x"}, "emptyDir": {}}],
        "hostname": "Not a name",
        "subdomain": "Nor this",
    }
    store = make_store()
    made = store.create(
        STATEFUL_SETS, "default", stateful_set(pods, volumeClaimTemplates=[claim("data"), claim("logs")])
    )
    assert made["spec"]["template"]["spec"]["volumes"][0]["name"] == "scratch"  # and nothing is added
    assert len(made["spec"]["template"]["spec"]["volumes"]) == 2
    with pytest.raises(StoreError, match=r'containers\[0\]\.volumeMounts\[1\]\.name: Not found: "more"'):
        store.patch(
            STATEFUL_SETS,
            "default",
            "db",
            {"spec": {"template": {"spec": {"containers": mounting("data", "more")}}}},
            MERGE_PATCH,
        )


def test_a_stateful_set_says_what_becomes_of_its_claims():  # KEP-1847
    made = make_store().create(STATEFUL_SETS, "default", stateful_set(volumeClaimTemplates=[claim("d")]))
    assert made["spec"]["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    (made_claim,) = made["spec"]["volumeClaimTemplates"]
    assert (made_claim["spec"]["volumeMode"], made_claim["status"]) == ("Filesystem", {"phase": "Pending"})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"podManagementPolicy": "Random"},
            "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
        ),
        (
            {"updateStrategy": {"type": "Never"}},
            'Invalid value: {"Type":"Never","RollingUpdate":null}: must be \'RollingUpdate\' or \'OnDelete\'',
        ),
        (
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            "spec.updateStrategy.rollingUpdate: Invalid value: ",
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"partition": -1}}},
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
        ),
        ({"volumeClaimTemplates": [claim("")]}, "spec.template.spec.volumes[0].name: Required value"),
        (
            {"volumeClaimTemplates": [claim("a", accessModes=[])]},
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
        ),
        (
            {"volumeClaimTemplates": [claim("a", resources={})]},
            "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
        ),
        ({"ordinals": {"start": -1}}, "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"),
        ({"minReadySeconds": -1}, "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"pods": {"activeDeadlineSeconds": 5}},
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not",
        ),
        (
            {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Keep"}},
            'whenDeleted: Unsupported value: "Keep": supported values: "Retain", "Delete"',
        ),
    ],
)
def test_stateful_sets_that_are_wrong(change, why):
    with pytest.raises(StoreError) as caught:
        make_store().create(STATEFUL_SETS, "default", stateful_set(**change))
    assert why in caught.value.message


@pytest.mark.parametrize(
    ("change", "is_refused"),
    [
        ({"replicas": 3, "minReadySeconds": 5, "ordinals": {"start": 1}}, False),
        ({"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}, False),
        ({"serviceName": "other"}, True),
        ({"podManagementPolicy": "Parallel"}, True),
        ({"volumeClaimTemplates": [claim("more")]}, True),
    ],
)
def test_what_may_change_of_a_stateful_set(change, is_refused):  # pkg/apis/apps/validation
    store = make_store()
    store.create(STATEFUL_SETS, "default", stateful_set())
    if not is_refused:
        store.patch(STATEFUL_SETS, "default", "db", {"spec": change}, MERGE_PATCH)
        return
    with pytest.raises(StoreError) as caught:
        store.patch(STATEFUL_SETS, "default", "db", {"spec": change}, MERGE_PATCH)
    assert "updates to statefulset spec for fields other than 'replicas'" in caught.value.message
