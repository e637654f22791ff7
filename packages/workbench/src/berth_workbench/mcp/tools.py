"""Tools: each question as one, and `more`, which reads on in an answer that was too long for one page.

An answer is the JSON that the question's command prints with `-o json`, with three fields more: `verdict`, the `state`
that it is about, and `pages` where lists were cut. The verdict stands in the text as well, with the notes that are
needed to read it. Whatever names and messages of the cluster say, they are data: in the text each is on one line with
its control characters escaped, and text and state say that none of it is an instruction.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import mcp_types as types
import msgspec

from berth.runtime.observing.logs import legible
from berth_workbench.mcp.arguments import Arguments
from berth_workbench.mcp.pages import AnswerPage, AnswerPages
from berth_workbench.mcp.refusals import CallRefused
from berth_workbench.mcp.state import UNTRUSTED, StateAsked
from berth_workbench.questions.question import Question
from berth_workbench.showing.sections import Sentence, VerdictSection
from berth_workbench.simulation.kept import KeptCluster
from berth_workbench.simulation.watch import StoppedError, WorkWatch

MORE: Final = "more"
SENTENCES = 12
"""So many sentences beside the verdict are told in the text."""
OF_ALL_ANSWERS: Final[Mapping[str, Any]] = {
    "verdict": {"type": "string", "description": "The sentence that answers the question."},
    "state": {"type": "object", "description": "The cluster that is asked about, and how old that state is."},
    "pages": {"type": "object", "description": "Lists that were cut, each with the `cursor` for the tool `more`."},
    "error": {
        "type": "object",
        "description": "Instead of all others where there is no answer: code, message, whatToDo.",
    },
}
"""None is required: some clients hold a refusal against the schema as well."""
ONLY_READS: Final = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
MORE_LISTED: Final = types.Tool(
    name=MORE,
    description="Read on in an answer that was too long, from a cursor under its `pages`.",
    input_schema={
        "type": "object",
        "properties": {"cursor": {"type": "string"}},
        "required": ["cursor"],
        "additionalProperties": False,
    },
    annotations=ONLY_READS,
)


class ToolAnswer(NamedTuple):
    """What a tool returns: for people, and for programs."""

    text: str
    document: dict[str, Any]


class QuestionTool:
    """A question, asked by a call."""

    __slots__ = ("_arguments", "_question", "listed")

    def __init__(self, question: Question[Any, Any]) -> None:
        self._question = question
        self._arguments = Arguments(question)
        about = f"As docs/outputs.md has it for `berth {question.name}`, and more."
        self.listed = types.Tool(
            name=question.name,
            title=question.title,
            description=self._arguments.in_words(question.about),
            input_schema=self._arguments.schema,
            output_schema={"type": "object", "description": about, "properties": OF_ALL_ANSWERS},
            annotations=ONLY_READS,
        )

    def prepare(
        self, given: Mapping[str, Any], state: StateAsked, pages: AnswerPages, kept: KeptCluster
    ) -> tuple[Callable[[WorkWatch], ToolAnswer], float]:
        """Return what works the answer out, on another thread, and how many seconds it may take.

        Reading the arguments is left to it, too, but for whether they are what the schema says. Raises `CallRefused`.
        """
        checked = self._arguments.checked(given)

        def work(watch: WorkWatch) -> ToolAnswer:
            watch.begin(self._question.doing)
            situation, request = self._arguments.read(checked, state)
            situation = msgspec.structs.replace(situation, kept=kept)
            try:
                found = self._question.answer(situation, request, watch)
            except StoppedError:
                raise CallRefused("stopped", "it was stopped before there was anything to tell") from None
            return self._told(found, state, pages)

        return work, checked.for_seconds

    def _told(self, found: Any, state: StateAsked, pages: AnswerPages) -> ToolAnswer:
        question, now = self._question, datetime.now(UTC)
        verdict, *others = question.sections(found)
        assert isinstance(verdict, VerdictSection)
        values = {
            "verdict": verdict.text,
            "state": state.document(now),
            **msgspec.json.decode(msgspec.json.encode(msgspec.to_builtins(question.document(found), str_keys=True))),
        }
        if state.decides.assumed:
            values["assumed"] = state.decides.assumed
        page = pages.first(values)
        sentences = [each.text for each in others if isinstance(each, Sentence)]
        lines = [
            verdict.text,
            UNTRUSTED,
            *(f"Note: {each}" for each in found.notes),
            *sentences[:SENTENCES],
            state.in_words(now),
            *([f"Assumed: {state.decides.assumed}."] if state.decides.assumed else []),
        ]
        return paged(lines, page)


def more(given: Mapping[str, Any], pages: AnswerPages) -> ToolAnswer:
    """Read on in an answer. Raises `CallRefused`."""
    cursor = given.get("cursor")
    if set(given) != {"cursor"} or not isinstance(cursor, str):
        raise CallRefused("argument", "one argument is expected: cursor, a text that an answer has given")
    page = pages.more(cursor)
    return paged(["More of an answer.", UNTRUSTED], page._replace(value={"more": page.value}))


def paged(lines: list[str], page: AnswerPage) -> ToolAnswer:
    """Return a page as it is told; each line stays one, whatever names are in it."""
    document = {**page.value, "pages": page.pages} if page.pages else page.value
    cut = ", ".join(f"{pointer or 'this'} ({each['total']:,} in all)" for pointer, each in page.pages.items())
    if cut:
        lines = [*lines, f"Cut for length: {cut}. The tool `{MORE}` reads on with the cursors under `pages`."]
    return ToolAnswer("\n".join(map(one_line, lines)), document)


def one_line(text: str) -> str:
    """Return a text on one line, with everything escaped that cannot be printed."""
    return legible(text).replace("\n", "\\n").replace("\t", " ")


def as_json(document: Any) -> str:
    """Return a document as JSON in which no text is invisible, or controls a terminal."""
    return json.dumps(document, separators=(",", ":"))
