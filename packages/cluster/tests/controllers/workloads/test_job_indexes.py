"""How completed indexes are written."""

import pytest

from berth_workloads.jobs import format_indexes, parse_indexes


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        (set(), ""),
        ({0}, "0"),
        ({0, 1}, "0,1"),
        ({0, 1, 2}, "0-2"),
        ({1, 3, 4, 5, 7}, "1,3-5,7"),
    ],
)
def test_indexes_there_and_back(indexes, text):
    assert format_indexes(indexes) == text
    assert parse_indexes(text) == indexes
