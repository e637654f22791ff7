"""Plans carried out on the embedded cluster, with the live scheduler, its controllers and hollow nodes."""

import asyncio

import msgspec
import pytest

from berth.api.resources import RESOURCES
from berth.kube.transport import MERGE_PATCH
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.cli.in_process import InProcessScheduler
from berth_cluster.embedded import ClusterSettings, EmbeddedCluster
from berth_cluster.hollow.kubelet import KubeletSettings
from berth_cluster.hollow.template import NodeTemplate
from berth_cluster.serving.transport import StoreTransport
from berth_workbench.planning.rebalance.execution import Executor, Patience
from berth_workbench.planning.rebalance.plan import in_groups
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.writer import taken_from_cluster
from packages.workbench.tests.asking import rebalance
from tests.waiting import until

QUICKLY = Patience(step_s=20.0, poll_s=0.02)


def deployment(name, replicas, cpu, **spec):
    requests = {"cpu": cpu, "memory": "64Mi"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
                    "terminationGracePeriodSeconds": 0,
                    **spec,
                },
            },
        },
    }


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}},
}


class Live:
    """A cluster of four nodes, four replicas of 1 CPU spread over them, and a budget that lets one of them go."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.transport = StoreTransport(cluster.store)

    def pods(self):
        found = self.cluster.store.objects(resource_of("Pod"))
        return {pod["metadata"]["name"]: pod for pod in found if not pod["metadata"].get("deletionTimestamp")}

    def placed(self):
        return sorted(pod["spec"].get("nodeName", "") for pod in self.pods().values())

    def cordoned(self):
        nodes = self.cluster.store.objects(resource_of("Node"))
        return sorted(node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable"))

    def create(self, document):
        resource = resource_of(document["kind"])
        self.cluster.store.create(resource, "default" if resource.namespaced else "", document)

    async def look(self):
        return await taken_from_cluster(self.transport, "here")

    async def plan(self, goal="empty-nodes", **more):
        return rebalance(await self.look(), RebalanceRequest(goal, **more))

    def executor(self, plan, **more):
        return Executor(plan, self.transport, self.look, patience=QUICKLY, **more)


def live(tmp_path, test, start_delay_s=0.0):
    async def run():
        template = NodeTemplate(cpu="4", memory="8Gi", zones=("a", "b"))
        cluster = EmbeddedCluster(
            ClusterSettings(nodes=4, template=template, kubelet=KubeletSettings(start_delay_s=start_delay_s)), tmp_path
        )
        await cluster.start()
        scheduler = InProcessScheduler(cluster.store)
        scheduler.start()
        try:
            here = Live(cluster)
            here.create(deployment("web", 4, "1"))
            here.create(BUDGET)
            await until(lambda: len(here.pods()) == 4 and all(here.placed()))
            await until(lambda: all(each["status"].get("phase") == "Running" for each in here.pods().values()))
            budgets = resource_of("PodDisruptionBudget")
            await until(lambda: cluster.store.objects(budgets)[0].get("status", {}).get("disruptionsAllowed") == 1)
            await test(here)
        finally:
            await scheduler.stop()
            await cluster.stop()

    asyncio.run(run())


def test_a_plan_is_carried_out_as_written_and_never_breaks_the_budget(tmp_path):
    async def test(here):
        assert len(set(here.placed())) == 4
        plan = await here.plan()
        assert (plan.moves, len(plan.emptied), plan.after.nodes_used) == (3, 3, 1)
        healthy = []

        def look(_):
            running = [each for each in here.pods().values() if each["status"].get("phase") == "Running"]
            healthy.append(len(running))

        executed = await here.executor(plan, say=look).run()
        assert (executed.done, executed.stopped) == (len(in_groups(plan.steps)), "")
        assert len(set(here.placed())) == 1
        assert here.placed()[0] not in plan.emptied
        assert here.cordoned() == sorted(plan.emptied) == sorted(executed.cordoned)
        assert min(healthy) == 4  # each step begins when all run again

    live(tmp_path, test, start_delay_s=0.4)


@pytest.mark.parametrize(("looks", "moved"), [(1, 0), (2, 1)])
def test_it_stops_when_the_cluster_no_longer_agrees(tmp_path, looks, moved):
    """Somebody cordons the node where everything is to go: before the plan begins, or after its first move."""

    async def test(here):
        plan = await here.plan()
        target = next(step.to for step in plan.steps if step.action == "evict")
        looked = []

        async def look():
            looked.append(1)
            if len(looked) == looks:
                body = msgspec.json.encode({"spec": {"unschedulable": True}})
                await here.transport.patch(RESOURCES["Node"], "", target, body, MERGE_PATCH)
            return await here.look()

        before = here.placed()
        executed = await Executor(plan, here.transport, look, patience=QUICKLY).run()
        assert executed.stopped.startswith("the cluster has changed: the scheduler would put default/web-")
        assert executed.stopped.endswith(f"not on {target}")
        done = [group for group in in_groups(plan.steps)[: executed.done] if group[0].action == "evict"]
        assert len(done) == moved
        assert here.placed().count(target) == before.count(target) + moved
        assert here.cordoned() == sorted({*executed.cordoned, target})

    live(tmp_path, test)


def test_asked_to_stop_it_ends_after_the_current_step(tmp_path):
    async def test(here):
        plan = await here.plan()
        said = []
        watch = WorkWatch()

        def say(line):
            said.append(line)
            if len(said) == 2:
                watch.stop()

        executed = await here.executor(plan, say=say, watch=watch).run()
        assert (executed.done, executed.stopped) == (2, "you asked for it")
        assert here.cordoned() == sorted(executed.cordoned)
        await until(lambda: all(here.placed()))

    live(tmp_path, test)


@pytest.mark.parametrize("exists", [True, False])
def test_room_is_made_for_a_pod_that_waits_or_is_created(tmp_path, exists):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3500m", "memory": "64Mi"}}}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "big", "namespace": "default"},
        "spec": {"containers": [container]},
    }

    async def test(here):
        from berth_workbench.simulation.admission import admitted

        if exists:
            here.create(manifest)
            await until(lambda: here.pods()["big"].get("status", {}).get("conditions"))
        plan = await here.plan("free-shape", pods=(admitted(manifest),))
        assert plan.moves == 1
        executed = await here.executor(plan, manifests={"default/big": manifest}).run()
        assert executed.stopped == ""
        assert here.pods()["big"]["spec"]["nodeName"] == plan.shapes[0].node
        assert here.cordoned() == []

    live(tmp_path, test)


def test_room_is_made_for_replicas_that_wait_whichever_of_them_comes_first(tmp_path):
    async def test(here):
        here.create(deployment("big", 2, "3500m"))
        await until(lambda: sum("conditions" in pod["status"] for pod in here.pods().values()) == 6)
        plan = await here.plan("place-pending")
        assert plan.moves == 2
        executed = await here.executor(plan).run()
        assert executed.stopped == ""
        big = [pod for name, pod in here.pods().items() if name.startswith("big-")]
        assert {pod["spec"]["nodeName"] for pod in big} == {each.node for each in plan.shapes}
        assert here.cordoned() == []

    live(tmp_path, test)
