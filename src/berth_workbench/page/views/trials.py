"""What the forms for trials have in common: reading what was typed, running it, and telling how far it is."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from nicegui import ui
from nicegui.element import Element

from berth_workbench.page.jobs import Jobs, JobsBusy, Watch
from berth_workbench.page.source import SourceError
from berth_workbench.page.views.elements import TrialForm, on, tag
from berth_workbench.page.views.frame import tell_problem

PROGRESS_S = 0.5
MAX_TYPED = 512 * 1024
"""How many characters may be typed into a field."""

_T = TypeVar("_T")
_log = logging.getLogger("berth_workbench.page")


class TrialPanel:
    """A form with its result below it."""

    __slots__ = ("_form", "_jobs", "_place", "_refused", "_steps")

    def __init__(
        self,
        form: TrialForm,
        place: Element,
        jobs: Jobs,
        refused: tuple[type[Exception], ...],
        steps: str = "pods tried",
    ) -> None:
        """`refused` are the errors that tell people what is wrong with what they typed; `steps` is what is counted."""
        self._steps = steps
        self._form = form
        self._place = place
        self._jobs = jobs
        self._refused: tuple[type[Exception], ...] = (*refused, SourceError, JobsBusy)

    def runs(
        self, prepare: Callable[[dict[str, Any]], Awaitable[Callable[[Watch], _T]]], show: Callable[[_T], None]
    ) -> None:
        """Have the form run what `prepare` makes of its values, and `show` what came of it."""

        async def send(event: Any) -> None:
            values = {key: value for key, value in dict(event.args).items() if _is_reasonable(value)}
            self._form.tell(busy=True)
            timer = ui.timer(PROGRESS_S, self._tell)
            try:
                found = await self._jobs.run(await prepare(values))
            except self._refused as error:
                problem = str(error)
                self._replace(lambda: tell_problem(problem))
            except Exception as bug:  # it ends this trial only; the user is told
                _log.exception("a trial has failed")
                problem = f"this failed because of a mistake in Berth ({type(bug).__name__}: {bug}); the log has more"
                self._replace(lambda: tell_problem(problem))
            else:
                self._replace(lambda: show(found))
            finally:
                timer.cancel()
                self._form.tell(busy=False)

        on(self._form, "send", send)
        on(self._form, "stop", lambda _event: self._jobs.stop())

    def _tell(self) -> None:
        self._form.tell(busy=True, progress=f"At work: {self._jobs.steps:,} {self._steps} so far")

    def _replace(self, make: Callable[[], None]) -> None:
        self._place.clear()
        with self._place:
            make()


def _is_reasonable(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and len(value) <= MAX_TYPED)


def result_place() -> Element:
    """Where results are shown; screen readers tell of them."""
    return tag("div", classes="groups", aria_live="polite")
