"""Turns of the controllers, the recorder's moderation, and the pump of the live process."""

from datetime import UTC, datetime

from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.index import ObjectIndex
from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.controllers.pump import ControllerPump
from berth_cluster.controllers.workloads.replicaset import ReplicaSetController
from berth_cluster.storage.store import Store
from packages.cluster.tests.controllers.world import START_S, World, deployment, replica_set
from tests.waiting import pass_time, until, virtually


def test_the_same_events_give_the_same_cluster():
    def final():
        world = World()
        world.create(deployment("web", 5))
        world.run(5)
        world.scale("Deployment", "web", 2)
        world.run(5)
        return world.all("Pod"), world.all("Deployment"), world.all("Event")

    assert final() == final()


def test_controllers_that_start_late_catch_up():
    store = Store(lambda: datetime.fromtimestamp(START_S, UTC))
    store.create(resource_of("ReplicaSet"), "default", replica_set("web", 2))
    manager = ControllerManager(store)
    manager.add([ReplicaSetController(manager.client)])
    manager.run_until_quiet(START_S)
    assert len(store.objects(resource_of("Pod"))) == 2


def test_a_quiet_manager_has_no_deadline():
    world = World()
    assert world.manager.next_deadline() is None
    world.create(replica_set("web", 1))
    assert world.manager.next_deadline() == 0.0


def test_an_object_with_many_events_is_cut_short():
    store = Store(lambda: datetime.fromtimestamp(START_S, UTC))
    client = Client(store, ObjectIndex())
    owner = store.create(resource_of("ReplicaSet"), "default", replica_set("web", 1))
    for _ in range(40):
        client.events.record("test", owner, "Tested", "again", START_S)
    assert len(store.objects(resource_of("Event"))) == 25
    client.events.record("test", owner, "Tested", "later", START_S + 300)
    assert len(store.objects(resource_of("Event"))) == 26


@virtually
async def test_the_pump_works_when_something_changes():
    store = Store(lambda: datetime.now(UTC))
    manager = ControllerManager(store)
    manager.add([ReplicaSetController(manager.client)])
    pump = ControllerPump(store, manager)
    pump.start()
    store.create(resource_of("ReplicaSet"), "default", replica_set("web", 3))
    await until(lambda: len(store.objects(resource_of("Pod"))) == 3)
    await pump.stop()
    store.create(resource_of("ReplicaSet"), "default", replica_set("db", 3))
    await pass_time(1.0)
    assert len(store.objects(resource_of("Pod"))) == 3


async def test_the_pump_outlives_a_bug(caplog):
    class Broken(ReplicaSetController):
        def sync(self, obj, now_s):
            if obj["metadata"]["name"] == "bad":
                raise ZeroDivisionError
            super().sync(obj, now_s)

    store = Store(lambda: datetime.now(UTC))
    manager = ControllerManager(store)
    manager.add([Broken(manager.client)])
    pump = ControllerPump(store, manager)
    pump.start()
    for name in ("bad", "good"):
        store.create(resource_of("ReplicaSet"), "default", replica_set(name, 1))
    await until(lambda: store.objects(resource_of("Pod")))
    await pump.stop()
    assert "a controller failed" in caplog.text
