"""What docs/kueue.md shows is what its commands print, about the cluster of two teams."""

import re
import shlex
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from berth.cli import main
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.writer import with_counts, write_snapshot
from packages.kueue.tests.clusters import job, two_teams
from tests.paths import DOCS

COMMANDS = re.findall(r"^\$ (berth kueue .*)\n((?:(?!\$ |```).*\n)*)", (DOCS / "kueue.md").read_text(), re.MULTILINE)
FILES = {"job.yaml": job("team-a", "tune", 2, 2), "usual.yaml": {"team-b/eval": 3600, "*": 7200}}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files that the page's commands name."""
    monkeypatch.chdir(tmp_path)
    documents = list(parse_documents(b"\n".join(map(msgspec.json.encode, two_teams())), "now"))
    write_snapshot(with_counts(documents, Header(taken="2026-03-02T08:10:00Z")), Path("now.snapshot.gz"))
    for name, content in FILES.items():
        Path(name).write_bytes(msgspec.json.encode(content))


@pytest.mark.parametrize(("line", "shown"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_the_page_shows_what_is_printed(line, shown, files):
    result = CliRunner().invoke(main, shlex.split(line)[1:], env={"COLUMNS": "100"}, prog_name="berth")
    assert result.exit_code == 0, result.output
    assert [each.rstrip() for each in result.output.splitlines()] == shown.rstrip().splitlines()


def test_every_command_about_a_cluster_is_shown():
    assert {line.split()[2] for line, _ in COMMANDS} == {"explain", "check", "whatif", "wait", "top"}
