"""The guests know of Berth what anybody may: `berth.plugin`, `berth.controller` and, in tests, `berth.testing`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
SOURCES = sorted((HERE / "src").rglob("*.py"))
TESTS = sorted((HERE / "tests").rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relatively"
            yield node.module or ""


def of_berth(path: Path) -> set[str]:
    """Return what a file imports of Berth itself."""
    return {name for name in imported(path) if name.startswith("berth") and name.split(".")[0] != "berth_plugins"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_plugins_import_the_contract_alone(path):
    assert of_berth(path) <= {"berth.plugin", "berth.controller"}


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_their_tests_import_the_builders_as_well(path):
    assert of_berth(path) <= {"berth.plugin", "berth.controller", "berth.testing"}
