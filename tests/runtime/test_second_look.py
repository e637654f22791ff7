"""The kubelet looks once more at what was bound to its node, and schedulers live with what it finds.

Two schedulers that do not know of each other both find room for a pod on the only node, before either binding is seen.
The kubelet takes one pod and fails the other; its ReplicaSet makes a new one, which waits until there is room.
Reasons: pkg/kubelet/lifecycle/predicate.go.
"""

from contextlib import asynccontextmanager

import pytest

from berth.api.resources import RESOURCES
from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.controllers.pump import ControllerPump
from berth_cluster.embedded import ClusterSettings, make_controllers
from berth_cluster.hollow.kubelet import KubeletSettings
from tests.runtime.world import NODE, POD, World, of_generation, scheduling
from tests.waiting import until

REPLICA_SET = RESOURCES["ReplicaSet"]
HOST_PORT = {"ports": [{"containerPort": 80, "hostPort": 8080}]}


@asynccontextmanager
async def controllers(world):
    manager = ControllerManager(world.store)
    manager.add(make_controllers(manager.client, ClusterSettings(kubelet=KubeletSettings())))
    pump = ControllerPump(world.store, manager)
    pump.start()
    try:
        yield
    finally:
        await pump.stop()


def create_set(world, name, cpu="100m", node_selector=None, **container):
    """A ReplicaSet of one pod, for the scheduler of the same name."""
    wanted = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}, **container}
    spec = {"schedulerName": name, "containers": [wanted], "nodeSelector": node_selector or {}}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    world.store.create(
        REPLICA_SET,
        "default",
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template},
        },
    )


def pods(world, phase):
    return [pod for pod in world.store.objects(POD) if pod["status"].get("phase") == phase]


def app(pod):
    return pod["metadata"]["labels"]["app"]


def is_told_why(pod):
    return any(condition["status"] == "False" for condition in pod["status"].get("conditions", []))


@pytest.mark.parametrize("generation", ["v1.36", "v1.20"])
@pytest.mark.parametrize(
    ("cpu", "container", "reason", "message", "waits_for"),
    [
        (
            "800m",
            {},
            "OutOfcpu",
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 800, used: 800, capacity: 1000",
            "Insufficient cpu",
        ),
        (
            "100m",
            HOST_PORT,
            "NodePorts",
            "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
            "node(s) didn't have free ports for the requested pod ports",
        ),
    ],
)
async def test_two_schedulers_race_for_one_node(generation, cpu, container, reason, message, waits_for):
    world = World(nodes=1, cpu="1")
    go = world.transport.hold("bind")
    one, two = (of_generation(generation, name) for name in ("one", "two"))
    async with controllers(world), scheduling(world, one) as first, scheduling(world, two) as second:
        for name in ("one", "two"):
            create_set(world, name, cpu, **container)
        await until(lambda: world.transport.count("bind") == 2)
        go.set()
        await until(lambda: pods(world, "Failed") and pods(world, "Running"))
        # Mostly one; what replaces it may lose as well, where its scheduler has not seen the winner by then.
        losers, (winner,) = pods(world, "Failed"), pods(world, "Running")
        loser = losers[0]
        assert {app(loser), app(winner)} == {"one", "two"}
        assert {each["spec"]["nodeName"] for each in (*losers, winner)} == {"node-0"}, "all were bound"
        assert {(each["status"]["reason"], each["status"]["message"]) for each in losers} == {(reason, message)}

        # The failed pod takes no room, and another was made in its place, which is told what it waits for.
        await until(lambda: any(is_told_why(pod) for pod in pods(world, "Pending")))
        (replacement,) = pods(world, "Pending")
        assert app(replacement) == app(loser)
        (condition,) = replacement["status"]["conditions"]
        assert condition["message"].startswith(f"0/1 nodes are available: 1 {waits_for}")
        await until(lambda: all(set(each.core.cache.states()) == {uid(winner)} for each in (first, second)))

        world.add_nodes(1, first=1)
        await until(lambda: len(pods(world, "Running")) == 2)
        assert {pod["spec"]["nodeName"] for pod in pods(world, "Running")} == {"node-0", "node-1"}


def uid(pod):
    return pod["metadata"]["uid"]


async def test_a_node_that_changes_before_the_binding_is_seen_turns_the_pod_away():
    world = World(nodes=1, cpu="1")
    relabel(world, "node-0", "ssd")
    go = world.transport.hold("bind")
    async with controllers(world), scheduling(world, of_generation("v1.36", "one")):
        create_set(world, "one", node_selector={"disk": "ssd"})
        await until(lambda: world.transport.count("bind") == 1)
        relabel(world, "node-0", "hdd")
        go.set()
        await until(lambda: pods(world, "Failed"))
        (failed,) = pods(world, "Failed")
        assert (failed["status"]["reason"], failed["status"]["message"]) == (
            "NodeAffinity",
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        )
        await until(lambda: any(is_told_why(pod) for pod in pods(world, "Pending")))
        relabel(world, "node-0", "ssd")
        await until(lambda: pods(world, "Running"))


def relabel(world, name, disk):
    node = next(node for node in world.store.objects(NODE) if node["metadata"]["name"] == name)
    labels = {**node["metadata"]["labels"], "disk": disk}
    world.store.update(NODE, "", name, {**node, "metadata": {**node["metadata"], "labels": labels}})
