"""What is typed into the form for trials: changes, one a line."""

import pytest

from berth_workbench.planning.scenario import typed_steps
from berth_workbench.simulation.changes import ChangeError


def test_changes_are_read_in_order_with_or_without_dashes():
    steps = typed_steps("drain n1\n\n  # a remark\n--add-nodes 2=n1\nlose-zone z\n scale deployment/web=3")
    assert [type(step).__name__ for step in steps] == ["Drain", "AddNodes", "LoseZone", "Scale"]
    assert steps[1].count == 2 and steps[1].like == "n1"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ("drain n1\nexplode n1", "line 2: no change is called 'explode'; there are drain, cordon"),
        ("add-nodes many=n1", "line 1: .*'many' is no whole number"),
        ("drain", "line 1: "),
        ("drain n1\n" * 1001, "at most 1000"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(changes, told):
    with pytest.raises(ChangeError, match=told):
        typed_steps(changes)
