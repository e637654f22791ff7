"""What comes and goes leaves nothing behind: events, records of bindings, indexes."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.controllers.index import ObjectIndex
from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.embedded import create_nodes
from berth_cluster.hollow.kubelet import HollowKubelet, KubeletSettings
from berth_cluster.hollow.template import NodeTemplate
from berth_cluster.serving import server as serving
from berth_cluster.serving.server import ApiServer
from berth_cluster.storage import store as module
from packages.cluster.tests.objects import EVENTS, NAMESPACES, NODES, PODS, Clock, make_store, names, pod
from tests.waiting import until

HOUR = 3600


def event(name, **fields):
    return {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "web"}, **fields}


class TestEvents:
    def test_they_go_after_an_hour(self):
        clock = Clock()
        store = make_store(clock)
        store.create(EVENTS, "default", event("old"))
        clock.advance(HOUR - 1)
        store.create(EVENTS, "default", event("new"))
        assert store.expire_events() == 0
        watch = store.watch(EVENTS, resource_version=str(store.revision))
        clock.advance(1)
        assert store.expire_events() == 1
        assert names(store.objects(EVENTS)) == ["new"]
        (seen,) = watch.events()
        assert (seen.type, seen.object["metadata"]["name"]) == ("DELETED", "old")
        assert seen.object["metadata"]["resourceVersion"] == str(store.revision)

    def test_an_update_gives_an_event_another_hour(self):
        clock = Clock()
        store = make_store(clock)
        made = store.create(EVENTS, "default", event("counted"))
        clock.advance(HOUR - 1)
        store.update(EVENTS, "default", "counted", {**made, "count": 2})
        clock.advance(HOUR - 1)
        assert store.expire_events() == 0
        clock.advance(1)
        assert store.expire_events() == 1

    def test_those_who_write_events_clear_them_away(self):
        clock = Clock()
        store = make_store(clock)
        most = 0
        for number in range(5000):
            clock.advance(10)
            store.create(EVENTS, "default", event(f"e{number}"))
            most = max(most, len(store.collection(EVENTS)))
        assert most <= HOUR / 10 + 1

    def test_one_that_is_updated_for_ever_costs_no_more_than_one(self):
        store = make_store()
        made = store.create(EVENTS, "default", event("counted"))
        for count in range(5000):
            made = store.update(EVENTS, "default", "counted", {**made, "count": count + 2})
        assert len(store._expiry) < 2000

    def test_there_are_never_too_many(self):
        store = make_store(max_events=10)
        for number in range(30):
            store.create(EVENTS, "default", event(f"e{number:02}"))
        assert sorted(names(store.objects(EVENTS))) == [f"e{number}" for number in range(20, 30)]

    def test_one_that_came_again_is_not_taken_for_the_old_one(self):
        clock = Clock()
        store = make_store(clock)
        store.create(EVENTS, "default", event("a"))
        store.delete(EVENTS, "default", "a")
        clock.advance(HOUR / 2)
        store.create(EVENTS, "default", event("a"))
        clock.advance(HOUR / 2)
        assert store.expire_events() == 0

    async def test_a_server_clears_them_away_when_nobody_writes(self, tmp_path, monkeypatch):
        monkeypatch.setattr(serving, "HOUSEKEEPING_PERIOD_S", 0.01)
        clock = Clock()
        store = make_store(clock)
        for number in range(250):
            store.create(EVENTS, "default", event(f"e{number}"))
        server = ApiServer(store, tmp_path)
        await server.start()
        try:
            clock.advance(HOUR)
            await until(lambda: not store.objects(EVENTS))
        finally:
            await server.stop()


def test_records_of_bindings_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_BINDINGS", 10)
    store = make_store()
    store.create(PODS, "default", pod())
    store.bind("default", "web", {"target": {"name": "node-0"}})
    for number in range(1, 30):
        with pytest.raises(StoreError):
            store.bind("default", "web", {"target": {"name": f"node-{number}"}})
    assert [record.node for record in store.bindings] == [f"node-{number}" for number in range(20, 30)]


def test_the_index_of_the_controllers_forgets():
    store = make_store()
    manager = ControllerManager(store)
    before = sizes(manager.index)
    for number in range(200):
        space = f"space-{number}"
        store.create(NAMESPACES, "", {"metadata": {"name": space}})
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": f"owner-{number}"}
        obj = pod(f"p{number}")
        obj["metadata"]["ownerReferences"] = [owner]
        store.create(PODS, space, obj)
        store.bind(space, f"p{number}", {"target": {"name": f"node-{number}"}})
        store.delete(PODS, space, f"p{number}", {"gracePeriodSeconds": 0})
        store.delete(NAMESPACES, "", space)
        finished = store.get(NAMESPACES, "", space)
        store.update(NAMESPACES, "", space, {**finished, "spec": {}}, "finalize")
    assert sizes(manager.index) == before


def test_the_kubelet_forgets_pods_whose_node_went_before_them():
    clock = Clock()
    store = make_store(clock)
    manager = ControllerManager(store)
    kubelet = HollowKubelet(manager.client, KubeletSettings())
    manager.add([kubelet])
    for number in range(20):
        create_nodes(store, NodeTemplate(), 1, first=number)
        store.create(PODS, "default", pod(f"p{number}"))
        store.bind("default", f"p{number}", {"target": {"name": f"node-{number}"}})
        manager.run_until_quiet(clock().timestamp())
        store.delete(NODES, "", f"node-{number}")
        store.delete(PODS, "default", f"p{number}", {"gracePeriodSeconds": 0})
        manager.run_until_quiet(clock().timestamp())
    assert kubelet._bound_s == {}


def sizes(index: ObjectIndex):
    return {name: len(getattr(index, name)) for name in ("_uids", "_groups", "_placed")}
