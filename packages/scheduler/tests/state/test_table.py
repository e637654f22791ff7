"""Rows, columns and the logs that say which of them changed."""

import numpy as np
import pytest
from msgspec.structs import replace

from berth.api.quantity import QuantityError
from berth.core.builders import make_node, make_pod
from berth.state.change_log import ChangeLog
from berth.state.node_tree import NodeTree, zone_of
from berth.state.nominator import Nominator
from berth.state.table import WritableNodeTable


def node(name, cpu="4"):
    return make_node(name).capacity(cpu=cpu, memory="1Gi").build()


def test_rows_are_reused_and_the_new_node_has_nothing_of_the_old():
    table = WritableNodeTable(2)
    old = make_node("old").capacity(cpu="4", gpu="2").label("a", "b").taint("t").unschedulable().build()
    row = table.put_node(old)
    assert table.label("a").ids[row] == 0
    version = int(table.version[row])
    table.remove_node("old")
    assert not table.valid[row]
    new = table.put_node(make_node("new").capacity(cpu="1").build())
    assert new == row
    assert table.version[row] > version
    assert table.allocatable[0, row] == 1000 and not table.allocatable[1:, row].any()
    assert table.label("a").ids[row] == -1
    assert table.taint_sets[table.taint_set_ids[row]] == ()
    assert not table.unschedulable[row]
    assert table.view(row).name == "new"


def test_the_table_grows_and_keeps_what_it_has():
    table = WritableNodeTable(2)
    table.label("kubernetes.io/hostname")
    rows = {f"n{index}": table.put_node(node(f"n{index}", str(index + 1))) for index in range(40)}
    assert len(table) == 40 <= table.capacity
    assert len(set(rows.values())) == 40
    for name, row in rows.items():
        assert table.names[row] == table.node(row).metadata.name == name
        assert table.allocatable[0, row] == 1000 * (int(name[1:]) + 1)
        hostname = table.label("kubernetes.io/hostname")
        assert hostname.values[hostname.ids[row]] == name
    for column in (table.valid, table.pod_count, table.version, table.taint_set_ids):
        assert len(column) == table.capacity


def test_an_impossible_quantity_changes_nothing():
    table = WritableNodeTable(2)
    row = table.put_node(node("n"))
    position = table.node_log.position
    wrong = make_node("n").capacity(cpu="much")
    wrong.document["status"] = {}
    bad = replace(wrong.build(), status=replace(wrong.build().status, allocatable={"cpu": "much"}))
    with pytest.raises(QuantityError):
        table.put_node(bad)
    assert (table.allocatable[0, row], table.node_log.position, len(table)) == (4000, position, 1)


def test_a_node_that_says_what_it_said_before_is_no_news():
    table = WritableNodeTable(2)
    row = table.put_node(node("n"))
    position, said = table.node_log.position, table.node(row)
    again = replace(said, metadata=replace(said.metadata, resource_version="2"))
    assert table.put_node(again) == row
    assert (table.node(row).metadata.resource_version, table.node_log.position) == ("2", position)
    for news in (
        replace(again, metadata=replace(again.metadata, annotations={"a": "b"})),
        replace(again, spec=replace(again.spec, unschedulable=True)),
        replace(again, status=replace(again.status, declared_features=("x",))),
    ):
        position = table.node_log.position
        table.put_node(news)
        assert table.node_log.position > position


def test_a_view_is_made_once_for_each_state_of_a_row():
    table = WritableNodeTable(2)
    row = table.put_node(node("n"))
    first = table.view(row)
    assert table.view(row) is first
    pod = make_pod("a").request(cpu="1").info()
    table.add_pod(row, pod)
    second = table.view(row)
    assert (dict(first.pods), list(second.pods)) == ({}, [pod.uid])
    assert (first.pod_count, second.pod_count, second.without_pod(pod).pod_count) == (0, 1, 0)
    assert (first.requested["cpu"], second.requested["cpu"]) == (0, 1000)
    assert second.with_pod(make_pod("b").request(cpu="500m").info()).requested["cpu"] == 1500
    assert second.without_pod(pod).requested["cpu"] == 0
    started = make_pod("a").request(cpu="1").set_status(startTime="2026-01-01T00:00:00Z").info()
    logged = table.pod_log.position
    table.replace_pod(row, started)
    assert table.view(row).pods[pod.uid] is started
    assert table.pod_log.position == logged, "nothing that is counted has changed"


def test_a_log_says_which_rows_changed_and_when_it_does_not_know_any_more():
    log = ChangeLog(keep=4)
    start = log.position
    for row in (3, 1, 3):
        log.append(row)
    assert log.since(start) == [1, 3]
    assert log.since(log.position) == []
    assert log.since(log.position - 1) == [3]
    for row in range(100):
        log.append(row)
    assert log.since(start) is None
    assert log.position == 103
    assert log.since(log.position - 3) == [97, 98, 99]
    assert len(log._changed) <= 8


def test_a_log_answers_for_at_least_as_far_back_as_it_promises():
    log = ChangeLog(keep=8)
    for row in range(1000):
        log.append(row)
        expected = list(range(max(0, row - 7), row + 1))
        assert log.since(max(0, log.position - 8)) == expected


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ("", "")),
        ({"topology.kubernetes.io/zone": "a"}, ("", "a")),
        ({"topology.kubernetes.io/zone": "a", "failure-domain.beta.kubernetes.io/zone": "b"}, ("", "b")),
        ({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "a"}, ("r", "a")),
    ],
)
def test_zone_of_a_node(labels, zone):
    assert zone_of(labels) == zone


def tree(*zones):
    found = NodeTree()
    for row, zone in enumerate(zones):
        found.put(row, {"topology.kubernetes.io/zone": zone})
    return found


@pytest.mark.parametrize(
    ("zones", "order"),
    [
        ("", []),
        ("aaa", [0, 1, 2]),
        ("aab", [0, 2, 1]),
        ("abcabc", [0, 1, 2, 3, 4, 5]),
        ("aaabbc", [0, 3, 5, 1, 4, 2]),
        ("baa", [0, 1, 2]),
    ],
)
def test_nodes_are_visited_one_of_each_zone_in_turn(zones, order):
    assert tree(*zones).order() == order


def test_the_order_follows_nodes_that_move_or_leave():
    found = tree(*"aabb")
    assert found.order() == [0, 2, 1, 3]
    found.put(0, {"topology.kubernetes.io/zone": "b"})
    assert found.order() == [1, 2, 3, 0]
    found.remove(1)
    assert found.order() == [2, 3, 0]
    found.remove(7)
    found.put(1, {"topology.kubernetes.io/zone": "a"})
    assert found.order() == [2, 1, 3, 0]


def test_a_pod_is_nominated_to_one_node_at_a_time():
    nominator, pods = Nominator(), [make_pod(name).info() for name in "ab"]
    for pod in pods:
        nominator.nominate(pod, "n1")
    assert nominator.pods_on("n1") == tuple(pods)
    nominator.nominate(pods[0], "n2")
    assert (nominator.pods_on("n1"), nominator.pods_on("n2")) == ((pods[1],), (pods[0],))
    nominator.nominate(pods[1], "")
    assert list(nominator.nodes()) == ["n2"]
    assert nominator.node_of(pods[1].uid) is None
    nominator.withdraw("unknown")
    assert nominator.withdraw_node("n2") == (pods[0],)
    assert (len(nominator), list(nominator.nodes())) == (0, [])


def test_resources_nobody_named_before_get_columns_of_their_own():
    table = WritableNodeTable(2)
    row = table.put_node(make_node("n").capacity({"example.com/gpu": "2"}, cpu="1").build())
    table.add_pod(row, make_pod("a").request({"example.com/fpga": "3"}).info())
    gpu, fpga = (table.resource_index[f"example.com/{name}"] for name in ("gpu", "fpga"))
    assert (table.allocatable[gpu, row], table.requested[gpu, row]) == (2, 0)
    assert (table.allocatable[fpga, row], table.requested[fpga, row]) == (0, 3)
    assert np.count_nonzero(table.allocatable[fpga]) == 0
