"""`berth top`: nodes by load, pending pods by workload, the queue, and pods' stories, in a terminal.

It looks where `berth ui` looks (`source_options`), and changes nothing.
"""

import asyncio
import sys
from typing import Any

import click

from berth.cli.option_rules import never_with
from berth_workbench.cli.ui import Looked, source_of, source_options

MISSING = "berth top needs Textual, which is not installed: pip install 'berth-scheduler[top]'"


@click.command("top", short_help="The same in a terminal.")
@never_with("all_namespaces", "namespace", because="which takes all of them")
@click.option("-n", "--namespace", default="", help="Show the pods of this namespace only; by default those of all.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Show the pods of all namespaces, as by default.")
@source_options
def command(files: tuple[str, ...], namespace: str, all_namespaces: bool, **given: Any) -> None:
    """Show nodes by load, pending pods by workload, decisions and the queue in the terminal; q ends it."""
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise click.ClickException(MISSING)
    if not sys.stdout.isatty():
        prints = "`berth capacity` and `berth whatif` print" if files else "`berth explain` prints"
        raise click.ClickException(f"berth top needs a terminal; {prints}")
    asyncio.run(_show(Looked.of(files, given), "" if all_namespaces else namespace))


async def _show(looked: Looked, namespace: str) -> None:
    from berth_workbench.page.terminal import Top

    top = Top(await source_of(looked), namespace=namespace)
    try:
        await top.run_async()
    finally:
        top.close()
