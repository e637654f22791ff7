"""LimitRanges and RuntimeClasses. Cases and words are those of kube-apiserver v1.36, asked with the same objects."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import MERGE_PATCH
from berth_cluster.apimachinery.resource_types import resource_of
from packages.cluster.tests.objects import PODS, make_store

LIMIT_RANGES, CLASSES = map(resource_of, ("LimitRange", "RuntimeClass"))
CLAIMS, STORAGE_CLASSES = map(resource_of, ("PersistentVolumeClaim", "StorageClass"))
STRICT = {
    "type": "Container",
    "max": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2Gi"},
    "min": {"cpu": "100m"},
    "defaultRequest": {"cpu": "200m"},
    "maxLimitRequestRatio": {"cpu": "2"},
}
DEFAULTS = {"type": "Container", "default": {"cpu": "1", "ephemeral-storage": "1Gi"}}
OF_PODS = {"type": "Pod", "max": {"cpu": "1500m", "ephemeral-storage": "3Gi"}, "min": {"memory": "64Mi"}}
OF_CLAIMS = {"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}, "min": {"storage": "1Gi"}}
KATA = {
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
    "scheduling": {
        "nodeSelector": {"kata": "yes"},
        "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}],
    },
}


def container(name="m", requests=None, limits=None):
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return {"name": name, "image": "x", "resources": resources}


def pod(*containers, **spec):
    return {"metadata": {"name": "a"}, "spec": {"containers": [*containers], **spec}}


def claim(size, of_class=None, limits=None):
    resources = {"requests": {"storage": size}, **({"limits": limits} if limits else {})}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": resources,
        **({"storageClassName": of_class} if of_class else {}),
    }
    return {"metadata": {"name": "p"}, "spec": spec}


def bound(store):
    """Let the claim be bound to a volume of 2 GiB."""
    status = {"phase": "Bound", "capacity": {"storage": "2Gi"}}
    store.patch(CLAIMS, "default", "p", {"spec": {"volumeName": "v"}}, MERGE_PATCH)
    store.patch(CLAIMS, "default", "p", {"status": status}, MERGE_PATCH, "status")


def resized(store, size):
    change = {"spec": {"resources": {"requests": {"storage": size}}}}
    return store.patch(CLAIMS, "default", "p", change, MERGE_PATCH)


def ranged(*limits):
    store = make_store()
    store.create(LIMIT_RANGES, "default", {"metadata": {"name": "lr"}, "spec": {"limits": [*limits]}})
    return store


def several(*found):
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def refusal(call, *arguments):
    with pytest.raises(StoreError) as refused:
        call(*arguments)
    return refused.value.status_code, refused.value.message


def test_should_create_a_limit_range_with_defaults_and_ensure_pod_has_those_defaults_applied():
    store = ranged(STRICT)
    (item,) = store.get(LIMIT_RANGES, "default", "lr")["spec"]["limits"]
    assert item["default"] == {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2Gi"}
    assert item["defaultRequest"] == {"cpu": "200m", "memory": "1Gi", "ephemeral-storage": "2Gi"}
    made = store.create(PODS, "default", pod(container(requests={"cpu": "1"})))
    amounts = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2Gi"}
    assert made["spec"]["containers"][0]["resources"] == {"limits": amounts, "requests": amounts}
    assert made["status"]["qosClass"] == "Guaranteed"
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: ephemeral-storage, memory request for container m; "
        "cpu, ephemeral-storage, memory limit for container m"
    )


ASKED = "defaultRequest[cpu]"
TOO_LITTLE = "minimum cpu usage per Container is 100m, but request is 10m"
RATIO = "cpu max limit to request ratio per Container is 2, but provided ratio is"


@pytest.mark.parametrize(
    ("containers", "init", "why"),
    [
        ([container()], [], [f"{RATIO} 5.000000"]),
        (
            [container(requests={"cpu": "10m"}, limits={"cpu": "5"})],
            [],
            [TOO_LITTLE, "maximum cpu usage per Container is 1, but limit is 5", f"{RATIO} 500.000000"],
        ),
        (
            [container(requests={"cpu": "100m"}, limits={"cpu": "200m", "memory": "2Gi"})],
            [],
            ["maximum memory usage per Container is 1Gi, but limit is 2Gi"],
        ),
        (
            [container(requests={"cpu": "1"})],
            [container("i", {"cpu": "10m"})],
            [TOO_LITTLE, f"{RATIO} 100.000000"],
        ),
    ],
)
def test_containers_outside_the_bounds(containers, init, why):
    found = refusal(ranged(STRICT).create, PODS, "default", pod(*containers, initContainers=init))
    assert found == (403, f'pods "a" is forbidden: {several(*why)}')


@pytest.mark.parametrize(
    ("containers", "why"),
    [
        ([container()], "minimum memory usage per Pod is 64Mi.  No request is specified"),
        (
            [container(requests={"memory": "64Mi"}), container("b")],
            "maximum cpu usage per Pod is 1500m, but limit is 2",
        ),
    ],
)
def test_pods_outside_the_bounds(containers, why):
    found = refusal(ranged(DEFAULTS, OF_PODS).create, PODS, "default", pod(*containers))
    assert found == (403, f'pods "a" is forbidden: {why}')


def test_an_init_container_does_not_add_to_the_others():
    store = ranged(DEFAULTS, OF_PODS)
    made = store.create(PODS, "default", pod(container(requests={"memory": "64Mi"}), initContainers=[container("i")]))
    told = made["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert told.endswith("limit for container m; cpu, ephemeral-storage request for init container i; "
                         "cpu, ephemeral-storage limit for init container i")  # fmt: skip


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ("6Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"),
        ("100Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 100Mi"),
    ],
)
def test_claims(size, why):
    store = ranged(OF_CLAIMS)
    assert refusal(store.create, CLAIMS, "default", claim(size)) == (
        403,
        f'persistentvolumeclaims "p" is forbidden: {why}',
    )
    store.create(CLAIMS, "default", claim("2Gi", limits={"storage": "9Gi"}))
    bound(store)
    change = refusal(resized, store, "6Gi")[1]
    assert change.endswith("maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi")


def test_only_the_first_limit_range_that_is_broken_tells():
    store = ranged({**OF_CLAIMS, "max": {"storage": "5Gi", "cpu": "1"}})
    store.create(LIMIT_RANGES, "default", {"metadata": {"name": "z"}, "spec": {"limits": [OF_CLAIMS, STRICT]}})
    told = refusal(store.create, CLAIMS, "default", claim("6Gi"))[1]
    assert told.endswith(
        "forbidden: [maximum cpu usage per PersistentVolumeClaim is 1.  No request is specified, maximum storage usage "
        "per PersistentVolumeClaim is 5Gi, but request is 6Gi]"
    )


@pytest.mark.parametrize("grows", [False, True])
def test_a_claim_grows_only_when_it_is_bound_and_its_class_lets_it(grows):
    store = make_store()
    store.create(STORAGE_CLASSES, "", {"metadata": {"name": "c"}, "provisioner": "x", "allowVolumeExpansion": grows})
    store.create(CLAIMS, "default", claim("2Gi", "c"))
    invalid, forbidden = 'PersistentVolumeClaim "p" is invalid: ', 'persistentvolumeclaims "p" is forbidden: '
    assert refusal(resized, store, "3Gi")[1].startswith(f"{invalid}spec: Forbidden: spec is immutable")
    bound(store)
    if not grows:
        assert refusal(resized, store, "3Gi")[1] == (
            f"{forbidden}only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
            "must support resize"
        )
        return
    resized(store, "3Gi")
    assert resized(store, "2500Mi")["spec"]["resources"]["requests"] == {"storage": "2500Mi"}, (
        "as an expansion that failed"
    )
    why = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    assert refusal(resized, store, "1Gi")[1] == invalid + why


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (
            [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}],
            [
                'min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
                'defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1',
                'default[cpu]: Invalid value: "2": min value 2 is greater than default value 1',
            ],
        ),
        (
            [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}}],
            [
                'defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than max value 1',
                'default[cpu]: Invalid value: "1": default value 2 is greater than max value 1',
            ],
        ),
        (
            [{"type": "Container", "min": {"cpu": "1"}, "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "600m"}}],
            [
                'defaultRequest[cpu]: Invalid value: "600m": min value 1 is greater than default request value 600m',
                f'{ASKED}: Invalid value: "600m": default request value 600m is greater than default limit value 500m',
                'default[cpu]: Invalid value: "1": min value 1 is greater than default value 500m',
            ],
        ),
        ([{"type": "Pod", "default": {"cpu": "1"}}], ["default: Forbidden: may not be specified when `type` is 'Pod'"]),
        (
            [{"type": "PersistentVolumeClaim"}],
            ["limits: Required value: either minimum or maximum storage value is required, but neither was provided"],
        ),
        (
            [{"type": "X", "max": {"cpu": "1"}}],
            ['type: Invalid value: "X": must be a standard limit type or fully qualified'],
        ),
        (
            [{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}],
            ['maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1'],
        ),
        ([{"type": "Container"}, {"type": "Container"}], ['type: Duplicate value: "Container"']),
    ],
)
def test_limit_ranges_that_contradict_themselves(limits, why):
    found = several(*(f"spec.limits[{len(limits) - 1}].{each}" for each in why))
    assert refusal(ranged, *limits) == (422, f'LimitRange "lr" is invalid: {found}')


def test_should_schedule_a_pod_requesting_a_runtime_class_and_initialize_its_overhead():
    store = make_store()
    store.create(CLASSES, "", KATA)
    spec = store.create(PODS, "default", pod(container(), runtimeClassName="kata", nodeSelector={"a": "b"}))["spec"]
    assert spec["overhead"] == {"cpu": "250m", "memory": "120Mi"}
    assert spec["nodeSelector"] == {"a": "b", "kata": "yes"}
    assert [one["key"] for one in spec["tolerations"]][-1] == "kata"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "nope"}, 'pod rejected: RuntimeClass "nope" not found'),
        (
            {"runtimeClassName": "kata", "nodeSelector": {"kata": "no"}},
            "conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no",
        ),
        (
            {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ],
)
def test_should_reject_a_pod_requesting_a_runtime_class_it_cannot_have(spec, why):
    store = make_store()
    store.create(CLASSES, "", KATA)
    assert refusal(store.create, PODS, "default", pod(container(), **spec)) == (403, f'pods "a" is forbidden: {why}')


def test_runtime_classes_have_a_handler():
    store = make_store()
    found = refusal(store.create, CLASSES, "", {"metadata": {"name": "bad"}})
    assert found == (422, 'RuntimeClass.node.k8s.io "bad" is invalid: handler: Required value')
