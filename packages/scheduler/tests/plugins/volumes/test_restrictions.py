"""VolumeRestrictions: exclusive disks and claims for one pod; expectations from upstream's documentation and tests."""

import pytest

from berth.core.builders import make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.status import SKIP, Code
from berth.plugins.volumes.restrictions import VolumeRestrictions
from packages.scheduler.tests.plugins.support import hint, registered
from packages.scheduler.tests.plugins.volumes.world import claim, decided, views, world

DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
NODES = make_node("a").build(), make_node("b").build()


def gce(name="d", read_only=False):
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name="d", read_only=False):
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn="i", read_only=False, portal="t"):
    return {"iscsi": {"targetPortal": portal, "iqn": iqn, "lun": 0, "readOnly": read_only}}


def rbd(*monitors, image="i", pool="p", read_only=False):
    return {"rbd": {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}}


def pod(name, *sources, namespace="default"):
    found = make_pod(name, namespace)
    for index, source in enumerate(sources):
        found.volume(f"v{index}", **source)
    return found


def pvc(name):
    return {"persistentVolumeClaim": {"claimName": name}}


@pytest.mark.parametrize(
    ("wanted", "held", "conflict"),
    [
        (gce(), gce(), True),
        (gce(), gce("other"), False),
        (gce(), gce(read_only=True), True),
        (gce(read_only=True), gce(read_only=True), False),
        (ebs(), ebs(), True),
        (ebs(read_only=True), ebs(read_only=True), True),
        (ebs(), ebs("other"), False),
        (iscsi(), iscsi(portal="another"), True),
        (iscsi(), iscsi("other"), False),
        (iscsi(read_only=True), iscsi(read_only=True), False),
        (rbd("m", "n"), rbd("n", "o"), True),
        (rbd("m"), rbd("n"), False),
        (rbd("m"), rbd("m", image="other"), False),
        (rbd("m"), rbd("m", pool="other"), False),
        (rbd("m", read_only=True), rbd("m", read_only=True), False),
        (gce(), ebs(), False),
        (gce(), {"emptyDir": {}}, False),
    ],
)
def test_disks_of_which_two_pods_cannot_both_have_one(wanted, held, conflict):
    handle = world(*NODES, pod("there", held, namespace="other").node("a").build())
    plugin = VolumeRestrictions(None, handle)
    assert decided(plugin, pod("p", wanted).info(), handle) == {"a": DISK if conflict else None, "b": None}


RWOP = claim("c", modes=("ReadWriteOncePod",))


def test_a_claim_for_one_pod_keeps_others_off_every_node():
    handle = world(*NODES, RWOP, pod("there", pvc("c")).node("a").build())
    assert decided(VolumeRestrictions(None, handle), pod("p", pvc("c")).info(), handle) == {"a": IN_USE, "b": IN_USE}


@pytest.mark.parametrize(
    "objects",
    [
        (RWOP,),
        (RWOP, pod("there", pvc("c"), namespace="other").node("a").build()),
        (RWOP, pod("there", pvc("d")).node("a").build()),
        (RWOP, pod("there", pvc("c")).node("gone").build()),
        (claim("c"), pod("there", pvc("c")).node("a").build()),
    ],
)
def test_there_is_nothing_to_say_while_nobody_else_uses_it(objects):
    handle = world(*NODES, *objects)
    assert VolumeRestrictions(None, handle).pre_filter(CycleState(), pod("p", pvc("c")).info()) is SKIP


def test_a_claim_must_exist():
    handle = world(*NODES)
    refused = decided(VolumeRestrictions(None, handle), pod("p", pvc("c")).info(), handle)
    assert refused == 'persistentvolumeclaim "c" not found'


def test_preemption_can_free_a_claim():
    there, elsewhere = pod("there", pvc("c")).node("a"), pod("namesake", pvc("c"), namespace="other").node("a")
    handle = world(*NODES, RWOP, there.build(), elsewhere.build())
    plugin, wanted, state = VolumeRestrictions(None, handle), pod("p", pvc("c")).info(), CycleState()
    node = views(handle)[0]
    assert plugin.pre_filter(state, wanted) is None
    assert plugin.filter(state, wanted, node).code is Code.UNSCHEDULABLE
    what_if = state.clone()
    plugin.remove_pod(what_if, wanted, elsewhere.info(), node)
    assert plugin.filter(what_if, wanted, node) is not None
    plugin.remove_pod(what_if, wanted, there.info(), node)
    assert plugin.filter(what_if, wanted, node) is None
    plugin.add_pod(what_if, wanted, there.info(), node)
    assert plugin.filter(what_if, wanted, node) is not None
    assert plugin.filter(state, wanted, node) is not None


QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP


@pytest.mark.parametrize(
    ("kind", "waiting", "old", "new", "expected"),
    [
        ("Pod", pod("p", gce()), pod("q", gce()), None, QUEUE),
        ("Pod", pod("p", gce()), pod("q", gce(), namespace="other"), None, QUEUE),
        ("Pod", pod("p", gce()), pod("q", gce("other")), None, SKIPPED),
        ("Pod", pod("p", pvc("c")), pod("q", pvc("c")), None, QUEUE),
        ("Pod", pod("p", pvc("c")), pod("q", pvc("d")), None, SKIPPED),
        ("Pod", pod("p", pvc("c")), pod("q", pvc("c"), namespace="other"), None, SKIPPED),
        ("Node", pod("p", gce()), None, NODES[0], QUEUE),
        ("Node", pod("p", pvc("c")), None, NODES[0], SKIPPED),
        ("Node", pod("p", pvc("c")), NODES[0], None, QUEUE),
        ("Node", pod("p", gce()), NODES[0], None, SKIPPED),
        ("PersistentVolumeClaim", pod("p", pvc("c")), None, claim("c"), QUEUE),
        ("PersistentVolumeClaim", pod("p", pvc("c")), None, claim("d"), SKIPPED),
        ("PersistentVolumeClaim", pod("p", pvc("c")), None, claim("c", namespace="other"), SKIPPED),
    ],
)
def test_hints(kind, waiting, old, new, expected):
    old = old.info() if kind == "Pod" else old
    assert hint(VolumeRestrictions(None, world()), kind)(waiting.info(), old, new) is expected


def test_events_are_upstreams_and_a_node_that_goes():
    assert registered(VolumeRestrictions(None, world())) == {
        ("Pod", Action.DELETE),
        ("Node", Action.ADD | Action.DELETE),
        ("PersistentVolumeClaim", Action.ADD),
    }
