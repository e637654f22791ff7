"""Compiled node affinity: what is kept, what is dropped, and small and large sets of rows alike."""

import numpy as np
import pytest

from berth.api.selectors import Requirement, SelectorError
from berth.core.builders import expression, make_node, make_pod
from berth.plugins.node_selection import (
    LOOP_AT_MOST,
    RequiredNodeAffinity,
    Term,
    compile_preferences,
    name_mask,
    node_affinity_of,
    required_affinity,
    requirement_mask,
    weight_of,
    weights,
)
from packages.scheduler.tests.plugins.support import handle_of

ZONES = ["a", "b", "c", "a", "b", "c", "a", None]


def table_of(zones):
    nodes = [make_node(f"n{index}") for index in range(len(zones))]
    for node, zone in zip(nodes, zones, strict=True):
        if zone is not None:
            node.label("zone", zone)
    return handle_of(*(node.build() for node in nodes)).cache.table


TABLE = table_of(ZONES)
ROWS = np.array([TABLE.row_of[f"n{index}"] for index in range(len(ZONES))], dtype=np.intp)


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ("a",), "10010010"),
        ("In", ("a", "b"), "11011010"),
        ("In", ("a", "b", "unknown"), "11011010"),
        ("In", ("unknown",), "00000000"),
        ("NotIn", ("a",), "01101101"),
        ("NotIn", ("a", "b", "c"), "00000001"),
        ("NotIn", ("unknown",), "11111111"),
        ("Exists", (), "11111110"),
        ("DoesNotExist", (), "00000001"),
        ("Gt", ("1",), "00000000"),
    ],
)
def test_requirements_by_column(operator, values, expected):
    mask = requirement_mask(TABLE.label("zone"), Requirement("zone", operator, values), ROWS)
    assert "".join(str(int(bit)) for bit in mask) == expected
    assert mask.base is None


@pytest.mark.parametrize(("operator", "expected"), [("In", {"n1"}), ("NotIn", {f"n{i}" for i in range(8)} - {"n1"})])
def test_names_by_column(operator, expected):
    mask = name_mask(TABLE, Requirement("metadata.name", operator, ("n1",)), ROWS)
    assert {TABLE.names[row] for row, bit in zip(ROWS, mask, strict=True) if bit} == expected


def test_few_rows_are_matched_as_many_are():
    required = required_affinity(make_pod().node_selector({"zone": "b"}).build())
    every = required.mask(TABLE, ROWS)
    for count in range(1, LOOP_AT_MOST + 2):
        assert required.mask(TABLE, ROWS[:count]).tolist() == every[:count].tolist()
    assert required.mask(TABLE, ROWS[:0]).tolist() == []


def test_rows_that_lost_their_node_match_nothing_one_by_one():
    table = table_of(["a", "a"])
    table.add_pod(table.row_of["n0"], make_pod().node("n0").info())
    table.remove_node("n0")
    rows = np.array([table.row_of["n0"], table.row_of["n1"]], dtype=np.intp)
    assert required_affinity(make_pod().node_selector({"zone": "a"}).build()).mask(table, rows).tolist() == [
        False,
        True,
    ]


def test_what_a_pod_demands():
    assert required_affinity(make_pod().build()).is_empty
    assert not required_affinity(make_pod().require_node().build()).is_empty
    unreadable = make_pod().require_node(expression("zone", "Near")).require_node(expression("zone", "In", "a")).build()
    expected = RequiredNodeAffinity(None, (Term((Requirement("zone", "In", ("a",)),), ()),))
    assert required_affinity(unreadable) == expected


def test_what_a_pod_prefers():
    pod = (
        make_pod()
        .prefer_node(0, expression("zone", "Near"))
        .prefer_node(5)
        .prefer_node(2, expression("zone", "Exists"))
    )
    terms = compile_preferences(node_affinity_of(pod.build()).preferred)
    assert [term.weight for term in terms] == [2]
    assert weight_of(terms, {"zone": "a"}, "n") == 2
    assert weights(terms, TABLE, ROWS).tolist() == [2] * 7 + [0]
    with pytest.raises(SelectorError):
        compile_preferences(node_affinity_of(make_pod().prefer_node(1, expression("zone", "Near")).build()).preferred)
