"""Quantities against the grammar and the rounding rules of k8s.io/apimachinery/pkg/api/resource."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.quantity import MAX_VALUE, QuantityError, milli_value, nano_value, parse, value

KI, MI, GI, TI, PI, EI = (1024**power for power in range(1, 7))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1", 1),
        ("-1", -1),
        ("+5", 5),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("-.5", Fraction(-1, 2)),
        ("007", 7),
        ("100n", Fraction(1, 10**7)),
        ("100u", Fraction(1, 10**4)),
        ("500m", Fraction(1, 2)),
        ("2k", 2000),
        ("2M", 2 * 10**6),
        ("2G", 2 * 10**9),
        ("2T", 2 * 10**12),
        ("2P", 2 * 10**15),
        ("2E", 2 * 10**18),
        ("1Ki", KI),
        ("1Mi", MI),
        ("1Gi", GI),
        ("1Ti", TI),
        ("1Pi", PI),
        ("1Ei", EI),
        ("1.5Gi", 3 * GI // 2),
        ("0.1Ki", Fraction(1024, 10)),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("12e-1", Fraction(6, 5)),
        ("1.5e3", 1500),
    ],
)
def test_every_suffix_and_exponent_is_exact(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "+", "-", ".", "1 ", " 1", "1 Gi", "Gi", "1ki", "1K", "1KI", "1mi", "1g", "1e", "1Ee3", "1eGi", "1Kim"],
)
def test_what_kubernetes_refuses_is_refused(text):
    with pytest.raises(QuantityError):
        parse(text)


def test_thousands_of_digits_are_refused_and_not_repeated():
    with pytest.raises(QuantityError) as raised:
        parse("9" * 5000)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "text", ["0x10", "1,5", "1_000", "--1", "1.2.3", "1e1.5", "abc", "NaN", "inf", "\u0661", "1\n"]
)
def test_what_is_no_number_is_refused_with_the_text_and_an_example(text):
    with pytest.raises(QuantityError) as raised:
        parse(text)
    assert repr(text) in str(raised.value)
    assert "500m" in str(raised.value)


@pytest.mark.parametrize(
    ("number", "expected"), [(3, 3), (0, 0), (-2, -2), (0.5, Fraction(1, 2)), (1e-05, 1 / Fraction(10**5))]
)
def test_numbers_of_json_are_read_as_their_text(number, expected):
    assert parse(number) == expected


@pytest.mark.parametrize("number", [True, False, float("nan"), float("inf")])
def test_what_json_has_beside_numbers_is_refused(number):
    parse(int(number) if isinstance(number, bool) else 0)
    with pytest.raises(QuantityError):
        parse(number)


@pytest.mark.parametrize(
    ("text", "milli", "whole"),
    [
        ("1", 1000, 1),
        ("100m", 100, 1),
        ("1m", 1, 1),
        ("1u", 1, 1),
        ("1n", 1, 1),
        ("1001u", 2, 1),
        ("1.0001", 1001, 2),
        ("1500m", 1500, 2),
        ("0", 0, 0),
        ("128974848", 128974848000, 128974848),
        ("129e6", 129000000000, 129000000),
        ("123Mi", 128974848000, 128974848),
        ("-1m", -1, -1),
        ("-1500m", -1500, -2),
    ],
)
def test_values_are_rounded_up_to_milli_and_whole_units(text, milli, whole):
    assert (milli_value(text), value(text)) == (milli, whole)


def test_what_is_finer_than_a_nano_unit_counts_as_one():
    assert nano_value("0.0000000001") == 1
    assert nano_value("1.0000000001") == 10**9 + 1
    assert nano_value("1e-30") == 1


@pytest.mark.parametrize(
    "text", ["9223372036854775807", "9223372036854775808", "8Ei", "100E", "1e40", "1e999999999", "1e9999999999"]
)
def test_values_are_capped_at_63_bits(text):
    assert value(text) == MAX_VALUE
    assert milli_value(text) == MAX_VALUE


def test_below_the_cap_nothing_is_lost():
    assert value("9223372036854775806") == MAX_VALUE - 1
    assert value("7Ei") == 7 * EI


def test_a_tiny_exponent_costs_nothing():
    assert value("1e-999999999") == 1


@given(st.integers(0, 10**9), st.sampled_from(["m", "", "k", "Ki", "Mi"]))
def test_rounding_up_never_loses_and_never_gains_a_unit(number, suffix):
    quantity = f"{number}{suffix}"
    exact = parse(quantity)
    assert 0 <= value(quantity) - exact < 1
    assert 0 <= milli_value(quantity) - exact * 1000 < 1
