"""Histories of faults, a hundred in `make test`: whole schedulers on an API server to which everything happens.

After each, every pod that can run is bound exactly once, no node holds more than it has, nothing is assumed, nominated
or held back for ever, and nobody worked without an end. The seeds are the same in every run; `make soak` has new ones.
A seed that fails prints its story; `pytest tests/faults --seed N` lives it again.
"""

import pytest

from tests.faults.history import HistoryFailed, live
from tests.faults.plan import FAULTS, plan_of
from tests.faults.shrinking import shrunk

BATCH = 10


def pytest_generate_tests(metafunc):
    """The seed that was asked for, else the first ones, in batches."""
    if "seeds" not in metafunc.fixturenames:
        return
    wanted, count = metafunc.config.getoption("--seed"), metafunc.config.getoption("--histories")
    starts = range(0, count, BATCH)
    batches = [range(start, start + BATCH) for start in starts] if wanted is None else [range(wanted, wanted + 1)]
    metafunc.parametrize("seeds", batches, ids=[f"{seeds[0]}-{seeds[-1]}" for seeds in batches])


def test_everything_comes_right_in_the_end(seeds):
    for seed in seeds:
        check(plan_of(seed))


def check(plan):
    """Live a plan; one that fails is made as short as it can be before its story is told."""
    try:
        live(plan)
    except HistoryFailed as failed:
        shortest, failed = shrunk(plan, failed)
        left_out = len(plan.things) - len(shortest.things)
        pytest.fail(f"seed {plan.seed} (without {left_out} things that it fails without, too): {failed}", pytrace=False)


@pytest.mark.parametrize("seed", [11, 128])
def test_a_seed_is_the_same_history_whenever_it_is_lived(seed):
    first, second = live(plan_of(seed)), live(plan_of(seed))
    assert first.sim.told() == second.sim.told()
    assert first.sim.turns == second.sim.turns > 100


@pytest.mark.long
@pytest.mark.parametrize("kind", FAULTS)
def test_each_kind_of_fault_does_harm(kind):
    harm = sum(live(plan_of(seed, faults=[kind])).harm.total() for seed in range(6))
    assert harm >= 3, f"six histories of {kind} have seen {harm} faults"
