"""How commands print results: tables for people, names for pipes, JSON and YAML for programs, chosen by `-o`.

A result is a struct; `print_structured` prints it the same way for every command, and fills the templates of
`-o jsonpath=` with it. Tables fit 80 columns unless the terminal is wider or `-o wide` is asked for.
"""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click
import msgspec

from berth.api.near_names import nearest
from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from rich.console import Console

Command = TypeVar("Command", bound=Callable[..., Any])
Output: TypeAlias = str
"""`table`, `wide`, `name`, `json`, `yaml`, or `jsonpath=` with a template that can be read."""

NARROW = 80
"""The width of tables where nobody says how wide the terminal is."""
WIDE = 200
JSONPATH = "jsonpath"


class _OutputType(click.ParamType):  # type: ignore[type-arg]  # older releases of click have it without
    """Checks what is typed behind `-o`, a template included, before any work is done."""

    name = "output"

    def __init__(self, *, has_names: bool, others: tuple[str, ...] = ()) -> None:
        names = ("name",) if has_names else ()
        self._words = ("table", "wide", *names, "json", "yaml", *others)
        self._has_names = has_names

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """What help shows behind `-o`."""
        return f"[{'|'.join(self._words)}|jsonpath=…]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        """Return what was typed; a usage error says what is wrong with it."""
        from berth.cli.jsonpath_template import Template, TemplateError

        kind, equals, template = value.partition("=")
        if kind == JSONPATH:
            try:
                Template(template)
            except TemplateError as error:
                self.fail(str(error), param, ctx)
            return value
        if value in self._words:
            return value
        if kind == "name":
            self.fail("name is not supported here: the result is not about single pods; json has all of it", param, ctx)
        hint = nearest(value, (*self._words, JSONPATH)) or f"; there are {', '.join(self._words)} and jsonpath=TEMPLATE"
        raise click.BadParameter(f"{kind + equals!r} is not supported{hint}", ctx, param)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[click.shell_completion.CompletionItem]":
        """The words that begin so."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in (*self._words, f"{JSONPATH}=") if word.startswith(incomplete)]


def output_option(command: Command) -> Command:
    """`-o`, received as `output: Output`."""
    return _option(_OutputType(has_names=False), "How to print the result.")(command)


def output_option_naming(what: str) -> Callable[[Command], Command]:
    """`-o` of a command whose result is about single things: `-o name` prints those, one a line."""
    return _option(_OutputType(has_names=True), f"How to print the result; name prints {what}, one a line.")


def output_option_as(*others: str) -> Callable[[Command], Command]:
    """`-o` of a command that prints its result in other forms as well, by itself."""
    return _option(_OutputType(has_names=False, others=others), "How to print the result.")


def _option(choice: _OutputType, says: str) -> Callable[[Command], Command]:
    return click.option("-o", "--output", type=choice, default="table", show_default=True, help=says)


def is_structured(output: Output) -> bool:
    """Say whether a program is to read the result."""
    return output not in ("table", "wide")


def print_structured(result: Any, output: Output, names: Iterable[str] = (), *, assumed: str = "") -> None:
    """Print a struct, or JSON values, on standard output: as JSON or YAML, by a template, or only its names.

    `assumed` is what the result rests on beside what was typed; an object says so in a field of that name.
    """
    if output == "name":
        sys.stdout.writelines(f"{legible(name)}\n" for name in dict.fromkeys(names))
        return
    values = msgspec.to_builtins(result, str_keys=True)
    if assumed and isinstance(values, dict):
        values["assumed"] = assumed
    if output == "yaml":
        import yaml

        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=False)
        sys.stdout.write(text)
        return
    if output != "json":
        from berth.cli.jsonpath_template import Template

        sys.stdout.write(Template(output.removeprefix(f"{JSONPATH}=")).filled(values))
        return
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n")


def plain(text: str) -> str:
    """Return text from a cluster or a file for a cell of a table: neither markup nor control characters count in it."""
    from rich.markup import escape

    return escape(legible(text))


def console_for(output: Output = "table") -> "Console":
    """Return where tables are printed: as wide as the terminal, 80 columns where there is none."""
    from rich.console import Console

    console = Console(highlight=False)
    if output == "wide":
        return Console(highlight=False, width=max(WIDE, console.width))
    return console if console.is_terminal else Console(highlight=False, width=NARROW)
