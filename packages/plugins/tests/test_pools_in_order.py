"""PoolsInOrder: a pod goes to the first pool where it fits at all, whatever scores say.

Random clusters are decided by hand: for each pool in turn, is there a node with enough free CPU?
"""

import random

import pytest

from berth.testing import VirtualCluster, make_node, make_pod
from berth_plugins.pools_in_order import PoolsInOrder

PLUGINS = {"PoolsInOrder": PoolsInOrder}
KEY = "example.com/capacity"
POOLS = [{"name": name, "selector": {"matchLabels": {KEY: name}}} for name in ("spot", "on-demand")]


def ordered(config, also=(), **args):
    return VirtualCluster(plugins=PLUGINS, config=config("PoolsInOrder", *also, args={"pools": POOLS, **args}))


def node(name, pool, cpu="4"):
    made = make_node(name).capacity(cpu=cpu, memory="64Gi", pods=99)
    return made.label(KEY, pool) if pool else made


def pod(name, cpu):
    return make_pod(name).request(cpu=cpu)


def test_spot_is_filled_before_on_demand_and_the_rest_comes_last(config):
    cluster = ordered(config)
    for each in (node("other", ""), node("demand", "on-demand"), node("spot", "spot")):
        cluster.put(each)
    for number in range(7):
        cluster.put(pod(f"p{number}", "2"))
        cluster.run()
    assert list(cluster.nodes_of().values()) == ["spot", "spot", "demand", "demand", "other", "other", ""]


def test_the_nodes_left_out_are_explained_in_numbers(config):
    cluster = ordered(config)
    for each in (node("demand", "on-demand"), node("spot-1", "spot"), node("spot-2", "spot")):
        cluster.put(each)
    cluster.put(pod("p", "1"))
    cluster.run()
    (group,) = cluster.core.trace["default/p"].rejected
    assert group.status.plugin == "PoolsInOrder" and len(group.rows) == 1
    assert group.status.message == 'node(s) were in later pools, as the pod fits on 2 node(s) of pool "spot"'


def test_nobody_is_preempted_in_the_first_pool_while_the_second_has_room(config):
    cluster = ordered(config, also=("DefaultPreemption",))
    for each in (node("spot", "spot"), node("demand", "on-demand")):
        cluster.put(each)
    cluster.put(pod("low", "4").node("spot"))
    cluster.put(pod("high", "4").priority(10))
    assert cluster.run().nodes_of() == {"low": "spot", "high": "demand"}


def test_pods_that_are_not_selected_go_by_scores_alone(config):
    cluster = ordered(config, podSelector={"matchLabels": {"cheap": "yes"}})
    for each in (node("spot", "spot"), node("demand", "on-demand")):
        cluster.put(each)
    cluster.put(pod("there", "2").node("spot"))
    cluster.put(pod("plain", "1"))  # by default the emptier node is better
    cluster.put(pod("cheap", "1").label("cheap", "yes"))
    found = cluster.run().nodes_of()
    assert (found["plain"], found["cheap"]) == ("demand", "spot")


@pytest.mark.parametrize("seed", range(10))
def test_pools_are_tried_in_order_by_hand_as_well(config, seed):
    rng = random.Random(seed)
    cluster = ordered(config)
    free, pool_of = {}, {}
    outcomes = set()
    for number in range(8):
        name, cpu = f"n{number}", rng.randint(2, 6)
        pool_of[name], free[name] = rng.choice(["spot", "on-demand", ""]), cpu
        cluster.put(node(name, pool_of[name], str(cpu)))
    for number in range(40):
        if rng.random() < 0.15:  # a node changes its pool
            name = rng.choice(list(free))
            pool_of[name] = rng.choice(["spot", "on-demand", ""])
            cpu = cluster.objects["Node", name].status.allocatable["cpu"]
            cluster.put(node(name, pool_of[name], cpu))
        cpu = rng.randint(1, 3)
        by_pool = [[n for n in free if pool_of[n] == pool and free[n] >= cpu] for pool in ("spot", "on-demand", "")]
        expected = next((names for names in by_pool if names), [""])
        cluster.put(pod(f"p{number}", str(cpu)))
        chosen = cluster.run().nodes_of()[f"p{number}"]
        assert chosen in expected
        outcomes.add(pool_of.get(chosen))
        if chosen:
            free[chosen] -= cpu
        else:
            cluster.delete("Pod", f"default/p{number}")
    assert len(outcomes) > 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "pools: Required value"),
        ({"pools": [{"selector": {}}]}, r"pools\[0\].name: Required value"),
        ({"pools": POOLS, "podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "podSelector"),
    ],
)
def test_wrong_args_are_refused(config, args, words):
    with pytest.raises(ValueError, match=words):
        VirtualCluster(plugins=PLUGINS, config=config("PoolsInOrder", args=args))


def test_it_says_which_pools_were_looked_at(config):
    cluster = ordered(config)
    for each in (node("demand-1", "on-demand"), node("demand-2", "on-demand"), node("spot", "spot", cpu="1")):
        cluster.put(each)
    cluster.put(pod("p", "2"))
    cluster.run()
    plugins, table = cluster.core.profiles["default-scheduler"].plugins, cluster.core.cache.table
    (plugin,) = [each.plugin for each in plugins if each.narrow is not None]
    told = plugin.explain_score(cluster.core.trace["default/p"].pod, table.view(table.row_of["demand-1"]))
    assert told == [
        'the pod fitted on 0 node(s) of pool "spot"',
        'the pod fitted on 2 node(s) of pool "on-demand"',
    ]
    assert plugin.explain_score(pod("never-tried", "1").info(), table.view(0)) == ()
