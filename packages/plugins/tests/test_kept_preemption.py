"""Guests that preempt by rules of their own decide the same whether or not it is kept what was found on each node."""

import random

import pytest

from berth.testing import VirtualCluster, make_node, make_object, make_pod
from berth_plugins.budget_safe_preemption import BudgetSafePreemption
from berth_plugins.capacity.capacity_scheduling import CapacityScheduling
from berth_plugins.capacity.elastic_quotas import ELASTIC_QUOTAS
from berth_plugins.preemption_toleration import CLASSES, PREFIX, PreemptionToleration

NODES = 5
ZONES = "ab"
TEAMS = "abc"


def budget(rng, version):
    metadata = {"name": rng.choice("xy"), "namespace": "a", "resourceVersion": str(version)}
    status = {"disruptionsAllowed": rng.randrange(4)}
    spec = {"selector": {"matchLabels": {"app": metadata["name"]}}}
    metadata["uid"] = metadata["name"]
    return make_object({"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": status})


def quota(rng, version):
    amount = {"cpu": str(rng.choice((2, 4, 6))), "memory": "100Gi", "ephemeral-storage": "100Gi"}
    most = {"max": amount | {"cpu": "8"}} if rng.random() < 0.5 else {}
    team = rng.choice(TEAMS)
    metadata = {"name": "quota", "namespace": team, "uid": team, "resourceVersion": str(version)}
    return ELASTIC_QUOTAS.read({"metadata": metadata, "spec": {"min": amount, **most}})


def tolerant(rng, version):
    annotations = {
        f"{PREFIX}/minimum-preemptable-priority": rng.choice(("7", "20")),
        f"{PREFIX}/toleration-seconds": rng.choice(("-1", "9")),
    }
    metadata = {"name": "tolerant", "uid": "t", "resourceVersion": str(version), "annotations": annotations}
    return CLASSES.read({"metadata": metadata, "value": 1})


def pod(rng, name):
    made = make_pod(name, rng.choice(TEAMS)).request(cpu=rng.choice(("1", "2", "3"))).label("app", rng.choice("xyz"))
    made.priority(rng.choice((0, 5, 10, 30)))
    if rng.random() < 0.3:
        made.spec["priorityClassName"] = "tolerant"
    if rng.random() < 0.3:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [rng.choice(ZONES)]}]}
        terms = [{"weight": 50, "preference": term}]
        made.spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return made


def lived(plugin, config, objects, seed, *, memos):
    """Return where pods are after each step of a history, and what was told of those that fit nowhere."""
    rng = random.Random(seed)
    found = VirtualCluster(plugins={plugin.name: plugin}, config=config(plugin.name), memos=memos, began_s=1e9)
    for number in range(NODES):
        found.put(make_node(f"n{number}").capacity(cpu="4", memory="64Gi", pods=20).label("zone", rng.choice(ZONES)))
    found.put(objects(rng, 0))
    decided = []
    for step in range(60):
        act = rng.random()
        pods = sorted(key for kind, key in found.objects if kind == "Pod")
        if act < 0.15:
            found.put(objects(rng, step + 1))
        elif act < 0.25 and pods:
            found.delete("Pod", rng.choice(pods))
        elif act < 0.35:  # replicas, which are what keeping is for
            made = pod(rng, f"p{step}-0")
            for number in range(3):
                made.metadata.update({"name": f"p{step}-{number}", "uid": f"p{step}-{number}"})
                found.put(made)
        else:
            found.put(pod(rng, f"p{step}"))
        found.advance(rng.choice((0.0, 1.0, 12.0)))
        decided.append(found.nodes_of())
    return decided, found.events("FailedScheduling")


@pytest.mark.parametrize(
    ("plugin", "objects"),
    [(BudgetSafePreemption, budget), (CapacityScheduling, quota), (PreemptionToleration, tolerant)],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("seed", range(8))
def test_decisions_are_the_same_whether_or_not_anything_is_kept(config, plugin, objects, seed):
    kept = lived(plugin, config, objects, seed, memos=True)
    assert kept == lived(plugin, config, objects, seed, memos=False)


def test_from_a_namespace_that_has_borrowed_more_since_more_may_be_taken(config):
    found = VirtualCluster(plugins={"CapacityScheduling": CapacityScheduling}, config=config("CapacityScheduling"))
    for team, cpu in (("a", "8"), ("b", "2")):
        least = {"cpu": cpu, "memory": "100Gi", "ephemeral-storage": "100Gi"}
        metadata = {"name": "quota", "namespace": team, "uid": team}
        found.put(ELASTIC_QUOTAS.read({"metadata": metadata, "spec": {"min": least}}))
    for name, cpu in (("n1", "3"), ("n2", "1")):
        found.put(make_node(name).capacity(cpu=cpu, memory="64Gi", pods=20))
    for number in range(3):
        found.put(make_pod(f"on-n1-{number}", "b").request(cpu="1").node("n1"))
    found.put(make_pod("new", "a").request(cpu="2"))
    assert found.advance(1.0).nodes_of()["new"] == ""  # one of the three may go, and two would have to
    found.put(make_pod("on-n2", "b").request(cpu="1").node("n2"))
    found.put(make_pod("like-it", "a").request(cpu="2"))
    assert found.advance(30.0).nodes_of()["like-it"] == "n1"
