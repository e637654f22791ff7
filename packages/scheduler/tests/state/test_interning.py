"""What a node table interns is given back: label keys and values, taints, resources; `make soak` has more of them."""

import msgspec
import numpy as np
import pytest

from berth.core.builders import make_node, make_pod
from berth.state import label_index
from berth.state.label_index import ABSENT, MAX_COLUMNS, LabelIndex
from berth.state.pod_info import PodInfo
from berth.state.table import WritableNodeTable
from berth.state.topology import Topologies

MANY = 20_000
NODE = make_node("n").capacity(cpu="4").build()
POD = make_pod("p").build()


def with_labels(labels):
    return msgspec.structs.replace(NODE, metadata=msgspec.structs.replace(NODE.metadata, labels=labels))


def with_taint(key):
    taint = make_node().taint(key).build().spec.taints
    return msgspec.structs.replace(NODE, spec=msgspec.structs.replace(NODE.spec, taints=taint))


def with_resource(name):
    allocatable = {"cpu": "4", "pods": "10", name: "1"}
    return msgspec.structs.replace(NODE, status=msgspec.structs.replace(NODE.status, allocatable=allocatable))


def test_label_keys():
    labels: list[dict[str, str] | None] = [{}] * 4
    table = WritableNodeTable(capacity=4)
    index = LabelIndex(labels.__getitem__, table.node_log)
    for number in range(MANY):
        labels[1] = {f"key-{number}": "x"}
        table.node_log.append(1)
        assert index.column(f"key-{number}", 4).ids.tolist() == [ABSENT, 0, ABSENT, ABSENT]
    assert len(list(index)) == MAX_COLUMNS


def test_label_values():
    table = WritableNodeTable(capacity=4)
    other = table.put_node(make_node("other").label("rack", "stays").build())
    most = 0
    for number in range(MANY):
        row = table.put_node(with_labels({"rack": f"rack-{number}"}))
        column = table.label("rack")
        assert column.values[column.ids[row]] == f"rack-{number}" and column.values[column.ids[other]] == "stays"
        most = max(most, len(column.values))
    assert most <= 2 * table.capacity + label_index.SPARE_IDS + 1


def test_values_that_plugins_ask_for():
    table = WritableNodeTable(capacity=4)
    row = table.put_node(make_node("n").label("rack", "here").build())
    for number in range(MANY):
        column = table.label("rack")
        assert column.intern(f"rack-{number}") != column.ids[row]
    assert len(table.label("rack").values) <= 2 * table.capacity + label_index.SPARE_IDS + 1
    assert table.label("rack").ids[row] == table.label("rack").intern("here")


def test_taints():
    table = WritableNodeTable(capacity=4)
    other = table.put_node(make_node("other").taint("stays").build())
    most = 0
    for number in range(MANY):
        row = table.put_node(with_taint(f"key-{number}"))
        (taint,) = table.taint_sets[table.taint_set_ids[row]]
        (stays,) = table.taint_sets[table.taint_set_ids[other]]
        assert (taint.key, stays.key) == (f"key-{number}", "stays")
        most = max(most, len(table.taint_sets))
    assert most <= table.capacity + 1
    assert table.taint_sets[0] == () and table.taint_set_ids[2:].tolist() == [0, 0]


@pytest.mark.parametrize("runs", [False, True], ids=["of nodes", "of pods"])
def test_resources(runs):
    table = WritableNodeTable(capacity=4)
    row = table.put_node(NODE)
    stays = PodInfo.of(make_pod("stays").request({"example.com/stays": "2"}).build())
    table.add_pod(row, stays)
    for number in range(MANY):
        name = f"example.com/res-{number}"
        if runs:
            pod = PodInfo.of(make_pod("p").request({name: "3"}).build())
            table.add_pod(row, pod)
            assert table.requested[table.resource_index[name], row] == 3
            table.remove_pod(row, pod)
        else:
            table.put_node(with_resource(name))
            assert table.allocatable[table.resource_index[name], row] == 1
    table.put_node(make_node("n").capacity(cpu="3").build())
    assert table.resource_index.keys() == {"cpu", "memory", "example.com/stays"}
    assert len(table.allocatable) == len(table.requested) <= 8
    assert table.requested[table.resource_index["example.com/stays"]].tolist() == [2, 0, 0, 0]


def test_resources_that_are_only_asked_for():
    table = WritableNodeTable(capacity=4)
    row = table.put_node(with_resource("example.com/stays"))
    for number in range(MANY):
        assert not table.requested[table.column_of(f"example.com/res-{number}")].any()
    assert len(table.allocatable) <= 4
    assert table.allocatable[table.column_of("example.com/stays"), row] == 1


def test_a_node_that_names_many_resources_costs_each_of_them_once():
    table = WritableNodeTable(capacity=4)
    table.put_node(make_node("n").capacity({f"example.com/res-{number}": "1" for number in range(2000)}).build())
    grown = len(table.allocatable)
    assert grown < 2 * 2002
    table.remove_node("n")
    assert table.resource_index.keys() == {"cpu", "memory"} and not table.allocatable.any()
    table.put_node(make_node("m").capacity({f"example.com/other-{number}": "1" for number in range(2000)}).build())
    assert len(table.allocatable) == grown, "the columns that were given back are used again"


def test_a_topology_follows_a_column_that_was_made_anew(monkeypatch):
    monkeypatch.setattr(label_index, "SPARE_IDS", 0)
    table = WritableNodeTable(capacity=4)
    for name, zone in (("a", "west"), ("b", "east"), ("c", "west")):
        table.put_node(make_node(name).label("zone", zone).build())
    topologies = Topologies(table)
    for number in range(40):
        table.put_node(make_node("d").label("zone", f"zone-{number}").build())
        topology = topologies.get("zone")
        by_zone = {zone: np.flatnonzero(topology.ids == topology.id_of(zone)).tolist() for zone in ("west", "east")}
        assert by_zone == {"west": [0, 2], "east": [1]}
        assert np.flatnonzero(topology.ids == topology.id_of(f"zone-{number}")).tolist() == [3]
        assert topology.size <= 2 * table.capacity + 2 and topology.domain_count == 3


def test_a_column_that_was_dropped_is_made_again(monkeypatch):
    monkeypatch.setattr(label_index, "MAX_COLUMNS", 2)
    table = WritableNodeTable(capacity=4)
    table.put_node(make_node("a").label("zone", "west").build())
    topologies = Topologies(table)
    for number in range(6):
        topologies.get(f"key-{number}")
        table.put_node(make_node("a").label("zone", f"zone-{number}").label("v", str(number)).build())
        topology = topologies.get("zone")
        assert topology.ids[0] == topology.id_of(f"zone-{number}") != ABSENT
    assert len(list(table.labels)) == 2


def test_a_change_of_a_node_costs_nothing_for_keys_that_nobody_asks_for():
    asked = []
    table = WritableNodeTable(capacity=4)
    index = LabelIndex(lambda row: asked.append(row), table.node_log)
    for number in range(100):
        index.column(f"key-{number}", 4)
    asked.clear()
    table.node_log.append(2)
    index.column("key-7", 4)
    assert asked == [2]
