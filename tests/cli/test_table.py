"""The one table of all commands: nothing is cut, no name is broken, and lines keep to the width where words allow."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from berth.cli.table import Table, TableColumn
from tests.paths import sources

WORDS = st.text(alphabet="abc-/.0", min_size=1, max_size=30)
CELLS = {"name": WORDS, "number": st.integers(0, 10**9).map(str), "text": st.lists(WORDS, max_size=30).map(" ".join)}


def printed(table, width, **options):
    written = io.StringIO()
    table.print(Console(file=written, width=width), **options)
    return written.getvalue().splitlines()


@st.composite
def tables(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=6))
    table = Table(*(TableColumn(f"H{number}", kind) for number, kind in enumerate(kinds)))
    for _ in range(draw(st.integers(0, 4))):
        table.add(*(draw(CELLS[kind]) for kind in kinds))
    return table


@given(tables(), st.integers(20, 200))
def test_every_word_is_there_whole_and_lines_keep_to_the_width(table, width):
    lines = printed(table, width)
    found = " ".join(lines).replace(",", " ").split()
    for row in table.rows:
        for cell, column in zip(row.cells, table.columns, strict=True):
            parts = cell.split() if column.kind == "text" else [cell]
            for part in parts:
                assert part in found
    longest = max((len(word) for row in table.rows for cell in row.cells for word in cell.split()), default=0)
    assert max(map(len, lines), default=0) <= max(width, longest + len("    H0 ,"))


def test_sentences_stand_beside_their_row_while_they_are_short_and_under_it_when_not():
    table = Table("Pod", TableColumn("Nodes", "number"), TableColumn("Why", "text"))
    table.add("web-1", 12, "no room")
    assert printed(table, 80) == ["Pod    Nodes  Why", "web-1     12  no room"]
    table.add("web-2", 7, "no room for as many words as " + "there are in this sentence, " * 8)
    assert printed(table, 80)[:4] == [
        "Pod    Nodes",
        "web-1     12",
        "    no room",
        "web-2      7",
    ]


def test_names_that_do_not_fit_stand_under_the_row_behind_their_heading():
    table = Table("Pod", "Before", "After")
    table.add("a" * 30, "b" * 30, "c" * 30)
    assert printed(table, 80) == [
        f"Pod{' ' * 29}Before",
        f"{'a' * 30}  {'b' * 30}",
        f"    After {'c' * 30}",
    ]


def test_a_capped_table_says_how_many_more_there_are():
    table = Table("Pod", title="Pods")
    for number in range(1500):
        table.add(f"web-{number}")
    assert printed(table, 80, shown=2) == [
        "Pods",
        "Pod",
        "web-0",
        "web-1",
        "… and 1,498 more; -o wide lists all of them",
    ]


def test_cells_neither_steer_the_terminal_nor_count_as_markup():
    table = Table("Pod")
    table.add("\x1b[31mred[/][bold]\nnext")
    assert printed(table, 80)[1] == "\\x1b[31mred[/][bold] next"


def test_wide_letters_take_two_places():
    table = Table("Pod", TableColumn("Nodes", "number"))
    table.add("船", 1)
    assert printed(table, 80) == ["Pod  Nodes", "船       1"]


def test_no_other_module_makes_tables():
    """Tables of `rich` break names and ask for a style of their own; the progress bar is no table."""
    modules = sources()
    theirs = [
        name for name, path in modules.items() if re.search(r"\brich\.table\b|\brich import .*table", path.read_text())
    ]
    assert len(modules) > 400
    assert theirs == []


def test_a_row_has_a_cell_for_each_column():
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        Table("Pod", "Node").add("web")
