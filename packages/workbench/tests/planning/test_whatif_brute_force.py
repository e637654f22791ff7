"""What-ifs on small random clusters: what they come to is held against rules that are written down a second time."""

import random
from collections import Counter

import msgspec
import pytest

from berth_workbench.planning.whatif import WhatIfRun
from berth_workbench.simulation.changes import parse_flag
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.site import Site
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import what_if
from packages.workbench.tests.planning import checker
from packages.workbench.tests.planning.worlds import ZONE, bound, random_world
from tests.effort import examples

SEEDS = range(examples(120))


def plain(obj):
    """An object as a manifest, without what it does not say."""
    return pruned(msgspec.to_builtins(obj))


def pruned(value):
    if isinstance(value, dict):
        kept = {key: pruned(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, "", [], {}, False)}
    return [pruned(each) for each in value] if isinstance(value, list) else value


def rounded_off(pod):
    """The checker reads host ports without asking whether there are any."""
    for container in pod["spec"]["containers"]:
        container["ports"] = [port for port in container.get("ports", ()) if port.get("hostPort")]
    pod["metadata"].setdefault("labels", {})
    return pod


def budget(app, least):
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app},
        "spec": {"selector": {"matchLabels": {"app": app}}, "minAvailable": least},
    }


def world(seed, *others):
    rng = random.Random(seed)
    nodes, running = random_world(rng, owned=True)
    manifests = [*nodes, *(bound(pod, node) for pod, node in running), *others]
    documents = [Document(each["kind"], msgspec.json.encode(each), "world") for each in manifests]
    return rng, nodes, running, Snapshot(documents)


def random_steps(rng, nodes, running):
    names = [node["metadata"]["name"] for node in nodes]
    zones = sorted({label for node in nodes if (label := node["metadata"]["labels"].get(ZONE))})
    owned = sorted({checker.app(pod) for pod, _ in running if pod["metadata"].get("ownerReferences")})
    steps = [parse_flag("addNodes", f"{rng.randrange(1, 3)}={names[0]}")]
    if owned:
        steps.append(parse_flag("scale", f"rs/{rng.choice(owned)}={rng.randrange(0, 12)}"))
    kind = rng.choice(["drain", "cordon", "removeNodes"])
    steps.append(parse_flag(kind, rng.choice(names)))
    if zones and kind != "removeNodes" and rng.random() < 0.6:  # else the zone may be gone already
        steps.append(parse_flag("loseZone", rng.choice(zones)))
    return steps


@pytest.mark.parametrize("chunk", range(4))
def test_nothing_is_where_it_may_not_be_and_whatever_is_pending_fits_nowhere(chunk):
    for seed in SEEDS[chunk::4]:
        rng, nodes, running, snapshot = world(seed)
        cluster = SimulatedCluster(snapshot.structs())
        run = WhatIfRun(Site(cluster, snapshot.documents))
        result = run.run(random_steps(rng, nodes, running))
        after = [plain(node) for node in cluster.nodes.values()]
        pods = [rounded_off(plain(pod)) for pod in cluster.pods.values()]
        placed = [(pod, pod["spec"]["nodeName"]) for pod in pods if pod["spec"].get("nodeName")]
        moved = {each.pod for each in result.pods if each.node is not None}
        by_name = {node["metadata"]["name"]: node for node in after}
        for number, (pod, name) in enumerate(placed):
            others = placed[:number] + placed[number + 1 :]
            bare = {
                **pod,
                "spec": {key: each for key, each in pod["spec"].items() if key != "topologySpreadConstraints"},
            }
            if f"default/{pod['metadata']['name']}" in moved:  # cordons came later than some pods, and skew changes
                node = {**by_name[name], "spec": {**by_name[name].get("spec", {}), "unschedulable": False}}
                node["spec"]["taints"] = [t for t in node["spec"].get("taints", ()) if t["key"] == "team"]
                assert checker.fits(bare, node, after, others), f"seed {seed}: {pod['metadata']['name']} on {name}"
        for pod in pods:
            if not pod["spec"].get("nodeName"):
                found = [node for node in after if checker.fits(pod, {"spec": {}, **node}, after, placed)]
                assert not found, f"seed {seed}: {pod['metadata']['name']} fits on {found[0]['metadata']['name']}"


def test_the_result_tells_every_difference_and_nothing_else():
    for seed in SEEDS:
        rng, nodes, running, snapshot = world(seed)
        cluster = SimulatedCluster(snapshot.structs())
        result = WhatIfRun(Site(cluster, snapshot.documents)).run(random_steps(rng, nodes, running))
        before = {f"default/{pod['metadata']['name']}": node for pod, node in running}
        after = cluster.placements
        told = {each.pod: each.node or "" for each in result.pods}
        assert told == {key: node for key, node in after.items() if not node or before.get(key) != node}
        assert {each.pod for each in result.pods if each.is_new} == {key for key in told if key not in before}
        assert all(bool(each.message) == (each.node is None) for each in result.pods)
        left = {each.pod for each in result.evicted}
        gone_or_moved = {key for key, node in before.items() if after.get(key) != node}
        assert gone_or_moved <= left, f"seed {seed}"
        lost = {each.name for each in result.broken if each.reason == "PodLost"}
        kept = {f"default/{pod['metadata']['name']}" for pod, _ in running if pod["metadata"].get("ownerReferences")}
        assert lost == {key for key in before if key not in after and key not in kept}, f"seed {seed}"
        no_longer = {each.name for each in result.broken if each.reason == "NoLongerRuns"}
        assert no_longer == {key for key, node in after.items() if key in before and not node}


def test_drains_never_take_a_budget_below_what_it_demands():
    blocked = 0
    for seed in SEEDS:
        apps = ("web", "db", "asked")
        least = {app: random.Random(seed).randrange(0, 5) for app in apps}
        _, nodes, running, snapshot = world(seed, *(budget(app, number) for app, number in least.items()))
        names = [node["metadata"]["name"] for node in nodes]
        cluster = SimulatedCluster(snapshot.structs())
        result = WhatIfRun(Site(cluster, snapshot.documents)).run([parse_flag("drain", name) for name in names[:2]])
        before = Counter(checker.app(pod) for pod, _ in running)
        after = Counter(pod.metadata.labels["app"] for pod in cluster.pods.values() if pod.spec.node_name)
        for app in apps:
            assert after[app] >= min(before[app], least[app]), f"seed {seed}: {app}"
        refused = {each.name for each in result.broken if each.reason == "DrainBlocked"}
        blocked += bool(refused)
        for app in apps:
            stay = [
                p for p in cluster.pods.values() if p.spec.node_name in names[:2] and p.metadata.labels["app"] == app
            ]
            assert bool(stay) == (f"default/{app}" in refused), f"seed {seed}: {app}"
            if stay:
                assert after[app] <= least[app], f"seed {seed}: {app} could have gone"
    assert blocked > len(SEEDS) / 10


def test_the_same_seed_gives_the_same_result():
    for seed in SEEDS[:20]:
        results = []
        for _ in range(2):
            rng, nodes, running, snapshot = world(seed)
            results.append(what_if(snapshot, random_steps(rng, nodes, running), seed=seed))
        assert results[0] == results[1]
