"""Both forms of the volume plugins agree on random small clusters, while these change under them."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.status import Code
from berth.plugins.volumes.limits import NodeVolumeLimits
from berth.plugins.volumes.restrictions import VolumeRestrictions
from berth.plugins.volumes.volume_binding import VolumeBinding, VolumeBindingArgs
from berth.plugins.volumes.zone import VolumeZone
from berth.state.pod_info import PodInfo
from packages.scheduler.tests.plugins.volumes.world import (
    SELECTED,
    ZONE,
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    on,
    storage_class,
    volume,
    world,
)

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
GCE = "kubernetes.io/gce-pd"
NAMES = ["a", "b", "c", "d"]
CLAIMS = ["c0", "c1", "c2", "c3"]
VOLUMES = ["v0", "v1", "v2", "v3", "v4"]
SIZES = ["1Gi", "2Gi", "3Gi"]

zones = st.sampled_from(["x", "y"])
classes = st.sampled_from(["wait", "static"])
affinities = st.sampled_from(
    [None, None, on(ZONE, "x"), on(ZONE, "y"), on(ZONE, "x", "y"), on("host", "a"), on("host", "b"), on("host", "c")]
)
modes = st.sampled_from([("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany"), ("ReadWriteOncePod",)])


@st.composite
def nodes(draw, name):
    labels = draw(st.sampled_from([{}, {ZONE: "x"}, {ZONE: "y"}, {BETA_ZONE: "x"}, {BETA_ZONE: "y", ZONE: "x"}]))
    found = make_node(name).labels({"host": name, **labels})
    if draw(st.booleans()):
        found.label("topology.gke.io/zone", draw(zones))
    return found.build()


@st.composite
def claims(draw, name):
    bound = draw(st.sampled_from(["", "", *VOLUMES]))
    annotations = draw(st.sampled_from([{}, {}, {}, {SELECTED: "a"}, {SELECTED: "gone"}])) if not bound else {}
    spec = draw(st.sampled_from([{}, {}, {}, {"selector": {"matchLabels": {"fast": "yes"}}}, {"volumeMode": "Block"}]))
    return claim(
        name, draw(st.sampled_from(SIZES)), klass=draw(classes), volume=bound, modes=draw(modes),
        annotations=annotations, spec=spec,
    )  # fmt: skip


@st.composite
def volumes(draw, name):
    source = draw(
        st.sampled_from(
            [{"csi": {"driver": "d", "volumeHandle": handle}} for handle in ("h0", "h1", name)]
            + [{"gcePersistentDisk": {"pdName": "disk"}}]
        )
    )
    labels = draw(st.sampled_from([{}, {}, {ZONE: "x"}, {BETA_ZONE: "y"}, {ZONE: "x__y"}, {"fast": "yes"}]))
    promised = draw(st.sampled_from([None, None, None, *CLAIMS[:2]]))
    return volume(
        name, draw(st.sampled_from(SIZES)), klass=draw(classes), affinity=draw(affinities), labels=labels,
        phase=draw(st.sampled_from(["Available", "Available", "Available", "Bound"])), modes=draw(modes),
        **source, **({"ref": promised} if promised else {}),
    )  # fmt: skip


@st.composite
def pods(draw, name, node=""):
    found = make_pod(name, "default")
    for index, one in enumerate(draw(st.lists(st.sampled_from(CLAIMS), max_size=3, unique=True))):
        found.volume(f"v{index}", persistentVolumeClaim={"claimName": one})
    if draw(st.booleans()):
        read_only = draw(st.booleans())
        disk = draw(st.sampled_from(["disk", "other"]))
        found.volume("inline", gcePersistentDisk={"pdName": disk, "readOnly": read_only})
    return (found.node(node) if node else found).build()


@st.composite
def clusters(draw):
    objects = [draw(nodes(name)) for name in NAMES]
    objects += [draw(claims(name)) for name in CLAIMS]
    objects += [draw(volumes(name)) for name in draw(st.lists(st.sampled_from(VOLUMES), unique=True))]
    topologies = draw(st.sampled_from([(), (), [{ZONE: ["x"]}], [{ZONE: ["y"], "host": ["a"]}, {"host": ["b"]}]]))
    objects += [
        storage_class("wait", "d", topologies=topologies),
        storage_class("static", "kubernetes.io/no-provisioner"),
    ]
    objects += [
        csi_node(name, draw(st.sampled_from(["", "", GCE])), d=draw(st.sampled_from([None, 0, 1, 2, 3])))
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True))
    ]
    if draw(st.booleans()):
        objects.append(driver("d"))
        objects += [capacity(f"k{zone}", draw(st.sampled_from(SIZES)), zone=zone) for zone in draw(st.sets(zones))]
    for index, node in enumerate(draw(st.lists(st.sampled_from(NAMES), max_size=3))):
        objects.append(attachment(f"t{index}", node, draw(st.sampled_from(VOLUMES))))
    for index, node in enumerate(draw(st.lists(st.sampled_from([*NAMES, "gone"]), max_size=4))):
        objects.append(draw(pods(f"run-{index}", node)))
    return objects


@st.composite
def changes(draw):
    """An object that is new, or comes in place of one of the same name."""
    return draw(
        st.one_of(
            st.sampled_from(NAMES).flatmap(nodes),
            st.sampled_from(CLAIMS).flatmap(claims),
            st.sampled_from(VOLUMES).flatmap(volumes),
            st.sampled_from(NAMES).map(lambda name: csi_node(name, d=1)),
            st.sampled_from(NAMES).map(lambda name: attachment("t0", name, "v1")),
            st.sampled_from(NAMES).flatmap(lambda name: pods("late", name)),
        )
    )


def agree(plugin, pod, handle):
    """Hold both forms equal for all rows and for parts of them; return whether PreFilter let the pod come that far."""
    state, table = CycleState(), handle.cache.table
    status = plugin.pre_filter(state, pod)
    if status is not None:
        assert status.code in (Code.SKIP, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        return False
    rows = table.rows()
    by_node = dict(zip(rows.tolist(), (plugin.filter(state, pod, table.view(r)) for r in rows.tolist()), strict=True))
    for subset in (slice(None), rows, rows[:1], rows[::2]):
        codes, describe = plugin.filter_columns(state, pod, table, subset)
        assert codes.dtype == np.int32
        for row, code in zip(np.arange(table.capacity)[subset].tolist(), codes.tolist(), strict=True):
            if row in by_node:
                assert (describe(code) if code else None) == by_node[row], (plugin.name, table.names[row])
    return True


@settings(deadline=None)
@given(cluster=clusters(), wanted=pods("p"), news=st.lists(changes(), max_size=3), other=pods("q"))
def test_plain_and_column_forms_agree(cluster, wanted, news, other):
    handle = world(*cluster)
    plugins = [
        VolumeRestrictions(None, handle),
        NodeVolumeLimits(None, handle),
        VolumeBinding(VolumeBindingArgs(), handle),
        VolumeZone(None, handle),
    ]
    for plugin in plugins:
        agree(plugin, PodInfo.of(wanted), handle)
    for new in news:
        take_in(handle, new)
    reserve(plugins[2], PodInfo.of(other), handle)
    for plugin in plugins:
        agree(plugin, PodInfo.of(wanted), handle)


def take_in(handle, obj):
    kind = type(obj).__name__
    if kind == "Node":
        handle.cache.put_node(obj)
    elif kind == "Pod":
        handle.cache.add_pod(PodInfo.of(obj))
    else:
        handle.objects.put(kind, obj)


def reserve(plugin, pod, handle):
    """Take volumes for a pod on the first node where it can have them."""
    state, table = CycleState(), handle.cache.table
    if plugin.pre_filter(state, pod) is None:
        for row in table.rows().tolist():
            if plugin.filter(state, pod, table.view(row)) is None:
                assert plugin.reserve(state, pod, table.names[row]) is None
                return


@st.composite
def shelves(draw):
    """Unbound claims, and static volumes that they may get."""
    objects = [make_node(name).labels({"host": name, ZONE: draw(zones)}).build() for name in NAMES]
    objects += [claim(name, draw(st.sampled_from(SIZES)), klass="static") for name in CLAIMS[:3]]
    for name in draw(st.lists(st.sampled_from(VOLUMES), unique=True, min_size=1)):
        promised = draw(st.sampled_from([None, None, None, None, "c0"]))
        ref = {"ref": promised} if promised else {}
        size = draw(st.sampled_from(SIZES))
        objects.append(volume(name, size, klass="static", affinity=draw(affinities), labels={"fast": "yes"}, **ref))
    return [*objects, storage_class("static", "kubernetes.io/no-provisioner")]


@settings(deadline=None)
@given(cluster=shelves(), count=st.integers(1, 3), first=st.sampled_from(CLAIMS[:3]))
def test_claims_of_one_pod_get_a_volume_each(cluster, count, first):
    handle = world(*cluster)
    plugin = VolumeBinding(VolumeBindingArgs(), handle)
    pod, other = make_pod("p", "default"), make_pod("q", "default")
    for name in CLAIMS[:count]:
        pod.volume(name, persistentVolumeClaim={"claimName": name})
    assert agree(plugin, pod.info(), handle)
    reserve(plugin, other.volume("v", persistentVolumeClaim={"claimName": first}).info(), handle)
    assert agree(plugin, pod.info(), handle)


@pytest.mark.parametrize("seed", range(12))
def test_forms_agree_for_one_kind_of_claim_while_volumes_come_and_go(seed):
    rng = random.Random(seed)
    handle = world(storage_class("static", "kubernetes.io/no-provisioner"))
    plugin = VolumeBinding(VolumeBindingArgs(), handle)
    places = [None, on(ZONE, "x"), on("host", "a"), on("host", "b", "c"), on("host", "d")]
    for name in NAMES:
        take_in(handle, make_node(name).labels({"host": name, ZONE: "y"}).build())
    for number in range(60):
        name, what = rng.choice(VOLUMES), rng.random()
        if what < 0.5:
            ref = {"ref": "somebody's"} if rng.random() < 0.3 else {}
            affinity = rng.choice(places)
            take_in(handle, volume(name, rng.choice(SIZES), klass="static", affinity=affinity, **ref))
        elif what < 0.75:
            handle.objects.remove("PersistentVolume", volume(name))
        elif what < 0.85:
            node = rng.choice(NAMES)
            take_in(handle, make_node(node).labels({"host": node, ZONE: rng.choice("xy")}).build())
        pod = make_pod(f"p{number}", "default")
        take_in(handle, claim(f"c{number}", rng.choice(SIZES), klass="static"))
        pod.volume("v", persistentVolumeClaim={"claimName": f"c{number}"})
        assert agree(plugin, pod.info(), handle)
        if rng.random() < 0.2:
            reserve(plugin, pod.info(), handle)
