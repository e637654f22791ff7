"""What is typed into the form for trials: changes, one a line, and manifests."""

import pytest

from berth_workbench.page.views.what_if import typed_steps
from berth_workbench.simulation.changes import ChangeError
from berth_workbench.snapshot.text import SnapshotError

POD = '{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"containers": []}}'


def test_changes_are_read_in_order_with_or_without_dashes_and_the_manifests_come_last():
    steps = typed_steps("drain n1\n\n  # a remark\n--add-nodes 2=n1\nlose-zone z\n scale deployment/web=3", POD)
    assert [type(step).__name__ for step in steps] == ["Drain", "AddNodes", "LoseZone", "Scale", "Manifests"]
    assert steps[1].count == 2 and steps[1].like == "n1"
    assert [document.kind for document in steps[-1].documents] == ["Pod"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ("drain n1\nexplode n1", "line 2: no change is called 'explode'; there are drain, cordon"),
        ("add-nodes many=n1", "line 1: .*'many' is no whole number"),
        ("drain", "line 1: "),
        ("", "nothing is to be tried"),
        ("drain n1\n" * 1001, "at most 1000"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(changes, told):
    with pytest.raises(ChangeError, match=told):
        typed_steps(changes, "")


def test_manifests_that_cannot_be_read_are_told():
    with pytest.raises(SnapshotError, match="manifests"):
        typed_steps("", "{")
