"""The page of a question: the sentence in which it is asked, and below it the answer, which is there from the start.

What was asked is in the page's address. Whatever is changed in the sentence is asked at once.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from nicegui import ui

from berth.decisions.node_columns import NodeColumns
from berth_workbench.page.answers import Answers, Asked
from berth_workbench.page.data_routes import NAMES
from berth_workbench.page.jobs import Jobs
from berth_workbench.page.views.answer import show_answer
from berth_workbench.page.views.elements import AskedSentence, link, on, tag
from berth_workbench.page.views.forms import Form, Values
from berth_workbench.page.views.frame import Frame, tell_problem
from berth_workbench.questions.question import Question
from berth_workbench.questions.sentence import CHANGES, is_rare, pieces
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.sources.source import Source

TICK_S: Final = 0.3
PART_S: Final = 2.0
"""How often the answer so far is shown."""
LONGEST_ADDRESS: Final = 4000
MAX_TYPED: Final = 512 * 1024
"""How many characters may be typed into an input."""
ON_DEMAND: Final[Mapping[str, str]] = {
    "tune": "A search takes a run of the scheduler for each try, so it begins when you say so.",
}
"""The questions that are not asked by opening them, and why."""
ICONS: Final[Mapping[str, str]] = {
    "whatif": "help_outline", "capacity": "add_box", "survive": "shield", "wait": "hourglass_empty",
    "autoscale": "unfold_more", "rebalance": "swap_horiz", "upgrade-plan": "system_update_alt", "compare": "compare",
    "tune": "tune",
}  # fmt: skip


@dataclass(slots=True, eq=False, repr=False)
class QuestionView:
    """Makes the page of a question."""

    question: Question[Any, Any]
    source: Source
    frame: Frame
    jobs: Jobs
    answers: Answers
    typed: dict[str, dict[str, str]]
    """What was typed that is too long for an address, by the name that stands there instead."""

    async def build(self) -> None:
        """The sentence, and the answer below it."""
        async with self.frame.page(self.question.title, self.question.path):
            place = _Place(self, _person())
            if place.is_to_begin:
                place.ask()
            else:
                await place.suggest()

    def values_of(self, query: Mapping[str, str]) -> dict[str, str]:
        """Return what the address says was typed."""
        usual = Form(self.question).usual()
        typed = self.typed.get(query.get("typed", ""), {}) | dict(query)
        return {name: typed.get(name, value)[:MAX_TYPED] for name, value in usual.items()}

    def address(self, values: Values, usual: Values) -> str:
        """Return the address at which these values are asked."""
        query = urlencode({name: value for name, value in values.items() if value != usual[name]})
        if len(query) > LONGEST_ADDRESS:
            name = hashlib.sha256(query.encode()).hexdigest()[:16]
            self.typed[name] = dict(values)
            while len(self.typed) > 50:
                del self.typed[next(iter(self.typed))]
            query = f"typed={name}"
        return f"{self.question.path}{'?' if query else ''}{query}"

    async def prepare(self, form: Form, values: Values) -> Callable[[WorkWatch], Any]:
        """Read what was typed, and return what works the answer out. Raises ValueError, `UserError`, `SourceError`."""
        question, steps = self.question, form.steps(values)
        snapshot, configuration = await self.source.snapshot(), await self.source.configuration()
        request = form.request(values, snapshot, configuration)

        def work(watch: WorkWatch) -> Any:
            watch.begin(question.doing)
            return question.answer(self.jobs.situation(snapshot, configuration, steps), request, watch)

        return work


def _person() -> str:
    """Who looks: what the browser keeps of signing in, by a digest."""
    request = ui.context.client.request
    held = f"{request.headers.get('cookie', '')} {request.headers.get('authorization', '')}"
    return hashlib.sha256(held.encode()).hexdigest()


class _Place:
    """One page of a question, in one browser."""

    def __init__(self, view: QuestionView, person: str) -> None:
        self._view = view
        self._person = person
        self._form = Form(view.question)
        self._usual = self._form.usual()
        client = ui.context.client
        query = dict(client.request.query_params)
        self._values = view.values_of(query)
        self._is_asked = any(name in self._usual or name == "typed" for name in query)
        self._asked: Asked | None = None
        self._shown_at = 0.0
        self._sentence = AskedSentence(
            parts=[], rare=[], label=view.question.title, busy=False, progress="", share=0.0, stale="", address="",
            action="Ask", namesSrc=NAMES,
        )  # fmt: skip
        self._answer = tag("div", classes="groups", aria_live="polite")
        on(self._sentence, "change", self._change)
        on(self._sentence, "stop", lambda _event: self._asked.watch.stop() if self._asked else None)
        self._timer = ui.timer(TICK_S, self._tick, active=False)
        client.on_delete(lambda: self._look_at(None))
        self._word()

    @property
    def is_to_begin(self) -> bool:
        """Whether the question is answered for whoever opens its page."""
        name = self._view.question.name
        return self._is_asked if name in (*ON_DEMAND, "whatif") else True

    def ask(self, *, anew: bool = False) -> None:
        """Show the answer that is kept, or have it worked out."""
        key = f"{self._view.question.name} {sorted(self._values.items())}"
        asked = None if anew else self._view.answers.kept(key)
        if asked is None:
            values = dict(self._values)
            asked = self._view.answers.ask(key, self._person, partial(self._view.prepare, self._form, values))
        self._look_at(asked)
        self._tick()

    def _look_at(self, asked: Asked | None) -> None:
        if self._asked is not None:
            self._asked.look(-1)
        self._asked = asked
        if asked is not None:
            asked.look(1)
            self._timer.active = True

    async def _change(self, event: Any) -> None:
        typed = {name: str(value)[:MAX_TYPED] for name, value in dict(event.args or {}).items() if name in self._usual}
        self._values |= typed
        self._word()
        self._answer.clear()
        if self._view.question.name == "whatif" and not any(self._values.values()):
            self._look_at(None)
            await self.suggest()
        else:
            self.ask(anew=not typed)

    def _word(self) -> None:
        """Say in the sentence what was typed."""
        question, form = self._view.question, self._form
        texts = {name: form.words(name, self._values) for name in form.names()}
        parts = [self._part(each.name, each.text) for each in pieces(question, texts)]
        rare = [self._part(name, texts[name]) for name in form.names() if is_rare(question, name)]
        self._sentence.show(parts=parts, rare=rare, address=self._view.address(self._values, self._usual), stale="")

    def _part(self, name: str, text: str) -> dict[str, Any]:
        inputs = self._form.inputs(name) if name else []
        for each in inputs:
            each["value"] = self._values[each["name"]]
        return {"name": name, "text": text, "label": inputs[0]["label"] if inputs else "", "inputs": inputs}

    def _tick(self) -> None:
        """Tell how far it is, and show what there is."""
        asked = self._asked
        if asked is None or self._answer.is_deleted:
            self._timer.active = False
            return
        if asked.is_done:
            self._timer.active = False
            self._sentence.show(busy=False, stale=self._stale(asked))
            self._show(asked)
            return
        watch = asked.watch
        share = watch.done / watch.total if watch.total else 0.0
        self._sentence.show(busy=True, progress=watch.in_words(), share=min(1.0, share), stale="")
        part, watch.part, watch.is_awaited = watch.part, None, True
        if part is not None and time.monotonic() > self._shown_at + PART_S:
            command, values = self._form.command(self._values), dict(self._values)
            self._replace(partial(show_answer, self._view.question, part, command, values, goes_on=True))

    def _stale(self, asked: Asked) -> str:
        if not self._view.source.is_live or asked.problem:
            return ""
        minutes = int((time.time() - asked.answered_at) / 60)
        return f"This is the answer for the cluster as it was {minutes} min ago." if minutes else "Answered just now."

    def _show(self, asked: Asked) -> None:
        if asked.problem:
            then = "Change what stands above, or ask again."
            self._replace(lambda: tell_problem(asked.problem, then))
        else:
            command = self._form.command(self._values)
            self._replace(partial(show_answer, self._view.question, asked.answer, command, dict(self._values)))

    def _replace(self, make: Callable[[], None]) -> None:
        self._shown_at = time.monotonic()
        self._answer.clear()
        with self._answer:
            make()

    async def suggest(self) -> None:
        """Say how to begin, with questions about this very cluster."""
        question = self._view.question
        offers: Sequence[tuple[str, str]] = [("Begin the search", "")]
        if question.name == "whatif":
            offers = _offers(await self._view.source.nodes())
        with self._answer, tag("section", classes="panel", aria_label="To begin with"):
            tag(
                "p",
                ON_DEMAND.get(
                    question.name, "Say what is to change in the sentence above, or begin with one of these:"
                ),
            )
            with tag("div", classes="tries"):
                for text, changes in offers:
                    if changes:
                        link(text, f"{question.path}?{urlencode({CHANGES: changes})}", "button plain")
                    else:
                        on(tag("button", text, type_="button"), "click", lambda _event: self._begin())

    def _begin(self) -> None:
        self._answer.clear()
        self.ask()


def _offers(columns: NodeColumns) -> list[tuple[str, str]]:
    """Return changes that can be tried on this cluster, as questions."""
    zones = [zone for zone in columns.zones.names if zone]
    fullest = max(range(len(columns.names)), key=lambda at: columns.pods[at], default=None)
    told = [(f"What if zone {zone} were lost?", f"lose-zone {zone}") for zone in zones[:2]]
    if fullest is not None:
        name = columns.names[fullest]
        told.append((f"What if {name} were drained?", f"drain {name}"))
        told.append((f"What if 2 nodes like {name} were added?", f"add-nodes 2={name}"))
    return told
