"""`--decision-log` and `--decision-log-size`: where the log is, and what happens where it cannot be there."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from berth.cli.decision_log_flags import (
    IN_MEMORY_BYTES,
    DecisionLogOptions,
    decision_log_options,
    open_log,
    state_directory,
)


def opened(*arguments):
    """What a command with the options receives."""
    seen = []

    @click.command()
    @decision_log_options
    def command(decision_log):
        seen.append(decision_log)

    result = CliRunner().invoke(command, list(arguments))
    return (seen[0] if seen else None), result


def test_what_is_typed_is_what_comes():
    assert opened()[0] == DecisionLogOptions("", 128 * 1024**2)
    given, _ = opened("--decision-log", "x.jsonl", "--decision-log-size", "1Gi")
    assert given == DecisionLogOptions("x.jsonl", 1024**3)


@pytest.mark.parametrize(("size", "said"), [("much", "much"), ("10", "at least 64Ki")])
def test_sizes_that_mean_nothing_are_refused(size, said):
    options, result = opened("--decision-log-size", size)
    assert options is None and result.exit_code == 2
    assert said in result.output


def test_off_is_off(tmp_path):
    assert open_log(DecisionLogOptions("off"), tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_where_no_file_can_be_written_it_says_so_once_and_keeps_to_memory(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    kept = open_log(DecisionLogOptions(str(tmp_path / "file" / "log")), tmp_path)
    assert kept is not None
    assert kept.keeper.log.limit == IN_MEMORY_BYTES
    said = capsys.readouterr().err
    assert said.count("the decision log") == 1 and str(tmp_path / "file" / "log") in said and "--decision-log" in said
    assert "Traceback" not in said


def test_two_schedulers_for_one_cluster_have_a_file_each(tmp_path):
    first, second = (open_log(DecisionLogOptions(), tmp_path) for _ in range(2))
    assert first is not None and second is not None
    assert {path.name for path in tmp_path.iterdir()} == {"decisions.jsonl.lock", "decisions-2.jsonl.lock"}
    first.keeper.log.close()
    second.keeper.log.close()


def test_what_is_left_of_a_cluster_that_is_gone_is_removed(tmp_path):
    (tmp_path / "decisions.jsonl").write_text('{"pod":"default/web","uid":"u","steps":[{"at":1.0,"what":"bound"}]}\n')
    kept = open_log(DecisionLogOptions(), tmp_path)
    assert kept is not None and kept.keeper.log.find("default/web")
    kept.keeper.log.close()
    kept = open_log(DecisionLogOptions(), tmp_path, anew=True)
    assert kept is not None and not kept.keeper.log.find("default/web")
    kept.keeper.log.close()


@pytest.mark.parametrize(
    ("cluster", "environ", "directory"),
    [
        ("https://10.0.0.1:6443", {"XDG_STATE_HOME": "/state"}, Path("/state/berth/10.0.0.1_6443")),
        ("https://[::1]:6443/path", {"XDG_STATE_HOME": "/state"}, Path("/state/berth/___1__6443")),
        ("https://user:secret@api", {"XDG_STATE_HOME": "relative"}, Path.home() / ".local/state/berth/api"),
        ("https://../../etc", {"XDG_STATE_HOME": "/state"}, Path("/state/berth/cluster")),
    ],
)
def test_the_default_place(cluster, environ, directory):
    assert state_directory(cluster, environ) == directory
