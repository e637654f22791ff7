"""Statuses written through an API server: in virtual time, against the embedded cluster's store."""

import asyncio
import itertools
import random
from datetime import UTC, datetime

import pytest
import yaml

from berth.api.errors import ApiError, ConnectionLost
from berth.controller import installed_controllers
from berth.runtime.status_writer import StatusWriter
from berth_cluster.apimachinery.resource_types import DEFINITIONS, PODS
from berth_cluster.serving.transport import StoreTransport
from berth_cluster.storage.store import Store
from berth_plugins.cli import definitions
from berth_plugins.controllers import ElasticQuotaController, PodGroupController
from packages.scheduler.tests.kube.fakes import VirtualClock
from tests.waiting import settle

GROUPS, QUOTAS = PodGroupController.resource.resource, ElasticQuotaController.resource.resource


class Cluster:
    """A store, and a writer at work on it."""

    def __init__(self):
        self.clock = VirtualClock()
        uids = itertools.count(1)
        self.store = Store(lambda: datetime(2026, 1, 1, tzinfo=UTC), uid_factory=lambda: f"uid-{next(uids)}")
        self.transport = Refusing(StoreTransport(self.store))
        self.told = []
        self.writer = StatusWriter(
            self.transport,
            [PodGroupController(), ElasticQuotaController()],
            report=lambda trouble: self.told.append(str(trouble)),
            rng=random.Random(1),
            clock=self.clock,
            sleep=self.clock.sleep,
        )

    def define(self, *, with_status=True):
        for text in (definitions()["podgroups"], definitions()["elasticquotas"]):
            document = yaml.safe_load(text)
            if not with_status:
                del document["spec"]["versions"][0]["subresources"]
            self.store.create(DEFINITIONS, "", document)

    def create(self, resource, name, spec, labels=None):
        kind = {"apiVersion": resource.api_version, "kind": resource.kind.partition(".")[0]}
        meta = {"name": name, "namespace": "default", "labels": labels or {}}
        found = self.store.addressed(resource)
        body = {**kind, "kind": found.kind, "metadata": meta, "spec": spec}
        return self.store.create(found, "default", body)

    def run_pod(self, name, group=""):
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        labels = {"scheduling.x-k8s.io/pod-group": group} if group else {}
        head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}}
        made = self.store.create(PODS, "default", {**head, "spec": {"containers": [container]}})
        return self.store.update(PODS, "default", name, {**made, "status": {"phase": "Running"}}, "status")

    def status(self, resource, name):
        return self.store.find(self.store.addressed(resource), "default", name).get("status")


class Refusing:
    """A transport whose next patches end in these errors."""

    def __init__(self, inner):
        self._inner = inner
        self.errors = []
        self.patches = 0

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def patch(self, *arguments, **options):
        self.patches += 1
        if self.errors:
            raise self.errors.pop(0)
        return await self._inner.patch(*arguments, **options)


@pytest.fixture
async def cluster():
    made = Cluster()
    yield made
    assert not made.writer._retrying


async def at_work(cluster, *, seconds=0.0):
    task = asyncio.create_task(cluster.writer.run())
    try:
        await cluster.clock.advance(seconds)
        await settle()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_groups_and_quotas_get_their_status(cluster):
    cluster.define()
    cluster.create(GROUPS, "train", {"minMember": 2})
    cluster.create(QUOTAS, "quota", {"min": {"cpu": 4}, "max": {"memory": "1Gi"}})
    cluster.run_pod("a", "train")
    cluster.run_pod("b", "train")
    await at_work(cluster)
    assert cluster.status(GROUPS, "train") == {"phase": "Running", "running": 2}
    assert cluster.status(QUOTAS, "quota") == {"used": {"cpu": "2", "memory": "0"}}


async def test_the_object_itself_is_written_where_its_status_is_a_part_of_it(cluster):
    cluster.define(with_status=False)
    cluster.create(QUOTAS, "quota", {"min": {"cpu": 4}})
    cluster.run_pod("a")
    await at_work(cluster)
    assert cluster.status(QUOTAS, "quota") == {"used": {"cpu": "1"}}


async def test_nothing_is_written_twice(cluster):
    cluster.define()
    cluster.create(QUOTAS, "quota", {"min": {"cpu": 4}})
    await at_work(cluster)
    assert cluster.transport.patches == 1  # though the watch has brought what was written


@pytest.mark.parametrize("error", [ConnectionLost("gone"), ApiError(409, "Conflict", "out of date")])
async def test_what_could_not_be_written_is_tried_again(cluster, error):
    cluster.define()
    cluster.create(QUOTAS, "quota", {"min": {"cpu": 4}})
    cluster.transport.errors += [error, error]
    await at_work(cluster, seconds=10.0)
    assert cluster.transport.patches == 3
    assert cluster.status(QUOTAS, "quota") == {"used": {"cpu": "0"}}


async def test_kinds_that_come_later_are_found_when_somebody_says_so(cluster):
    task = asyncio.create_task(cluster.writer.run())
    await cluster.clock.advance(1.0)
    assert any("elasticquotas: this server does not serve them" in each for each in cluster.told)
    cluster.define()
    cluster.create(QUOTAS, "quota", {"min": {"cpu": 4}})
    await settle()
    assert not cluster.status(QUOTAS, "quota")
    cluster.writer.ask_again()
    await cluster.clock.advance(0.0)
    assert cluster.status(QUOTAS, "quota") == {"used": {"cpu": "0"}}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def entry(name, value):
    from importlib.metadata import EntryPoint

    return EntryPoint(name, value, "berth.controllers")


def test_installed_controllers_are_made_and_others_told_of(caplog):
    found = installed_controllers(
        [
            entry("podgroup", "berth_plugins.controllers:PodGroupController"),
            entry("again", "berth_plugins.controllers:PodGroupController"),
            entry("broken", "berth_plugins.nowhere:Nothing"),
            entry("other", "msgspec:Struct"),
        ]
    )
    assert [each.name for each in found] == ["podgroup-controller"]
    said = caplog.text
    assert "the controller broken (berth_plugins.nowhere:Nothing) cannot be used" in said
    assert "the controller other (msgspec:Struct) cannot be used: it has no name" in said
    assert "podgroup (berth_plugins.controllers:PodGroupController) is left out" in said
