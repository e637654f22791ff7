"""The command `berth`: a group whose commands are imported only when they are used.

Which commands there are, `commands` finds out; `berth --help` imports none of them. Words in, exit code out: 0 clean,
1 failed, 2 wrong usage, 130 ended by Ctrl-C.
"""

import atexit
import gc
import os
import signal
import sys
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from berth.api.user_error import UserError
from berth.cli.commands import Commands, extras_with_commands, tables
from berth.cli.help_text import UnbrokenContext

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

YOUNG_OBJECTS = 20_000
"""How many new objects there may be before cycles are looked for. A scheduler keeps most of what it makes, and makes no
cycles on its main path: at Python's own 700 the search takes a tenth of the time of a scheduling cycle."""

CONTEXT_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

EXIT_INTERRUPTED = 128 + signal.SIGINT

NUMPY_THREADS = "OPENBLAS_NUM_THREADS"
"""Asked by numpy when it is imported. Nobody multiplies matrices here, and its threads spin for a while."""


def prepare_process() -> None:
    """Set up the process of a command, before its modules are imported: they make many objects, and import numpy."""
    gc.set_threshold(YOUNG_OBJECTS)
    # At the end, Python would look for cycles in all that is left before it gives everything back, for as long as some
    # questions take.
    atexit.register(gc.freeze)
    os.environ.setdefault(NUMPY_THREADS, "1")


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is named."""

    context_class = UnbrokenContext

    @cached_property
    def _found(self) -> Commands:
        return Commands(tables())

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, the scheduler's first."""
        return self._found.names

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; None where there is none."""
        return self._found.load(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by the packages that bring them, from the tables alone."""
        for title, rows in self._found.sections():
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it ends with names things of files and clusters, which must not steer a terminal."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = _legible(error.message)  # type: ignore[misc] # final to click; what is shown is made of it
            raise
        except UserError as error:
            failure = click.ClickException(_legible(str(error)))
            failure.exit_code = error.exit_code  # type: ignore[misc] # one for all of its kind, to click's stubs
            raise failure from None
        except KeyboardInterrupt:
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was typed; a wrong one is answered with the names there are."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self._found.names and not ctx.resilient_parsing:
            from berth.api.near_names import nearest

            hint = nearest(name, self._found.names)
            if missing := extras_with_commands():
                hint += f"; others come with berth-scheduler[{','.join(missing)}]"
            ctx.fail(f"there is no command {name!r}; the commands are {', '.join(self._found.names)}{hint}")
        gc.disable()  # what modules are made of stays
        try:
            found = super().resolve_command(ctx, args)
            # What follows may have something to put away, and hears Ctrl-C as an exception again (`berth.__main__`).
            is_main = threading.current_thread() is threading.main_thread()
            if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            return found
        finally:
            if not gc.get_freeze_count():  # where several commands run in one process, garbage would be kept as well
                gc.freeze()
            gc.enable()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands that begin so, from the tables alone; Click would import each of them."""
        from click.shell_completion import CompletionItem

        rows = [row for _, rows in self._found.sections() for row in rows]
        found = [CompletionItem(name, help=says) for name, says in rows if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def _legible(text: str) -> str:
    from berth.runtime.observing.logs import legible  # `berth --help` needs nothing of the live process

    return legible(text)


def print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    """`--version`; the metadata is read only when asked for."""
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"berth {version('berth-scheduler')} (Python {sys.version.split()[0]})")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings=CONTEXT_SETTINGS)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=print_version, help="Show the version."
)
def main() -> None:
    """A Kubernetes scheduler: kube-scheduler's decisions, every node scored, every decision explained."""
