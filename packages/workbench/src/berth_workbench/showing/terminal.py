"""Prints sections on a terminal."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from berth.cli import table as terminal
from berth.runtime.observing.logs import legible
from berth_workbench.showing.sections import NoteSection, Section, Sentence, TableSection, VerdictSection
from berth_workbench.showing.words import NAMES_SHOWN, celled

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {True: "bold green", False: "bold yellow", None: "bold"}


def print_sections(sections: Iterable[Section], console: "Console", shown: int | None) -> None:
    """Print them one after the other, of tables `shown` rows at most; without a bound, folded ones, too.

    Pictures are left out: `--plot` draws them.
    """
    folded: list[str] = []
    for each in sections:
        if isinstance(each, VerdictSection):
            console.print(legible(each.text), style=_STYLES[each.is_good], markup=False, highlight=False)
        elif isinstance(each, Sentence):
            console.print(legible(each.text), markup=False, highlight=False)
        elif isinstance(each, NoteSection):
            console.print(legible(f"note: {each.text}"), markup=False, highlight=False)
        elif isinstance(each, TableSection) and each.rows:
            if each.is_folded and shown is not None:
                folded.append(f"{each.title} ({len(each.rows):,})")
                continue
            console.print()
            table_of(each, NAMES_SHOWN if shown else None).print(console, shown)
    if folded:
        console.print()
        console.print(legible(f"-o wide has more: {', '.join(folded)}."), style="dim", markup=False, highlight=False)


def table_of(section: TableSection, names: int | None) -> terminal.Table:
    """Return the table that the terminal prints of a section; of several names in a cell it has so many."""
    columns = (terminal.TableColumn(each.heading, each.kind) for each in section.columns)
    made = terminal.Table(*columns, title=section.title)
    for row in section.rows:
        made.add(*(celled(cell, names) for cell in row))
    return made
