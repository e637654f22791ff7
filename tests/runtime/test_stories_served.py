"""Stories of pods over HTTP: a pod that lives can be explained, however many were decided since."""

import asyncio
from contextlib import asynccontextmanager
from datetime import datetime

import aiohttp

from berth.api.resources import RESOURCES
from berth.config.feature_gates import parse_feature_gates
from berth.config.load import load_config
from berth.decisions.collector import DecisionCollector
from berth.decisions.decision_log import DecisionLog
from berth.decisions.keeper import LogKeeper
from berth.decisions.log_segments import Files
from berth.framework.registry import Registry
from berth.framework.status import Code, Status
from berth.plugins.registry import in_tree_registry
from berth.runtime.observing.metrics import Metrics
from berth.runtime.observing.several import Instruments
from berth.runtime.serving.server import HealthServer
from berth_cluster.apimachinery.resource_types import BY_KEY
from tests.e2e.processes import free_port
from tests.runtime.test_serving import Client
from tests.runtime.world import POD, World, configuration, scheduling
from tests.waiting import until

NAMESPACE, CLASS = RESOURCES["Namespace"], RESOURCES["PriorityClass"]
GROUPS = BY_KEY["scheduling.k8s.io", "podgroups"]


@asynccontextmanager
async def at_work(world, *, log=None, config=None, **options):
    """A scheduler that keeps a decision log, asked over HTTP."""
    config, metrics, collector = config or configuration(), Metrics(), DecisionCollector()
    keeper = LogKeeper(log or DecisionLog(), collector)
    observer = Instruments(metrics, collector)
    async with scheduling(world, config, instrument=observer, **options) as scheduler:
        port = free_port()
        server = HealthServer(
            scheduler, metrics, config, port=port, decision_log=keeper, api_server="https://api.example:6443"
        )
        keeping = asyncio.create_task(keeper.run(scheduler))
        await server.start()
        try:
            async with aiohttp.ClientSession() as session:
                yield Client(session, f"http://127.0.0.1:{port}")
        finally:
            keeping.cancel()
            await server.stop()
            await keeper.stop(scheduler)


async def told(client, name):
    status, report = await client.json(f"/debug/decisions/default/{name}")
    assert status == 200, report
    return report


async def told_once(client, name, so):
    """The report about a pod, once it is so."""

    async def report_if_so():
        report = await told(client, name)
        return report if so(report) else None

    return await until(report_if_so)


def steps(report):
    return [line["what"] for line in report["story"]]


def is_bound(report):
    return steps(report)[-1:] == ["bound"]


async def test_after_a_rollout_of_600_pods_all_600_are_explained():
    world = World(nodes=10, cpu="64")
    names = [f"web-{number}" for number in range(600)]
    async with at_work(world) as client:
        for name in names:
            world.add_pod(name, cpu="1m")
        await until(lambda: len(world.accepted()) == 600)
        node_of = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in world.store.objects(POD)}
        for name in names:
            report = await told_once(client, name, is_bound)
            assert report["decision"]["node"] == node_of[name]
            assert report["decision"]["best"][0]["scores"], name
            assert [line["what"] for line in report["story"]] == ["queued", "decided", "bound"]


async def test_the_story_of_an_earlier_process_is_told(tmp_path):
    world = World()
    world.add_pod("web")
    path = tmp_path / "decisions.jsonl"
    async with at_work(world, log=DecisionLog(Files(path))) as client:
        await told_once(client, "web", is_bound)
    async with at_work(world, log=DecisionLog(Files(path))) as client:
        report = await told(client, "web")
    assert report["decision"]["node"] == world.node_of("web")
    assert report["story"][-1]["text"] == f"bound to {world.node_of('web')}"
    assert report["isGone"] is False


async def test_another_pod_of_the_name_has_a_story_of_its_own():
    world = World(nodes=1)
    world.add_pod("web-0", cpu="9")
    async with at_work(world) as client:
        await until(lambda: world.condition("web-0"))
        world.store.delete(POD, "default", "web-0")
        gone = await told_once(client, "web-0", lambda report: report["isGone"])
        world.add_pod("web-0")
        report = await told_once(client, "web-0", is_bound)
    assert gone["decision"]["outcome"] == "unschedulable"
    assert report["isGone"] is False
    assert [line["what"] for line in report["story"]] == ["queued", "decided", "bound"]


async def test_numbers_say_how_much_is_lacking():
    world = World(nodes=3, cpu="8")
    world.add_pod("small", cpu="3", nodeName="node-0")
    world.add_pod("other", cpu="4", nodeName="node-1")
    world.add_pod("third", cpu="4", nodeName="node-2")
    world.add_pod("big", cpu="9")
    async with at_work(world) as client:
        await until(lambda: world.condition("big"))
        report = await told(client, "big")
    assert report["decision"]["message"].startswith("0/3 nodes are available: 3 Insufficient cpu.")
    (lack,) = report["decision"]["shortfalls"]
    assert (lack["needs"], lack["mostFree"], lack["of"], lack["node"]) == ("9", "5", "8", "node-0")


async def test_what_woke_a_pod_and_what_did_not_are_in_its_story():
    world = World(nodes=1, cpu="1")
    world.add_pod("big", cpu="5")
    async with at_work(world) as client:
        await until(lambda: world.condition("big"))
        world.add_nodes(1, cpu="2", first=1)
        await told_once(client, "big", lambda report: "notWoken" in steps(report))
        world.add_nodes(1, cpu="8", first=2)
        report = await told_once(client, "big", is_bound)
    texts = [line["text"] for line in report["story"]]
    assert texts[0] == "arrived"
    assert texts[1].startswith("attempt 1: 0/1 nodes are available: 1 Insufficient cpu.")
    assert texts[2] == "waits for an event that helps"
    assert texts[3].startswith("not woken, since these did not help: NodeResourcesFit: Node")
    assert any(text.startswith("woken by Node") for text in texts)
    assert texts[-1] == "bound to node-2"


async def test_a_preemption_is_told_on_both_sides():
    world = World(nodes=1, cpu="1")
    important = {"apiVersion": CLASS.api_version, "kind": CLASS.kind, "metadata": {"name": "important"}, "value": 1000}
    world.store.create(CLASS, "", important)
    world.add_pod("low", cpu="900m", terminationGracePeriodSeconds=0)
    async with at_work(world) as client:
        await until(lambda: world.node_of("low"))
        world.add_pod("high", cpu="900m", priorityClassName="important")
        await until(lambda: world.node_of("high"))
        high, low = await told(client, "high"), await told(client, "low")
    told_high = [line["text"] for line in high["story"]]
    assert told_high.index("preempts default/low on node-0") == 2  # after it arrived and was tried
    assert any(line["text"].endswith("; nominated to node-0") for line in high["story"])
    told_low = [line["text"] for line in low["story"]]
    assert "evicted from node-0 to make room for default/high" in told_low
    assert told_low[-1] == "gone"
    assert low["isGone"] is True


class Licence:
    """Holds every pod at Permit, and says why."""

    name = "Licence"

    def __init__(self, args, handle):
        pass

    def permit(self, state, pod, node_name):
        return Status(Code.WAIT, ("no licence is free",)), 600.0


async def test_a_pod_at_permit_waits_with_the_plugins_words_and_the_deadline():
    world = World(nodes=1)
    world.add_pod("web")
    registry = in_tree_registry().merge(Registry({"Licence": Licence}, "the test"))
    plugins = {"multiPoint": {"enabled": [{"name": "Licence"}]}}
    config = configuration(profiles=[{"schedulerName": "default-scheduler", "plugins": plugins}])
    async with at_work(world, config=config, registry=registry) as client:
        report = await told_once(client, "web", lambda report: report["permit"] is not None)
        _, pending = await client.json("/debug/pending")
    permit = report["permit"]
    assert permit["node"] == "node-0"
    assert [(held["plugin"], held["says"]) for held in permit["heldBy"]] == [("Licence", "no licence is free")]
    waited = datetime.fromisoformat(permit["heldBy"][0]["until"]) - datetime.fromisoformat(permit["since"])
    assert abs(waited.total_seconds() - 600) <= 1
    assert report["story"][-1]["text"].startswith("waits on Permit for node-0, held by Licence: no licence is free, ")
    assert [(group["reason"], group["queues"]) for group in pending["groups"]] == [
        ("waits on Permit for Licence: no licence is free", {"permit": 1})
    ]


async def test_a_gang_that_is_not_complete_says_how_many_are_there():
    world = World(nodes=2)
    gates = parse_feature_gates("GenericWorkload=true,GangScheduling=true")
    config = load_config({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                          "leaderElection": {"leaderElect": False}}, "the test's configuration", gates)  # fmt: skip
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    world.store.create(GROUPS, "default", {"metadata": {"name": "train"}, "spec": spec})
    for number in range(2):
        world.add_pod(f"train-{number}", schedulingGroup={"podGroupName": "train"})
    async with at_work(world, config=config) as client:
        report = await told(client, "train-0")
        _, pending = await client.json("/debug/pending")
    assert report["pending"]["members"] == {"group": "default/train", "present": 2, "placed": 0, "needed": 3}
    (group,) = pending["groups"]
    assert group["pods"] == 2
    assert group["reason"] == (
        "held back by GangScheduling: waiting for minCount pods from a gang to appear in scheduling queue; "
        "2 of 3 members of pod group default/train are there"
    )


async def test_pending_pods_are_grouped_by_reason_the_worst_first():
    world = World(nodes=3, cpu="8")
    for number in range(3):
        world.add_pod(f"big-{number}", cpu="9")
    world.add_pod("gpu", nodeSelector={"gpu": "yes"})
    async with at_work(world) as client:
        await until(lambda: all(world.condition(f"big-{number}") for number in range(3)) and world.condition("gpu"))
        _, everywhere = await client.json("/debug/pending")
        _, elsewhere = await client.json("/debug/pending?namespace=other")
    assert everywhere["pods"] == 4
    assert [(group["reason"], group["pods"]) for group in everywhere["groups"]] == [
        ("Insufficient cpu", 3),
        ("node(s) didn't match Pod's node affinity/selector", 1),
    ]
    assert everywhere["groups"][0]["shortfalls"][0]["needs"] == "9"
    assert elsewhere == {"pods": 0, "groups": []}


async def test_answers_say_whose_pods_they_are_about():
    world = World()
    system = world.store.get(NAMESPACE, "", "kube-system")
    async with at_work(world) as client:
        _, headers = await client.headers("/debug/queue")
    assert headers["Berth-Cluster"] == system["metadata"]["uid"]
    assert headers["Berth-Api-Server"] == "https://api.example:6443"


async def test_a_plugin_that_cannot_describe_its_codes_costs_the_details_only(monkeypatch):
    world = World(nodes=1)
    world.add_pod("web")

    def broken(*_arguments, **_options):
        raise ValueError("no words")

    monkeypatch.setattr("berth.decisions.collector.explain", broken)
    async with at_work(world) as client:
        await until(lambda: world.node_of("web"))
        report = await told_once(client, "web", lambda report: steps(report)[-1] == "bound")
    assert report["decision"]["node"] == "node-0"  # from the trace, which keeps columns


def set_status(world, name, **status):
    pod = world.pod(name)
    world.store.update(POD, "default", name, {**pod, "status": {**pod["status"], **status}}, subresource="status")


async def test_a_pod_that_somebody_evicted_says_who():
    world = World(nodes=1)
    world.add_pod("web")
    why = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    async with at_work(world) as client:
        await until(lambda: world.node_of("web"))
        set_status(world, "web", conditions=[why])
        world.store.delete(POD, "default", "web")
        report = await told_once(client, "web", lambda report: steps(report)[-1] in ("going", "gone"))
    assert "is being deleted, EvictionByEvictionAPI: evicting" in [line["text"] for line in report["story"]]


async def test_a_pod_that_has_finished_is_still_told():
    world = World(nodes=1)
    world.add_pod("job")
    async with at_work(world) as client:
        await until(lambda: world.node_of("job"))
        set_status(world, "job", phase="Succeeded")
        report = await told_once(client, "job", lambda report: steps(report)[-1] == "gone")
    assert report["story"][-1]["text"] == "has finished, or is gone"
    assert report["decision"]["node"] == "node-0"
