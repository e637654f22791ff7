"""Objects with one thing wrong, and what upstream says of it.

Source of the words: pkg/apis/core/validation, pkg/apis/apps/validation, pkg/apis/coordination/validation,
pkg/apis/policy/validation, pkg/apis/resource/validation, pkg/api/pod/warnings.go, WarningsOnCreate and
WarningsOnUpdate in pkg/registry/*/*/strategy.go, and apimachinery's pkg/api/validate/content/dns.go, of v1.36.
"""

import copy
import json

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import MERGE_PATCH
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.storage.field_managers import Writer
from berth_cluster.strategies.names import VALUE_MESSAGE
from packages.cluster.tests.objects import make_store
from tests.conformance import api_answers

TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}]},
}
JOB_SPEC = {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
OBJECTS = {
    "CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB_SPEC}}},
    "DaemonSet": {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}},
    "Deployment": {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}},
    "Job": {"spec": JOB_SPEC},
    "Lease": {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    "LimitRange": {"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}}]}},
    "PersistentVolume": {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                                  "csi": {"driver": "d", "volumeHandle": "h"}}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "Pod": {"spec": TEMPLATE["spec"]},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}},
    "ReplicaSet": {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}},
    "ResourceClaim": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
    "StatefulSet": {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}},
}  # fmt: skip
NOT_A_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

UNKNOWN_RESOURCE = 'Invalid value: "other": must be a standard resource type or fully qualified'
NO_STORAGE = "Required value: either minimum or maximum storage value is required, but neither was provided"


async def asked(requests):
    """What a server answers to requests about objects called x."""
    records = []
    for method, kind, obj in requests:
        known = resource_of(kind)
        prefix = f"/apis/{known.group}/{known.version}" if known.group else "/api/v1"
        place = f"{prefix}/namespaces/default" if known.namespaced else prefix
        path = f"{place}/{known.plural}{'/x' if method == 'PUT' else ''}"
        records.append({"method": method, "path": path, "contentType": "application/json", "body": obj,
                        "group": "", "status": 0, "unstable": True})  # fmt: skip
    return [outcome.answer.body for outcome in await api_answers.play(records)]


def changed(kind, path, value):
    obj = {"metadata": {"name": "x"}, **copy.deepcopy(OBJECTS[kind])}
    *holders, last = path
    part = obj
    for name in holders:
        part = part[name]
    part[last] = value
    return obj


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("DaemonSet", ("spec", "selector"), {},
         "spec.selector: Invalid value: {}: empty selector is invalid for daemonset"),
        ("Lease", ("spec", "leaseDurationSeconds"), 0,
         "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"),
        ("Lease", ("spec", "leaseTransitions"), -1,
         "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"),
        ("LimitRange", ("spec", "limits", 0, "type"), "-5", f'spec.limits[0].type: Invalid value: "-5": {NOT_A_NAME}'),
        ("LimitRange", ("spec", "limits", 0, "type"), "Other",
         'spec.limits[0].type: Invalid value: "Other": must be a standard limit type or fully qualified'),
        ("LimitRange", ("spec", "limits", 0, "max"), {"other": 1},
         f"[spec.limits[0].max[other]: {UNKNOWN_RESOURCE}, spec.limits[0].limits: {NO_STORAGE}]"),
        ("PersistentVolume", ("spec", "capacity", "storage"), "-5",
         ("[spec.capacity[storage]: Invalid value: -5: must be a valid resource quantity, "
         'spec.capacity[storage]: Invalid value: "-5": must be greater than zero]')),
        ("PodDisruptionBudget", ("spec", "minAvailable"), "101%",
         'spec.minAvailable: Invalid value: "101%": must not be greater than 100%'),
        ("PodDisruptionBudget", ("spec", "maxUnavailable"), "1%",
         ('spec: Invalid value: {"MinAvailable":1,"Selector":{"matchLabels":{"app":"a"}},"MaxUnavailable":"1%",'
         '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set')),
        ("PodDisruptionBudget", ("spec", "unhealthyPodEvictionPolicy"), "Never",
         ('spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", '
         '"IfHealthyBudget"')),
        ("PodDisruptionBudget", ("spec",), {"minAvailable": -1, "selector": {"matchLabels": {"a": "-"}}},
         (f'[spec.minAvailable: Invalid value: -1: must be greater than or equal to 0, spec.selector.matchLabels: '
         f'Invalid value: "-": {VALUE_MESSAGE}]')),
        ("Pod", ("spec", "containers", 0, "name"), "a.b",
         'spec.containers[0].name: Invalid value: "a.b": must not contain dots'),
        ("StatefulSet", ("metadata", "name"), "a.b", 'metadata.name: Invalid value: "a.b": must not contain dots'),
        ("ResourceClaim", ("spec", "devices", "requests"), 2 * OBJECTS["ResourceClaim"]["spec"]["devices"]["requests"],
         'spec.devices.requests[1]: Duplicate value: "r"'),
    ],
)  # fmt: skip
def test_what_is_refused(kind, path, value, said):
    with pytest.raises(StoreError) as refused:
        make_store().create(resource_of(kind), "default", changed(kind, path, value))
    assert refused.value.message.partition("is invalid: ")[2] == said


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        ([{"containerPort": 80}, {"containerPort": 80}], "duplicate port definition with spec.containers[0].ports[0]"),
        ([{"containerPort": 80, "hostPort": 1}, {"containerPort": 80}],
         "overlapping port definition with spec.containers[0].ports[0]"),
        ([{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80}], ""),
    ],
)  # fmt: skip
def test_what_is_warned_of(ports, said):
    warnings = []
    pod = changed("Pod", ("spec", "containers", 0, "ports"), ports)
    make_store().create(resource_of("Pod"), "default", pod, writer=Writer("me", "v1", warnings))
    assert warnings == ([f"spec.containers[0].ports[1]: {said}"] if said else [])


def test_amounts_are_told_in_the_form_in_which_they_were_given():
    store = make_store()
    store.create(
        resource_of("LimitRange"), "default", changed("LimitRange", ("spec", "limits", 0, "max"), {"storage": "1e3"})
    )
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    with pytest.raises(StoreError, match="maximum storage usage per PersistentVolumeClaim is 1e3, but request is 1Gi"):
        store.create(resource_of("PersistentVolumeClaim"), "default", {"metadata": {"name": "c"}, "spec": spec})


def test_a_claim_that_asks_for_nothing_any_more_is_refused():
    store = make_store()
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    store.create(resource_of("PersistentVolumeClaim"), "default", {"metadata": {"name": "c"}, "spec": spec})
    patch = {"spec": {"resources": {"requests": None}}}
    with pytest.raises(StoreError) as refused:
        store.patch(resource_of("PersistentVolumeClaim"), "default", "c", patch, MERGE_PATCH)
    said = [(each["field"], each["message"][:50]) for each in refused.value.details["causes"]]
    assert said == [
        ("spec.resources[storage]", "Required value"),
        ("spec", "Forbidden: spec is immutable after creation except"),
        ("spec.resources.requests.storage", "Forbidden: field can not be less than status.capac"),
    ]


@pytest.mark.parametrize(("kind", "times"), [("DaemonSet", 4), ("Lease", 3)])
def test_labels_are_checked_as_often_as_upstream_checks_them(kind, times):
    """By the common checks of an update twice, and by those of the kind: ValidateDaemonSet and its update, say."""
    store = make_store()
    store.create(resource_of(kind), "default", {"metadata": {"name": "x"}, **OBJECTS[kind]})
    with pytest.raises(StoreError) as refused:
        store.patch(resource_of(kind), "default", "x", {"metadata": {"labels": {"a": "no value!"}}}, MERGE_PATCH)
    assert [each["field"] for each in refused.value.details["causes"]] == ["metadata.labels"] * times


def test_the_selector_of_daemons_is_checked_before_it_is_found_to_have_changed():
    """pkg/registry/apps/daemonset: ValidateDaemonSet, ValidateDaemonSetUpdate, and then that the selector is fixed."""
    store = make_store()
    store.create(resource_of("DaemonSet"), "default", {"metadata": {"name": "x"}, **OBJECTS["DaemonSet"]})
    obj = store.get(resource_of("DaemonSet"), "default", "x")
    with pytest.raises(StoreError) as refused:
        store.update(resource_of("DaemonSet"), "default", "x", {**obj, "spec": {**obj["spec"], "selector": {}}})
    empty = "Invalid value: {}: empty selector is invalid for daemonset"
    said = [each["message"] for each in refused.value.details["causes"]]
    assert said == [empty, empty, "Invalid value: {}: field is immutable"]


BEYOND_A_LABEL = "which can result in surprising behavior; a DNS label is recommended:"
TOO_LONG = "[must be no more than 63 characters]"


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("Pod", "a" * 64, f"the Pod's hostname, {BEYOND_A_LABEL} {TOO_LONG}"),
        ("Pod", "a.b", f"the Pod's hostname, {BEYOND_A_LABEL} [must not contain dots]"),
        ("Deployment", "a" * 64, f"Pod names and hostnames, {BEYOND_A_LABEL} {TOO_LONG}"),
        ("ReplicaSet", "a" * 64, f"Pod names and hostnames, {BEYOND_A_LABEL} {TOO_LONG}"),
        ("Job", "a.b", f"Pod names and hostnames, {BEYOND_A_LABEL} [must not contain dots]"),
        ("CronJob", "a.b", f"Pod names and hostnames, {BEYOND_A_LABEL} [must not contain dots]"),
        ("DaemonSet", "a.b", None),
        ("Lease", "a.b", None),
        ("Pod", "a-b", None),
    ],
)
def test_a_name_that_becomes_a_host_name_is_warned_of_once(kind, name, said):
    warnings = []
    store, writer = make_store(), Writer("me", "v1", warnings)
    store.create(resource_of(kind), "default", {"metadata": {"name": name}, **copy.deepcopy(OBJECTS[kind])},
                 writer=writer)  # fmt: skip
    assert warnings == ([f"metadata.name: this is used in {said}"] if said else [])
    store.patch(resource_of(kind), "default", name, {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH, writer=writer)
    assert len(warnings) == (said is not None)


def test_a_cron_job_is_warned_of_the_pods_of_its_jobs():
    warnings = []
    template = ("spec", "jobTemplate", "spec", "template", "spec", "containers", 0, "resources")
    cron_job = changed("CronJob", template, {"requests": {"memory": "100m"}})
    make_store().create(resource_of("CronJob"), "default", cron_job, writer=Writer("me", "v1", warnings))
    assert warnings == [
        (
            "spec.jobTemplate.spec.template.spec.containers[0].resources.requests[memory]: fractional byte value "
            '"100m" is invalid, must be an integer'
        )
    ]


NO_LABELS = "`selector` does not match template `labels`"
NO_REQUESTS = {"Devices": {"Requests": [], "Constraints": None, "Config": None}}


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("Deployment", ("spec", "template", "metadata", "labels"), {},
         f"spec.template.metadata.labels: Invalid value: {{}}: {NO_LABELS}"),
        ("Deployment", ("spec", "template", "metadata", "labels"), None,
         f"spec.template.metadata.labels: Invalid value: null: {NO_LABELS}"),
        ("PersistentVolume", ("spec", "capacity"), {},
         '[spec.capacity: Required value, spec.capacity: Unsupported value: {}: supported values: "storage"]'),
    ],
)  # fmt: skip
async def test_what_is_empty_is_told_from_what_is_absent(kind, path, value, said):
    """As Go's decoder does, whatever is stored in the end."""
    answered = await asked([("POST", kind, changed(kind, path, value))])
    assert answered[0]["message"].partition("is invalid: ")[2] == said


async def test_what_is_empty_is_told_from_what_is_absent_in_a_whole_spec():
    """The record `o11-108`: a ResourceClaim's spec, as Go writes it."""
    claim = {"metadata": {"name": "x"}, **OBJECTS["ResourceClaim"]}
    emptied = changed("ResourceClaim", ("spec", "devices", "requests"), [])
    _made, refused = await asked([("POST", "ResourceClaim", claim), ("PUT", "ResourceClaim", emptied)])
    shown = json.dumps(NO_REQUESTS, separators=(",", ":"))
    assert refused["message"].partition("is invalid: ")[2] == f"spec: Invalid value: {shown}: field is immutable"


RESOURCES = ("spec", "template", "spec", "containers", 0, "resources")
LABELLED = {"metadata": {"labels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("kind", "path", "patch", "times"),
    [
        ("Pod", RESOURCES[2:], {"spec": {"activeDeadlineSeconds": 1}}, 1),
        ("PersistentVolumeClaim", ("spec", "resources"), LABELLED, 2),
        ("Deployment", RESOURCES, LABELLED, 1),
        ("Deployment", RESOURCES, {"spec": {"replicas": 2}}, 2),
    ],
)
def test_who_is_warned_again_when_an_object_changes(kind, path, patch, times):
    warnings = []
    store, writer = make_store(), Writer("me", "v1", warnings)
    obj = changed(kind, path, {"requests": {"storage" if kind == "PersistentVolumeClaim" else "memory": "100m"}})
    store.create(resource_of(kind), "default", obj, writer=writer)
    store.patch(resource_of(kind), "default", "x", patch, MERGE_PATCH, writer=writer)
    assert len(warnings) == times
    assert all('fractional byte value "100m" is invalid' in said for said in warnings)


def test_the_mode_of_a_volume_stays():
    store = make_store()
    store.create(resource_of("PersistentVolume"), "", {"metadata": {"name": "x"}, **OBJECTS["PersistentVolume"]})
    with pytest.raises(StoreError, match='volumeMode: Invalid value: "Block": field is immutable'):
        store.patch(resource_of("PersistentVolume"), "", "x", {"spec": {"volumeMode": "Block"}}, MERGE_PATCH)
