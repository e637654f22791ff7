"""Whether resources are enough to block nodes: the search for weights against every way to block them."""

import random
from itertools import combinations, product

import numpy as np

from berth_workbench.planning.certain_room import is_too_much


def random_prices(rng):
    resources, nodes = rng.randint(1, 3), rng.randint(2, 5)
    scarce = [rng.choice((0.5, 1.0, 2.0, 1000.0)) / nodes for _ in range(resources)]
    return np.array([[rng.uniform(0.2, 2.0) * by for _ in range(nodes)] for by in scarce])


def can_be_blocked(prices, free):
    resources, nodes = prices.shape
    for left in combinations(range(nodes), nodes - free):
        for way in product(range(resources), repeat=len(left)):
            takes = np.zeros(resources)
            np.add.at(takes, list(way), prices[list(way), list(left)])
            if (takes <= 1.0).all():
                return True
    return False


def best_bound(prices, free):
    """The most that blocking costs under any of many weights which add up to one."""
    found = 0.0
    for parts in product(range(21), repeat=len(prices)):
        if sum(parts) == 20:
            cheapest = np.sort((prices * np.array(parts)[:, np.newaxis] / 20).min(axis=0))
            found = max(found, cheapest[: len(cheapest) - free].sum())
    return found


def test_nothing_that_can_be_blocked_is_too_much_and_no_clear_proof_is_missed():
    rng = random.Random(0)
    proven = unproven = 0
    for number in range(400):
        prices, free = random_prices(rng), rng.randint(0, 1)
        if is_too_much(prices, free):
            proven += 1
            assert not can_be_blocked(prices, free), f"case {number}"
        else:
            unproven += 1
            assert best_bound(prices, free) < 1.02, f"case {number}"
    assert proven > 100 and unproven > 100
