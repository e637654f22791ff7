"""Small random clusters: where one pod that goes makes room, an answer offers that one pod goes.

Which pods would do is found by brute force: each running pod is taken off its node, and the scheduler's filters are
asked about the pending pod. A pod that belongs to its node would come back at once and one whose budget forbids it
cannot be evicted, so neither counts.
"""

import random
from collections.abc import Iterator

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.questions import judge
from berth_workbench.simulation.cluster import SimulatedCluster
from tests.effort import examples
from tests.workbench.planning.help.worlds import World

SEEDS = range(examples(60))
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ("x", "y")
IP = "10.0.0.1"


def random_world(seed: int) -> World:
    """Nodes that hold few pods each, of different priority, and that are short of this and that."""
    rng = random.Random(seed)
    nodes, pods = [], []
    for i in range(rng.randint(2, 6)):
        node = make_node(f"n{i}").zone(rng.choice("ab"))
        count = rng.randint(0, 4)
        places = rng.choice((count, count, count + 1, 10))
        node.capacity(cpu=str(rng.choice((4, 8))), memory="16Gi", pods=str(max(places, 1)))
        if rng.random() < 0.2:
            node.unschedulable()
        if rng.random() < 0.2:
            node.taint("team", "red")
        nodes.append(node)
        pods += [_running(rng, f"w{i}{j}").node(f"n{i}") for j in range(count)]
    return World(_asking(rng), *nodes, *pods, *_budgets(rng))


def _running(rng, name):
    pod = make_pod(name).label("app", rng.choice(APPS)).priority(rng.choice((0, 0, 5)))
    pod.request(cpu=f"{rng.randint(1, 10)}00m")
    chance = rng.random()
    if chance < 0.15:
        pod.pod_anti_affinity(rng.choice((ZONE, HOST)), {"app": rng.choice(APPS)})
    elif chance < 0.3:
        pod.host_port(8080, host_ip=rng.choice(("", IP)))
    elif chance < 0.4:
        pod.owned_by("DaemonSet", "agent")
    elif chance < 0.5:
        pod.volume("disk", gcePersistentDisk={"pdName": "d"})
    return pod


def _asking(rng):
    pod = make_pod("p").label("app", "x").priority(0)
    pod.request(cpu=rng.choice(("100m", "100m", "3", "5", "7")))
    for chance, ask in (
        (0.4, lambda: pod.spread(rng.choice((ZONE, HOST)), {"app": "x"}, max_skew=rng.choice((1, 1, 2)))),
        (0.2, lambda: pod.spread(HOST, {"app": "x"}, nodeTaintsPolicy="Honor")),
        (0.3, lambda: pod.pod_anti_affinity(rng.choice((ZONE, HOST)), {"app": rng.choice(APPS)})),
        (0.3, lambda: pod.pod_affinity(rng.choice((ZONE, HOST)), {"app": rng.choice(APPS)})),
        (0.3, lambda: pod.host_port(8080)),
        (0.2, lambda: pod.volume("disk", gcePersistentDisk={"pdName": "d"})),
        (0.2, lambda: pod.node_selector({ZONE: "a"})),
    ):
        if rng.random() < chance:
            ask()
    return pod


def _budgets(rng) -> Iterator[dict]:
    if rng.random() < 0.2:
        yield {"kind": "PodDisruptionBudget", "metadata": {"name": "all", "namespace": "default", "uid": "budget"},
               "spec": {"selector": {"matchLabels": {"app": "y"}}}, "status": {"disruptionsAllowed": 0}}  # fmt: skip


def enough_alone(world: World, cluster: SimulatedCluster) -> dict[str, bool]:
    """The pods each of which makes room by going alone, and whether they can go and stay away."""
    core, pending = cluster.core, cluster.pods[world.key]
    forbidden = any(each["kind"] == "PodDisruptionBudget" for each in world.documents)
    found = {}
    for state in list(core.cache.states().values()):
        pod = state.pod
        core.cache.lift(pod.uid)
        if judge(core, pending).fits.any():
            is_forbidden = forbidden and pod.labels["app"] == "y"
            found[pod.key] = not pod.metadata.owner_references and not is_forbidden
        core.cache.put_back(pod.uid)
    return found


def offered_alone(found) -> set[str]:
    sets = [change.patch["pods"] for change in found.changes if change.kind == "podsGone"]
    return {pods[0] for pods in sets if len(pods) == 1}


@pytest.mark.parametrize("seed", SEEDS)
def test_where_one_pod_is_enough_one_is_offered(seed):
    world = random_world(seed)
    cluster = world.cluster()
    found = world.help(cluster)
    if found.state == "fits":
        return
    enough = enough_alone(world, cluster)
    offered = offered_alone(found)
    assert offered <= set(enough)
    if any(enough.values()):
        assert any(enough[key] for key in offered), f"{enough}; offered: {[change.what for change in found.changes]}"


# --- the ways in which that was missed once ---------------------------------------------------------------------------


def alone(pod, *objects) -> set[str]:
    return offered_alone(World(pod, *objects).help())


def test_from_a_node_that_runs_as_many_pods_as_it_may_any_one_may_go():
    node = make_node("n1").capacity(cpu="8", memory="16Gi", pods="2")
    running = [make_pod("a").node("n1").priority(5), make_pod("b").node("n1")]
    assert alone(make_pod("p"), node, make_node("n2").capacity(cpu="8", pods="9").unschedulable(), *running) == {
        "default/b"
    }


def test_one_that_matters_more_is_offered_beside_several_that_matter_less():
    """On n1 two pods of no priority are in the way; in zone b, one pod of some priority on a cordoned node."""
    nodes = [make_node(name).zone(zone).capacity(cpu="8", pods="9") for name, zone in (("n1", "a"), ("n2", "b"))]
    cordoned = make_node("n3").zone("b").capacity(cpu="8", pods="9").unschedulable()
    ours = [make_pod(name).label("app", "x").node("n1") for name in ("a", "b")]
    theirs = make_pod("c").label("app", "x").node("n3").priority(5)
    pod = make_pod("p").label("app", "y").pod_anti_affinity(ZONE, {"app": "x"})
    assert alone(pod, *nodes, cordoned, *ours, theirs) == {"default/c"}


def test_without_its_only_companion_the_first_of_a_series_may_go_anywhere():
    nodes = [make_node("n1").capacity(cpu="8", pods="9").unschedulable(), make_node("n2").capacity(cpu="8", pods="9")]
    for node in nodes:
        node.label(HOST, node.metadata["name"])
    pod = make_pod("p").label("app", "x").pod_affinity(HOST, {"app": "x"})
    assert alone(pod, *nodes, make_pod("a").label("app", "x").node("n1")) == {"default/a"}
    other = make_pod("p").label("app", "y").pod_affinity(HOST, {"app": "x"})
    assert alone(other, *nodes, make_pod("a").label("app", "x").node("n1")) == set()


def test_of_pods_that_are_alike_on_one_node_one_is_tried():
    """A thousand pods in the way, and none of them alone: a handful of trials say so."""
    nodes = [make_node(f"n{i}").zone("a").capacity(cpu="800", memory="16Gi", pods="900") for i in range(2)]
    pods = [make_pod(f"w{i}").label("app", "x").node(f"n{i % 2}") for i in range(1000)]
    found = World(make_pod("p").pod_anti_affinity(ZONE, {"app": "x"}), *nodes, *pods).help()
    assert offered_alone(found) == set()
    assert found.is_complete and found.trials < 50
