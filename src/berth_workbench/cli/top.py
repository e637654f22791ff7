"""`berth top`: nodes by load, pending pods by reason, the queue, and pods' stories, in a terminal.

It looks where `berth ui` looks (`source_options`), and changes nothing.
"""

import asyncio
import sys
from typing import Any

import click

from berth_workbench.cli.ui import Looked, source_of, source_options

MISSING = "berth top needs Textual, which is not installed: pip install 'berth-scheduler[top]'"


@click.command("top", short_help="The same in a terminal.")
@source_options
def command(files: tuple[str, ...], **given: Any) -> None:
    """Show nodes by load, pending pods by reason, decisions and the queue in the terminal; q ends it."""
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise click.ClickException(MISSING)
    if not sys.stdout.isatty():
        prints = "`berth capacity` and `berth whatif` print" if files else "`berth explain` prints"
        raise click.ClickException(f"berth top needs a terminal; {prints}")
    asyncio.run(_show(Looked.of(files, given)))


async def _show(looked: Looked) -> None:
    from berth_workbench.page.terminal import Top

    source = await source_of(looked)
    try:
        await Top(source).run_async()
    finally:
        await source.close()
