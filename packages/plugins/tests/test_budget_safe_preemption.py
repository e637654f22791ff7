"""BudgetSafePreemption: no budget is ever broken, and where any set of victims would do, one is found.

Small random clusters are searched by hand: every subset of the pods of lower priority on every node.
"""

import random
from itertools import chain, combinations

import pytest

from berth.testing import VirtualCluster, expression, make_node, make_object, make_pod
from berth_plugins.budget_safe_preemption import BudgetSafePreemption, largest_sets

PLUGINS = {"BudgetSafePreemption": BudgetSafePreemption}


def preempting(config, *objects, **args):
    cluster = VirtualCluster(plugins=PLUGINS, config=config("BudgetSafePreemption", args=args))
    for each in objects:
        cluster.put(each)
    return cluster


def node(name, cpu="4"):
    return make_node(name).capacity(cpu=cpu, memory="64Gi", pods=99)


def running(name, cpu, where="n1", priority=0, **labels):
    return make_pod(name).request(cpu=str(cpu)).priority(priority).labels(labels or {"none": ""}).node(where)


def budget(name, allowed, version=1, disrupted=(), **labels):
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
    status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")}
    spec = {"selector": {"matchLabels": labels}}
    return make_object({"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": status})


def new(cpu, priority=10):
    return make_pod("new").request(cpu=str(cpu)).priority(priority)


def test_a_pod_stays_pending_rather_than_break_a_budget_and_comes_when_it_allows_for_more(config):
    cluster = preempting(config, node("n1"), budget("b", 0, app="db"), running("db", 4, app="db"))
    cluster.put(new(4))
    assert cluster.advance(5.0).nodes_of() == {"db": "n1", "new": ""}
    note = cluster.events("FailedScheduling")[0]
    assert "disruption budgets protect all 1 pod(s) of lower priority" in note
    cluster.put(budget("b", 1, version=2, app="db"))
    assert cluster.advance(20.0).nodes_of() == {"new": "n1"}


def test_of_pods_that_may_not_go_together_the_one_goes_without_which_the_pod_fits(config):
    # DefaultPreemption takes both off first, and would break the budget or give up.
    pods = [running("small", 1, app="db"), running("large", 3, priority=5, app="db")]
    cluster = preempting(config, node("n1"), budget("b", 1, app="db"), *pods)
    cluster.put(new(3))
    assert cluster.run().nodes_of() == {"small": "n1", "new": "n1"}


def test_an_allowance_is_spent_once(config):
    pods = [running("a", 4, "n1", app="db"), running("b", 4, "n2", app="db")]
    cluster = preempting(config, node("n1"), node("n2"), budget("b", 1, app="db"), *pods)
    for number in range(2):
        cluster.put(make_pod(f"new{number}").request(cpu="4").priority(10))
    found = cluster.advance(60.0).nodes_of()
    assert len(found) == 3 and sorted(found.values()).count("") == 1  # the budget says 1 still
    cluster.put(budget("b", 0, version=2, app="db"))  # counted anew by its controller
    assert len(cluster.advance(60.0).nodes_of()) == 3
    cluster.put(budget("b", 1, version=3, app="db"))
    assert sorted(cluster.advance(60.0).nodes_of().values()) == ["n1", "n2"]


def test_a_budget_that_its_controller_has_not_seen_yet_allows_for_nobody(config):
    def changed(seen, version):
        metadata = {"name": "b", "namespace": "default", "uid": "b", "generation": 2, "resourceVersion": version}
        status = {"disruptionsAllowed": 1, "observedGeneration": seen}
        spec = {"selector": {"matchLabels": {"app": "db"}}}
        return make_object({"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": status})

    cluster = preempting(config, node("n1"), changed(1, "1"), running("db", 4, app="db"))
    cluster.put(new(4))
    assert cluster.advance(5.0).nodes_of() == {"db": "n1", "new": ""}
    cluster.put(changed(2, "2"))
    assert cluster.advance(20.0).nodes_of() == {"new": "n1"}


def test_a_pod_that_goes_already_is_not_counted_twice(config):
    pods = [running("going", 2, app="db"), running("other", 2, app="db")]
    cluster = preempting(config, node("n1"), budget("b", 1, disrupted=["going"], app="db"), *pods)
    cluster.put(new(4))
    assert cluster.run().nodes_of() == {"new": "n1"}


@pytest.mark.parametrize(("weight", "chosen"), [(1.0, "n2"), (0.0, "n1"), (0.1, "n1")])
def test_preferred_nodes_weigh_against_the_priority_of_victims(config, weight, chosen):
    cluster = preempting(
        config, node("n1"), node("n2").label("disk", "ssd"), running("low", 4, "n1", 1), running("mid", 4, "n2", 40),
        preferredNodesWeight=weight,
    )  # fmt: skip
    cluster.put(new(4, 100).prefer_node(50, expression("disk", "In", "ssd")))
    assert cluster.run().nodes_of()["new"] == chosen


def allowed_sets(pods, budgets):
    """Every set of pods that breaks no budget, largest ones or not."""
    for chosen in chain.from_iterable(combinations(pods, size) for size in range(len(pods) + 1)):
        if all(sum(b.covers(pod) for pod in chosen) <= max(b.allowed, 0) for b in budgets):
            yield frozenset(pod.name for pod in chosen)


@pytest.mark.parametrize("seed", range(40))
def test_the_largest_sets_are_those_that_all_subsets_leave(seed):
    rng = random.Random(seed)
    names = rng.sample("abcdefg", rng.randint(0, 7))
    pods = [make_pod(name).labels({key: "" for key in "xyz" if rng.random() < 0.5}).info() for name in names]
    from berth.plugin import LabelSelector, compile_selector
    from berth_plugins.budget_safe_preemption import Budget

    budgets = [
        Budget(key, "default", compile_selector(LabelSelector({key: ""})), rng.randint(0, 3), frozenset())
        for key in "xyz"
    ]  # fmt: skip
    every = set(allowed_sets(pods, budgets))
    largest = {each for each in every if not any(each < other for other in every)}
    found = [frozenset(pod.name for pod in each) for each in largest_sets(pods, budgets)]
    assert len(found) == len(set(found)) and set(found) == largest


@pytest.mark.parametrize("seed", range(60))
def test_against_all_subsets_of_all_nodes(config, seed):
    rng = random.Random(seed)
    nodes = {f"n{number}": rng.randint(3, 6) for number in range(rng.randint(1, 3))}
    budgets = {key: rng.randint(0, 2) for key in "xy"}
    pods, on = [], {name: [] for name in nodes}
    for number in range(10):
        where, cpu = rng.choice(list(nodes)), rng.randint(1, 3)
        if sum(pod[1] for pod in on[where]) + cpu > nodes[where]:
            continue
        labels = {key: "yes" for key in "xy" if rng.random() < 0.5}
        on[where].append((f"p{number}", cpu, rng.randint(0, 12), labels))
        pods.append(running(f"p{number}", cpu, where, on[where][-1][2], **labels))
    prefers = {name: rng.choice([0, 1, 4]) for name in nodes}
    wanted = rng.randint(2, 6)

    made = [node(name, str(cpu)).label(f"is-{name}", "yes") for name, cpu in nodes.items()]
    cluster = preempting(config, *made, *pods, *(budget(key, many, **{key: "yes"}) for key, many in budgets.items()))
    pod = new(wanted)
    for name, weight in prefers.items():
        if weight:
            pod.prefer_node(weight, expression(f"is-{name}", "Exists"))
    cluster.put(pod)
    found = cluster.run().nodes_of()
    gone = {name for each in on.values() for name, *_ in each} - set(found)

    free = {name: cpu - sum(pod[1] for pod in on[name]) for name, cpu in nodes.items()}
    if any(each >= wanted for each in free.values()):
        assert found["new"] and not gone
        return
    possible = {}
    for name, there in on.items():
        lower = [each for each in there if each[2] < 10]
        for chosen in chain.from_iterable(combinations(lower, size) for size in range(1, len(lower) + 1)):
            breaks = any(sum(key in labels for *_, labels in chosen) > many for key, many in budgets.items())
            if not breaks and free[name] + sum(each[1] for each in chosen) >= wanted:
                possible.setdefault(name, []).append(chosen)
    if not possible:
        assert found["new"] == "" and not gone
        return
    name = found["new"]
    assert name in possible
    victims = next(chosen for chosen in possible[name] if {each[0] for each in chosen} == gone)
    # Nobody goes who could have stayed, and no node that may be freed at all costs less by the lowest it could cost.
    assert not any(free[name] + sum(e[1] for e in victims if e is not spared) >= wanted for spared in victims)
    least = {
        other: min(max(each[2] for each in chosen) for chosen in sets) - prefers[other]
        for other, sets in possible.items()
    }
    assert max(each[2] for each in victims) - prefers[name] >= min(least.values())


@pytest.mark.parametrize(
    "args", [{"maxVictimSets": 0}, {"preferredNodesWeight": -1}, {"minCandidateNodesPercentage": 101}, {"other": 1},
             {"minCandidateNodesAbsolute": 0}]
)  # fmt: skip
def test_wrong_args_are_refused(config, args):
    with pytest.raises(ValueError, match=next(iter(args))):
        preempting(config, **args)


def test_a_pod_that_never_preempts_does_not(config):
    cluster = preempting(config, node("n1"), running("old", 4))
    cluster.put(make_pod("new").request(cpu="4").priority(10, "Never"))
    assert cluster.run().nodes_of()["old"] == "n1"
    assert any("preemptionPolicy=Never" in note for note in cluster.events("FailedScheduling"))


def test_of_too_many_sets_only_so_many_are_tried(config):
    pods = [running(f"p{number}", 1, priority=number, app="db") for number in range(4)] + [
        running("big", 3, priority=9)
    ]
    pods[-1].labels({"app": "db"})
    objects = [node("n1", "7"), budget("b", 1, app="db"), *pods]
    for most, chosen in ((4, ""), (5, "n1")):  # the fifth set is that with the one pod that is large enough
        cluster = preempting(config, *objects, maxVictimSets=most)
        cluster.put(new(3, 10))
        assert cluster.run().nodes_of()["new"] == chosen
