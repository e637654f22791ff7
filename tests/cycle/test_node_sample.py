"""How many nodes are looked at, and which come next."""

import random

import numpy as np
import pytest

from berth.core.builders import make_node, make_pod
from berth.cycle.node_sample import feasible_nodes_to_find, fewest_beside, sample
from berth.plugins.registry import in_tree_registry
from berth_workbench.cases.decide import replay


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"),
    [
        (50, 10, 50),
        (99, 1, 99),
        (100, 1, 100),
        (1000, None, 1000),
        (1000, 100, 1000),
        (1000, 40, 400),
        (1000, 5, 100),
        (1000, 0, 420),
        (6000, 0, 300),
        (10, 0, 10),
        (100_000, 0, 5000),
    ],
)
def test_how_many_feasible_nodes_are_enough(nodes, percentage, expected):
    """Percentages, minimum and adaptive formula (50 - nodes / 125, at least 5) as documented upstream."""
    assert feasible_nodes_to_find(nodes, percentage) == expected


def walk(order, start, feasible, enough, nodes=None):
    mask = np.zeros(10, dtype=np.bool_)
    mask[feasible] = True
    return sample(np.array(order, dtype=np.intp), start, mask, enough, len(order) if nodes is None else nodes)


@pytest.mark.parametrize(
    ("start", "feasible", "enough", "found", "failed", "next_start"),
    [
        (0, [0, 1, 2, 3, 4], 2, [0, 1], [], 2),
        (3, [0, 1, 2, 3, 4], 3, [3, 4, 0], [], 1),
        (4, [0, 1, 2, 3, 4], 5, [4, 0, 1, 2, 3], [], 4),
        (0, [1, 4], 1, [1], [0, 2, 3], 4),
        (0, [1], 5, [1], [0, 2, 3, 4], 0),
        (7, [0, 1, 2, 3, 4], 1, [2], [], 3),
        (0, [], 2, [], [0, 1, 2, 3, 4], 0),
    ],
)
def test_the_walk_ends_before_the_first_node_too_many(start, feasible, enough, found, failed, next_start):
    walked = walk([0, 1, 2, 3, 4], start, feasible, enough)
    assert (walked.feasible.tolist(), walked.failed.tolist()) == (found, failed)
    assert (walked.start, walked.next_start) == (start, next_start)


def test_nothing_to_walk():
    walked = walk([], 3, [], 2, nodes=0)
    assert (walked.feasible.tolist(), walked.next_start) == ([], 0)


# findNodesThatPassFilters in pkg/scheduler/schedule_one.go, v1.36.
@pytest.mark.parametrize(("enabled", "found"), [([], ["n1"]), (["TaintToleration"], ["n1", "n2"])])
def test_one_node_is_enough_where_nothing_scores(enabled, found):
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in enabled]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    case = {
        "name": "two nodes",
        "search": "sampled",
        "config": {**kind, "percentageOfNodesToScore": 50, "profiles": [{"plugins": plugins}]},
        "objects": [make_node(name).capacity(cpu="1").document for name in ("n1", "n2")],
        "pods": [make_pod("p").document],
    }
    (only,) = replay(case, in_tree_registry())
    assert (only["feasibleInOrder"], only["nextStartIndex"]) == (found, len(found) % 2)


@pytest.mark.parametrize("seed", range(20))
def test_the_fewest_beside_a_node_are_those_of_the_walk_that_meets_fewest(seed: int) -> None:
    lots = random.Random(seed)
    marked = np.array([lots.random() < 0.3 for _ in range(lots.randrange(5, 30))])
    at, enough = lots.randrange(len(marked)), lots.randrange(1, len(marked) + 1)
    walks = ([(start + step) % len(marked) for step in range(enough)] for start in range(len(marked)))
    assert fewest_beside(marked, at, enough) == min(int(marked[walk].sum()) for walk in walks if at in walk)
