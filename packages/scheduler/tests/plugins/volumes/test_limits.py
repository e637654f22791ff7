"""NodeVolumeLimits: how many volumes a node can attach; expectations from upstream's tests and documentation."""

import pytest

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.status import SKIP, Code
from berth.plugins.volumes.limits import NodeVolumeLimits
from packages.scheduler.tests.plugins.support import registered
from packages.scheduler.tests.plugins.volumes.world import (
    attachment,
    claim,
    csi_node,
    decided,
    storage_class,
    views,
    volume,
    world,
)

REASON = "node(s) exceed max volume count"


def pod(name, *claims, node="", namespace="default"):
    found = make_pod(name, namespace)
    for one in claims:
        found.volume(one, persistentVolumeClaim={"claimName": one})
    return found.node(node) if node else found


def inline(name, node="", **source):
    found = make_pod(name, "default").volume("v", **source)
    return found.node(node) if node else found


def bound(*names, driver="d", handle=None):
    """Claims with their volumes, of one driver."""
    found = []
    for name in names:
        csi = {"driver": driver, "volumeHandle": handle or f"h-{name}"}
        found += [claim(name, volume=f"pv-{name}"), volume(f"pv-{name}", csi=csi, ref=name, phase="Bound")]
    return found


def verdict(waiting, *objects):
    handle = world(make_node("n").build(), *objects)
    return decided(NodeVolumeLimits(None, handle), waiting.info(), handle)["n"]


@pytest.mark.parametrize(
    ("waiting", "objects", "fits"),
    [
        (pod("p", "a"), [csi_node("n", d=1), *bound("a")], True),
        (pod("p", "a", "b"), [csi_node("n", d=1), *bound("a", "b")], False),
        (pod("p", "a"), [csi_node("n", d=1), *bound("a", "b"), pod("q", "b", node="n").build()], False),
        (pod("p", "a"), [csi_node("n", d=1), *bound("a", "b"), pod("q", "b", node="m").build()], True),
        (pod("p", "a"), [csi_node("n", d=0), *bound("a")], False),
        # What the node does not limit, it takes.
        (pod("p", "a"), [*bound("a")], True),
        (pod("p", "a"), [csi_node("n", d=None), *bound("a")], True),
        (pod("p", "a"), [csi_node("n", other=0), *bound("a")], True),
        (
            pod("p", "a"),
            [csi_node("n", d=1), *bound("a"), *bound("b", driver="e"), pod("q", "b", node="n").build()],
            True,
        ),
        # A volume counts once, however many pods and claims have it.
        (pod("p", "a"), [csi_node("n", d=1), *bound("a"), pod("q", "a", node="n").build()], True),
        (pod("p", "a", "b"), [csi_node("n", d=1), *bound("a", "b", handle="h")], True),
        (pod("p", "a"), [csi_node("n", d=1), *bound("a", "b", handle="h"), pod("q", "b", node="n").build()], True),
        # Volumes attached to the node count too, unless a pod there has them.
        (pod("p", "a"), [csi_node("n", d=1), *bound("a", "b"), attachment("x", "n", "pv-b")], False),
        (pod("p", "a"), [csi_node("n", d=1), *bound("a", "b"), attachment("x", "m", "pv-b")], True),
        (pod("p", "a"), [csi_node("n", d=1), *bound("a"), attachment("x", "n", "pv-gone")], True),
        (
            pod("p", "a"),
            [csi_node("n", d=2), *bound("a", "b"), attachment("x", "n", "pv-b"), pod("q", "b", node="n").build()],
            True,
        ),
        # A claim without a volume counts as one of its class's driver, once.
        (pod("p", "a"), [csi_node("n", d=0), claim("a"), storage_class("wait", "d")], False),
        (
            pod("p", "a"),
            [csi_node("n", d=1), claim("a"), storage_class("wait", "d"), pod("q", "a", node="n").build()],
            True,
        ),
        (pod("p", "a"), [csi_node("n", d=0), claim("a")], True),
        (pod("p", "a"), [csi_node("n", d=0), claim("a", klass="")], True),
        (pod("p", "a"), [csi_node("n", d=0), claim("a", volume="gone"), storage_class("wait", "d")], False),
        # A running pod's claim that is gone does not count.
        (pod("p", "a"), [csi_node("n", d=1), *bound("a"), pod("q", "gone", node="n").build()], True),
    ],
)
def test_limits(waiting, objects, fits):
    assert verdict(waiting, *objects) == (None if fits else REASON)


EBS, GCE, AZURE, CINDER = (
    "ebs.csi.aws.com",
    "pd.csi.storage.gke.io",
    "disk.csi.azure.com",
    "cinder.csi.openstack.org",
)


@pytest.mark.parametrize(
    ("driver", "source", "same"),
    [
        (EBS, {"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}, "vol-1"),
        (EBS, {"awsElasticBlockStore": {"volumeID": "vol-1"}}, "vol-1"),
        (GCE, {"gcePersistentDisk": {"pdName": "d"}}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        (AZURE, {"azureDisk": {"diskName": "d", "diskURI": "u"}}, "u"),
        (CINDER, {"cinder": {"volumeID": "v"}}, "v"),
    ],
)
def test_in_tree_disks_count_as_their_drivers(driver, source, same):
    full = csi_node("n", **{driver.replace(".", "_"): 0})
    one = csi_node("n", **{driver.replace(".", "_"): 1})
    assert verdict(inline("p", **source), full) == REASON
    assert verdict(pod("p", "a"), full, claim("a", volume="v"), volume("v", **source)) == REASON
    # The same disk by way of its CSI volume is the same volume.
    assert (
        verdict(inline("p", **source), one, *bound("b", driver=driver, handle=same), pod("q", "b", node="n").build())
        is None
    )


def test_unbound_claims_of_in_tree_provisioners_count_as_their_drivers():
    limited = csi_node("n", ebs_csi_aws_com=0)
    assert verdict(pod("p", "a"), limited, claim("a"), storage_class("wait", "kubernetes.io/aws-ebs")) == REASON


@pytest.mark.parametrize(
    "source", [{"emptyDir": {}}, {"csi": {"driver": "d"}}, {"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0}}]
)
def test_other_volumes_are_not_attached(source):
    plugin = NodeVolumeLimits(None, world(make_node("n").build(), csi_node("n", d=0)))
    assert plugin.pre_filter(CycleState(), inline("p", **source).info()) is SKIP
    assert plugin.promises.pre_filter_is_pure(make_pod("p").info())


def test_a_claim_must_exist_and_be_the_pods_own():
    assert verdict(pod("p", "a"), csi_node("n", d=1)) == 'looking up PVC default/a: persistentvolumeclaim "a" not found'
    made = inline("p", ephemeral={"volumeClaimTemplate": {"spec": {}}})
    assert (
        verdict(made, csi_node("n", d=1), claim("p-v"))
        == "PVC default/p-v was not created for pod default/p (pod is not owner)"
    )


def test_room_can_be_made_by_preemption():
    there = pod("q", "b", node="n")
    handle = world(make_node("n").build(), csi_node("n", d=1), *bound("a", "b"), there.build())
    plugin, waiting, state = NodeVolumeLimits(None, handle), pod("p", "a").info(), CycleState()
    assert plugin.pre_filter(state, waiting) is None
    (node,) = views(handle)
    assert plugin.filter(state, waiting, node).code is Code.UNSCHEDULABLE
    assert plugin.filter(state, waiting, node.without_pod(there.info())) is None


SCALING = {"VolumeLimitScaling": True}


def picky(name, *, prevents=True):
    return decode("CSIDriver", {"metadata": {"name": name}, "spec": {"preventPodSchedulingIfMissing": prevents}})


@pytest.mark.parametrize(
    ("objects", "gates", "expected"),
    [
        ([picky("d")], SCALING, "d CSI driver is not installed on the node"),
        ([picky("d"), csi_node("n", other=1)], SCALING, "d CSI driver is not installed on the node"),
        ([picky("d"), csi_node("n", d=None)], SCALING, None),
        ([picky("d"), csi_node("n", d=0)], SCALING, REASON),
        ([picky("d", prevents=False)], SCALING, None),
        ([], SCALING, None),
        ([picky("d")], {}, None),
    ],
)
def test_a_driver_can_keep_pods_off_nodes_where_it_is_missing(objects, gates, expected):
    handle = world(make_node("n").build(), *bound("a"), *objects, gates=gates)
    plugin, waiting, state = NodeVolumeLimits(None, handle), pod("p", "a").info(), CycleState()
    assert decided(plugin, waiting, handle) == {"n": expected}
    assert plugin.pre_filter(state, waiting) is None
    codes, describe = plugin.filter_columns(state, waiting, handle.cache.table, handle.cache.table.rows())
    assert [describe(code).message for code in codes.tolist() if code] == ([expected] if expected else [])


QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP
WAITING = pod("p", "a").info()
NODE = make_node("m").build()


@pytest.mark.parametrize(
    ("kind", "action", "old", "new", "expected"),
    [
        ("CSINode", Action.UPDATE, csi_node("n", d=1), csi_node("n", d=2), QUEUE),
        ("CSINode", Action.UPDATE, csi_node("n", d=1), csi_node("n", d=None), QUEUE),
        ("CSINode", Action.UPDATE, csi_node("n", d=2), csi_node("n", d=1), SKIPPED),
        ("CSINode", Action.UPDATE, csi_node("n", d=1), csi_node("n", d=1, e=5), SKIPPED),
        ("CSINode", Action.UPDATE, csi_node("n"), csi_node("n", d=1), QUEUE),
        ("CSIDriver", Action.UPDATE, picky("d"), picky("d", prevents=False), QUEUE),
        ("CSIDriver", Action.UPDATE, picky("d", prevents=False), picky("d"), SKIPPED),
        ("CSIDriver", Action.DELETE, picky("d"), None, QUEUE),
        ("CSIDriver", Action.DELETE, picky("e"), None, SKIPPED),
        ("CSINode", Action.DELETE, csi_node("n", d=1), None, QUEUE),
        ("CSINode", Action.DELETE, csi_node("n", d=None), None, SKIPPED),
        ("Pod", Action.DELETE, pod("q", "b", node="n").info(), None, QUEUE),
        ("Pod", Action.DELETE, pod("q", "b").set_status(nominatedNodeName="n").info(), None, QUEUE),
        ("Pod", Action.DELETE, pod("q", "b").info(), None, SKIPPED),
        ("Pod", Action.DELETE, pod("q", node="n").info(), None, SKIPPED),
        ("Pod", Action.DELETE, inline("q", "n", emptyDir={}).info(), None, SKIPPED),
        ("Pod", Action.DELETE, inline("q", "n", cinder={"volumeID": "v"}).info(), None, QUEUE),
        ("PersistentVolumeClaim", Action.ADD, None, claim("a"), QUEUE),
        ("PersistentVolumeClaim", Action.ADD, None, claim("b"), SKIPPED),
        ("PersistentVolumeClaim", Action.ADD, None, claim("a", namespace="other"), SKIPPED),
        ("PersistentVolumeClaim", Action.DELETE, claim("b"), None, QUEUE),
        ("VolumeAttachment", Action.DELETE, attachment("x", "n", "pv-b"), None, QUEUE),
        ("VolumeAttachment", Action.DELETE, attachment("x", "n", "pv-b", attacher="e"), None, SKIPPED),
        ("PersistentVolume", Action.ADD, None, volume("pv-a"), QUEUE),
        ("PersistentVolume", Action.ADD, None, volume("pv-b"), SKIPPED),
        ("PersistentVolume", Action.DELETE, volume("x", csi={"driver": "d", "volumeHandle": "h"}), None, QUEUE),
        ("PersistentVolume", Action.DELETE, volume("x", csi={"driver": "e", "volumeHandle": "h"}), None, SKIPPED),
        ("Node", Action.ADD, None, NODE, QUEUE),
        ("Node", Action.ADD, None, make_node("full").build(), SKIPPED),
    ],
)
def test_hints(kind, action, old, new, expected):
    handle = world(*bound("a", "b"), csi_node("full", d=0))
    registrations = NodeVolumeLimits(None, handle).events_to_register()
    (found,) = (r for r in registrations if r.event.resource == kind and r.event.action & action and r.hint)
    assert found.hint(WAITING, old, new) is expected


def test_events_are_upstreams_and_more():
    upstreams = {
        ("CSINode", Action.ADD),
        ("CSINode", Action.UPDATE),
        ("Pod", Action.DELETE),
        ("PersistentVolumeClaim", Action.ADD),
        ("VolumeAttachment", Action.DELETE),
    }
    events = registered(NodeVolumeLimits(None, world()))
    assert all(any(kind == have and action in actions for have, actions in events) for kind, action in upstreams)
    (added,) = (
        r for r in NodeVolumeLimits(None, world()).events_to_register() if r.event == ("CSINode", Action.ADD, "")
    )
    assert added.hint is None
