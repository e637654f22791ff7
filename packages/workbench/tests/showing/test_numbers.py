"""Numbers for people. The rules are those of the page of the question: thousands apart, three digits that count."""

import pytest

from berth_workbench.showing.numbers import amount, number, percent, quantity


@pytest.mark.parametrize(
    ("value", "told"),
    [(0, "0"), (7, "7"), (14713.925, "14,714"), (104000, "104,000"), (12.5, "12.5"), (12.34, "12.3"), (0.25, "0.25"),
     (0.1 + 0.2, "0.3"), (99.96, "100"), (99.94, "99.9"), (-1.5, "-1.5"), (0.001234, "0.00123"), (None, "\N{EN DASH}")],
)  # fmt: skip
def test_numbers_have_their_thousands_apart_and_no_digits_that_tell_nothing(value, told):
    assert number(value) == told


@pytest.mark.parametrize(
    ("share", "told"), [(0, "0%"), (0.384, "38%"), (1, "100%"), (1.13, "113%"), (0.001, "<1%"), (0.999, ">99%")]
)
def test_neither_nothing_nor_all_is_told_where_it_is_not_the_case(share, told):
    assert percent(share) == told


@pytest.mark.parametrize(
    ("resource", "counted", "told"),
    [("cpu", 250, "0.25"), ("cpu", 14_713_925, "14,714"), ("memory", 3 << 30, "3Gi"), ("memory", 1023, "1,023"),
     ("memory", (1 << 30) - 1, "1Gi"), ("memory", 110 << 40, "110Ti"), ("hugepages-2Mi", 2 << 20, "2Mi"),
     ("nvidia.com/gpu", 12_000, "12,000"), ("pods", 1 << 21, "2,097,152"), ("requests.memory", 1 << 20, "1Mi")],
)  # fmt: skip
def test_amounts_are_told_in_the_unit_of_their_resource(resource, counted, told):
    assert amount(resource, counted) == told
    assert quantity(resource, counted / 1000 if resource == "cpu" else counted) == told
