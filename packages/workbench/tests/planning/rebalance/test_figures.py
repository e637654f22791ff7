"""The nodes of a plan side by side: all of them where they are few, else those that change."""

from berth_workbench.planning.rebalance.figures import FILLS, fills_between


def test_all_nodes_are_told_up_to_a_number_and_then_those_that_change():
    before = {f"n{number}": (0.5, 0.25, number) for number in range(FILLS)}
    assert len(fills_between(before, before)) == FILLS
    more = {**before, "other": (0.5, 0.25, 3)}
    (fill,) = fills_between(more, {**more, "other": (0.75, 0.125, 4)})
    assert (fill.node, fill.cpu_before, fill.cpu_after) == ("other", 0.5, 0.75)
    assert (fill.memory_before, fill.memory_after, fill.pods_before, fill.pods_after) == (0.25, 0.125, 3, 4)
