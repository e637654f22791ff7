"""Extenders end to end on the embedded cluster: one of the standard library's, and one that does not answer."""

import asyncio
import socket
from contextlib import asynccontextmanager

from berth.api.resources import RESOURCES
from berth.decisions.explanation import explain
from berth.kube.credentials.access import kubeconfig_access
from berth.kube.http.client import HttpTransport
from berth.runtime.scheduler import LiveScheduler
from berth_cluster.embedded import ClusterSettings, EmbeddedCluster
from berth_cluster.hollow.template import NodeTemplate
from tests.e2e.extender import GpuExtender, listening
from tests.runtime.world import configuration
from tests.waiting import until

POD, EVENT, CLASS = RESOURCES["Pod"], RESOURCES["Event"], RESOURCES["PriorityClass"]
TOKEN = "for-the-test"
VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5}
ALL_VERBS = {**VERBS, "preemptVerb": "preempt", "bindVerb": "bind"}


@asynccontextmanager
async def embedded(directory):
    """Three nodes of one CPU each, without a scheduler."""
    cluster = EmbeddedCluster(ClusterSettings(nodes=3, template=NodeTemplate(cpu="1")), directory, token=TOKEN)
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


@asynccontextmanager
async def scheduling(cluster, *extenders):
    """A live scheduler with these extenders, over HTTP."""
    transport = HttpTransport(kubeconfig_access([cluster.kubeconfig], environ={}))
    scheduler, stop = LiveScheduler(configuration(extenders=list(extenders)), transport), asyncio.Event()
    task = asyncio.create_task(scheduler.run(stop))
    try:
        await until(lambda: scheduler.is_leading or task.done())
        yield scheduler
    finally:
        stop.set()
        await task
        await transport.close()


def create(cluster, name, cpu, priority_class="", **metadata):
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "priorityClassName": priority_class, "terminationGracePeriodSeconds": 0}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
    cluster.store.create(POD, "default", body)


def node_of(cluster, name):
    found = (pod for pod in cluster.store.objects(POD) if pod["metadata"]["name"] == name)
    return next((pod["spec"].get("nodeName", "") for pod in found), None)


def failures(cluster, name):
    events = cluster.store.objects(EVENT)
    mine = (event for event in events if event["involvedObject"]["name"] == name)
    return [event["message"] for event in mine if event["reason"] == "FailedScheduling"]


async def test_an_extender_of_the_standard_library_takes_part_in_all_four_verbs(tmp_path):
    async with embedded(tmp_path) as cluster:
        extender = GpuExtender({"node-1": 2, "node-2": 9}, cluster.url, TOKEN)
        with listening(extender) as url:
            async with scheduling(cluster, {"urlPrefix": url, **ALL_VERBS}) as scheduler:
                create(cluster, "first", "600m", annotations={"example.com/model": "a100"})
                await until(lambda: node_of(cluster, "first"))
                assert node_of(cluster, "first") == "node-2"  # which it prefers
                create(cluster, "second", "600m")
                await until(lambda: node_of(cluster, "second"))
                assert node_of(cluster, "second") == "node-1"
                create(cluster, "third", "600m")
                await until(lambda: failures(cluster, "third"))
                assert "1 no licence" in failures(cluster, "third")[0]
                cluster.store.delete(POD, "default", "third")  # else it may take the room that is made for the next
                important = {"apiVersion": CLASS.api_version, "kind": CLASS.kind, "metadata": {"name": "important"}}
                cluster.store.create(CLASS, "", {**important, "value": 1000})
                create(cluster, "vip", "600m", "important")
                await until(lambda: node_of(cluster, "vip"))
                assert node_of(cluster, "vip") in ("node-1", "node-2")
                asked = [call.verb for call in explain(scheduler.core.trace["default/first"]).extenders]
    assert asked == ["filter", "prioritize", "bind"]
    verbs = [verb for verb, _ in extender.calls]
    assert {verb: verbs.count(verb) >= 1 for verb in ("filter", "prioritize", "preempt", "bind")} == dict.fromkeys(
        ("filter", "prioritize", "preempt", "bind"), True
    )
    # Everything that the API server has of pod and nodes is sent, not only what the scheduler reads.
    pod, nodes = extender.calls[0][1]["Pod"], extender.calls[0][1]["Nodes"]["items"]
    assert pod["metadata"]["annotations"] == {"example.com/model": "a100"}
    assert pod["spec"]["containers"][0]["name"] == "c" and pod["spec"]["restartPolicy"] == "Always"
    assert {node["metadata"]["name"] for node in nodes} == {"node-0", "node-1", "node-2"}
    assert all(node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes)
    accepted = [record for record in cluster.store.bindings if record.accepted]
    assert len(accepted) == len({record.pod_uid for record in accepted}) == 3


async def test_one_that_hangs_costs_its_time_limit_and_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        hanging = {"urlPrefix": url, "filterVerb": "filter", "httpTimeout": "100ms"}
        async with embedded(tmp_path) as cluster, scheduling(cluster, hanging) as scheduler:
            create(cluster, "p", "100m")
            await until(lambda: failures(cluster, "p"))
            told = f"failed filter with extender at URL {url}/filter: no answer within 100ms (httpTimeout)"
            assert failures(cluster, "p")[0] == told
            assert explain(scheduler.core.trace["default/p"]).extenders[0].problem == told


async def test_an_ignorable_one_that_hangs_delays_and_no_more(tmp_path, caplog):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        hanging = {"urlPrefix": url, **VERBS, "httpTimeout": "50ms", "ignorable": True}
        async with embedded(tmp_path) as cluster, scheduling(cluster, hanging) as scheduler:
            create(cluster, "p", "100m")
            await until(lambda: node_of(cluster, "p"))
            calls = explain(scheduler.core.trace["default/p"]).extenders
    assert [(call.verb, call.ignored) for call in calls] == [("filter", True), ("prioritize", True)]
    assert f"extender {url} failed to filter pod default/p, going on without it" in caplog.text
