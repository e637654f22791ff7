"""What is still on a page is one element of HTML, whatever names it shows."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_workbench.page.views import elements
from berth_workbench.page.views.elements import link, share_bar, still, table, tag


class Made:
    """Stands for the element on a page, since NiceGUI's need a browser that looks at them."""

    made: list["Made"] = []

    def __init__(self, kind, html):
        self.kind, self.html, self.styles = kind, html, ""
        self.made.append(self)

    def classes(self, styles):
        self.styles = styles


@pytest.fixture(autouse=True)
def made(monkeypatch):
    monkeypatch.setattr(elements, "_Still", Made)
    monkeypatch.setattr(Made, "made", [])
    return Made.made


class Parsed(HTMLParser):
    """The elements and texts of some HTML, in order, as a browser reads them."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self.found.append(("/", tag))

    def handle_data(self, data):
        if self.found and isinstance(self.found[-1], str):
            data = self.found.pop() + data  # the parser may bring a text in pieces
        self.found.append(data)


NAMES = st.text(st.characters(exclude_characters="\r\0", exclude_categories=("Cs",)), min_size=1) | st.sampled_from(
    ["</td><script>alert(1)</script>", '" onmouseover="alert(1)', "&lt;", "'", "<!--", "a&b=c"]
)


@given(text=NAMES, href=NAMES)
def test_whatever_a_name_has_in_it_stays_a_name(text, href):
    Made.made.clear()
    with still("section"), tag("p", text, title=href):
        link(text, href)
    (found,) = Made.made
    assert Parsed(found.html).found == [
        ("p", {"title": href}), text, ("a", {"href": href}), text, ("/", "a"), ("/", "p"),
    ]  # fmt: skip


def test_a_table_is_one_element(made):
    table("Two", ["Name", ("CPU", "number")], [["a", "1"], [lambda: link("b", "/b"), lambda: share_bar(1.5)]])
    (found,) = made
    assert (found.kind, found.styles) == ("div", "scroll")
    shown = Parsed(found.html).found
    assert shown[:5] == [("table", {}), ("caption", {}), "Two", ("/", "caption"), ("thead", {})]
    assert [each[1] for each in shown if each[0] == "th"] == [
        {"scope": "col"}, {"scope": "col", "class": "number"}, {"scope": "row"}, {"scope": "row"},
    ]  # fmt: skip
    assert [each for each in shown if isinstance(each, str)] == ["Two", "Name", "CPU", "a", "1", "b", "150%"]
    assert ("span", {"class": "bar over", "aria-hidden": "true"}) in shown


def test_attributes_without_a_value_and_elements_without_an_end(made):
    with still(), tag("p"):
        tag("option", "x", selected=True, disabled=False)
        tag("input", type_="search", name="find")
    assert made[0].html == '<p><option selected>x</option><input type="search" name="find"></p>'


def test_what_is_still_within_something_still_is_a_part_of_it(made):
    with still(classes="cards"):
        table("", ["Name"], [["a"]])
    (found,) = made
    assert Parsed(found.html).found[0] == ("div", {"class": "scroll"})
