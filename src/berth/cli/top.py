"""`berth top`: nodes by load, pending pods by reason, the queue, and pods' stories, in a terminal.

It looks where `berth ui` looks (`source_options`), and changes nothing.
"""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from berth.cli.ui import source_of, source_options

if TYPE_CHECKING:
    from berth.cli.asking import Way

MISSING = "berth top needs Textual, which is not installed: pip install 'berth-scheduler[top]'"


@click.command("top", short_help="The same in a terminal.")
@source_options
def command(
    files: tuple[str, ...], server: str, certificate_authority: str, kubeconfig: str, context: str, lease: str
) -> None:
    """Show nodes by load, pending pods by reason, decisions and the queue in the terminal; q ends it."""
    from importlib.util import find_spec

    from berth.cli.asking import Way

    if find_spec("textual") is None:
        raise click.ClickException(MISSING)
    if not sys.stdout.isatty():
        raise click.ClickException("berth top needs a terminal; `berth explain` prints")
    asyncio.run(_show(files, Way(server, certificate_authority, kubeconfig, context, lease)))


async def _show(files: tuple[str, ...], way: "Way") -> None:
    from berth.page.terminal import Top

    source = await source_of(files, way)
    try:
        await Top(source).run_async()
    finally:
        await source.close()
