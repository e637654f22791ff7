"""How commands print results: a table for people, or JSON and YAML for programs, chosen by `-o`.

A result is a struct; `print_structured` prints it the same way for every command. Tables fit 80 columns unless the
terminal is wider or `-o wide` is asked for.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
import msgspec

from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from rich.console import Console

Command = TypeVar("Command", bound=Callable[..., Any])
Output = Literal["table", "wide", "json", "yaml"]

NARROW = 80
"""The width of tables where nobody says how wide the terminal is."""
WIDE = 200


def output_option(command: Command) -> Command:
    """`-o`, received as `output: Output`."""
    decorate = click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "wide", "json", "yaml"]),
        default="table",
        show_default=True,
        help="How to print the result.",
    )
    return decorate(command)


def is_structured(output: Output) -> bool:
    """Say whether a program is to read the result."""
    return output in ("json", "yaml")


def print_structured(result: Any, output: Output) -> None:
    """Print a struct, or JSON values, as JSON or YAML on standard output."""
    values = msgspec.to_builtins(result, str_keys=True)
    if output == "yaml":
        import yaml

        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=False)
        sys.stdout.write(text)
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
