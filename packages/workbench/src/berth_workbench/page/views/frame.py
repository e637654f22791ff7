"""What every page has: the views in groups, what is looked at and how old that is, and the main part."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

from nicegui import ui
from nicegui.element import Element

from berth_workbench.page.data_routes import SEARCH, STYLE
from berth_workbench.page.views.elements import Shell, tag
from berth_workbench.sources.source import SourceError
from berth_workbench.sources.times import ago


class ViewLink(NamedTuple):
    """A view: its path, its name, its icon, and the group of views that it stands in."""

    path: str
    name: str
    icon: str
    group: str


class Frame:
    """Makes the frame of pages; `views` are all that there are, in order."""

    __slots__ = ("_can_search", "_is_live", "_taken", "_title", "_views")

    def __init__(
        self, title: str, views: Sequence[ViewLink], *, is_live: bool, can_search: bool, taken: str = ""
    ) -> None:
        """`title` says what is looked at, `taken` when that was so, if it is not now."""
        self._can_search = can_search
        self._title = title
        self._views = tuple(views)
        self._is_live = is_live
        self._taken = taken

    def list_view(self, view: ViewLink) -> None:
        """Have the side bar list another view, at the end of its group."""
        if view not in self._views:
            self._views = (*self._views, view)

    @contextlib.asynccontextmanager
    async def page(self, title: str, path: str, *, head: str = "") -> AsyncIterator[None]:
        """A page; what is made within is its main part. `head` is a constant of the code.

        A `SourceError` within is told in place of what could not be made.
        """
        ui.page_title(f"{title} · Berth")
        ui.add_head_html(f'<link rel="stylesheet" href="{STYLE}">{head}')
        layout = ui.context.client.layout
        with layout:
            Shell(groups=self._groups(), current=path, title=self._title, age=self._age(),
                  src=SEARCH if self._can_search else "").move(layout, target_index=0)  # fmt: skip
        with _main():
            tag("h1", title, "title")
            try:
                yield
            except SourceError as error:
                tell_problem(str(error), "Reload the page to try again.")

    async def nowhere(self, problem: str) -> None:
        """The page of an address at which there is nothing."""
        async with self.page("Not found", ""):
            ui.context.client.status_code = 404
            tag("p", f"{problem} The side bar and the search lead to all that there is.", "empty")

    def _groups(self) -> list[dict[str, object]]:
        names = dict.fromkeys(view.group for view in self._views)
        return [
            {"name": name, "views": [view._asdict() for view in self._views if view.group == name]} for name in names
        ]

    def _age(self) -> str:
        return "now" if self._is_live else f"as it was {ago(self._taken)}" if ago(self._taken) else ""

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
            problem.clear()
            try:
                await make()
            except SourceError as error:
                with problem:
                    tell_problem(str(error), "What is shown is an earlier state; the page goes on trying.")
            if not (self._is_live or is_coming()):
                timer.deactivate()

        timer = ui.timer(every_s, again, immediate=False)


def _main() -> Element:
    """The main part, in NiceGUI's own `main` element."""
    content = ui.context.client.content
    assert content.parent_slot is not None
    main = content.parent_slot.parent
    main.props["id"], main.props["tabindex"] = "main", "-1"
    return tag("div", classes="content")


def tell_problem(message: str, then: str = "") -> None:
    """Tell what went wrong, to screen readers at once, and what can be done."""
    with tag("div", classes="problem", role="alert"):
        tag("p", message)
        if then:
            tag("p", then, "soft")
