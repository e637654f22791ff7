"""Refuses options that do nothing beside the others that were given: what is typed has an effect, or ends the command.

`only_with` is for options that say more about another one, `never_with` for those of which one makes the other void.
Only what was typed is looked at: what an environment variable says holds for many commands.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

Command = TypeVar("Command", bound=Callable[..., Any])


def only_with(**needed: str | tuple[str, ...]) -> Callable[[Command], Command]:
    """Refuse each of these options, by parameter, without the other one or one of the others that it needs."""

    def check(context: click.Context) -> None:
        for name, others in needed.items():
            partners = (others,) if isinstance(others, str) else others
            if is_typed(context, name) and not any(context.params.get(each) for each in partners):
                told = " or ".join(option_of(context, each) for each in partners)
                own = option_of(context, name)
                raise click.UsageError(f"{own} has no effect without {told}: add that, or leave {own} out")

    return _checking(check)


def never_with(other: str, *void: str, because: str) -> Callable[[Command], Command]:
    """Refuse these options, by parameter, where the other one is given; `because` says why they would do nothing."""

    def check(context: click.Context) -> None:
        if not context.params.get(other):
            return
        for name in void:
            if is_typed(context, name):
                own, one = option_of(context, name), option_of(context, other)
                raise click.UsageError(f"{own} has no effect with {one}, {because}: leave one of them out")

    return _checking(check)


def _checking(check: Callable[[click.Context], None]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        @wraps(command)
        def checked(*arguments: Any, **options: Any) -> Any:
            check(click.get_current_context())
            return command(*arguments, **options)

        return checked  # type: ignore[return-value]  # it takes and returns what the command does

    return decorate


def is_typed(context: click.Context, name: str) -> bool:
    """Say whether an option was given on the command line."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def option_of(context: click.Context, name: str) -> str:
    """Return how the option of a parameter is typed: its first long name."""
    for parameter in context.command.params:
        if parameter.name == name:
            return next((each for each in parameter.opts if each.startswith("--")), parameter.opts[0])
    raise KeyError(name)
