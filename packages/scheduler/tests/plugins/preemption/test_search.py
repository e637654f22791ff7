"""The search for candidates: by columns and one by one it ends at the same row and chooses the same."""

import random
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.framework.status import unschedulable
from berth.plugins.preemption.choice import Candidate, Cost, cost
from berth.plugins.preemption.columns import Costs, Tried
from berth.plugins.preemption.search import search_by_columns, search_plainly
from packages.scheduler.tests.plugins.preemption.support import running
from tests.effort import examples

FULL = unschedulable("Insufficient cpu")
TABLE = SimpleNamespace(view=lambda row: row)


class Known:
    """What a dry run would find on each row, in both forms; notes how far it was asked."""

    def __init__(self, found):
        self.found = found
        self.asked = 0

    def plain(self, row):
        return self.found[row]

    def columns(self, rows):
        self.asked += len(rows)
        found = [self.found[row] for row in rows.tolist()]
        freed = np.array([isinstance(one, Candidate) for one in found], dtype=np.bool_)
        nothing = Cost(0, 0.0, 0, 0, 0, 0.0)
        costs = [cost(one) if isinstance(one, Candidate) else nothing for one in found]
        columns = Costs(*(np.array(column) for column in zip(*costs, strict=True)))
        refused = [(FULL, rows[~freed])] if not freed.all() else []
        return Tried(rows, freed, columns, refused, lambda: iter(()))


def known(rng):
    pods = [running(f"v{priority}", "n", priority=priority).info() for priority in range(4)]
    breaking = rng.choice((0.0, 0.3, 0.9))
    found = []
    for row in range(rng.choice((1, 5, 40, 300))):
        candidate = Candidate(row, (rng.choice(pods),), int(rng.random() < breaking), rng.choice((0.0, 0.0, -1.5)))
        found.append(candidate if rng.random() < 0.7 else FULL)
    return Known(found)


@settings(deadline=None, max_examples=examples(300))
@given(seed=st.integers(0, 2**32))
def test_both_ways_find_the_same(seed):
    rng = random.Random(seed)
    case = known(rng)
    rows = np.roll(np.arange(len(case.found)), rng.randrange(300))
    wanted = rng.choice((1, 2, 7, 50, len(rows)))
    plain = SimpleNamespace(on=case.plain)
    by_columns = search_by_columns(rows, wanted, SimpleNamespace(on=case.columns), plain, TABLE)
    one_by_one = search_plainly(rows, wanted, plain, TABLE)
    assert by_columns.best == one_by_one.best
    if one_by_one.best is None:
        refused = {row for _, found in by_columns.refusals for row in found.tolist()}
        assert refused == set(rows.tolist())


def test_rows_are_not_tried_when_there_are_candidates_enough():
    pod = running("v", "n").info()
    case = Known([Candidate(row, (pod,), 0) for row in range(5000)])
    search_by_columns(np.arange(5000), 500, SimpleNamespace(on=case.columns), SimpleNamespace(on=case.plain), TABLE)
    assert 500 <= case.asked <= 700
