"""What the forms for trials have in common: reading what was typed, running it, and telling how far it is."""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from nicegui import ui
from nicegui.element import Element

from berth.api.codec import ObjectError
from berth.api.user_error import UserError
from berth.config.errors import ConfigError
from berth.framework.blame import PluginBrokenError
from berth_workbench.page.jobs import Jobs, JobsBusy
from berth_workbench.page.source import SourceError
from berth_workbench.page.views.elements import TrialForm, area, on
from berth_workbench.page.views.frame import tell_problem
from berth_workbench.simulation.changes import CHANGES, ChangeError, parse_flag
from berth_workbench.simulation.steps import Step
from berth_workbench.simulation.watch import WorkWatch

PROGRESS_S = 0.5
PARTS_S = 2.0
"""How often the answer so far is shown."""
REFUSED = (UserError, ValueError, ConfigError, ObjectError, PluginBrokenError, SourceError, JobsBusy)
"""What tells people what is wrong with what they typed, or with the cluster; anything else is a mistake of ours."""
MAX_STEPS = 1000
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
        self, prepare: Callable[[dict[str, Any]], Awaitable[Callable[[WorkWatch], _T]]], show: Callable[[_T], None]
    ) -> None:
        """Have the form run what `prepare` makes of its values, and `show` what came of it."""

        async def send(event: Any) -> None:
            values = {key: value for key, value in dict(event.args).items() if _is_reasonable(value)}
            self._form.tell(busy=True)
            timer = ui.timer(PROGRESS_S, self._tell)
            parts = ui.timer(PARTS_S, lambda: self._show_part(show))
            try:
                found = await self._jobs.run(await prepare(values))
            except REFUSED as error:
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
                parts.cancel()
                self._form.tell(busy=False)

        on(self._form, "send", send)
        on(self._form, "stop", lambda _event: self._jobs.stop())

    def _tell(self) -> None:
        self._form.tell(busy=True, progress=self._jobs.watch.in_words())

    def _show_part(self, show: Callable[[Any], None]) -> None:
        """Show what is known so far, if anything has come since the last time, and ask for more."""
        watch = self._jobs.watch
        part, watch.part, watch.is_awaited = watch.part, None, True
        if part is not None:
            self._replace(lambda: show(part))

    def _replace(self, make: Callable[[], None]) -> None:
        self._place.clear()
        with self._place:
            make()


def _is_reasonable(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and len(value) <= MAX_TYPED)


def result_place() -> Element:
    """Where results are shown; screen readers tell of them."""
    return area(classes="groups", aria_live="polite")


def typed_steps(changes: str) -> list[Step]:
    """Read changes that were typed, one a line. Raises `ChangeError`."""
    lines = [line.strip() for line in changes.splitlines()]
    steps: list[Step] = [_change(number, line) for number, line in enumerate(lines, 1) if line and line[0] != "#"]
    if len(steps) > MAX_STEPS:
        raise ChangeError(f"there are {len(steps)} changes; at most {MAX_STEPS} are carried out")
    return steps


def _change(number: int, line: str) -> Step:
    word, _, text = line.removeprefix("--").replace("\t", " ").partition(" ")
    step = re.sub(r"-(.)", lambda letter: letter[1].upper(), word)
    if step not in CHANGES:
        known = ", ".join(re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", each) for each in CHANGES)
        raise ChangeError(f"changes, line {number}: no change is called {word!r}; there are {known}")
    try:
        return parse_flag(step, text.strip())
    except ChangeError as error:
        raise ChangeError(f"changes, line {number}: {error}") from None
