"""Pictures: three forms of one figure, the same file for the same result, and clear words where none can be drawn."""

import sys
import xml.etree.ElementTree as ET

import pytest

from berth_workbench.showing.picture import PictureError, check_picture, write_picture


def draw(figure):
    figure.subplots().bar(["a", "b"], [1, 2])


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_the_same_result_gives_the_same_picture(tmp_path, suffix):
    files = [tmp_path / f"{number}.{suffix}" for number in range(2)]
    for file in files:
        write_picture(file, draw, title="Two <bars>", description="b is twice a, & more than <a>")
    first, second = (file.read_bytes() for file in files)
    assert first == second
    if suffix == "png":
        assert first.startswith(b"\x89PNG")
    else:
        assert "http://" not in first.decode().replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
            "http://creativecommons.org", ""
        )
    if suffix == "svg":
        assert ET.fromstring(first).tag.endswith("svg")
    if suffix == "html":
        assert b"b is twice a, &amp; more than &lt;a&gt;" in first
        assert b"<bars>" not in first


@pytest.mark.parametrize(
    ("name", "problem"), [("a.gif", "ends in .svg, .png, .html"), ("nowhere/a.svg", "there is no directory")]
)
def test_a_name_that_cannot_be_is_refused_before_the_work(tmp_path, name, problem):
    with pytest.raises(PictureError, match=problem):
        check_picture(tmp_path / name)


def test_the_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PictureError, match=r"pip install 'berth-scheduler\[plot\]'"):
        check_picture(tmp_path / "a.svg")


def test_a_name_with_dollar_signs_is_no_formula(tmp_path):
    file = tmp_path / "a.svg"
    write_picture(
        file,
        lambda figure: figure.subplots().bar([r"$\frac$", r"$\foo{$"], [1, 2]),
        title=r"$\frac$",
        description="",
    )
    assert file.read_text().count(r"$\frac$") >= 2
