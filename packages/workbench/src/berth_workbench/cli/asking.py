"""Makes the command of a question: options of its request, an answer, and the answer's sections on the terminal."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click
import msgspec

from berth.cli.numbers import FiniteFloatRange
from berth.cli.output import Output, console_for, is_structured, output_option, output_option_naming, print_structured
from berth.cli.setup import config_option, gates_option, plugin_option
from berth_workbench.cli.asked import read_asked, tell_assumed
from berth_workbench.cli.change_flags import OrderedCommand, change_options, typed_changes
from berth_workbench.cli.cluster_input import cluster_options, manifests_option, namespace_option, read_manifests
from berth_workbench.cli.plot_flag import plot_option
from berth_workbench.cli.progress import EndedEarly, for_option, found_by_then, jobs_option, nothing_by_then, working

if TYPE_CHECKING:
    from berth_workbench.questions.question import Question, RequestField
    from berth_workbench.simulation.situation import Situation
    from berth_workbench.simulation.steps import Step

ROWS_SHOWN = 20
"""How many rows each table has; `-o wide` and the structured outputs have all of them."""

Decorate = Callable[[Any], Any]


def command_of(module: ModuleType) -> click.Command:
    """Return the command of a module's question."""
    question: Question[Any, Any] = module.QUESTION

    def ask(**typed: Any) -> None:
        _ask(question, typed)

    kind = OrderedCommand if question.takes_changes else click.Command
    return _made(question, ask, _options(question), cls=kind)


def asks(
    question: "Question[Any, Any]", *options: Decorate, short_help: str | None = None
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that asks a question in its own way, with the fields' options and then others.

    The function receives what was typed; `request_values` has the fields' part of it as the request takes it.
    """
    every = [*map(_option, question.fields()), *options]
    return lambda function: _made(question, function, every, short_help=short_help)


def request_values(question: "Question[Any, Any]", typed: dict[str, Any]) -> dict[str, Any]:
    """Return what was typed for the fields of a request, and take it out of `typed`."""
    return {field.name: _value(field, typed.pop(field.name)) for field in question.fields()}


def _made(
    question: "Question[Any, Any]", function: Callable[..., None], options: Iterable[Decorate], **how: Any
) -> click.Command:
    command: Any = function
    effort = [for_option, *([jobs_option] if question.is_parallel else ())]
    for decorate in (*effort, *reversed(list(options))):
        command = decorate(command)
    make: Any = click.command(question.name, help=question.about, **how)
    made: click.Command = make(command)
    return made


def _options(question: "Question[Any, Any]") -> Iterator[Decorate]:
    for field in question.fields():
        yield _option(field)
    yield cluster_options
    if question.manifests:
        yield manifests_option
    if question.takes_changes:
        yield change_options
    if question.manifests or question.takes_changes:
        yield namespace_option
    if question.fails is not None:
        yield click.option(question.fails.flag, "fails", is_flag=True, help=question.fails.help)
    yield click.option("--seed", type=int, default=0, show_default=True, help="How ties between nodes are broken.")
    yield config_option
    yield plugin_option
    yield gates_option
    yield output_option if question.names is None else output_option_naming(question.names.what)
    yield plot_option


def _option(field: "RequestField") -> Decorate:
    if not field.flag.startswith("-"):
        return click.argument(field.name, nargs=-1, metavar=f"[{field.flag}]...")
    is_needed = field.default is msgspec.NODEFAULT
    shown: dict[str, Any] = {"help": field.ask.help, "required": is_needed}
    if field.ask.metavar:
        shown["metavar"] = field.ask.metavar
    inner = _inner(field.type)
    if inner is bool:
        return click.option(field.flag, field.name, is_flag=True, help=field.ask.help)
    if get_origin(field.type) is tuple:
        shown["multiple"] = True
    elif not is_needed:
        shown["default"] = "" if field.ask.reads else field.default
        shown["show_default"] = field.default not in ("", None)
    if get_origin(inner) is Literal:
        shown["type"] = click.Choice(get_args(inner))
    elif inner is int and field.ask.least is None:
        shown["type"] = int
    elif inner in (int, float):
        made = click.IntRange if inner is int else FiniteFloatRange
        shown["type"] = made(field.ask.least, field.ask.most)  # type: ignore[arg-type] # a range of the same numbers
    return click.option(field.flag, field.name, **shown)


def _inner(kind: Any) -> Any:
    """What one value of a field is: that which is repeated, or may be left out."""
    if get_origin(kind) is tuple:
        return get_args(kind)[0]
    others = [each for each in get_args(kind) if each is not type(None)]
    return others[0] if others and get_origin(kind) is not Literal else kind


def _ask(question: "Question[Any, Any]", typed: dict[str, Any]) -> None:
    from berth_workbench.simulation.situation import Situation
    from berth_workbench.simulation.steps import Manifests

    steps = typed_changes() if question.takes_changes else []
    namespace = typed.get("namespace", "default")
    values = request_values(question, typed)
    manifests = typed.get("manifests", ())
    documents = read_manifests(manifests, namespace)
    if question.manifests == "asked":
        values["documents"] = tuple(documents)
    elif documents:
        steps.append(Manifests(documents, f"apply {', '.join(manifests)}"))
    try:
        request = question.request(**values)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    snapshot, _, setup, assumed = read_asked(
        *(typed[each] for each in ("cluster", "kubeconfig", "context", "config_file", "plugins", "feature_gates"))
    )
    situation = Situation(snapshot, setup, tuple(steps), namespace, typed["seed"])
    found = answered(question, situation, request)
    tell(question, request, found, typed["output"], typed["plot"], assumed, steps)
    if question.fails is not None and typed["fails"] and question.fails.when(found):
        sys.exit(1)


def answered(question: "Question[Any, Any]", situation: "Situation | None", request: Any) -> Any:
    """Return the answer, with progress on standard error. Raises `EndedEarly`, `UserError`."""
    from berth_workbench.simulation.watch import StoppedError

    with working(question.doing) as watch:
        try:
            return question.answer(situation, request, watch)  # type: ignore[arg-type] # some need no situation
        except StoppedError:
            raise EndedEarly(nothing_by_then()) from None


def tell(
    question: "Question[Any, Any]",
    request: Any,
    found: Any,
    output: Output,
    plot: str = "",
    assumed: str = "",
    steps: "Sequence[Step]" = (),
) -> None:
    """Print an answer as `-o` says, below the sentence in which it was asked for, and draw it.

    Raises `EndedEarly` if it was stopped before the end.
    """
    from berth.runtime.observing.logs import legible
    from berth_workbench.questions.sentence import asked_in_words
    from berth_workbench.showing.sections import NoteSection
    from berth_workbench.showing.terminal import print_sections

    sections = list(question.sections(found))
    if plot:
        from berth_workbench.showing.drawing import draw_sections

        draw_sections(plot, sections, question.title)
    if is_structured(output):
        names = () if question.names is None else question.names.of(found)
        print_structured(question.document(found), output, names, assumed=assumed)
    else:
        tell_assumed(assumed)
        notes = (NoteSection(each) for each in found.notes)
        first, *others = sections
        said, width = legible(asked_in_words(question, request, steps)), get_terminal_size().columns
        if said:
            click.echo(fill(said, width, break_long_words=False, break_on_hyphens=False), err=True)
        print_sections([first, *notes, *others], console_for(output), None if output == "wide" else ROWS_SHOWN)
    if not found.is_complete:
        raise EndedEarly(found_by_then())


def _value(field: "RequestField", typed: Any) -> Any:
    """Return what was typed as the request has it; of a file, what stands in it. Raises `click.ClickException`."""
    if field.ask.reads is None:
        return typed
    if not typed:
        return field.default
    from berth.config.document import parse_document
    from berth.config.errors import ConfigError

    try:
        return field.ask.reads(parse_document(Path(typed).read_bytes(), typed))
    except OSError as error:
        raise click.ClickException(f"{field.flag} {typed}: {error.strerror or error}") from None
    except (ValueError, ConfigError) as error:
        raise click.ClickException(f"{field.flag} {typed}: {error}") from None
