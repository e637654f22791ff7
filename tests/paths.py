"""Where things lie in the repository, for tests that read documents and sources."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
DOCS = ROOT / "docs"
