"""FairShares: placements come in the order of dominant resource fairness, and nobody's unschedulable pods block others.

The order is simulated by hand, with fractions, after Algorithm 1 of Ghodsi et al. (NSDI 2011): the tenant of the lowest
dominant share is next; where nothing of its fits, the others have their turn.
"""

import random
from fractions import Fraction

import pytest

from berth.testing import VirtualCluster, make_node, make_pod
from berth_plugins.fair_shares import FairShares

PLUGINS = {"FairShares": FairShares}


def fair(config, *objects, **args):
    cluster = VirtualCluster(plugins=PLUGINS, config=config("FairShares", args=args, sorts=True))
    for each in objects:
        cluster.put(each)
    return cluster


def node(name, cpu=9, memory=18):
    return make_node(name).capacity(cpu=str(cpu), memory=f"{memory}Gi", pods=500)


def pod(name, tenant, cpu=1, memory=1):
    return make_pod(name, tenant).request(cpu=str(cpu), memory=f"{memory}Gi")


def order_of_attempts(cluster):
    """Step until nothing is left to do; the keys of the pods in the order in which they were tried, and the placed."""
    tried = []
    queue, popped = cluster.core.queue, None
    original = queue.pop

    def pop(now):
        nonlocal popped
        popped = original(now)
        if popped is not None:
            tried.append(popped.pod.key)
        return popped

    queue.pop = pop
    cluster.run()
    queue.pop = original
    return tried


def test_the_example_of_the_paper(config):
    """9 CPUs and 18 GB; A's tasks need 1 CPU and 4 GB, B's 3 CPUs and 1 GB: A gets three tasks, and B two."""
    cluster = fair(config, node("n1"))
    for number in range(6):
        cluster.put(pod(f"a{number}", "a", 1, 4))
    for number in range(6):
        cluster.put(pod(f"b{number}", "b", 3, 1))
    found = cluster.run().nodes_of()
    assert sum(bool(found[f"a{number}"]) for number in range(6)) == 3
    assert sum(bool(found[f"b{number}"]) for number in range(6)) == 2


def test_weights_are_what_tenants_are_owed(config):
    cluster = fair(config, node("n1", 12, 100), weights={"a": 2})
    for number in range(12):
        for tenant in "ab":
            cluster.put(pod(f"{tenant}{number}", tenant))
    found = cluster.run().nodes_of()
    assert sum(bool(where) for name, where in found.items() if name[0] == "a") == 8


def test_what_runs_already_counts_also_after_a_restart(config):
    cluster = fair(config, node("n1", 4, 100), *(pod(f"old{number}", "a").node("n1") for number in range(2)))
    cluster.restart()
    for tenant in "ab":  # a is first by time
        for number in range(2):
            cluster.put(pod(f"{tenant}{number}", tenant))
    found = cluster.run().nodes_of()
    assert (found["b0"], found["b1"], found["a0"], found["a1"]) == ("n1", "n1", "", "")


def test_a_thousand_pods_that_fit_nowhere_hold_up_nobody_else(config):
    cluster = fair(config, node("n1", 4, 100))
    for number in range(300):
        cluster.put(pod(f"huge{number}", "a", cpu=99))
    for number in range(3):
        cluster.put(pod(f"b{number}", "b"))
        cluster.put(pod(f"c{number}", "c"))
    tried = order_of_attempts(cluster)
    # A tenant without any share is always the first by shares; each of its failures lets both others go.
    assert {key for key in tried[:10] if not key.startswith("a/")} == {f"{t}/{t}{n}" for t in "bc" for n in range(3)}
    assert len(tried) == 306


def test_what_becomes_free_goes_to_the_smallest_share_however_many_wait(config):
    """Three tasks of 1 CPU and 4 GB, and six of 1 CPU alone, are equal shares of 9 CPUs and 18 GB.

    The longer line, whose pods are tried in vain last each time, is that of the tenant who came later and has less.
    """
    cluster = fair(config, node("n1"))
    for number in range(10):
        cluster.put(pod(f"a{number}", "a", 1, 4))
    cluster.run()
    for number in range(30):
        cluster.put(pod(f"b{number}", "b", 1, 0))
    cluster.run()
    for _ in range(4):
        running = sorted(name for name, where in cluster.nodes_of().items() if where and name[0] == "a")
        cluster.delete("Pod", f"a/{running[0]}")
        cluster.run()
    running = [name[0] for name, where in cluster.nodes_of().items() if where]
    assert (running.count("a"), running.count("b")) == (3, 6)


def test_critical_pods_are_first_whoever_they_belong_to(config):
    cluster = fair(config, node("n1", 2, 100), pod("there", "a").node("n1"))
    cluster.put(pod("b0", "b"))
    cluster.put(pod("critical", "a").priority(2_000_000_000))
    assert cluster.run().nodes_of() == {"there": "n1", "b0": "", "critical": "n1"}


def test_pods_of_a_tenant_go_by_priority_and_time(config):
    cluster = fair(config, node("n1", 1, 100))
    for name, priority in (("first", 0), ("second", 0), ("urgent", 5)):
        cluster.put(pod(name, "a").priority(priority))
    assert order_of_attempts(cluster) == ["a/urgent", "a/first", "a/second"]


def test_a_binding_that_fails_gives_the_share_back(config):
    cluster = fair(config, node("n1", 4, 100))
    cluster.refuse("no")
    cluster.put(pod("a0", "a"))
    cluster.step()
    plugin = next(p.plugin for p in cluster.core.profiles["default-scheduler"].plugins if p.name == "FairShares")
    assert plugin.share("a") == 0
    assert cluster.advance(30.0).nodes_of() == {"a0": "n1"}
    assert plugin.share("a") == 0.25
    cluster.delete("Pod", "a/a0")
    assert plugin.share("a") == 0 and not plugin._used and not plugin._holdings


@pytest.mark.parametrize("profile", ["default-scheduler", "second"])
def test_pods_of_every_profile_count_and_have_their_turns(config, profile):
    """The queue asks the plugin of the first profile; Reserve tells that of the pod's own."""
    document = config("FairShares", sorts=True, args={"weights": {"a": 2}})
    document["profiles"].append({**document["profiles"][0], "schedulerName": "second"})
    cluster = VirtualCluster(plugins=PLUGINS, config=document)
    cluster.put(node("n1", 6, 100))
    cluster.answers_binds = False  # so that nothing is seen of bindings but what the scheduler intends
    for number in range(6):
        for tenant in "ab":
            cluster.put(pod(f"{tenant}{number}", tenant).scheduler(profile))
    cluster.run()
    intended = sorted(request.effect.pod.key for request in cluster.requests)
    assert intended == ["a/a0", "a/a1", "a/a2", "a/a3", "b/b0", "b/b1"]
    (request,) = [each for each in cluster.requests if each.effect.pod.key == "a/a0"]
    cluster.answer(request, "refused")
    asked = next(p.plugin for p in cluster.core.profiles["default-scheduler"].plugins if p.name == "FairShares")
    asked._settle()
    assert asked.share("a") == 0.25  # 3 of 6, with twice the weight
    cluster.advance(30.0)  # it has its turn again, as the share of a is smaller now
    assert sorted(request.effect.pod.key for request in cluster.requests)[0].startswith("a/")
    assert sum(request.effect.pod.key.startswith("a/") for request in cluster.requests) == 4


def simulated(totals, free, used, weights, waiting):
    """Dominant resource fairness by hand: the order in which tenants' pods are tried, all pods known from the start."""
    waiting = {tenant: list(pods) for tenant, pods in waiting.items()}
    last_turn, failed_at, turn, tried = dict.fromkeys(waiting, 0), dict.fromkeys(waiting, 0), 0, []

    def share(tenant):
        mine = used.get(tenant, (0, 0))
        return max(Fraction(mine[r], totals[r] * weights[tenant]) for r in (0, 1))

    while any(waiting.values()):
        queued = [tenant for tenant, pods in waiting.items() if pods]
        # One whose pod has failed waits until each of the others has been tried since.
        may = [t for t in queued if all(last_turn[o] > failed_at[t] for o in queued if o != t) or not failed_at[t]]
        tenant = min(may, key=lambda t: (share(t), t))
        turn += 1
        last_turn[tenant], failed_at[tenant] = turn, 0
        name, wanted = waiting[tenant].pop(0)
        tried.append(f"{tenant}/{name}")
        target = next((n for n, room in free.items() if all(room[r] >= wanted[r] for r in (0, 1))), None)
        if target is None:
            failed_at[tenant] = turn
            continue
        free[target] = tuple(free[target][r] - wanted[r] for r in (0, 1))
        mine = used.get(tenant, (0, 0))
        used[tenant] = tuple(mine[r] + wanted[r] for r in (0, 1))
    return tried, used


@pytest.mark.parametrize("seed", range(30))
def test_attempts_come_in_the_order_of_a_simulation_by_hand(config, seed):
    rng = random.Random(seed)
    cpu, memory = rng.randint(10, 40), rng.randint(10, 40)
    tenants = "abcd"[: rng.randint(2, 4)]
    weights = {tenant: rng.randint(1, 3) for tenant in tenants}
    cluster = fair(config, node("n1", cpu, memory), weights=weights)
    free, used, waiting = {"n1": (cpu, memory)}, {}, {}
    for tenant in tenants:
        if rng.random() < 0.4:
            has = rng.randint(1, 2), rng.randint(1, 2)
            used[tenant] = has
            cluster.put(pod(f"old-{tenant}", tenant, *has).node("n1"))
            free["n1"] = tuple(free["n1"][r] - has[r] for r in (0, 1))
        shape = rng.choice([(1, 3), (3, 1), (2, 2), (99, 1), None])
        pods = []
        for number in range(rng.randint(1, 15)):
            wanted = shape or (rng.choice([1, 2, 99]), rng.randint(1, 4))
            pods.append((f"p{number}", wanted))
        waiting[tenant] = pods
    # All come at the same time, so that ties between tenants go by name here and there.
    for tenant, pods in waiting.items():
        for name, wanted in pods:
            cluster.put(pod(name, tenant, *wanted))
    expected, shares = simulated((cpu, memory), free, used, weights, waiting)
    tried = order_of_attempts(cluster)
    assert tried == expected
    # Nobody starves: whoever has pods that would fit has been tried at least every second round.
    placed = {key for (kind, key), obj in cluster.objects.items() if kind == "Pod" and obj.spec.node_name}
    for tenant in tenants:
        mine = [w for name, w in waiting[tenant] if f"{tenant}/{name}" in placed]
        assert shares.get(tenant, (0, 0))[0] == sum(w[0] for w in mine) + (used_before(cluster, tenant)[0])


def used_before(cluster, tenant):
    old = cluster.objects.get(("Pod", f"{tenant}/old-{tenant}"))
    requests = {} if old is None else old.spec.containers[0].resources.requests
    return int(requests.get("cpu", 0)), requests.get("memory", "0")


@pytest.mark.parametrize("seed", range(5))
def test_nobody_starves_while_pods_come_and_go(config, seed):
    rng = random.Random(seed)
    cluster = fair(config, node("n1", 10, 1000))
    for number in range(60):
        cluster.put(pod(f"hog{number}", "hog"))
    for number in range(3):
        cluster.put(pod(f"huge{number}", "stuck", cpu=50))
    cluster.run()
    for number in range(5):
        cluster.put(pod(f"late{number}", "late"))
    while sum(bool(where) for name, where in cluster.nodes_of().items() if name.startswith("late")) < 5:
        running = [key for (kind, key), obj in cluster.objects.items() if kind == "Pod" and obj.spec.node_name]
        hogs = [key for key in running if key.startswith("hog/")]
        assert len(hogs) >= 5  # as many are equal shares: below that late would be owed nothing more
        cluster.delete("Pod", rng.choice(hogs))
        cluster.advance(15.0)


@pytest.mark.parametrize(
    ("args", "words"), [({"weights": {"a": 0}}, r"weights\[a\]"), ({"defaultWeight": 0}, "default")]
)
def test_wrong_args_are_refused(config, args, words):
    with pytest.raises(ValueError, match=words):
        fair(config, **args)


def test_it_says_what_tenants_have_and_whose_turn_comes_before(config):
    cluster = fair(config, node("n1", 10, 100), weights={"a": 2})
    for tenant, cpu in (("a", 4), ("b", 1)):
        cluster.put(pod(f"{tenant}0", tenant, cpu))
    cluster.run()
    for tenant in "ab":
        cluster.put(pod(f"{tenant}1", tenant, 9))
    cluster.run()
    plugins = cluster.core.profiles["default-scheduler"].plugins
    plugin = next(each.plugin for each in plugins if each.name == "FairShares")
    figures = [({"tenant": "a"}, 0.2), ({"tenant": "b"}, 0.1)]
    assert [(dict(each.labels), each.value) for each in plugin.figures()] == figures
    told = plugin.explain_rejection(pod("a1", "a", 9).info())
    assert told[0] == "tenant a has 40.00% of all cpu, at weight 2 a share of 0.2"
    assert told[-1] == "tenant b has 10.00% of all cpu, at weight 1 a share of 0.1"
