"""Sections as HTML, for a notebook: the verdict, sentences and tables; pictures are drawn by matplotlib where it is."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from berth.library.tables import as_html, paragraph, told
from berth_workbench.showing.drawing import draw_sections
from berth_workbench.showing.picture import PictureError
from berth_workbench.showing.sections import (
    Bars,
    Lines,
    NoteSection,
    Points,
    Section,
    Sentence,
    TableSection,
    VerdictSection,
)
from berth_workbench.showing.words import celled

_COLOURS = {True: "color:green", False: "color:darkorange", None: ""}


def sections_html(sections: Sequence[Section], title: str) -> str:
    """Return sections one below the other; of tables the first rows, folded ones closed."""
    parts = []
    for each in sections:
        if isinstance(each, VerdictSection):
            parts.append(paragraph(each.text, f"font-weight:bold;{_COLOURS[each.is_good]}"))
        elif isinstance(each, Sentence):
            parts.append(paragraph(each.text))
        elif isinstance(each, NoteSection):
            parts.append(paragraph(each.text, "opacity:.7"))
        elif isinstance(each, TableSection) and each.rows:
            heads = tuple(head.heading for head in each.columns)
            table = as_html(each.title, heads, [tuple(map(celled, row)) for row in each.rows])
            parts.append(
                f"<details><summary>{told(each.title)}</summary>{table}</details>" if each.is_folded else table
            )
    if any(isinstance(each, Bars | Points | Lines) for each in sections):
        parts.append(_picture(sections, title))
    return "".join(parts)


def _picture(sections: Sequence[Section], title: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture.svg"
        try:
            draw_sections(file, sections, title)
        except PictureError as error:
            return paragraph(str(error).removeprefix("--plot: "), "opacity:.7")
        text = file.read_text(encoding="utf-8")
        return text[text.index("<svg") :]
