"""Whatever is derived from the node table and kept equals the same made afresh, after any changes.

Each consumer of the change logs is asked now and then while nodes, pods and objects come, change and go, and compared
with a second one that is made for the occasion and so has seen none of the changes.
"""

import random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.api.codec import decode
from berth.api.selectors import parse_label_selector
from berth.core.builders import make_node, make_pod
from berth.engine.nominated_load import nominated_load as claimed
from berth.framework.cycle_state import CycleState
from berth.plugins.legacy.node_prefer_avoid_pods import ANNOTATION, NodePreferAvoidPods
from berth.plugins.node_ports import HostPortIndex
from berth.plugins.resources.columns import KeptColumn, ResourceColumns
from berth.plugins.volumes.limit_columns import ATTACHMENT, CSI_NODE, LimitColumns
from berth.plugins.volumes.node_rows import NodeRows
from berth.plugins.volumes.uses import VolumeUses, claim_key
from berth.state.pod_info import WILDCARD_IP, HostPort
from berth.state.topology import EligibleRows, Topology
from berth.state.views import Memory
from packages.scheduler.tests.plugins.support import handle_of
from tests.effort import examples

ZONE = "topology.kubernetes.io/zone"
NODES, PODS = [f"n{number}" for number in range(7)], [f"p{number}" for number in range(10)]
AVOIDED = msgspec.json.encode(
    {"preferAvoidPods": [{"podSignature": {"podController": {"kind": "ReplicaSet", "uid": "rs"}}}]}
).decode()


def host_ports(handle):
    index = HostPortIndex(handle.cache.table)
    wanted = [HostPort(ip, protocol, 80) for ip in (WILDCARD_IP, "10.0.0.1", "10.0.0.2") for protocol in ("TCP", "UDP")]
    return lambda: [index.rows_in_conflict([port]) for port in wanted]


def node_rows(handle):
    rows = NodeRows(handle.cache.table)

    def ask():
        rows.sync()
        return [rows.by_affinity(None).tolist(), rows.by_selector(parse_label_selector(f"{ZONE}=a")).tolist()]

    return ask


def volume_uses(handle):
    uses = VolumeUses(handle.cache.table)

    def ask():
        uses.sync()
        keys = [claim_key("default", "c0"), claim_key("default", "c1")]
        return [(set(uses.rows(key)), uses.is_used(key)) for key in keys], uses.attachable.tolist()

    return ask


def limit_columns(handle):
    columns, table = LimitColumns(handle.objects, handle.cache.table), handle.cache.table

    def ask():
        columns.sync()
        limits = columns.limit("d")
        attached = [{each.metadata.name for each in columns.attached_to(name)} for name in NODES]
        rows = table.rows()  # what is said of rows that hold no node does not matter
        known = [None] * len(rows) if limits is None or (limits[rows] == 1 << 62).all() else limits[rows].tolist()
        return known, columns.attached[rows].tolist(), attached

    return ask


def topology(handle):
    topology = Topology(
        handle.cache.table, ZONE, EligibleRows(handle.cache.table, lambda table, rows: ~table.unschedulable[rows])
    )

    def ask():
        topology.sync()
        exists = {topology._column.values[domain] for domain in np.flatnonzero(topology.exists).tolist()}
        return topology.ids.tolist(), topology.counted.tolist(), exists, topology.complete, topology.domain_count

    return ask


def resource_columns(handle):
    table = handle.cache.table
    both = [ResourceColumns(table, with_defaults=with_defaults) for with_defaults in (True, False)]
    kept = np.array([0])  # the same array each time, as several plugins have it one after the other

    def ask():
        for columns in both:
            columns.catch_up(table)
        return [
            [np.asarray(part).tolist() for part in columns.of(table, resource, rows)]
            for columns in both
            for rows in (slice(None), columns.worth_computing(slice(None), table), table.rows(), kept)
            for resource in ("cpu", "memory", "gpu")
        ]

    return ask


def kept_column(handle):
    table = handle.cache.table
    column = KeptColumn(table)
    return lambda: column.of(
        lambda rows: (table.requested[0][rows] - table.allocatable[0][rows]).astype(np.float64)
    ).tolist()


def avoided_nodes(handle):
    plugin, pod = NodePreferAvoidPods(None, handle), make_pod().owned_by("ReplicaSet", "rs", uid="rs").info()
    return lambda: plugin.score_columns(CycleState(), pod, handle.cache.table, slice(None)).tolist()


def nominated_load(handle):
    memory = Memory(handle.cache, handle.objects, handle.nominator)

    def ask():
        load, rows = claimed(memory, handle.nominator), handle.cache.table.rows()
        rivals = load and load.against(make_pod("asking").priority(3).info())
        return rivals and (rivals.pods[rows].tolist(), rivals.requested("cpu")[rows].tolist())

    return ask


class World:
    """A cluster to which things happen at random."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.handle = handle_of()

    def change(self):
        act = self.rng.choice((self.put_node, self.put_node, self.remove_node, self.put_pod, self.put_pod, self.put_pod,
                               self.remove_pod, self.put_csi_node, self.put_attachment, self.nominate))  # fmt: skip
        act(self.rng.choice(NODES), self.rng.choice(PODS))

    def put_node(self, name, _pod):
        rng = self.rng
        node = make_node(name).capacity(cpu=str(rng.randrange(1, 5)), memory="4Gi", pods="10")
        if rng.random() < 0.8:
            node.label(ZONE, rng.choice("abc"))
        if rng.random() < 0.3:
            node.unschedulable()
        if rng.random() < 0.3:
            node.annotation(ANNOTATION, AVOIDED)
        if rng.random() < 0.3:
            node.capacity(cpu="2", gpu="1")
        self.handle.cache.put_node(node.build())

    def remove_node(self, name, _pod):
        self.handle.cache.remove_node(name)
        self.handle.nominator.withdraw_node(name)

    def put_pod(self, node, name):
        rng = self.rng
        pod = make_pod(name).node(node).request(cpu=rng.choice(("100m", "300m")), gpu=rng.choice(("0", "1")))
        if rng.random() < 0.5:
            pod.host_port(80, rng.choice(("TCP", "UDP")), rng.choice(("", "10.0.0.1", "10.0.0.2")))
        if rng.random() < 0.5:
            pod.claim(rng.choice(("c0", "c1")))
        self.handle.cache.add_pod(pod.info())

    def remove_pod(self, _node, name):
        self.handle.cache.remove_pod(make_pod(name).info().uid)

    def put_csi_node(self, name, _pod):
        driver = {"name": "d", "nodeID": name, "allocatable": {"count": self.rng.randrange(1, 4)}}
        self.put(CSI_NODE, {"metadata": {"name": name}, "spec": {"drivers": [driver]}})

    def put_attachment(self, node, name):
        spec = {"nodeName": node, "attacher": "d", "source": {"persistentVolumeName": name}}
        self.put(ATTACHMENT, {"metadata": {"name": name}, "spec": spec})

    def put(self, kind, document):
        obj = decode(kind, document)
        if self.rng.random() < 0.3:
            self.handle.objects.remove(kind, obj)
        else:
            self.handle.objects.put(kind, obj)

    def nominate(self, node, name):
        pod = make_pod(name).priority(self.rng.randrange(6)).request(cpu="1").info()
        self.handle.nominator.nominate(pod, self.rng.choice((node, "")))


CONSUMERS = (
    host_ports, node_rows, volume_uses, limit_columns, topology, resource_columns, kept_column, avoided_nodes,
    nominated_load,
)  # fmt: skip


@pytest.mark.parametrize("consumer", CONSUMERS)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=examples(20), deadline=None)
def test_what_is_kept_equals_what_is_made_afresh(consumer, seed):
    world = World(seed)
    kept = consumer(world.handle)
    for _ in range(40):
        for _ in range(world.rng.choice((0, 1, 1, 2, 80))):
            world.change()
        assert kept() == consumer(world.handle)()


@pytest.mark.long
@pytest.mark.parametrize("which", ["node_log", "pod_log"])
@pytest.mark.parametrize("consumer", CONSUMERS)
def test_so_it_does_when_more_has_changed_than_a_log_remembers(consumer, which):
    world = World(0)
    for _ in range(20):
        world.change()
    kept = consumer(world.handle)
    kept()
    log = getattr(world.handle.cache.table, which)
    position = log.position
    change = world.put_node if which == "node_log" else world.put_pod
    while log.since(position) is not None:
        change(world.rng.choice(NODES), world.rng.choice(PODS))
    assert kept() == consumer(world.handle)()
