"""Reads README.md beside it: which function is what the pages name, and which test runs it."""

import importlib
import inspect
import re
from types import CodeType
from typing import NamedTuple

from tests.paths import ROOT

DOCUMENT = ROOT / "tests/seeds/README.md"
ROW = re.compile(
    r"^\| (?P<name>.+?) \| `packages/\w+/src/(?P<module>[\w/]+)\.py` `(?P<function>[\w.]+)` "
    r"\| `(?P<test>[\w/]*tests/[\w/]+\.py::\w+)` \|"
)


class Row(NamedTuple):
    """One line of the table."""

    name: str
    module: str
    function: str
    test: str

    @property
    def code(self) -> CodeType:
        """What must have run; raises where there is no such function."""
        found = importlib.import_module(self.module)
        for part in self.function.split("."):
            found = inspect.getattr_static(found, part)
        found = getattr(found, "fget", None) or getattr(found, "func", None) or found
        found = getattr(found, "__func__", found)
        return inspect.unwrap(found).__code__


def rows():
    """All rows; a line that looks like one and is none is an error."""
    found = []
    for line in DOCUMENT.read_text().splitlines():
        if not line.startswith("| ") or "/src/" not in line:
            continue
        match = ROW.match(line)
        assert match, f"README.md: this is no row of the table: {line}"
        fields = match.groupdict()
        found.append(Row(**{**fields, "module": fields["module"].replace("/", ".")}))
    return found
