"""Renders every view and state of the page, narrow, usual and wide, light and dark, to be looked at.

`python -m packages.workbench.tests.screens DIRECTORY [AXE.js]` writes the screens, and says of which the content is
wider than the window. With the file of axe-core (`npm pack axe-core`), it says what that finds, too.
"""

import re
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from packages.workbench.tests.page.browser import chromium_path
from packages.workbench.tests.page.pictured import write_cluster
from tests.e2e.processes import Process

NODES = 120
SIZES = {390: 844, 1400: 900, 2560: 1300}
ANSWERED = ".verdict, .problem"
OF_A_FILE = {
    "overview": ("/", ".finding"),
    "map": ("/map", "canvas.map"),
    "node": ("/map?node=gpu-eu-c-008", ".node-details table.pods"),
    "workloads": ("/workloads", ".rows table"),
    "workload": ("/workloads/Deployment/shop/web", ".rows table"),
    "nodes": ("/nodes", ".rows table"),
    "pod": ("/pods/data/giant-5f6c8-000100", "main section"),
    "quotas": ("/quotas", "main p"),
    "what-if-begin": ("/what-if", ".tries a"),
    "what-if": ("/what-if?changes=lose-zone+eu-a", ANSWERED),
    "what-if-wrong": ("/what-if?changes=explode+n1", ".problem"),
    "capacity": ("/capacity", ANSWERED),
    "survive": ("/survive", ANSWERED),
    "wait": ("/wait", ANSWERED),
    "autoscale": ("/autoscale", ANSWERED),
    "rebalance": ("/rebalance", ANSWERED),
    "upgrade": ("/upgrade", ANSWERED),
    "compare": ("/compare", ANSWERED),
    "tune-begin": ("/tune", ".tries button"),
    "nowhere": ("/nosuch", ".empty"),
}
AT_WORK = {
    "decisions": ("/decisions", ".rows table"),
    "plugins": ("/plugins", "main p"),
    "queue": ("/queue", ".plot canvas"),
    "last-hour": ("/last-hour", ".plot canvas"),
}
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
FOUND = "axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 90)).slice(0, 3).join(' | ')}`))"  # noqa: E501


def main():
    """Render all screens, or those that are named after the two files."""
    out, axe = Path(sys.argv[1]), Path(sys.argv[2]).read_text() if len(sys.argv) > 2 else ""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "cluster.json"
        write_cluster(file, NODES)
        problems = screens(out, axe, OF_A_FILE, sys.argv[3:], Path(place) / "log", "ui", "--cluster", file)
        up = ("up", "--nodes", 20, "--dir", Path(place) / "up", "--ui")
        problems += screens(out, axe, AT_WORK, sys.argv[3:], Path(place) / "up.log", *up)
    print("\n".join(problems) or "nothing is wider than its window" + ("; axe finds nothing" if axe else ""))


def screens(out, axe, views, named, log, *command):
    """Serve a page, and render its views; return what is wrong with them."""
    from playwright.sync_api import Error, sync_playwright

    problems, process = [], Process(log, *command)
    try:
        process.wait_until_it_says("Ctrl-C")
        link, url = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=\S+", process.said()).group(0, 1)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(link)
            page.wait_for_selector("main h1")
            for name, (address, there) in views.items():
                if named and name not in named:
                    continue
                page.goto(url + address)
                with suppress(Error):
                    page.wait_for_selector(there)
                for width, height in SIZES.items():
                    page.set_viewport_size({"width": width, "height": height})
                    for theme in ("light", "dark"):
                        page.emulate_media(color_scheme=theme)
                        page.wait_for_timeout(400)
                        page.screenshot(path=out / f"{name}-{width}-{theme}.png")
                        if page.evaluate(WIDER):
                            problems.append(f"{name} {width} {theme}: wider than the window")
                        if axe and width != 2560:
                            page.evaluate(axe)
                            problems += [f"{name} {width} {theme}: {each}" for each in page.evaluate(FOUND)]
            browser.close()
    finally:
        process.end()
    return problems


if __name__ == "__main__":
    main()
