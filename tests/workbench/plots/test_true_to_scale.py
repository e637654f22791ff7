"""The eye sees what the number says: lengths and places in pictures, against the values that they stand for."""

import pytest

from berth_workbench.comparison.comparison import FigureCompared
from berth_workbench.planning.capacity import Capacity, FreeResource, LimitedBy, PoolHeadroom, ShapeHeadroom
from berth_workbench.plots import capacity, comparison


@pytest.fixture
def figure():
    from matplotlib.figure import Figure

    return Figure(figsize=(8, 5))


def compared(name, a, b, better=""):
    return FigureCompared(name=name, a=a, b=b, difference=b - a, deviation=0.0, better=better)


def test_a_small_share_that_quadruples_stays_small(figure):
    comparison.draw([compared("fragmentation.cpu", 0.001, 0.004, "a")], "default", "packed", figure)
    (axes,) = figure.axes
    places = [float(points.get_offsets()[0][0]) for points in axes.collections]
    assert places == [pytest.approx(0.1), pytest.approx(0.4)]
    assert axes.get_xlim() == (0, 100)
    assert any("A better" in text.get_text() for text in axes.texts)


def test_bars_begin_at_zero_and_are_as_long_as_their_values(figure):
    comparison.draw([compared("nodesUsed", 12.0, 6.0, "b"), compared("cost", 1.0, 4.0)], "default", "packed", figure)
    (axes,) = figure.axes
    bars = {(round(bar.get_y() + bar.get_height() / 2), bar.get_y() > round(bar.get_y())): bar for bar in axes.patches}
    lengths = sorted(bar.get_width() for bar in bars.values())
    assert all(bar.get_x() == 0 for bar in axes.patches)
    assert lengths == [pytest.approx(0.25), pytest.approx(0.5), pytest.approx(1.0), pytest.approx(1.0)]


def headroom(fits):
    limits = (LimitedBy("Insufficient cpu", 3),)
    pools = {"fast": PoolHeadroom(nodes=3, fits=fits, limited_by=limits)}
    free = {"cpu": FreeResource(free=36.0, usable=4.0 * fits, stranded=36.0 - 4.0 * fits, largest_hole=4.0,
                                largest_hole_on="n1")}  # fmt: skip
    shape = ShapeHeadroom(shape="default/model", per_set=1, fits=fits, limited_by=limits, by_pool=pools,
                          fragmentation=free, is_counted=True)  # fmt: skip
    return Capacity(fits=fits, limited_by=limits, by_pool=pools, fragmentation=free, shapes=(shape,), pods=fits)


@pytest.mark.parametrize("fits", [0, 5])
def test_no_axis_is_empty_and_the_largest_hole_is_seen(figure, fits):
    capacity.draw(headroom(fits), figure)
    left, right = figure.axes
    assert [bar.get_width() for bar in left.patches] == [3 if fits == 0 else 5]
    assert ("Insufficient cpu" in [label.get_text() for label in left.get_yticklabels()]) == (fits == 0)
    free, usable, hole = (bar.get_width() for bar in right.patches)
    assert (free, usable, hole) == (1, pytest.approx(4 * fits / 36), pytest.approx(4 / 36))
    assert any("36 free" in text.get_text() and "largest hole 4" in text.get_text() for text in right.texts)
