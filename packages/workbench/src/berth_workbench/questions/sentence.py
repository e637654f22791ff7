"""A question as the sentence in which it is asked, of the words that the request's annotations carry (`HowSaid`).

The command prints it above its answer, and on the page its parts are changed where they stand. A question's `asks` says
where the fields stand in it: `Lose {kinds} in turn, {pairs}, after {changes}.` Fields that do not stand there have a
sentence of their own, which is said where something other than the usual was given.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from berth_workbench.questions.question import Question, RequestField
from berth_workbench.showing.ask import HowSaid
from berth_workbench.showing.numbers import number
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.changes import AddNodes, ClusterChange, Evict, LoseZone, Scale
from berth_workbench.simulation.steps import Manifests, Step

CHANGES: Final = "changes"
NAMES_SAID: Final = 3
NO_CHANGES: Final = "no changes"
_PART = re.compile(r"\{(\w+)\}")
_DONE: Final[Mapping[str, tuple[str, str]]] = {
    "drain": ("draining {}", "{} were drained"),
    "cordon": ("cordoning {}", "{} were cordoned"),
    "uncordon": ("uncordoning {}", "{} were uncordoned"),
    "removeNodes": ("losing {}", "{} were lost"),
    "addNodes": ("adding {}", "{} were added"),
    "loseZone": ("losing zone {}", "zone {} were lost"),
    "scale": ("scaling {}", "{} were scaled"),
    "delete": ("deleting {}", "{} were deleted"),
    "evict": ("evicting {}", "{} were evicted"),
    "upgrade": ("upgrading {}", "{} were upgraded"),
    "taint": ("tainting {}", "{} were tainted"),
    "untaint": ("taking a taint off {}", "a taint were taken off {}"),
    "label": ("labelling {}", "{} were labelled"),
}


class SentencePiece(NamedTuple):
    """A piece of the sentence; `name` is the field that it says, empty for what stands there anyway."""

    text: str
    name: str = ""


def pieces(question: Question[Any, Any], texts: Mapping[str, str]) -> Iterator[SentencePiece]:
    """Yield the sentence piece by piece, of what is said of each field."""
    for at, part in enumerate(_PART.split(question.asks)):
        if at % 2:
            yield SentencePiece(texts.get(part, ""), part)
        elif part:
            yield SentencePiece(part)


def asked_in_words(question: Question[Any, Any], request: msgspec.Struct, steps: Sequence[Step] = ()) -> str:
    """Return the sentence in which a question was asked, with a sentence for everything unusual behind it."""
    if not question.asks:
        return ""
    texts = {CHANGES: changes_in_words(steps, is_supposed=question.supposes)}
    rare = []
    for field in question.said():
        value = getattr(request, field.name)
        texts[field.name] = value_in_words(field, value)
        if field.name not in _PART.findall(question.asks) and value != field.default:
            rare.append(texts[field.name])
    return " ".join(filter(None, ("".join(each.text for each in pieces(question, texts)), *rare)))


def is_rare(question: Question[Any, Any], name: str) -> bool:
    """Whether a field does not stand in the sentence."""
    return name not in _PART.findall(question.asks)


def value_in_words(field: RequestField, value: Any) -> str:
    """Return what the sentence says of a field that has this value."""
    said = field.said or HowSaid()
    if value is None or value is False or (isinstance(value, (str, tuple, list)) and not value):
        return said.without
    if value is True:
        return said.says
    if value == 1 and said.one:
        return said.one
    return said.says.format(_told(said, value))


def _told(said: HowSaid, value: Any) -> str:
    if callable(said.words):
        return said.words(value)
    words = said.words or {}
    if isinstance(value, (tuple, list)):
        return listed([str(words.get(each, each)) for each in value], shown=NAMES_SAID)
    if isinstance(value, (int, float)):
        return number(value)
    return str(words.get(value, value)) if isinstance(value, str) else ""


def changes_in_words(steps: Sequence[Step], *, is_supposed: bool = False) -> str:
    """Return changes as `draining a and losing zone b`; as what is supposed, `a were drained and zone b were lost`."""
    if not steps:
        return "nothing were changed" if is_supposed else NO_CHANGES
    told = [_step(step, is_supposed=is_supposed) for step in steps]
    return listed(told if len(told) <= NAMES_SAID else [*told[:2], counted(len(told) - 2, "more change")])


def _step(step: Step, *, is_supposed: bool) -> str:
    if isinstance(step, Manifests):
        what = step.words.partition(" ")[2]
        return f"{what} were applied" if is_supposed else f"applying {what}"
    to = f" to {step.replicas:,}" if isinstance(step, Scale) else ""
    return _DONE[step.step][is_supposed].format(_what(step)) + to


def _what(step: ClusterChange) -> str:
    """Return what is changed by a step."""
    if isinstance(step, AddNodes):
        return f"{counted(step.count, 'node')} like {step.like}"
    if isinstance(step, LoseZone):
        return step.zone
    return listed(step.names, shown=NAMES_SAID) if isinstance(step, Evict) else step.what
