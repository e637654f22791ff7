"""Where things lie in the repository, for tests that read documents and sources."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GUESTS = ROOT / "packages/plugins"
SCHEDULER = ROOT / "packages/scheduler/src/berth"
SOURCES = tuple(
    ROOT / "packages" / house / "src" for house in ("scheduler", "workloads", "workbench", "cluster", "kueue")
)
"""The sources of each house but the guests', from the bottom up."""
PYTHONPATH = os.pathsep.join(map(str, SOURCES))


def sources():
    """Every module of these houses, by its path from the house's `src`."""
    return {path.relative_to(house).as_posix(): path for house in SOURCES for path in sorted(house.rglob("*.py"))}


def package(name):
    """The directory of a package, as of `berth_workbench`."""
    (found,) = (house / name for house in SOURCES if (house / name).is_dir())
    return found
