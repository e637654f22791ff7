"""The documents know where things are: what they name of the sources exists, and each room stands in its table once."""

import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import DOCS, GUESTS, ROOT, SOURCES, package
from tests.test_docs import DOCUMENTS

PACKAGES = ("berth", "berth_workbench", "berth_workloads", "berth_cluster", "berth_kueue")
NO_MODULES = {"berth.commands", "berth.controllers", "berth.dev", "berth.pages", "berth.resources", "berth.yaml"}
"""Groups of entry points, the domain of our annotations, and a file."""
PLACES = [
    *SOURCES,
    GUESTS / "src/berth_plugins",
    *(package(name) for name in PACKAGES),
    *(each for house in SOURCES for each in house.glob("*/*") if each.is_dir()),
]


def _rooms_told(name: str) -> Iterator[tuple[list[str], str]]:
    """Yield the rows of the table in the README of a house: the rooms that they are about, and what these hold."""
    text = (package(name).parents[1] / "README.md").read_text()
    _, _, rest = text.partition(f"of `{name}` | ")
    for line in rest.split("\n\n")[0].splitlines()[2:]:
        _, rooms, held, _ = line.split("|")
        yield re.findall(r"`([\w./]+)`", rooms), held


def _rooms_there(directory: Path) -> Iterator[str]:
    """Yield the packages and the modules in a package."""
    for path in sorted(directory.iterdir()):
        if (path / "__init__.py").exists():
            yield f"{path.name}/"
        elif path.suffix == ".py" and not path.name.startswith("__"):
            yield path.name


@pytest.mark.parametrize("name", PACKAGES)
def test_every_room_stands_once_in_the_readme_of_its_house(name: str) -> None:
    told = Counter(room for rooms, _ in _rooms_told(name) for room in rooms)
    assert told == Counter(_rooms_there(package(name)))


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_within_a_room_is_told_with_it_once(name: str) -> None:
    for rooms, held in _rooms_told(name):
        inner = [path for room in rooms if room.endswith("/") for path in (package(name) / room).rglob("__init__.py")]
        there = Counter(f"{path.parent.name}/" for path in inner if f"{path.parent.name}/" not in rooms)
        assert Counter(re.findall(r"`(\w+/)`", held)) == there, rooms


def test_the_architecture_leads_to_every_decision_record() -> None:
    _, _, listed = (DOCS / "architecture.md").read_text().partition("## Decision records")
    assert re.findall(r"\]\((adr/.+)\)", listed) == sorted(f"adr/{path.name}" for path in (DOCS / "adr").glob("*.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_that_a_document_names_exists(document: Path) -> None:
    """Dotted, as a path below packages/, or as a path within a package, as in `core/intake.py`."""
    text = document.read_text()
    dotted = set(re.findall(r"(?<![\w./-])(berth(?:_\w+)?(?:\.\w+)+)", text)) - NO_MODULES
    paths = set(re.findall(r"(?<![\w./-])packages/\w+/src/[\w./-]*\w", text))
    within = set(re.findall(r"`((?:\w+/)+\w+\.py|(?:\w+/){2,})`", text))
    missing = [name for name in dotted if not _is_there(name)]
    missing += [path for path in paths if not (ROOT / path).exists()]
    missing += [path for path in within if not any((place / path).exists() for place in (ROOT, *PLACES))]
    assert not missing


def _is_there(dotted: str) -> bool:
    """Whether it is a package, a module, or a name in one."""
    try:
        pkgutil.resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


def test_what_does_not_exist_is_noticed() -> None:
    assert _is_there("berth.core.questions")
    assert _is_there("berth.core.questions.judge")
    assert _is_there("berth.Scheduler.schedule")
    assert not _is_there("berth.core.answers")
    assert not _is_there("berth.cluster")
    assert not _is_there("berth.core.questions.no_such_question")


def test_the_tour_names_files() -> None:
    assert len(re.findall(r"`(?:\w+/)+\w+\.py`", (DOCS / "tour.md").read_text())) > 20
