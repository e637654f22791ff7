"""What README.md says of each spec of three groups, held to the tests that mirror them."""

import importlib
import inspect
import re
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE / "README.md"


def sections():
    """The specs that each section of the document names."""
    parts = re.split(r"^## (.+)$", DOCUMENT.read_text(), flags=re.MULTILINE)
    return {
        title: re.findall(r"^(?:- |\| )`(.+?)`", text, re.MULTILINE)
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def mirrored():
    """The specs that the tests beside this one mirror."""
    names = []
    for file in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{file.stem}")
        for _, test in inspect.getmembers(module, inspect.isfunction):
            names += getattr(test, "specs", ())
    return names


def test_each_spec_that_passes_has_a_test():
    said = sections()
    assert sorted(said["Passes"] + said["In part"]) == sorted(mirrored())


def test_no_spec_is_named_twice():
    named = [name for names in sections().values() for name in names]
    assert len(named) == len(set(named))
    assert sections()["Cannot be"]
