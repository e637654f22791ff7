"""What a Job still needs. Expectations follow manageJob, finishedCondition and firstPendingIndexes upstream."""

import itertools

import pytest

from berth_workloads.jobs import JobBounds, index_of, is_complete, missing_indexes, wanted_pods


@pytest.mark.parametrize(
    ("bounds", "active", "succeeded", "wanted", "complete"),
    [
        (JobBounds(), 0, 0, 1, False),
        (JobBounds(), 0, 1, 0, True),
        (JobBounds(3, 5), 3, 0, 3, False),
        (JobBounds(3, 5), 1, 4, 1, False),
        (JobBounds(3, 5), 0, 5, 0, True),
        (JobBounds(3, 5), 0, 6, 0, True),
        (JobBounds(3, 0), 0, 0, 0, True),
        (JobBounds(3, None), 2, 0, 3, False),
        (JobBounds(3, None), 2, 1, 2, False),  # the others end what they have begun
        (JobBounds(3, None), 0, 1, 0, True),
        (JobBounds(3, 5, is_suspended=True), 3, 0, 0, False),
    ],
)
def test_no_more_pods_than_there_are_completions_left(bounds, active, succeeded, wanted, complete):
    assert wanted_pods(bounds, active, succeeded) == wanted
    assert is_complete(bounds, active, succeeded) is complete


def test_the_lowest_indexes_come_first_that_have_neither_succeeded_nor_a_pod():
    assert missing_indexes(range(6), {0, 2, 3}, 2) == [1, 4]
    assert missing_indexes(range(3), {0, 2}, 5) == [1]
    assert missing_indexes(itertools.count(4), {5}, 3) == [4, 6, 7]


def test_an_index_is_a_number():
    assert [index_of(text) for text in ("0", "12", "", None, "a", "-1")] == [0, 12, None, None, None, None]
