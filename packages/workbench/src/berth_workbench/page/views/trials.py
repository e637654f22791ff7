"""What the forms for trials have in common: running what was typed, and telling how far it is."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from nicegui import ui
from nicegui.element import Element

from berth_workbench.page.jobs import Jobs
from berth_workbench.page.refusals import REFUSALS, mistake_in_words
from berth_workbench.page.views.elements import TrialForm, area, on
from berth_workbench.page.views.frame import tell_problem
from berth_workbench.simulation.watch import WorkWatch

PROGRESS_S = 0.5
PARTS_S = 2.0
"""How often the answer so far is shown."""
MAX_TYPED = 512 * 1024
"""How many characters may be typed into a field."""

_T = TypeVar("_T")
_log = logging.getLogger("berth_workbench.page")


@dataclass(slots=True, eq=False, repr=False)
class TrialPanel:
    """A form with its result below it."""

    _form: TrialForm
    _place: Element
    _jobs: Jobs

    def runs(
        self,
        prepare: Callable[[dict[str, Any]], Awaitable[Callable[[WorkWatch], _T]]],
        show: Callable[[_T, bool], None],
    ) -> None:
        """Make the form run what `prepare` makes from its values, and `show` the result, and whether it is still
        running.

        Whoever leaves the page ends it: at once if another question is asked, else when the page is given up for good.
        """
        watch = WorkWatch()
        client = ui.context.client
        client.on_delete(lambda: watch.stop())

        async def send(event: Any) -> None:
            nonlocal watch
            if client.is_deleted:
                return
            watch = WorkWatch()
            values = {key: value for key, value in dict(event.args).items() if _is_reasonable(value)}
            self._form.tell(busy=True)
            timer = ui.timer(PROGRESS_S, lambda: self._form.tell(busy=True, progress=watch.in_words()))
            parts = ui.timer(PARTS_S, lambda: self._show_part(watch, show))
            try:
                answer = await self._jobs.run(await prepare(values), watch, lambda: client.has_socket_connection)
            except REFUSALS as error:
                problem = str(error)
                self._replace(lambda: tell_problem(problem))
            except Exception as bug:  # it ends this trial only; the user is told
                _log.exception("a trial has failed")
                problem = f"this failed because of {mistake_in_words(bug)}"
                self._replace(lambda: tell_problem(problem))
            else:
                self._replace(lambda: show(answer, False))
            finally:
                timer.cancel()
                parts.cancel()
                self._form.tell(busy=False)

        on(self._form, "send", send)
        on(self._form, "stop", lambda _event: watch.stop())

    def _show_part(self, watch: WorkWatch, show: Callable[[Any, bool], None]) -> None:
        """Show what is known so far, if anything has come since the last time, and ask for more."""
        part, watch.part, watch.is_awaited = watch.part, None, True
        if part is not None:
            self._replace(lambda: show(part, True))

    def _replace(self, make: Callable[[], None]) -> None:
        if self._place.is_deleted:
            return
        self._place.clear()
        with self._place:
            make()


def _is_reasonable(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and len(value) <= MAX_TYPED)


def result_place() -> Element:
    """Where results are shown; screen readers tell of them."""
    return area(classes="groups", aria_live="polite")
