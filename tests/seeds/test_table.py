"""`README.md` beside this is true: each function that it names exists, and ran in the test that it names."""

import json
import os
import subprocess
import sys

import pytest

from tests.seeds.table import DOCUMENT, ROOT, rows

WITHIN_S = 400


def test_every_row_names_a_function_and_a_test():
    found = rows()
    assert len(found) > 100
    for row in found:
        assert row.code is not None
        file, _, test = row.test.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(), f"{row.name}: there is no {row.test}"


@pytest.mark.long
@pytest.mark.timeout(WITHIN_S + 20)
def test_the_named_tests_run_the_named_functions(tmp_path):
    """They run together in one process, with every call looked at."""
    found, trace = rows(), tmp_path / "trace.json"
    tests = sorted({row.test for row in found})
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.seeds.tracing",
            "-p",
            "no:cacheprovider",
            *tests,
        ],
        cwd=ROOT,
        env={**os.environ, "SEEDS_TRACE": str(trace), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    ran = json.loads(trace.read_text())
    untrue = [
        f"{row.name}: {row.test} does not run {row.module}.{row.function}"
        for row in found
        if f"{row.module}.{row.function}" not in ran[row.test]
    ]
    assert not untrue, "\n".join(untrue)


@pytest.mark.parametrize(
    "line",
    [
        "| `x` | `packages/scheduler/src/berth/core/core.py` Core.step | `tests/core/test_core.py::test_x` |",
        "| x | `packages/scheduler/src/berth/core/core.py` |",
    ],
)
def test_a_line_that_is_no_row_is_told(monkeypatch, tmp_path, line):
    document = tmp_path / "seeds.md"
    document.write_text(line)
    monkeypatch.setattr("tests.seeds.table.DOCUMENT", document)
    with pytest.raises(AssertionError, match="this is no row of the table"):
        rows()


def test_the_document_says_who_won_where_pages_and_records_differ():
    text = DOCUMENT.read_text()
    assert "## Where the pages and the records differ" in text
