"""How long people wait for an answer of the page, with mouse and keyboard, in clusters of 300 and of 5,000 nodes.

No more than in proportion; `python -m tests.workbench.page.test_time_to_answer` prints the times.
"""

import re
import tempfile
import time
from pathlib import Path

import pytest

from packages.workbench.tests.page.browser import browsing, chromium_path
from packages.workbench.tests.page.pictured import write_cluster
from tests.e2e.processes import Process

pytestmark = pytest.mark.long

FEW, MANY = 300, 5_000
NODE = "general-eu-a-002"
"""A node of both clusters; the map of the larger one shows groups of nodes first."""


def test_answers_take_time_in_proportion_and_come_from_nowhere_else(tmp_path):
    chromium_path()
    few, many = answers(tmp_path, FEW), answers(tmp_path, MANY)
    assert sum(many.values()) < 2 * MANY / FEW * sum(few.values()), (few, many)


def answers(directory, nodes):
    """Walk the paths; return the seconds until each answer is seen."""
    file = directory / f"{nodes}.json"
    write_cluster(file, nodes)
    process = Process(directory / f"{nodes}.log", "ui", "--cluster", file)
    try:
        process.wait_until_it_says("Ctrl-C", 120)
        link, url = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=\S+", process.said()).group(0, 1)
        with browsing(url) as visitor:
            visitor.page.goto(link)
            visitor.page.wait_for_selector("main h1")
            times = walked(visitor)
            if nodes == FEW:
                moves_one_by_one(visitor)
            assert visitor.problems == [], "no request goes to another host, and nothing complains"
    finally:
        process.end()
    return times


def moves_one_by_one(visitor):
    """The moves of a plan, with the keyboard alone."""
    visitor.open("/rebalance?max_moves=5")
    page = visitor.page
    page.wait_for_selector("section[aria-label='The cluster']")
    assert "empty" in page.get_by_role("region", name="Answer").inner_text()
    slider = page.get_by_role("slider", name="Step")
    moves = int(slider.get_attribute("max"))
    assert 1 <= moves <= 5 and slider.input_value() == str(moves)
    slider.focus()
    page.keyboard.press("Home")
    assert visitor.text(".move-map .when") == "before the first"
    page.keyboard.press("ArrowRight")
    assert re.fullmatch(r"1\. \S+/\S+: \S+ → \S+", visitor.text(".move-map .when"))
    page.get_by_role("button", name="Play the moves").click()
    visitor.until(f"document.querySelector('.move-map .when').innerText.startsWith('{moves}. ')")
    assert page.get_by_role("region", name="Disrupted workload").locator("tbody tr").count() >= 1


def walked(visitor):
    page, times = visitor.page, {}

    def took(what, act, there):
        began = time.monotonic()
        act()
        there()
        times[what] = time.monotonic() - began

    def painted(mark):
        visitor.until(f"performance.getEntriesByName('{mark}').length > 0")

    took(
        "overview",
        lambda: page.goto(visitor.url + "/"),
        lambda: page.wait_for_selector("[aria-label='Fullest nodes'] tr"),
    )
    took("map", lambda: page.keyboard.press("2"), lambda: painted("berth-map-painted"))
    details = page.locator(".node-details table").first
    took("a node on the map", lambda: page.goto(f"{visitor.url}/map?node={NODE}"), details.wait_for)
    page.keyboard.press("Escape")

    def type_name():
        page.keyboard.press("/")
        page.keyboard.type("general-eu-b")

    visitor.open("/nodes")
    took("search, typed", type_name, page.get_by_role("option").first.wait_for)
    took("the first hit", lambda: page.keyboard.press("Enter"), details.wait_for)
    visitor.open("/what-if")
    drain = page.get_by_role("link", name="were drained?")
    took("a drain", drain.click, lambda: painted("berth-moves-painted"))
    took(
        "a lost zone",
        lambda: page.goto(f"{visitor.url}/what-if?changes=lose-zone+eu-a"),
        lambda: painted("berth-moves-painted"),
    )
    took(
        "capacity",
        lambda: page.goto(f"{visitor.url}/capacity?cpu=2"),
        page.locator(".verdict").get_by_text("more fit").first.wait_for,
    )
    return times


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = {nodes: answers(Path(place), nodes) for nodes in (FEW, MANY)}
    for what in found[FEW]:
        print(f"| {what} | " + " | ".join(f"{of[what]:.1f} s" for of in found.values()) + " |")
