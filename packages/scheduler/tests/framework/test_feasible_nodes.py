"""The feasible nodes as rows: what is selected is what the mask says, whether by a slice or one by one."""

from itertools import product

import numpy as np
import pytest

from berth.core.builders import make_node
from berth.framework.interface import FeasibleNodes
from berth.state.cache import Cache

SIZE = 7


@pytest.fixture(scope="module")
def table():
    cache = Cache(capacity=SIZE)
    for number in range(SIZE):
        cache.put_node(make_node(f"n{number}").capacity(cpu="1").build())
    return cache.table


def test_rows_select_what_the_mask_says_and_make_a_slice_where_they_lie_together(table):
    for bits in product((False, True), repeat=SIZE):
        mask = np.zeros(table.capacity, dtype=np.bool_)
        mask[:SIZE] = bits
        expected = np.flatnonzero(mask)
        found = FeasibleNodes(table, mask)
        assert np.arange(table.capacity)[found.rows].tolist() == expected.tolist()
        assert found.row_array().tolist() == expected.tolist()
        assert found.count == len(expected)
        has_gaps = len(expected) and expected[-1] - expected[0] >= len(expected)
        if len(expected):
            assert isinstance(found.rows, slice) is not bool(has_gaps), bits
