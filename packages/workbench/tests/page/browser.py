"""Debian's Chromium, and what every view is held to: no request to another host, nothing evaluated, readable text."""

import contextlib
import os
import shutil
from urllib.parse import urlsplit

import pytest

from tests.waiting import WAIT_S, eventually

CONTRAST = 4.5

TEXTS = r"""
() => {
  const parse = (text) => {
    const found = text.match(/rgba?\(([^)]+)\)/);
    if (!found) return null;
    const parts = found[1].split(/[ ,/]+/).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const over = (top, under) => top.rgb.map((part, at) => part * top.alpha + under[at] * (1 - top.alpha));
  const ground = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour && colour.alpha > 0) layers.push(colour);
      if (colour && colour.alpha === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const told = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const isField = ["INPUT", "TEXTAREA"].includes(element.tagName) && !["checkbox", "range"].includes(element.type);
    if (!(own || isField) || !element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
    if (["STYLE", "SCRIPT", "OPTION"].includes(element.tagName)) continue;
    const style = getComputedStyle(element), under = ground(element);
    const ink = over(parse(style.color), under);
    const [high, low] = [light(ink), light(under)].sort((a, b) => b - a);
    told.push({ text: (element.textContent || element.value).trim().slice(0, 60),
      ratio: (high + 0.05) / (low + 0.05) });
  }
  return told;
}
"""
NAMELESS = r"""
() => [...document.querySelectorAll("a, button, input, select, textarea, canvas[tabindex], summary")]
  .filter((element) => element.checkVisibility())
  .filter((element) => {
    const label = element.labels && [...element.labels].map((each) => each.textContent).join("");
    return !(element.getAttribute("aria-label") || label || element.textContent || "").trim();
  }).map((element) => element.outerHTML.slice(0, 120))
"""


def chromium_path():
    """Where Chromium is; without it a test is skipped, but never in CI."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None and os.environ.get("CI") == "true":
        pytest.fail("Chromium is missing; `make browser` installs Debian's")
    if path is None:
        pytest.skip("Chromium is missing; `make browser` installs Debian's")
    return path


@contextlib.contextmanager
def browsing(url):
    """A browser whose page notes what goes wrong: `visitor.problems`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        try:
            yield Visitor(browser, url)
        finally:
            browser.close()


ANSWERED_S = 10.0
"""What was clicked has answered by then, or has not heard it."""


class Visitor:
    """Somebody who looks at the page."""

    def __init__(self, browser, url):
        self.url = url
        self.problems = []
        self._own = urlsplit(url).netloc
        context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
        context.add_init_script("window.alert = (text) => { window.smuggled = text; };")
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_S * 1000)
        self.page.on("request", lambda request: self._note_host(request.url))
        self.page.on("websocket", lambda socket: self._note_host(socket.url))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("console", self._note_message)

    def _note_host(self, url):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != self._own:
            self.problems.append(f"a request to another host: {url}")

    def _note_message(self, message):
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def open(self, path):
        self.page.goto(self.url + path)
        self.page.wait_for_selector("main h1")

    def until(self, expression):
        """Wait for it here: what waits in the page evaluates strings there, which the page's policy forbids."""
        eventually(lambda: self._holds(expression), WAIT_S)

    def choose(self, element, position, expression):
        """Click there until it holds: on a machine as busy as CI's a page may load anew, and forget a click before."""

        def clicked():
            element.click(position=position)
            with contextlib.suppress(AssertionError):
                eventually(lambda: self._holds(expression), ANSWERED_S)
            return self._holds(expression)

        eventually(clicked, WAIT_S)

    def _holds(self, expression):
        from playwright.sync_api import Error

        try:
            return self.page.evaluate(f"!!({expression})")
        except Error as error:
            if "Execution context was destroyed" in error.message:
                return False  # the page is just being left for the next one
            raise

    @contextlib.contextmanager
    def complaining_of(self, words):
        """What is done within makes the browser complain once, of this and of nothing else; that is no problem."""
        before = len(self.problems)
        with self.page.expect_console_message(lambda message: words in message.text):
            yield
        (told,) = self.problems[before:]
        assert words in told
        del self.problems[before:]

    def text(self, selector="main"):
        return self.page.inner_text(selector)

    def check(self, screenshot):
        """Hold the page to what holds for every view, in both themes; keep a picture of each."""
        page = self.page
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.wait_for_selector(f"body.body--{theme}")
            page.screenshot(path=f"{screenshot}-{theme}.png")
            texts = page.evaluate(TEXTS)
            assert len(texts) > 5
            faint = [told for told in texts if told["ratio"] < CONTRAST]
            assert not faint, f"{theme}: {faint}"
        page.emulate_media(color_scheme="light")
        assert page.evaluate(NAMELESS) == []
        for landmark in ("banner", "navigation", "main"):
            assert page.get_by_role(landmark).count() >= 1, landmark
        assert page.locator("main").count() == 1 and page.locator("h1").count() == 1
        assert self.problems == []
        assert page.evaluate("window.smuggled") is None
