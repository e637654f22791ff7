"""What a question is: a request, its answer, and how to present the answer.

A module of this package has one, as `QUESTION`. The command line, the page and the library derive everything from it:
options and fields of a form from the annotations of the request, tables and pictures from the sections of the answer,
JSON from the answer itself. So a new question is a module here, an entry in `berth_workbench.cli`, and for a page a
name in `berth_workbench.questions.table`.

An answer that was cut short has no verdict, however it is presented (`Question.sections`): it could still turn into its
opposite. Only what is already certain is shown, as each question's `so_far`.

A request is a frozen struct; each of its fields says by a `HowAsked` how people are asked for it, and by a `HowSaid`
how its value is said in the sentence that stands above the answer (`berth_workbench.questions.sentence`):

    class SurviveRequest(msgspec.Struct, frozen=True):
        pairs: Annotated[
            bool, HowAsked("Lose two of a kind at once, too."), HowSaid("also two at once", "one at a time")
        ] = False
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, get_type_hints

import msgspec

from berth_workbench.showing.ask import HowAsked, HowSaid
from berth_workbench.showing.sections import Section, Sentence, VerdictSection
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch


class RequestField(NamedTuple):
    """A field of a request: what it is called, what it holds, and how people are asked for it."""

    name: str
    type: Any
    default: Any
    """`msgspec.NODEFAULT` where it has to be given."""
    ask: HowAsked
    said: HowSaid | None = None
    """How it is said; None where nothing is said of it."""

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return self.ask.flag or "--" + self.name.replace("_", "-")


class AnswerTold(Protocol):
    """What all answers have: notes needed to read them, and whether they were stopped before the end."""

    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def is_complete(self) -> bool: ...


RequestT = TypeVar("RequestT", bound=msgspec.Struct)
AnswerT = TypeVar("AnswerT", bound=AnswerTold)


class NamedThings(NamedTuple, Generic[AnswerT]):
    """The single things that an answer is about, which `-o name` prints."""

    what: str
    of: Callable[[AnswerT], Iterable[str]]


class Fails(NamedTuple, Generic[AnswerT]):
    """A flag that makes a command end with 1, and when."""

    flag: str
    help: str
    when: Callable[[AnswerT], bool]


class Question(NamedTuple, Generic[RequestT, AnswerT]):
    """A question, as all four ways to ask it know it."""

    name: str
    """Of the command, and of the page's address."""
    title: str
    """Of the page."""
    about: str
    """For the command's help: a sentence, and after an empty line what else has to be known."""
    doing: str
    """What is counted while it works, for whoever waits: `losing nodes`."""
    request: type[RequestT]
    answer: Callable[[Situation, RequestT, WorkWatch], AnswerT]
    """May raise `UserError`, and `StoppedError` where nothing can be kept."""
    told: Callable[[AnswerT], Iterator[Section]]
    """The answer in words, tables and pictures; the verdict comes first. Others ask for `sections`."""
    asks: str = ""
    """The sentence in which it is asked, with the names of fields, and `changes`, where their words stand."""
    supposes: bool = False
    """Whether changes are supposed in that sentence (`a were drained`), and not done before it (`draining a`)."""
    so_far: Callable[[AnswerT], str] = lambda _: ""
    """What is certain where it was cut short, in sentences: true of the finished answer as well."""
    group: str = ""
    """The group that its command is in, where it is in one: `kueue`."""
    takes_changes: bool = True
    """Whether changes of the cluster may come before it."""
    manifests: Literal["", "applied", "asked"] = ""
    """What `-f` is: nothing, the last of the changes, or what is asked about, as the request's `documents`."""
    names: NamedThings[AnswerT] | None = None
    fails: Fails[AnswerT] | None = None
    is_parallel: bool = False
    """Whether several processes can work at it: then its command has `--jobs`."""
    document: Callable[[AnswerT], Any] = lambda found: found
    """What is printed as JSON of an answer: the answer itself, where it holds nothing that is for pictures only."""

    @property
    def path(self) -> str:
        """The address of its page."""
        return "/" + self.title.lower().replace(" ", "-")

    def sections(self, found: AnswerT, *, is_at_work: bool = False) -> Iterator[Section]:
        """Yield the answer as it is told: the verdict first, or that there is none where it was cut short.

        `is_at_work` if it is shown before the end, with the rest still to come.
        """
        verdict, *others = self.told(found)
        if found.is_complete:
            yield verdict
        else:
            how = f"Not known yet: still {self.doing}." if is_at_work else f"Not known: stopped while {self.doing}."
            yield VerdictSection(f"{how} {self.so_far(found)}".rstrip())
            yield Sentence("The rest is as far as it came, and may still change.")
        yield from others

    def fields(self) -> Iterator[RequestField]:
        """Yield the fields of the request that people are asked for, in their order."""
        return (each for each in self._annotated() if each.ask.help)

    def said(self) -> Iterator[RequestField]:
        """Yield the fields of the request that its sentence says something of, in their order."""
        return (each for each in self._annotated() if each.said is not None)

    def _annotated(self) -> Iterator[RequestField]:
        hints = get_type_hints(self.request, include_extras=True)
        for each in msgspec.structs.fields(self.request):
            notes = getattr(hints[each.name], "__metadata__", ())
            ask = next((note for note in notes if isinstance(note, HowAsked)), HowAsked(""))
            said = next((note for note in notes if isinstance(note, HowSaid)), None)
            if notes:
                yield RequestField(each.name, hints[each.name].__origin__, each.default, ask, said)
