"""Sections as Markdown, for comments and summaries: each line of an answer is a line."""

import re
from collections.abc import Iterable

from berth.runtime.observing.logs import legible
from berth_workbench.showing.sections import NoteSection, Section, Sentence, VerdictSection

_SIGNS = re.compile(r"([\\`*_\[\]<>|#~])")


def markdown(sections: Iterable[Section]) -> str:
    """Return verdict, sentences and notes as lines that end in hard breaks; tables and pictures are left out."""
    lines = []
    for each in sections:
        if isinstance(each, VerdictSection | Sentence):
            lines.append(escaped(each.text))
        elif isinstance(each, NoteSection):
            lines.append(f"*{escaped(each.text)}*")
    return "".join(f"{line}  \n" for line in lines[:-1]) + "".join(f"{line}\n" for line in lines[-1:])


def escaped(text: str) -> str:
    """Return text from a cluster or a file such that nothing of it counts as Markdown or HTML."""
    return _SIGNS.sub(r"\\\1", legible(text)).replace("\n", " ")
