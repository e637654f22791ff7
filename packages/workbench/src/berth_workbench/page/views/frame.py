"""What every page has: the views to choose from, what is looked at, the theme, and the main part."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from nicegui import ui
from nicegui.element import Element

from berth_workbench.page.data_routes import SEARCH, STYLE
from berth_workbench.page.source import SourceError
from berth_workbench.page.views.elements import SearchField, ThemeChoice, area, link, tag


class ViewLink(NamedTuple):
    """A view: its path, its name, and the group of views that it stands in."""

    path: str
    name: str
    group: str


class Frame:
    """Makes the frame of pages; `views` are all that there are, in order."""

    __slots__ = ("_can_search", "_is_live", "_title", "_views")

    def __init__(self, title: str, views: Sequence[ViewLink], *, is_live: bool, can_search: bool) -> None:
        """`title` says what is looked at."""
        self._can_search = can_search
        self._title = title
        self._views = views
        self._is_live = is_live

    @contextlib.asynccontextmanager
    async def page(
        self, title: str, path: str, *, head: str = "", beside: Callable[[], object] | None = None
    ) -> AsyncIterator[None]:
        """A page; what is made within is its main part. `beside` makes what stands beside the title.

        A `SourceError` within is told in place of what could not be made. `head` is a constant of the code.
        """
        ui.page_title(f"{title} · Berth")
        ui.add_head_html(f'<link rel="stylesheet" href="{STYLE}">{head}')
        self._header(path)
        with _main():
            with tag("div", classes="title-row"):
                tag("h1", title)
                if beside is not None:
                    beside()
            try:
                yield
            except SourceError as error:
                tell_problem(str(error))

    async def nowhere(self, problem: str) -> None:
        """The page of an address at which there is nothing."""
        async with self.page("Not found", ""):
            ui.context.client.status_code = 404
            tag("p", f"{problem} The views above and the search lead to all that there is.", "empty")

    def _header(self, path: str) -> None:
        """The header stands before the main part of NiceGUI's layout."""
        layout = ui.context.client.layout
        with layout, tag("div") as before:
            tag("a", "Skip to the main part", "skip", href="#main")
            with tag("header", classes="page-header"):
                link("Berth", self._views[0].path, "brand")
                with tag("nav", aria_label="Views"):
                    for group, views in groupby(self._views, key=lambda view: view.group):
                        with tag("ul", aria_label=f"{group} views"):
                            tag("li", group, "group", aria_hidden="true")
                            for view in views:
                                with tag("li"):
                                    made = link(view.name, view.path)
                                    if view.path == path:
                                        made.props["aria-current"] = "page"
                with tag("div", classes="right"):
                    if self._can_search:
                        SearchField(SEARCH, [(view.path, view.name) for view in self._views])
                    tag("span", self._title, "source")
                    ThemeChoice()
                    with tag("form", method="post", action="/sign-out"):
                        tag("button", "Sign out", "plain", type_="submit")
        before.move(layout, target_index=0)

    def keep_current(
        self,
        make: Callable[[], Awaitable[None]],
        every_s: float,
        problem: Element,
        is_coming: Callable[[], bool] = lambda: False,
    ) -> None:
        """Rebuild a part of the page periodically if the source is live, or while something is still to come."""
        if not (self._is_live or is_coming()):
            return

        async def again() -> None:
            try:
                await make()
            except SourceError as error:
                problem.clear()
                with problem:
                    tell_problem(f"{error} (this shows an earlier state)")
            else:
                problem.clear()
            if not (self._is_live or is_coming()):
                timer.deactivate()

        timer = ui.timer(every_s, again, immediate=False)


def _main() -> Element:
    """The main part, in NiceGUI's own `main` element."""
    content = ui.context.client.content
    assert content.parent_slot is not None
    main = content.parent_slot.parent
    main.props["id"], main.props["tabindex"] = "main", "-1"
    return area(classes="content")


def tell_problem(message: str) -> None:
    """Tell what went wrong, to screen readers at once."""
    tag("p", message, "problem", role="alert")
