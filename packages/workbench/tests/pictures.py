"""Draws the pictures of the documents anew: `make pictures`.

Those of the tutorial are what its commands draw; those of the page are screenshots of a cluster that is made for it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from packages.workbench.tests.page.browser import chromium_path
from packages.workbench.tests.page.pictured import write_cluster
from tests.e2e.processes import Process
from tests.paths import DOCS
from tests.workbench.test_tutorial import type_all

PICTURES = DOCS / "pictures"
BERTH = Path(sys.executable).with_name("berth")
NODES = 120
WIDTH, HEIGHT = 1280, 800
COMPARED = "/compare?all=true"
VIEWS = {
    "overview": ("/", ".finding[href^='/autoscale']"),
    "map": ("/map?node=general-eu-a-002", ".node-details table.pods"),
    "what-if": ("/what-if?changes=lose-zone+eu-a", "section[aria-label='The cluster']"),
    "rebalance": ("/rebalance?max_moves=30", "section[aria-label='The cluster']"),
    "compare": (COMPARED, "section[aria-label=Answer]"),
    "time-line": ("/time-line", ".chart"),
}
"""By the picture's name: the address, and what is there once it can be taken."""
ANSWERS = ("compare",)
"""Of these it is the answer that is worth a picture, and not the form above it."""
WAIT_MS = 180_000
SETTLE_MS = 1500


def main():
    """Draw all of them, or those that are named."""
    wanted = set(sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory:
        if not wanted or "tutorial" in wanted:
            typed = type_all(Path(directory))
            for drawn in typed.directory.glob("*.svg"):
                shutil.copy(drawn, PICTURES / drawn.name)
        views = {name: view for name, view in VIEWS.items() if not wanted or name in wanted}
        if views:
            take(Path(directory), views)


def take(directory, views):
    """Take screenshots of the page."""
    from playwright.sync_api import sync_playwright

    cluster, day, line = directory / "cluster.json", directory / "day.jsonl.gz", directory / "line.json"
    write_cluster(cluster, NODES)
    nodes = "--nodes 48 --node-cpu 8 --node-memory-gib 32"
    for command in (
        f"trace generate --pods 2000 {nodes} --services 6 --load 0.9 --seed 4 -o {day}",
        f"simulate {day} --timeline {line}",
    ):
        subprocess.run([BERTH, *command.split()], check=True, stdout=subprocess.DEVNULL)
    process = Process(directory / "log", "ui", "--cluster", cluster, "--timeline", line)
    try:
        process.wait_until_it_says("Ctrl-C")
        link, url = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=\S+", process.said()).group(0, 1)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.set_default_timeout(WAIT_MS)
            page.goto(link)
            page.wait_for_selector("main h1")
            for name, (address, there) in views.items():
                page.goto(url + address)
                page.wait_for_selector(there)
                if name in ANSWERS:
                    page.evaluate("document.querySelector('section[aria-label=Answer]').scrollIntoView()")
                page.wait_for_timeout(SETTLE_MS)
                page.screenshot(path=PICTURES / f"{name}.png")
            browser.close()
    finally:
        process.end()


if __name__ == "__main__":
    main()
