"""The page of a question: a form made of its request, and below it the sections of the answer.

A question whose request is not made of what is typed field by field brings its own fields, and `read`, which makes the
request of their values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from berth.config.document import parse_document
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.page.data_routes import NODES, PODS
from berth_workbench.page.jobs import Jobs
from berth_workbench.page.source import Source
from berth_workbench.page.views.elements import TrialForm, TrialMap, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.sections import show_sections
from berth_workbench.page.views.trials import TrialPanel, result_place
from berth_workbench.planning.scenario import CHANGES_HINT, typed_steps
from berth_workbench.questions.question import Question, RequestField
from berth_workbench.showing.sections import NoteSection
from berth_workbench.simulation.steps import Manifests, Step
from berth_workbench.simulation.watch import StoppedError, WorkWatch
from berth_workbench.snapshot.documents import parse_manifests
from berth_workbench.snapshot.snapshot import Snapshot

Values = Mapping[str, Any]
MANIFESTS_HINT = "Pods, Deployments, StatefulSets, Jobs, DaemonSets, pod groups: YAML or JSON; a file can be dropped."


class OwnForm(NamedTuple):
    """A form of a question's own."""

    fields: Sequence[Mapping[str, Any]]
    read: Callable[[Values, Snapshot, ConfigurationSource], Any]
    """Makes the request. Raises ValueError, `UserError`."""


@dataclass(slots=True, eq=False, repr=False)
class QuestionView:
    """Makes the page of a question."""

    _question: Question[Any, Any]
    _source: Source
    _frame: Frame
    _jobs: Jobs
    _own: OwnForm | None = None

    async def build(self) -> None:
        """The form, and the result below it."""
        question = self._question
        async with self._frame.page(question.title, question.path):
            for paragraph in question.about.strip().split("\n\n")[:1]:
                tag("p", " ".join(paragraph.split()), "soft")
            with tag("div", classes="trial"):
                if question.name == "whatif":
                    with tag("section", classes="panel", aria_label="Choose"):
                        TrialMap(NODES, PODS)
                with tag("section", classes="panel", aria_label="What is asked"):
                    form = TrialForm(question.title, "Ask", [*self._fields()])
            TrialPanel(form, result_place(), self._jobs).runs(self._prepare, self._show)

    def _fields(self) -> list[Mapping[str, Any]]:
        question = self._question
        fields = list(self._own.fields if self._own is not None else map(field_of, self._asked()))
        if question.takes_changes and question.name != "whatif":
            fields.append(
                {"name": "changes", "label": "After these changes of the cluster", "kind": "area", "rows": 3,
                 "hint": CHANGES_HINT}
            )  # fmt: skip
        elif question.takes_changes:
            fields.insert(
                0,
                {"name": "changes", "label": "Changes of the cluster", "kind": "area", "rows": 6, "hint": CHANGES_HINT},
            )
        if question.manifests == "applied":
            fields.append(
                {"name": "manifests", "label": "Manifests to apply after them", "kind": "area", "rows": 5,
                 "hint": MANIFESTS_HINT}
            )  # fmt: skip
        return fields

    def _asked(self) -> list[RequestField]:
        return [each for each in self._question.fields() if each.ask.on_page]

    async def _prepare(self, values: dict[str, Any]) -> Callable[[WorkWatch], Any]:
        question = self._question
        steps: list[Step] = typed_steps(str(values.get("changes", "")))
        if question.manifests == "applied" and (typed := str(values.get("manifests", ""))).strip():
            steps.append(Manifests(list(parse_manifests(typed.encode(), "manifests")), "apply the manifests"))
        if question.name == "whatif" and not steps:
            raise ValueError("nothing is to be tried: type a change, or a manifest")
        snapshot, configuration = await self._source.snapshot(), await self._source.configuration()
        if self._own is not None:
            request = self._own.read(values, snapshot, configuration)
        else:
            request = question.request(**{each.name: value_of(each, values.get(each.name)) for each in self._asked()})

        def work(watch: WorkWatch) -> Any:
            watch.begin(question.doing)
            try:
                return question.answer(self._jobs.situation(snapshot, configuration, tuple(steps)), request, watch)
            except StoppedError:
                raise ValueError("stopped before there was anything to tell") from None

        return work

    def _show(self, found: Any, goes_on: bool) -> None:
        first, *others = self._question.sections(found, is_at_work=goes_on)
        show_sections([first, *map(NoteSection, found.notes), *others])


def field_of(field: RequestField) -> dict[str, Any]:
    """Return the field of a form that asks for a field of a request."""
    words = field.flag.lstrip("-").replace("-", " ")
    made: dict[str, Any] = {"name": field.name, "label": words[0].upper() + words[1:].lower(), "hint": field.ask.help}
    if field.type is bool:
        return made | {"kind": "check", "value": bool(field.default)}
    if get_origin(field.type) is Literal:
        return made | {"kind": "select", "options": list(get_args(field.type)), "value": get_args(field.type)[0]}
    if field.ask.reads is not None:
        return made | {"kind": "area", "rows": 4}
    if isinstance(field.default, int | float):
        return made | {"kind": "number", "value": f"{field.default:g}"}
    return made | {"kind": "text", "value": ""}


def value_of(field: RequestField, typed: Any) -> Any:
    """Return what was typed into a field of a form, as the request has it. Raises ValueError."""
    if field.type is bool:
        return typed is True
    text = str(typed or "").strip()
    if field.ask.reads is not None:
        return field.ask.reads(parse_document(text.encode(), field.name)) if text else _given(field)
    if get_origin(field.type) is tuple:
        return tuple(_choice(field, word.strip()) for word in text.split(",") if word.strip())
    if not text:
        return _given(field)
    if get_origin(field.type) is Literal:
        return _choice(field, text)
    if isinstance(field.default, str):
        return text
    return _number(field, text)


def _given(field: RequestField) -> Any:
    """Return the value if nothing was typed. Raises ValueError if something has to be typed."""
    if field.default is msgspec.NODEFAULT:
        raise ValueError(f"{field_of(field)['label']}: this has to be given. {field.ask.help}")
    return field.default


def _choice(field: RequestField, word: str) -> str:
    kind = get_args(field.type)[0] if get_origin(field.type) is tuple else field.type
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    if choices and word not in choices:
        raise ValueError(f"{field.flag.lstrip('-')}: there are {', '.join(choices)}, not {word!r}")
    return word


def _number(field: RequestField, text: str) -> float:
    least, most = field.ask.least, field.ask.most
    try:
        number = float(text) if isinstance(field.default, float) else int(text)
    except ValueError:
        number = None
    if number is None or number != number or (least is not None and number < least) or (most and number > most):
        bounds = f" from {least:g} to {most:g}" if least is not None and most is not None else ""
        what = "a number" if isinstance(field.default, float) else "a whole number"
        raise ValueError(f"{field.flag.lstrip('-')}: {what}{bounds} is expected, not {text!r}")
    return number
