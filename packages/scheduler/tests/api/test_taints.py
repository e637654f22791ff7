"""Tolerations against Toleration.ToleratesTaint of k8s.io/api/core/v1, v1.36."""

import pytest

from berth.api.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    Taint,
    Toleration,
    tolerated,
    untolerated_taint,
)

TAINT = Taint(key="gpu", value="a100", effect=NO_SCHEDULE)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": NO_SCHEDULE}, True),
        ({"key": "gpu", "operator": "Exists", "effect": NO_EXECUTE}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": PREFER_NO_SCHEDULE}, False),
        ({"key": "gpu", "operator": "Equal", "value": "a100"}, True),
        ({"key": "gpu", "value": "a100"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "h100"}, False),
        ({"key": "gpu", "operator": "Equal"}, False),
        ({"key": "cpu", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Near", "value": "a100"}, False),
        ({"key": "", "value": "a100"}, True),
    ],
)
def test_tolerations(toleration, expected):
    assert Toleration(**toleration).tolerates(TAINT) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "actual", "expected"),
    [
        ("Gt", "750", "950", True),
        ("Gt", "950", "800", False),
        ("Gt", "950", "950", False),
        ("Lt", "950", "800", True),
        ("Lt", "800", "950", False),
        ("Lt", "950", "950", False),
        ("Gt", "-100", "-50", True),
        ("Lt", "0", "-1", True),
        ("Gt", "9223372036854775806", "9223372036854775807", True),
        ("Lt", "0", "-9223372036854775808", True),
        ("Gt", "0", "9223372036854775808", False),
        ("Gt", "950", "high", False),
        ("Gt", "0100", "200", False),
        ("Gt", "+100", "200", False),
        ("Gt", "100.5", "200", False),
        ("Gt", "-", "100", False),
        ("Gt", "", "100", False),
        ("Gt", "100", "", False),
        ("Gt", "100", "0200", False),
        ("Lt", "100", "+50", False),
        ("Lt", "100", " 50 ", False),
        ("Lt", "100", "-0", False),
    ],
)
def test_numbers_are_compared_only_where_the_gate_allows_it(operator, bound, actual, expected):
    toleration = Toleration(key="sla", operator=operator, value=bound)
    taint = Taint(key="sla", value=actual, effect=NO_SCHEDULE)
    assert toleration.tolerates(taint, compare_numbers=True) is expected
    assert toleration.tolerates(taint) is False


def test_any_toleration_will_do():
    assert tolerated(TAINT, [Toleration(key="x", operator="Exists"), Toleration(key="gpu", operator="Exists")])
    assert not tolerated(TAINT, [Toleration(key="x", operator="Exists")])
    assert not tolerated(TAINT, [])


def test_the_first_untolerated_taint_of_the_wanted_effects_is_found():
    prefer = Taint(key="a", effect=PREFER_NO_SCHEDULE)
    no_schedule = Taint(key="b", effect=NO_SCHEDULE)
    no_execute = Taint(key="c", effect=NO_EXECUTE)
    taints = (prefer, no_schedule, no_execute)
    both = (NO_SCHEDULE, NO_EXECUTE)
    assert untolerated_taint(taints, (), both) == no_schedule
    assert untolerated_taint(taints, (Toleration(key="b", operator="Exists"),), both) == no_execute
    assert untolerated_taint(taints, (Toleration(operator="Exists"),), both) is None
    assert untolerated_taint(taints, (), (PREFER_NO_SCHEDULE,)) == prefer


def test_the_gate_reaches_the_search_for_untolerated_taints():
    taints = (Taint(key="sla", value="950", effect=NO_SCHEDULE),)
    tolerations = (Toleration(key="sla", operator="Gt", value="900"),)
    assert untolerated_taint(taints, tolerations, (NO_SCHEDULE,)) == taints[0]
    assert untolerated_taint(taints, tolerations, (NO_SCHEDULE,), compare_numbers=True) is None
