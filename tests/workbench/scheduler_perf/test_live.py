"""A workload of scheduler_perf on an embedded cluster with a scheduler of its own, which is left as it was."""

import asyncio
import json

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.api.resources import RESOURCES
from berth.kube.credentials.access import kubeconfig_access
from berth.kube.http.client import HttpTransport
from berth.runtime.scheduler import LiveScheduler
from berth_cluster.embedded import ClusterSettings, EmbeddedCluster
from berth_workbench.scheduler_perf.documents import PerfError, read_workloads
from berth_workbench.scheduler_perf.live import Live, live
from berth_workbench.scheduler_perf.play import Play
from packages.scheduler.tests.kube.fakes import HANG, ScriptedTransport
from packages.workbench.tests.scheduler_perf.documents import measured, nodes, pods, written
from tests.runtime.world import configuration
from tests.waiting import pass_time, until, virtually

OPERATIONS = (
    nodes(2),
    pods(2, namespace="here", persistentVolumeTemplatePath="pv.yaml", persistentVolumeClaimTemplatePath="pvc.yaml"),
    pods(1, namespace="here", podTemplatePath="named.yaml", skipWaitToCompletion=True),
    {"opcode": "barrier", "stageRequirement": "Attempted"},
    {"opcode": "churn", "mode": "create", "number": 1, "templatePaths": ["gated.yaml"], "intervalMilliseconds": 10},
    {"opcode": "deletePods", "namespace": "here", "labelSelector": {"index": "1"}},
    measured(3),
)


async def test_figures_are_those_of_the_clusters_scheduler(tmp_path):
    (workload,) = read_workloads(written(tmp_path, *OPERATIONS, threshold=1))
    cluster = EmbeddedCluster(ClusterSettings(nodes=0), tmp_path, token="for-the-test")
    await cluster.start()
    transports = [HttpTransport(kubeconfig_access([cluster.kubeconfig], environ={})) for _ in range(2)]
    scheduler, stop = LiveScheduler(configuration(), transports[0]), asyncio.Event()
    task = asyncio.create_task(scheduler.run(stop))
    try:
        await until(lambda: scheduler.is_leading or task.done())
        async with live(transports[1]) as site:
            figures = await Play(workload, site).figures()
        left = [cluster.store.objects(RESOURCES[kind]) for kind in ("Pod", "Node", "PersistentVolume")]
    finally:
        stop.set()
        await task
        for transport in transports:
            await transport.close()
        await cluster.stop()
    assert (figures.nodes, figures.pods, figures.failed, figures.threshold) == (2, 3, 0, 1.0)
    assert [list(each) for each in left] == [[], [], []]


async def test_what_nobody_can_do_on_a_cluster_is_named(tmp_path):
    (workload,) = read_workloads(written(tmp_path, {"opcode": "allocResourceClaims", "namespace": "here"}))
    cluster = EmbeddedCluster(ClusterSettings(nodes=0), tmp_path, token="for-the-test")
    await cluster.start()
    transport = HttpTransport(kubeconfig_access([cluster.kubeconfig], environ={}))
    try:
        async with live(transport) as site:
            figures = await Play(workload, site).figures()
    finally:
        await transport.close()
        await cluster.stop()
    assert figures.not_played.startswith("allocResourceClaims: ")


class SlowToAnswer:
    """A server that has done what it is asked for long before it says so."""

    def __init__(self):
        self.objects, self.begun = [], asyncio.Event()

    async def create(self, _resource, _namespace, body):
        self.objects.append(json.loads(body)["metadata"]["name"])
        self.begun.set()
        await pass_time(1)

    async def delete(self, _resource, _namespace, name, _body):
        self.objects.remove(name)


@virtually
async def test_what_is_being_created_when_the_end_comes_is_not_left_behind():
    server = SlowToAnswer()
    site = Live(server)
    site.start(site.create([{"kind": "Pod", "metadata": {"name": "a", "namespace": "here"}}]))
    await server.begun.wait()
    await site.clean_up()
    assert server.objects == []


def bound(name, version):
    pod = {"metadata": {"name": name, "namespace": "here", "resourceVersion": str(version)}, "spec": {"nodeName": "n"}}
    return json.dumps({"type": "ADDED", "object": pod}).encode()


@pytest.mark.parametrize("end", [(), (ConnectionLost("too slow"),)], ids=["ended", "broken off"])
@virtually
async def test_a_watch_that_the_server_ends_goes_on_where_it_was(end):
    listed = json.dumps({"metadata": {"resourceVersion": "5"}}).encode()
    transport = ScriptedTransport([listed], [[bound("a", 6), *end], [bound("b", 7), HANG]])
    async with live(transport) as site:
        assert await site.until(lambda: len(site.pods) == 2, limit_s=60)
    assert [call["resource_version"] for call in transport.watch_calls] == ["5", "6"]


@virtually
async def test_a_watch_that_cannot_go_on_ends_the_measurement():
    listed = json.dumps({"metadata": {"resourceVersion": "5"}}).encode()
    gone = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old resource version"}}
    transport = ScriptedTransport([listed], [[json.dumps(gone).encode()]])
    with pytest.raises(ApiError, match="too old"):
        async with live(transport) as site:
            await site.until(lambda: bool(site.pods), limit_s=60)


@virtually
async def test_a_server_that_does_not_answer_ends_it_before_it_begins():
    with pytest.raises(ConnectionLost, match="refused"):
        async with live(ScriptedTransport([ConnectionLost("refused")])):
            pass


async def test_a_namespace_that_is_still_being_deleted_is_told_of():
    class Refusing(ScriptedTransport):
        async def create(self, resource, namespace, body):
            raise ApiError(403, "Forbidden", "no new content in namespace x because it is being terminated")

    pod = {"kind": "Pod", "metadata": {"name": "a", "namespace": "x"}}
    async with live(Refusing([json.dumps({"metadata": {"resourceVersion": "5"}}).encode()])) as site:
        with pytest.raises(PerfError, match="the namespace x of an earlier run is still being deleted"):
            await site.create([pod])
