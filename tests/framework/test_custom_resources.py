"""Plugins follow any resource: its objects are found, indexed and told of, and wake the pods that wait for them."""

import asyncio
import random

import msgspec
import pytest

import berth
from berth.api.codec import ObjectError
from berth.api.errors import ApiError
from berth.framework.custom_resources import CustomResources
from berth.framework.registry import Registry
from berth.kube.changes import Custom
from berth.plugin import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    CustomResource,
    ObjectMeta,
    queue_if,
    unschedulable,
)
from berth.plugins.registry import in_tree_registry
from berth.runtime.watched_resources import WatchedResources, event_of
from berth.state.objects import ObjectStore
from berth.testing import VirtualCluster, make_node, make_pod
from packages.scheduler.tests.kube.fakes import VirtualClock
from tests.runtime.world import POD, World, configuration, scheduling
from tests.waiting import WAIT_S, settle, until

QUOTAS = CustomResource("example.com", "v1", "quotas", "Quota")


class ByQuota:
    """Turns away the pods of a team whose quota is frozen; looks at hints to wake them."""

    name = "ByQuota"

    def __init__(self, args, handle):
        self.quotas = handle.follow(QUOTAS)
        self.quotas.add_index("team", lambda quota: [quota["spec"]["team"]])

    def pre_filter(self, state, pod):
        frozen = [quota for quota in self.quotas.by_index("team", pod.labels["team"]) if quota["spec"]["frozen"]]
        return unschedulable(f"quota {frozen[0].metadata.name} is frozen") if frozen else None

    def events_to_register(self):
        return [ClusterEventWithHint(ClusterEvent(QUOTAS.name, Action.ALL), self._after)]

    def _after(self, pod, old, new):
        return queue_if(new is None or not new["spec"]["frozen"])


def manifest(name="q", frozen=True, team="red", version="1"):
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": version}
    spec = {"team": team, "frozen": frozen, "sizes": [1, {"deep": 2}]}
    return {"apiVersion": "example.com/v1", "kind": "Quota", "metadata": metadata, "spec": spec}


def test_names_are_upstreams():
    assert QUOTAS.name == "quotas.v1.example.com"


def test_events_of_a_custom_resource_wake_the_pods_that_it_can_help():
    pod = make_pod("web").label("team", "red")
    cluster = VirtualCluster(
        make_node("n1").capacity(cpu="4", memory="8Gi"), QUOTAS.read(manifest()), plugins=[ByQuota]
    )
    cluster.put(pod)
    cluster.run()
    assert cluster.nodes_of() == {"web": ""} and "quota q is frozen" in cluster.events("FailedScheduling")[0]
    cluster.put(QUOTAS.read(manifest(name="other", version="2")))
    cluster.advance(20.0)
    assert len(cluster.events("FailedScheduling")) == 1, "a frozen quota helps nobody, says the hint"
    cluster.put(QUOTAS.read(manifest(frozen=False, version="3")))
    cluster.delete(QUOTAS.name, "default/other")
    cluster.advance(20.0)
    assert cluster.nodes_of() == {"web": "n1"}


def test_the_engine_as_a_library_takes_manifests_of_it():
    scheduler = berth.Scheduler(plugins=[ByQuota])
    scheduler.add(make_node("n1").capacity(cpu="4", memory="8Gi"), manifest())
    pod = make_pod("web").label("team", "red")
    assert "quota q is frozen" in scheduler.schedule(pod).message
    scheduler.remove(QUOTAS.name, "q")
    assert scheduler.schedule(pod).node == "n1"
    with pytest.raises(ValueError, match="reads no objects of kind 'Other'"):
        scheduler.add({**manifest(), "kind": "Other"})


class Quota(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: dict[str, object] = {}


def test_objects_come_as_a_struct_of_the_plugins_own():
    resource = msgspec.structs.replace(QUOTAS, struct=Quota)
    found = resource.read(msgspec.json.encode(manifest()))
    assert isinstance(found, Quota) and found.spec["team"] == "red"
    resources = CustomResources(ObjectStore())
    resources.declare(resource)
    assert resources.name_of(found) == QUOTAS.name
    with pytest.raises(ValueError, match="in different ways"):
        resources.declare(QUOTAS)


def test_plain_objects_are_read_only():
    found = QUOTAS.read(msgspec.json.encode(manifest()))
    assert found["spec"]["sizes"][1]["deep"] == 2 and found.get("status") is None
    for change in (
        lambda: found["spec"].update(team="blue"),
        lambda: found["spec"]["sizes"].append(1),
        lambda: found.content.pop("spec"),
    ):
        with pytest.raises((TypeError, AttributeError)):
            change()
    assert found["spec"] == manifest()["spec"] | {"sizes": (1, {"deep": 2})}


@pytest.mark.parametrize(
    "document", [b"{}", b"[]", b"1", b'{"metadata":1}', b'{"metadata":{"labels":1}}', b"\xff", b"{"]
)
@pytest.mark.parametrize("struct", [None, Quota])
def test_what_cannot_be_read_is_an_error_that_names_the_resource(document, struct):
    with pytest.raises(ObjectError, match=r"quotas\.v1\.example\.com"):
        msgspec.structs.replace(QUOTAS, struct=struct).read(document)


def test_an_index_finds_what_a_search_finds_whatever_came_and_went():
    rng, objects = random.Random(3), ObjectStore()
    view = CustomResources(objects).declare(QUOTAS)
    view.add_index("team", lambda quota: [quota["spec"]["team"]])
    with pytest.raises(ValueError, match="has an index"):
        view.add_index("team", lambda _: [])
    for step in range(9000):
        found = QUOTAS.read(manifest(name=f"q{rng.randrange(30)}", team=rng.choice("abc"), version=str(step)))
        if rng.random() < 0.3:
            objects.remove(QUOTAS.name, found)
        else:
            objects.put(QUOTAS.name, found)
        if rng.random() < 0.05 or step == 8999:
            for team in "abc":
                expected = sorted(each.metadata.name for each in view.list() if each["spec"]["team"] == team)
                assert [each.metadata.name for each in view.by_index("team", team)] == sorted(expected)
        if step == 4000:
            for late in range(9000):  # more changes than are remembered
                objects.put(QUOTAS.name, QUOTAS.read(manifest(name="hot", team="abc"[late % 3], version=f"late{late}")))


def test_what_has_changed_is_told_as_long_as_it_is_remembered():
    objects = ObjectStore()
    view = CustomResources(objects).declare(QUOTAS)
    first, second = (QUOTAS.read(manifest(name=name)) for name in ("q1", "q2"))
    objects.put(QUOTAS.name, first)
    before = view.version
    objects.put(QUOTAS.name, second)
    objects.remove(QUOTAS.name, first)
    assert list(view.changed_since(before)) == ["default/q2", "default/q1"]
    assert list(view.changed_since(view.version)) == []
    for late in range(9000):
        objects.put(QUOTAS.name, QUOTAS.read(manifest(name="q2", version=str(late))))
    assert view.changed_since(before) is None


class Serving:
    """A server that also has quotas, once it has them."""

    def __init__(self, inner, is_there=True):
        self.inner, self.is_there = inner, is_there
        self.lines, self.arrived = [], asyncio.Event()

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def send(self, kind, found):
        self.lines.append(msgspec.json.encode({"type": kind, "object": found}))
        self.arrived.set()

    async def read(self, path):
        if "example.com" in path:
            if not self.is_there:
                raise ApiError(404, "NotFound", "no such group")
            if path.endswith("/v1"):
                return b'{"resources":[{"name":"quotas","kind":"Quota","namespaced":true}]}'
            return b'{"versions":[{"version":"v1"}]}'
        return await self.inner.read(path)

    async def list(self, resource, **options):
        return await self.inner.list(resource, **options)

    async def watch(self, resource, **options):
        if resource.plural != "quotas":
            async for line in self.inner.watch(resource, **options):
                yield line
            return
        assert resource.path() == "/apis/example.com/v1/quotas"
        if not self.is_there:
            raise ApiError(404, "NotFound", "no such resource")
        if options["send_initial_events"]:
            yield msgspec.json.encode({"type": "ADDED", "object": manifest()})
            end = {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}
            yield msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": end}})
        while True:
            await self.arrived.wait()
            self.arrived.clear()
            while self.lines:
                yield self.lines.pop(0)


async def test_the_live_scheduler_follows_it():
    world = World()
    world.transport = Serving(world.transport)
    enabled = {"multiPoint": {"enabled": [{"name": "ByQuota"}]}}
    config = configuration(profiles=[{"plugins": enabled}])
    registry = in_tree_registry().merge(Registry({"ByQuota": ByQuota}, "a test"))
    world.store.create(POD, "default", {"metadata": {"name": "web", "labels": {"team": "red"}},
                                        "spec": {"containers": [{"name": "c", "image": "x"}]}})  # fmt: skip
    async with scheduling(world, config, registry=registry):
        await until(lambda: world.condition("web"))
        assert "quota q is frozen" in world.condition("web")["message"]
        world.transport.send("MODIFIED", manifest(frozen=False, version="9"))
        await until(lambda: world.node_of("web"))


async def test_its_objects_are_there_after_the_configuration_has_changed():
    world = World()
    world.transport = Serving(world.transport)
    enabled = {"multiPoint": {"enabled": [{"name": "ByQuota"}]}}
    config = configuration(profiles=[{"plugins": enabled}])
    registry = in_tree_registry().merge(Registry({"ByQuota": ByQuota}, "a test"))
    async with scheduling(world, config, registry=registry) as scheduler:
        await scheduler.reconfigure(config)
        assert [each.metadata.name for each in scheduler.core.objects.list(QUOTAS.name)] == ["q"]


async def test_where_it_is_not_served_there_are_none_and_it_is_asked_again():
    clock, said, changes, world = VirtualClock(), [], [], World()
    server = Serving(world.transport, is_there=False)
    following = WatchedResources(server, changes.extend, report=lambda trouble: said.append(str(trouble)),
        rng=random.Random(1), sleep=clock.sleep,
                          clock=clock, custom=[QUOTAS])  # fmt: skip
    task = asyncio.create_task(following.run())
    await settle(100)
    await asyncio.wait_for(following.wait_for_sync(), WAIT_S)
    assert following.missing == {"quotas"}
    server.is_there = True
    await clock.advance(400)
    await settle(100)
    (event,) = [event_of(change) for change in changes if isinstance(change, Custom)]
    assert (event.type, event.kind, event.obj["spec"]["team"]) == ("ADDED", QUOTAS.name, "red")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
