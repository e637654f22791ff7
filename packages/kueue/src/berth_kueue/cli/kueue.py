"""The group `berth kueue`: a command's module is imported when it is named."""

import click

from berth.cli.commands import Commands
from berth.cli.help_text import UnbrokenContext
from berth_kueue.cli import INNER


class _KueueGroup(click.Group):
    context_class = UnbrokenContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return Commands([INNER]).names

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return Commands([INNER]).load(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([row for _, rows in Commands([INNER]).sections() for row in rows])


@click.group("kueue", cls=_KueueGroup, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Who of Kueue's workloads runs, why the others wait, and where their pods go."""
