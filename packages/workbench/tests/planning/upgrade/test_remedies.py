"""What is told to free blocked pods is applied to a fresh cluster and planned anew: no budget keeps them any more.

With a little less of it, one does.

Random mixed worlds, with tighter budgets and pods that are not ready. And surge nodes that would stay behind.
"""

import copy
import random
import re

import pytest

from berth.framework.setup import Setup
from berth_workbench.planning.upgrade import search
from berth_workbench.planning.upgrade.search import UpgradeRequest, plan_upgrade
from berth_workbench.simulation.situation import Situation
from packages.workbench.tests.planning.mixed_worlds import MixedWorld, registry, worlds
from packages.workbench.tests.planning.upgrade.test_search import budget, node, plan_of, pod, replicas

READY = "Ready"


def ill(made):
    made["status"] = {"phase": "Running", "conditions": [{"type": READY, "status": "False"}]}
    return made


def freed_by(plan):
    return {pod.pod: set(filter(None, pod.frees.split(", or "))) for each in plan.blocked for pod in each.pods}


def test_the_pod_that_is_not_healthy_may_go_where_as_many_are_demanded_as_are():
    """One of two is healthy and both are demanded: if the other becomes healthy, none is to spare; with 1 more, one is.

    With one demanded, the pod that is not healthy may go, and the other one when a healthy one has come in its place.
    """
    objects = [node("n1"), node("n2"), replicas("web", 2), ill(pod("p1", "n1")), pod("p2", "n2")]
    plan = plan_of([*objects, budget(minAvailable=2)])
    told = {"1 more healthy replica", "minAvailable 1"}
    assert freed_by(plan) == {"default/p1": told, "default/p2": told}
    assert plan_of([*objects, budget(minAvailable=1)]).blocked == ()


def test_pods_that_become_healthy_are_named_and_are_there():
    """Three of four are healthy, all three demanded: the fourth makes one to spare."""
    objects = [node("n1"), node("n2"), replicas("web", 4), *(pod(f"p{i}", "n1") for i in range(3))]
    pinned = ill(pod("p3", "n2"))
    pinned["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}
    plan = plan_of([*objects, pinned, budget(minAvailable=4)])
    assert not any("healthy" in each and "replica" not in each for each in freed_by(plan)["default/p0"])
    two = [*objects, pinned, {**ill(pod("p4", "n2")), "spec": {**pinned["spec"]}}, budget(minAvailable=4)]
    assert "all 2 pods of it that are not healthy become healthy" in freed_by(plan_of(two))["default/p0"]


def test_no_replica_is_proposed_that_has_no_room():
    objects = [node("n1", cpu=1), node("n2", cpu=1), replicas("web", 2), pod("p1", "n1"), pod("p2", "n2")]
    plan = plan_of([*objects, budget(minAvailable=2)], at_once=1, max_surge=0)
    assert not any("replica" in each for found in freed_by(plan).values() for each in found)


# -- random ones -----------------------------------------------------------------------------------------------------


class Guarded(MixedWorld):
    """A mixed world whose budgets allow little, and some of whose pods are not ready."""

    def __init__(self, seed):
        super().__init__(seed)
        rng = random.Random(-seed)
        guarded = {each["metadata"]["name"] for each in self.others if each["kind"] == "PodDisruptionBudget"}
        for each in self.pods:
            name = each["metadata"]["labels"]["app"]
            if each["spec"].get("nodeName") and rng.random() < 0.25:
                each["status"] = each["status"] | {"conditions": [{"type": READY, "status": "False"}]}
            if each["spec"].get("nodeName") and name not in guarded and rng.random() < 0.5:
                guarded.add(name)
                bounds = rng.choice([{"minAvailable": "100%"}, {"minAvailable": 2}, {"maxUnavailable": 0}])
                self.others.append(budget(name, **bounds))

    def plan(self, **request):
        return plan_upgrade(Situation(self.snapshot(), Setup(self.config, registry())), UpgradeRequest(**request))

    def with_budget(self, name, **bounds):
        """The same world with other bounds."""
        other = copy.deepcopy(self)
        for each in other.others:
            if each["kind"] == "PodDisruptionBudget" and each["metadata"]["name"] == name:
                each["spec"] = {"selector": each["spec"]["selector"], **bounds}
        return other

    def with_healthy(self, names):
        other = copy.deepcopy(self)
        for each in other.pods:
            if each["metadata"]["name"] in names:
                each["status"].pop("conditions", None)
        return other

    def with_replicas(self, app, count):
        """The same world with healthy pods more, where the scheduler has room for them now."""
        other = copy.deepcopy(self)
        model = next(
            each for each in other.pods if each["metadata"]["labels"]["app"] == app and each["spec"].get("nodeName")
        )
        for number in range(count):
            more = copy.deepcopy(model)
            more["metadata"] |= {"name": f"{app}-more-{number}", "uid": f"{app}-more-{number}"}
            more["metadata"].pop("deletionTimestamp", None)
            del more["spec"]["nodeName"]
            more["status"] = {"phase": "Pending"}
            other.pods.append(more)
        for each in other.others:
            if each["kind"] in ("ReplicaSet", "StatefulSet") and each["metadata"]["name"] == app:
                each["spec"]["replicas"] += count
        return other

    def ill(self, app):
        return [
            each["metadata"]["name"]
            for each in self.pods
            if each["metadata"]["labels"]["app"] == app and "conditions" in each["status"]
        ]

    def with_remedy(self, told, app):
        """The world with a remedy, and with a little less of it where there is less."""
        if found := re.fullmatch(r"minAvailable (\d+)", told):
            least = int(found[1])
            return self.with_budget(app, minAvailable=least), self.with_budget(app, minAvailable=least + 1)
        if found := re.fullmatch(r"maxUnavailable (\d+)", told):
            most = int(found[1])
            return self.with_budget(app, maxUnavailable=most), self.with_budget(app, maxUnavailable=most - 1)
        if found := re.fullmatch(r"(\d) more healthy replicas?", told):
            count = int(found[1])
            return self.with_replicas(app, count), self.with_replicas(app, count - 1)
        if found := re.fullmatch(r"default/(\S+) becomes healthy", told):
            return self.with_healthy([found[1]]), None
        found = re.fullmatch(r"all (\d+) pods of it that are not healthy become healthy", told)
        assert found and int(found[1]) == len(self.ill(app)), told
        return self.with_healthy(self.ill(app)), None


class Untold:
    """What tells no remedies, for plans of which only the blocked pods count."""

    def __init__(self, _site, blocked, _go_through):
        self._blocked = blocked

    def told(self):
        return list(self._blocked)


@worlds(2)
def test_what_is_told_to_free_a_pod_frees_it_and_less_does_not(seeds, monkeypatch):
    kinds = set().union(*(kinds_that_free(seed, monkeypatch) for seed in seeds))
    assert len(kinds) >= 3, kinds


@pytest.mark.parametrize("seed", [136, 147, 219])
def test_a_remedy_counts_from_before_the_scheduler_makes_room_for_pending_pods(seed, monkeypatch):
    """With other bounds pending pods preempt others, so that the plan begins elsewhere."""
    kinds_that_free(seed, monkeypatch)


def kinds_that_free(seed, monkeypatch):
    """Plan with every remedy of a world, and with a little less of it; return of which kinds they are."""
    world = Guarded(seed)
    plan = world.plan(at_once=1)
    nodes, kinds = {}, set()
    for kept in (one for each in plan.blocked for one in each.pods if one.budget):
        for told in filter(None, kept.frees.split(", or ")):
            if not told.startswith("leave it in"):
                nodes.setdefault((kept.budget, told), set()).add((kept.node, kept.pod))
    for (name, told), freed in nodes.items():
        story = f"seed {seed}: {freed} of {name}: {told}"
        other, less = world.with_remedy(told, name.partition("/")[2])
        with monkeypatch.context() as patched:
            patched.setattr(search, "BudgetRemedies", Untold)
            assert not freed & kept_by(other.plan(at_once=1)), story
            assert less is None or freed <= kept_by(less.plan(at_once=1)), f"{story}, and less does"
        kinds.add(re.sub(r"\d+|default/\S+", "", told))
    return kinds


def kept_by(plan):
    """The pods that keep nodes, each with its node, which it may have come to from one that was upgraded.

    Those that have no other place are among them: what is told is the least with which a pod can go.
    """
    return {(node.node, each.pod) for node in plan.blocked for each in node.pods}


@worlds(2)
def test_no_surge_node_stays_behind_where_fewer_at_a_time_leave_none(seeds):
    for seed in seeds:
        world = Guarded(seed)
        plan = world.plan()
        for limit in range(1, plan.surge if plan.left_behind else 0):
            other = world.plan(max_surge=limit)
            better = len(other.blocked) <= len(plan.blocked) and len(other.left_behind) < len(plan.left_behind)
            assert not better, f"seed {seed}: --max-surge {limit}"
