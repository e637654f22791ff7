"""The group `berth kueue` knows its commands without importing them."""

import click

from berth_kueue.cli import COMMANDS, INNER
from berth_kueue.cli.kueue import command


def test_the_group_lists_what_the_table_names() -> None:
    with click.Context(command) as context:
        assert command.list_commands(context) == list(INNER.commands)
        assert command.get_command(context, "no-such-command") is None


def test_the_group_is_offered_once_it_has_a_command() -> None:
    assert ("kueue" in COMMANDS.commands) == bool(INNER.commands)
