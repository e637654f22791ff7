"""The volume plugins of this release: which pods they let go by, and what they say to the others."""

import pytest

from berth.config.errors import ConfigError
from berth.config.plugin_args import decode_plugin_args
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.status import SKIP, Code
from berth.plugins.node_declared_features import NodeDeclaredFeatures
from berth.plugins.node_volume_limits import NodeVolumeLimits
from berth.plugins.volume_binding import VolumeBinding, VolumeBindingArgs
from berth.plugins.volume_restrictions import VolumeRestrictions
from berth.plugins.volume_zone import VolumeZone
from berth.testing.builders import make_node, make_pod
from tests.plugins.support import handle_of, pre_scored, registered

CLUSTER = handle_of(make_node("a").build())
PLUGINS = {
    plugin.name: plugin
    for plugin in (
        VolumeRestrictions(None, CLUSTER),
        NodeVolumeLimits(None, CLUSTER),
        VolumeBinding(VolumeBindingArgs(), CLUSTER),
        VolumeZone(None, CLUSTER),
        NodeDeclaredFeatures(None, CLUSTER),
    )
}
CLAIM_PLUGINS = {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}


@pytest.mark.parametrize(
    ("source", "refusing"),
    [
        ({"persistentVolumeClaim": {"claimName": "c"}}, CLAIM_PLUGINS),
        ({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, CLAIM_PLUGINS),
        ({"gcePersistentDisk": {"pdName": "d"}}, {"VolumeRestrictions", "NodeVolumeLimits"}),
        ({"awsElasticBlockStore": {"volumeID": "d"}}, {"VolumeRestrictions", "NodeVolumeLimits"}),
        ({"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0}}, {"VolumeRestrictions"}),
        ({"rbd": {"monitors": ["m"], "image": "i"}}, {"VolumeRestrictions"}),
        ({"azureDisk": {"diskName": "d", "diskURI": "u"}}, {"NodeVolumeLimits"}),
        ({"cinder": {"volumeID": "d"}}, {"NodeVolumeLimits"}),
        ({"emptyDir": {}}, set()),
        ({"configMap": {"name": "m"}}, set()),
        ({"projected": {"sources": []}}, set()),
        ({"csi": {"driver": "d"}}, set()),
        ({"image": {"reference": "r"}}, set()),
    ],
)
def test_pods_whose_volumes_cannot_follow_them_are_refused(source, refusing):
    pod = make_pod().volume("tmp", emptyDir={}).volume("data", **source).info()
    for name, plugin in PLUGINS.items():
        status = plugin.pre_filter(CycleState(), pod)
        alone = plugin.filter(CycleState(), pod, CLUSTER.cache.table.view(CLUSTER.cache.table.row_of["a"]))
        if name in refusing:
            assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            assert status.message.startswith("this release of Berth does not schedule pods with ")
            assert status.message.endswith("yet (volume 'data')")
            assert alone == status
        else:
            assert status is SKIP
            assert alone is None


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("VolumeRestrictions", {("Pod", "DELETE"), ("Node", "ADD"), ("PersistentVolumeClaim", "ADD")}),
        (
            "NodeVolumeLimits",
            {
                ("CSINode", "ADD"),
                ("CSINode", "UPDATE"),
                ("Pod", "DELETE"),
                ("PersistentVolumeClaim", "ADD"),
                ("VolumeAttachment", "DELETE"),
            },
        ),
        (
            "VolumeBinding",
            {
                ("StorageClass", "ADD UPDATE"),
                ("PersistentVolumeClaim", "ADD UPDATE"),
                ("PersistentVolume", "ADD UPDATE"),
                ("Node", "ADD UPDATE_NODE_LABEL"),
                ("CSINode", "ADD UPDATE"),
                ("CSIDriver", "UPDATE"),
                ("CSIStorageCapacity", "ADD UPDATE"),
            },
        ),
        (
            "VolumeZone",
            {
                ("StorageClass", "ADD"),
                ("Node", "ADD UPDATE_NODE_LABEL"),
                ("PersistentVolumeClaim", "ADD UPDATE"),
                ("PersistentVolume", "ADD UPDATE"),
            },
        ),
        ("NodeDeclaredFeatures", {("Node", "ADD UPDATE_NODE_DECLARED_FEATURE"), ("Pod", "UPDATE")}),
    ],
)
def test_events_are_upstreams_and_none_helps_a_refused_pod(name, events):
    expected = set()
    for kind, actions in events:
        action = Action(0)
        for word in actions.split():
            action |= Action[word]
        expected.add((kind, action))
    assert registered(PLUGINS[name]) == expected
    for registration in PLUGINS[name].events_to_register():
        assert registration.hint(make_pod().info(), None, None) is QueueingHint.SKIP


def test_volume_binding_has_nothing_to_do_later():
    plugin, pod, state = PLUGINS["VolumeBinding"], make_pod().info(), CycleState()
    assert pre_scored(plugin, pod, CLUSTER) is SKIP
    assert plugin.reserve(state, pod, "a") is None
    assert plugin.pre_bind_pre_flight(state, pod, "a") is SKIP
    assert plugin.pre_bind(state, pod, "a") is None


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
def test_volume_binding_args(args, errors):
    found = ()
    try:
        decoded = decode_plugin_args("VolumeBinding", args, VolumeBindingArgs, "args")
        assert decoded.bind_timeout_seconds == args.get("bindTimeoutSeconds", 600)
    except ConfigError as raised:
        found = raised.errors
    assert found == errors


def test_a_shape_needs_its_gate():
    args = decode_plugin_args("VolumeBinding", shape((0, 0), (100, 10)), VolumeBindingArgs, "args")
    with pytest.raises(ValueError, match="turn on the feature gate StorageCapacityScoring"):
        VolumeBinding(args, CLUSTER)
    VolumeBinding(args, handle_of(gates={"StorageCapacityScoring": True}))
