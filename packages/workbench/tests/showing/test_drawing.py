"""The eye sees what the number says: lengths and places in pictures, against the values that they stand for."""

import pytest

from berth_workbench.showing import drawing
from berth_workbench.showing.sections import Bars, Points, Sentence, VerdictSection


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure(figsize=(8, 5)).subplots()


def test_bars_begin_at_zero_and_are_as_long_as_their_values(axes):
    drawing._draw_bars(axes, Bars("nodes", ("used", "cost"), {"A": (12.0, 1.0), "B": (6.0, 4.0)}))
    assert all(bar.get_x() == 0 for bar in axes.patches)
    assert [bar.get_width() for bar in axes.patches] == [12.0, 1.0, 6.0, 4.0]
    heights = [bar.get_y() + bar.get_height() / 2 for bar in axes.patches]
    assert sorted(round(each) for each in heights) == [0, 0, 1, 1] and len(set(heights)) == 4


def test_parts_of_a_whole_stand_one_behind_the_other(axes):
    parts = {"usable": (25.0, 100.0), "stranded": (75.0, 0.0)}
    drawing._draw_bars(axes, Bars("free", ("cpu", "memory"), parts, is_stacked=True, unit="%"))
    spans = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert spans == [(0.0, 25.0), (0.0, 100.0), (25.0, 100.0), (100.0, 100.0)]
    assert axes.get_xlim() == (0, 100)


def test_points_lie_where_their_values_are(axes):
    drawing._draw_points(axes, Points("tried", "cost", "waits", {"now": (("base", 3.0, 5.0),), "tried": ()}))
    (line,) = axes.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([3.0], [5.0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cost", "waits")


def test_of_an_answer_without_pictures_the_verdict_is_drawn(tmp_path):
    file = tmp_path / "a.svg"
    drawing.draw_sections(file, [VerdictSection("Yes."), Sentence("So."), Bars("", (), {})], "A question")
    assert "Yes." in file.read_text() and "nothing to draw" in file.read_text()


def test_the_description_has_the_values(tmp_path):
    file = tmp_path / "a.html"
    drawing.draw_sections(
        file, [VerdictSection("12 more fit."), Bars("by pool", ("fast",), {"fit": (12,)})], "Capacity"
    )
    assert "12 more fit. by pool. fast: fit 12." in file.read_text()
