"""`make audit` is green only where a database has answered about every package."""

import importlib.util
import json

import pytest

from tests.deploy.chart import ROOT

LOCK = """click==8.1.0 \
    --hash=sha256:00
# click==7
PyYAML==6.0 ; python_version > '3' \
    --hash=sha256:00
"""


@pytest.fixture(scope="module")
def audit():
    spec = importlib.util.spec_from_file_location("audit", ROOT / "deploy/audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def told(*dependencies):
    return json.dumps({"dependencies": list(dependencies), "fixes": []})


CLICK, YAML = ({"name": "click", "version": "8.1.0", "vulns": []}, {"name": "pyyaml", "version": "6.0", "vulns": []})
BAD = {"name": "click", "version": "8.1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["8.2"], "aliases": []}]}


def test_the_pins_of_a_lock(audit):
    assert audit.pins(LOCK) == {"click", "pyyaml"}


def test_the_locks_of_the_repository_are_read(audit):
    assert {"aiohttp", "numpy"} <= audit.pins((ROOT / "requirements.lock").read_text())


@pytest.mark.parametrize(
    ("code", "output", "errors", "exit_code", "says"),
    [
        (0, told(CLICK, YAML), "No known vulnerabilities found", 0, "2 packages audited"),
        (1, told(BAD, YAML), "Found 1 known vulnerability", 1, "PYSEC-1, fixed in 8.2"),
        # pip-audit ends with 0 where it skipped packages.
        (0, told(CLICK, {"name": "pyyaml", "skip_reason": "not found on PyPI"}), "", 3, "no answer about pyyaml"),
        (0, told(), "", 3, "no answer about click, pyyaml"),
        (1, told(BAD), "", 3, "PYSEC-1"),
        (1, "", "ERROR: HTTPSConnectionPool(host='api.osv.dev')", 3, "NOT AUDITED: ERROR: HTTPSConnectionPool"),
        (1, "<html>", "", 3, "NOT AUDITED"),
        (0, "", "", 3, "NOT AUDITED"),
    ],
)
def test_what_an_answer_amounts_to(audit, code, output, errors, exit_code, says):
    found = audit.verdict(audit.pins(LOCK), audit.Answer(code, output, errors))
    assert found.code == exit_code
    assert says in "\n".join(found.lines)


def test_the_worst_lock_decides_and_the_database_is_named(audit, tmp_path, monkeypatch, capsys):
    for name in ("one.lock", "two.lock"):
        (tmp_path / name).write_text(LOCK)
    answers = iter([audit.Answer(0, told(CLICK, YAML), ""), audit.Answer(1, "", "no route to host")])
    monkeypatch.setattr(audit, "ask", lambda _database, _lock: next(answers))
    code = audit.main(["osv", str(tmp_path / "one.lock"), str(tmp_path / "two.lock")])
    said = capsys.readouterr().out
    assert code == 3 and "database: OSV" in said and "NOT AUDITED: no route to host" in said
