"""NodeResourcesBalancedAllocation: scores, args and skipping, against upstream's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.config.errors import ConfigError
from berth.config.plugin_args import decode_plugin_args
from berth.core.builders import make_node, make_pod
from berth.framework.status import SKIP
from berth.plugins.resources.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
    balance,
    balance_gain,
)
from packages.scheduler.tests.plugins.resource_support import apply, big_cluster, changes, pods, same_scores
from packages.scheduler.tests.plugins.support import handle_of, pre_scored

GPU = "example.com/gpu"


def args_of(*resources):
    raw = {"resources": [{"name": name, "weight": weight} for name, weight in resources]} if resources else None
    return decode_plugin_args("NodeResourcesBalancedAllocation", raw, NodeResourcesBalancedAllocationArgs, "args")


def balanced(handle, *names):
    return NodeResourcesBalancedAllocation(args_of(*((name, 1) for name in names)), handle)


@pytest.mark.parametrize(
    ("fractions", "expected"),
    [
        ([], 100),
        ([0.3], 100),
        ([0.5, 0.5], 100),
        ([0.75, 0.5], 87),
        ([0.0, 1.0], 50),
        ([0.5, 0.5, 0.5], 100),
        # The deviation of 0, 0 and 1 is the root of 2/9.
        ([0.0, 0.0, 1.0], 52),
    ],
)
def test_balance(fractions, expected):
    assert balance(fractions) == expected


@pytest.mark.parametrize(("before", "after", "expected"), [(80, 80, 75), (50, 100, 100), (100, 50, 50), (100, 87, 68)])
def test_the_gain_is_what_scores(before, after, expected):
    assert balance_gain(before, after) == expected


def test_nodes_that_the_pod_balances_score_more():
    handle = handle_of(
        make_node("even").capacity(cpu="6000m", memory="10000").build(),
        make_node("uneven").capacity(cpu="4000m", memory="10000").build(),
        make_node("cured").capacity(cpu="6000m", memory="10000").build(),
        make_pod("heavy").request(memory="5000").node("cured").build(),
    )
    pod = make_pod().request(cpu="3000m", memory="0").info()
    # even: 0/0 becomes 50/0; uneven: 0/0 becomes 75/0; cured: 0/50 becomes 50/50.
    assert same_scores(balanced(handle), pod, handle.cache.table) == {"even": 62, "uneven": 56, "cured": 87}


def test_a_full_resource_counts_as_all_used():
    handle = handle_of(make_node("n").capacity(cpu="1", memory="1000").build())
    pod = make_pod().request(cpu="7", memory="1000").info()
    assert same_scores(balanced(handle), pod, handle.cache.table) == {"n": 75}


def test_resources_that_a_node_lacks_do_not_count():
    handle = handle_of(
        make_node("with").capacity({"cpu": "4", "memory": "4000", GPU: "4"}).build(),
        make_node("without").capacity({"cpu": "4", "memory": "4000"}).build(),
        make_node("bare").capacity({"cpu": "4"}).build(),
    )
    pod = make_pod().request({"cpu": "2", "memory": "2000", GPU: "4"}).info()
    # with: the deviation of 50, 50 and 100 % is 0.2357.
    scores = same_scores(balanced(handle, "cpu", "memory", GPU), pod, handle.cache.table)
    assert scores == {"with": 50 + (50 + 76 - 100) // 2, "without": 75, "bare": 75}


def test_a_resource_the_pod_does_not_ask_for_is_left_out():
    handle = handle_of(make_node("n").capacity({"cpu": "4", "memory": "4000", GPU: "4"}).build())
    pod = make_pod().request(cpu="2", memory="2000").info()
    assert same_scores(balanced(handle, "cpu", "memory", GPU), pod, handle.cache.table) == {"n": 75}


def test_requests_count_without_defaults():
    handle = handle_of(
        make_node("n").capacity(cpu="1", memory="1Gi").build(), make_pod("idle").container().node("n").build()
    )
    assert same_scores(balanced(handle), make_pod().request(cpu="500m").info(), handle.cache.table) == {"n": 62}


@pytest.mark.parametrize(
    ("names", "pod", "skips"),
    [
        ((), make_pod().container(), True),
        ((), make_pod().request(cpu="0"), True),
        ((), make_pod().request({GPU: "1"}), True),
        ((), make_pod().request(memory="1"), False),
        ((GPU, "cpu"), make_pod().request({GPU: "1"}), False),
        ((), make_pod().container().overhead(cpu="1m"), False),
        ((), make_pod().container().pod_level(cpu="1"), False),
    ],
)
def test_pods_that_request_nothing_are_not_scored(names, pod, skips):
    handle = handle_of(make_node("n").capacity(cpu="1").build())
    assert pre_scored(balanced(handle, *names), pod.info(), handle) == (SKIP if skips else None)


@pytest.mark.parametrize("names", [(), (GPU, "cpu"), (GPU,)])
def test_where_pre_score_does_not_run_pods_that_request_nothing_score_nothing(names):
    # Score in pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go: its own look at best-effort pods.
    handle = handle_of(make_node("n").capacity({"cpu": "1", "memory": "1Gi", GPU: "1"}).build())
    assert same_scores(balanced(handle, *names), make_pod().container().info(), handle.cache.table) == {"n": 0}


@given(changes(), pods(), st.sets(st.sampled_from(("cpu", "memory", GPU, "ephemeral-storage")), min_size=1))
def test_both_forms_agree_whatever_happens_to_the_cluster(happening, pod, names):
    handle = handle_of()
    plugin, default = balanced(handle, *sorted(names)), balanced(handle)
    for number, change in enumerate(happening):
        apply(handle.cache, number, change)
        same_scores(plugin, pod, handle.cache.table)
        same_scores(default, pod, handle.cache.table)


@pytest.mark.parametrize("names", [(), ("cpu", "memory", GPU), ("ephemeral-storage",)])
def test_both_forms_agree_on_many_nodes_and_after_many_changes(names):
    handle = handle_of()
    plugin = balanced(handle, *names)
    pod = make_pod().request({"cpu": "50m", "memory": "100Mi", GPU: "1", "ephemeral-storage": "1Gi"}).info()
    for seed in range(3):
        big_cluster(handle.cache, seed)
        same_scores(plugin, pod, handle.cache.table)


@pytest.mark.parametrize(
    ("resources", "error"),
    [
        ([("cpu", 2)], "args.resources[0].weight: Invalid value: 2: must be 1"),
        ([("cpu", 1), ("cpu", 1)], 'args.resources[1].name: Duplicate value: "cpu"'),
    ],
)
def test_wrong_args(resources, error):
    with pytest.raises(ConfigError) as raised:
        args_of(*resources)
    assert raised.value.errors == (error,)


def test_default_args():
    assert args_of() == args_of(("cpu", 1), ("memory", 0))
