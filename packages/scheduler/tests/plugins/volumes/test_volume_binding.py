"""VolumeBinding: which nodes a pod's claims allow; expectations from upstream's binder and its documentation."""

import pytest

from berth.config.errors import ConfigError
from berth.config.feature_gates import FeatureGates
from berth.config.plugin_args import decode_plugin_args
from berth.core.builders import make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.status import SKIP, Code
from berth.plugins.volumes.volume_binding import DEFAULT_SHAPE, VolumeBinding, VolumeBindingArgs
from packages.scheduler.tests.plugins.support import pre_scored
from packages.scheduler.tests.plugins.volumes.world import (
    SELECTED,
    ZONE,
    capacity,
    claim,
    csi_node,
    decided,
    driver,
    on,
    storage_class,
    views,
    volume,
    world,
)

CHOOSY = {"selector": {"matchLabels": {"x": "y"}}}

CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"

NODES = (make_node("a").label(ZONE, "a").build(), make_node("b").label(ZONE, "b").build())
WAIT = storage_class("wait")
STATIC = storage_class("static", "kubernetes.io/no-provisioner")


def pod_with(*claims, name="p"):
    pod = make_pod(name, "default")
    for one in claims:
        pod.volume(f"v-{one}", persistentVolumeClaim={"claimName": one})
    return pod.info()


def plugin_over(*objects, gates=None, args=None):
    handle = world(*NODES, *objects, gates=gates)
    return VolumeBinding(args or VolumeBindingArgs(), handle), handle


def verdict(pod, *objects):
    plugin, handle = plugin_over(*objects)
    return decided(plugin, pod, handle)


def test_pods_without_claims_are_none_of_its_business():
    plugin, _ = plugin_over()
    pod = make_pod("p", "default").volume("tmp", emptyDir={}).info()
    assert plugin.pre_filter(CycleState(), pod) is SKIP
    assert plugin.promises.pre_filter_is_pure(pod)
    assert not plugin.promises.pre_filter_is_pure(pod_with("c"))
    assert plugin.reserve(CycleState(), pod, "a") is None
    assert plugin.pre_bind_pre_flight(CycleState(), pod, "a") is SKIP
    assert plugin.pre_bind(CycleState(), pod, "a") is None


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ((), 'persistentvolumeclaim "c" not found'),
        (
            (claim("c", status={"phase": "Lost"}, volume="v"),),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        ((claim("c", deleted="2030-01-01T00:00:00Z"),), 'persistentvolumeclaim "c" is being deleted'),
        ((claim("c", klass="now"), storage_class("now", mode="Immediate")), IMMEDIATE),
        ((claim("c", klass=""),), IMMEDIATE),
        ((claim("c", klass="unknown"),), IMMEDIATE),
        ((claim("c", volume="v", bound=False), WAIT), IMMEDIATE),
        ((claim("c", klass="odd"), storage_class("odd", mode="")), 'VolumeBindingMode not set for StorageClass "odd"'),
    ],
)
def test_claims_that_cannot_be_used(objects, message):
    assert verdict(pod_with("c"), *objects) == message


def test_a_claim_made_for_the_pod_must_exist_and_be_its_own():
    pod = make_pod("p", "default").uid("u").volume("data", ephemeral={"volumeClaimTemplate": {"spec": {}}}).info()
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-data"'
    assert verdict(pod) == waiting
    assert (
        verdict(pod, claim("p-data"), WAIT) == "PVC default/p-data was not created for pod default/p (pod is not owner)"
    )
    own = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}]
    assert verdict(pod, claim("p-data", owners=own), WAIT) == {"a": None, "b": None}


@pytest.mark.parametrize(
    ("bound_volume", "expected"),
    [
        (volume("v"), {"a": None, "b": None}),
        (volume("v", affinity=on(ZONE, "a")), {"a": None, "b": CONFLICT}),
        (volume("v", affinity={"required": {"nodeSelectorTerms": []}}), {"a": CONFLICT, "b": CONFLICT}),
        (volume("other"), {"a": MISSING, "b": MISSING}),
    ],
)
def test_bound_volumes_must_be_usable_on_the_node(bound_volume, expected):
    assert verdict(pod_with("c"), claim("c", volume="v"), bound_volume) == expected


def test_all_reasons_of_a_node_are_given():
    objects = claim("c", volume="v"), volume("v", affinity=on(ZONE, "b")), claim("d", klass="static"), STATIC
    assert verdict(pod_with("c", "d"), *objects) == {"a": f"{CONFLICT}, {NO_VOLUME}", "b": NO_VOLUME}


@pytest.mark.parametrize(
    ("wanted", "there", "fits"),
    [
        (claim("c", "2Gi", klass="static"), volume("v", "2Gi", klass="static"), True),
        (claim("c", "2Gi", klass="static"), volume("v", "1Gi", klass="static"), False),
        (claim("c", klass="static"), volume("v", klass="wait"), False),
        (claim("c", klass="static"), volume("v", klass="static", phase="Released"), False),
        (claim("c", klass="static"), volume("v", klass="static", deleted="2030-01-01T00:00:00Z"), False),
        (claim("c", klass="static"), volume("v", klass="static", ref="another"), False),
        (claim("c", klass="static"), volume("v", klass="static", ref="c", phase="Pending"), True),
        (claim("c", klass="static", modes=("ReadWriteMany",)), volume("v", klass="static"), False),
        (claim("c", klass="static"), volume("v", klass="static", modes=("ReadWriteOnce", "ReadOnlyMany")), True),
        (claim("c", klass="static", spec={"volumeMode": "Block"}), volume("v", klass="static"), False),
        (claim("c", klass="static", spec={"volumeMode": "Filesystem"}), volume("v", klass="static"), True),
        (claim("c", klass="static", spec=CHOOSY), volume("v", klass="static"), False),
        (claim("c", klass="static", spec=CHOOSY), volume("v", klass="static", labels={"x": "y"}), True),
        (claim("c", klass="static", spec={"volumeAttributesClassName": "fast"}), volume("v", klass="static"), False),
        (claim("c", klass="static"), volume("v", klass="static", volumeAttributesClassName="fast"), False),
    ],
)
def test_which_volumes_a_claim_may_get(wanted, there, fits):
    expected = None if fits else NO_VOLUME
    assert verdict(pod_with("c"), wanted, there, STATIC) == {"a": expected, "b": expected}


def taken(plugin, handle, pod, node):
    """What Reserve leaves assumed: volume by claim, and the node by claim."""
    state = CycleState()
    assert plugin.pre_filter(state, pod) is None
    assert plugin.reserve(state, pod, node) is None
    objects = handle.objects
    volumes = [objects.latest("PersistentVolume", v.metadata.name) for v in objects.list("PersistentVolume")]
    stored = objects.list("PersistentVolumeClaim")
    claims = [objects.latest("PersistentVolumeClaim", c.metadata.name, "default") for c in stored]
    return (
        {v.spec.claim_ref.name: v.metadata.name for v in volumes if v.spec.claim_ref is not None},
        {c.metadata.name: c.metadata.annotations[SELECTED] for c in claims if SELECTED in c.metadata.annotations},
    )


def test_the_smallest_volume_that_fits_is_taken_and_none_twice():
    objects = [claim("big", "3Gi", klass="static"), claim("small", "1Gi", klass="static"), STATIC]
    objects += [volume(name, size, klass="static") for name, size in (("x", "10Gi"), ("y", "2Gi"), ("z", "4Gi"))]
    plugin, handle = plugin_over(*objects)
    assert taken(plugin, handle, pod_with("big", "small"), "a") == ({"small": "y", "big": "z"}, {})


def test_a_volume_promised_to_the_claim_comes_before_a_smaller_one_and_excludes_other_nodes():
    objects = claim("c", "1Gi", klass="static"), STATIC, volume("small", "1Gi", klass="static")
    promised = volume("large", "9Gi", klass="static", ref="c", affinity=on(ZONE, "a"))
    plugin, handle = plugin_over(*objects, promised)
    assert decided(plugin, pod_with("c"), handle) == {"a": None, "b": NO_VOLUME}
    assert taken(plugin, handle, pod_with("c"), "a") == ({"c": "large"}, {})


def test_volumes_taken_by_one_pod_are_not_there_for_the_next_until_they_are_given_back():
    plugin, handle = plugin_over(
        claim("c", klass="static"), claim("d", klass="static"), STATIC, volume("v", klass="static")
    )
    state, first, second = CycleState(), pod_with("c"), pod_with("d", name="q")
    assert plugin.pre_filter(state, first) is None
    assert plugin.reserve(state, first, "a") is None
    assert plugin.pre_bind_pre_flight(state, first, "a").allow_parallel
    assert decided(plugin, second, handle) == {"a": NO_VOLUME, "b": NO_VOLUME}
    assert handle.objects.get("PersistentVolume", "v").spec.claim_ref is None
    plugin.unreserve(state, first, "a")
    plugin.unreserve(state, first, "a")
    assert decided(plugin, second, handle) == {"a": None, "b": None}
    assert not len(handle.objects.assumed)


def test_what_is_taken_is_taken_for_every_profile():
    first, handle = plugin_over(
        claim("c", klass="static"), claim("d", klass="static"), STATIC, volume("v", klass="static")
    )
    second = VolumeBinding(VolumeBindingArgs(), handle)
    taken(first, handle, pod_with("c"), "a")
    assert decided(second, pod_with("d"), handle) == {"a": NO_VOLUME, "b": NO_VOLUME}


def test_a_newer_volume_from_the_watch_ends_an_assumption():
    plugin, handle = plugin_over(claim("c", klass="static"), STATIC, volume("v", klass="static", version="1"))
    assert taken(plugin, handle, pod_with("c"), "a")[0] == {"c": "v"}
    handle.objects.put("PersistentVolume", volume("v", klass="static", version="2"))
    assert handle.objects.latest("PersistentVolume", "v").spec.claim_ref is None


@pytest.mark.parametrize(
    ("klass", "expected"),
    [
        (storage_class("wait"), {"a": None, "b": None}),
        (storage_class("wait", "kubernetes.io/no-provisioner"), {"a": NO_VOLUME, "b": NO_VOLUME}),
        (storage_class("wait", ""), {"a": NO_VOLUME, "b": NO_VOLUME}),
        (storage_class("wait", topologies=[{ZONE: ["a"]}]), {"a": None, "b": NO_VOLUME}),
        (
            storage_class("wait", topologies=[{ZONE: ["a"], "disk": ["ssd"]}, {ZONE: ["b"]}]),
            {"a": NO_VOLUME, "b": None},
        ),
        (storage_class("wait", topologies=[{}]), {"a": NO_VOLUME, "b": NO_VOLUME}),
    ],
)
def test_where_volumes_can_be_provisioned(klass, expected):
    assert verdict(pod_with("c"), claim("c"), klass) == expected


def test_a_claim_to_be_provisioned_for_a_node_stays_with_it():
    plugin, handle = plugin_over(claim("c"), WAIT)
    assert taken(plugin, handle, pod_with("c"), "b") == ({}, {"c": "b"})
    assert decided(plugin, pod_with("c", name="q"), handle) == {"a": NO_VOLUME, "b": None}


def test_a_claim_whose_node_was_chosen_gets_no_static_volume():
    plugin, handle = plugin_over(claim("c", annotations={SELECTED: "a"}), WAIT, volume("v"))
    assert taken(plugin, handle, pod_with("c"), "a") == ({}, {"c": "a"})
    assert not len(handle.objects.assumed)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ((driver("csi.example.com"),), {"a": NO_SPACE, "b": NO_SPACE}),
        ((driver("csi.example.com", capacity=False),), {"a": None, "b": None}),
        ((driver("another"),), {"a": None, "b": None}),
        ((driver("csi.example.com"), capacity("k", "5Gi")), {"a": None, "b": NO_SPACE}),
        ((driver("csi.example.com"), capacity("k", "4Gi")), {"a": NO_SPACE, "b": NO_SPACE}),
        ((driver("csi.example.com"), capacity("k", "4Gi", largest="6Gi")), {"a": None, "b": NO_SPACE}),
        ((driver("csi.example.com"), capacity("k", "9Gi", largest="1Gi")), {"a": NO_SPACE, "b": NO_SPACE}),
        ((driver("csi.example.com"), capacity("k", "9Gi", klass="x")), {"a": NO_SPACE, "b": NO_SPACE}),
        ((driver("csi.example.com"), capacity("k", "9Gi", zone="")), {"a": NO_SPACE, "b": NO_SPACE}),
    ],
)
def test_capacity_counts_where_the_driver_tells(objects, expected):
    assert verdict(pod_with("c"), claim("c", "5Gi"), WAIT, *objects) == expected


def test_a_claim_that_asks_for_no_storage_needs_no_capacity():
    assert verdict(pod_with("c"), claim("c", ""), WAIT, driver("csi.example.com")) == {"a": None, "b": None}


def test_a_migrated_disk_is_looked_for_by_its_drivers_topology():
    disk = volume("v", gcePersistentDisk={"pdName": "d"}, affinity=on(ZONE, "a", "b"))
    nodes = (
        make_node("c").label(ZONE, "b").label("topology.gke.io/zone", "b").build(),
        csi_node("a", "kubernetes.io/gce-pd"),
    )
    objects = claim("c", volume="v"), disk, *nodes, csi_node("c", "kubernetes.io/gce-pd,x")
    assert verdict(pod_with("c"), *objects) == {"a": CONFLICT, "b": None, "c": None}


GATE = {"StorageCapacityScoring": True}
SCORING = FeatureGates(GATE)


def scores(plugin, pod, handle):
    state = CycleState()
    assert plugin.pre_filter(state, pod) is None
    return {view.name: plugin.score(state, pod, view) for view in views(handle)}


def test_storage_is_scored_only_with_its_gate():
    plugin, handle = plugin_over(claim("c"), WAIT)
    assert pre_scored(plugin, pod_with("c"), handle) is SKIP
    assert scores(plugin, pod_with("c"), handle) == {"a": 0, "b": 0}


def test_by_default_the_node_with_more_storage_left_is_better():
    objects = claim("c", "5Gi"), WAIT, driver("csi.example.com"), capacity("k", "10Gi"), capacity("l", "20Gi", zone="b")
    plugin, handle = plugin_over(*objects, gates=GATE)
    assert scores(plugin, pod_with("c"), handle) == {"a": 50, "b": 75}
    args = decode_plugin_args("VolumeBinding", shape((0, 0), (100, 10)), VolumeBindingArgs, "args", SCORING)
    fuller = VolumeBinding(args, handle)
    assert scores(fuller, pod_with("c"), handle) == {"a": 50, "b": 25}


def test_static_volumes_are_scored_by_class():
    objects = claim("c", "5Gi", klass="static"), STATIC, claim("d", "1Gi"), WAIT
    objects += (volume("v", "10Gi", klass="static"), volume("w", "1Gi"))
    plugin, handle = plugin_over(*objects, gates=GATE)
    assert scores(plugin, pod_with("c", "d"), handle) == {"a": 25, "b": 25}


def shape(*points):
    return {"shape": [{"utilization": utilization, "score": score} for utilization, score in points]}


@pytest.mark.parametrize(
    ("args", "errors"),
    [
        ({}, ()),
        ({"bindTimeoutSeconds": 0}, ()),
        (shape((0, 0), (100, 10)), ()),
        (
            {"bindTimeoutSeconds": -1},
            ("args.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",),
        ),
        (
            shape((50, 0), (50, 10)),
            ("args.shape[1].utilization: Invalid value: 50: values must be sorted in increasing order",),
        ),
        (shape((0, 11)), ("args.shape[0].score: Invalid value: 11: not in valid range [0, 10]",)),
        (shape((101, 0)), ("args.shape[0].utilization: Invalid value: 101: not in valid range [0, 100]",)),
    ],
)
def test_args(args, errors):
    found = ()
    try:
        decoded = decode_plugin_args("VolumeBinding", args, VolumeBindingArgs, "args", SCORING)
        assert decoded.bind_timeout_seconds == args.get("bindTimeoutSeconds", 600)
    except ConfigError as raised:
        found = raised.errors
    assert found == errors


def test_a_shape_needs_its_gate():
    for given in (shape((0, 0), (100, 10)), shape()):
        with pytest.raises(ConfigError, match="turn on the feature gate StorageCapacityScoring"):
            decode_plugin_args("VolumeBinding", given, VolumeBindingArgs, "args")
    assert decode_plugin_args("VolumeBinding", shape(), VolumeBindingArgs, "args", SCORING).shape == DEFAULT_SHAPE


def test_rejections_are_not_for_preemption_to_cure():
    plugin, handle = plugin_over(claim("c", klass="static"), STATIC)
    state = CycleState()
    assert plugin.pre_filter(state, pod_with("c")) is None
    assert plugin.filter(state, pod_with("c"), views(handle)[0]).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
