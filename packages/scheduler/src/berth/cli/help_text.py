"""How the help of every command is printed: no name in it is broken at its hyphens, and it ends with examples."""

import copy
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click

NO_BREAK_HYPHEN = "\N{NON-BREAKING HYPHEN}"


class CommandExample(NamedTuple):
    """How a command may be used: what it is for, and what is typed then."""

    purpose: str
    line: str
    """The whole line; for a group's command it begins with both names, and is shown with both."""


class _UnbrokenHelp(click.HelpFormatter):
    """Click wraps at hyphens, and cannot be told not to: while it wraps, there are none."""

    def write(self, string: str) -> None:
        super().write(string.replace(NO_BREAK_HYPHEN, "-"))

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", NO_BREAK_HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(term, says.replace("-", NO_BREAK_HYPHEN)) for term, says in rows], col_max, col_spacing)


class UnbrokenContext(click.Context):
    """The context of a command whose help is printed so."""

    formatter_class = _UnbrokenHelp


def with_examples(command: click.Command, examples: Sequence[CommandExample], path: str) -> click.Command:
    """Return a command whose help ends with examples; a group's commands have those that are theirs."""
    shown = copy.copy(command)
    shown.context_class = UnbrokenContext
    lines = [f"  # {each.purpose}\n  {each.line}" for each in examples]
    shown.epilog = "\b\nExamples:\n" + "\n".join(lines)  # \b: click is not to wrap these lines
    if isinstance(shown, click.Group):
        inner = shown.commands
        shown.commands = {name: with_examples(each, _of(examples, f"{path} {name}"), f"{path} {name}")
                          for name, each in inner.items()}  # fmt: skip
    return shown


def _of(examples: Sequence[CommandExample], path: str) -> list[CommandExample]:
    return [each for each in examples if f"{each.line} ".startswith(f"{path} ")]
