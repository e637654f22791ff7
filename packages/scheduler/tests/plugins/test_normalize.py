"""Normalisation against helper.DefaultNormalizeScore."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.plugins.normalize import EXACT_BELOW, default_normalize


@pytest.mark.parametrize(
    ("scores", "reverse", "expected"),
    [
        ([1, 2, 3, 4], False, [25, 50, 75, 100]),
        ([1, 2, 3, 4], True, [75, 50, 25, 0]),
        ([1000, 10, 20, 30], False, [100, 1, 2, 3]),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([1, 1, 1], False, [100, 100, 100]),
        ([0, 1, 3], True, [100, 67, 0]),
        ([], False, []),
        ([], True, []),
        ([7], True, [0]),
    ],
)
def test_scores_are_scaled_to_100(scores, reverse, expected):
    given_scores = np.array(scores, dtype=np.int64)
    result = default_normalize(given_scores, reverse)
    assert result.tolist() == expected
    assert result.dtype == np.int64
    assert given_scores.tolist() == scores


@given(
    st.lists(st.integers(0, 2**53), min_size=1) | st.lists(st.integers(EXACT_BELOW - 9, EXACT_BELOW + 9), min_size=1)
)
def test_quotients_are_those_of_whole_numbers(scores):
    largest = max(scores)
    expected = [100 * score // largest for score in scores] if largest else scores
    assert default_normalize(np.array(scores, dtype=np.int64)).tolist() == expected
