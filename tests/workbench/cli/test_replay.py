"""`berth replay`: what it prints, and what it says of files that it cannot use."""

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth.recording.calls import Note
from berth.recording.errors import RecordingError
from berth.recording.file_format import Packer, first_line, read_segments
from berth_workbench.cli.replay import _at
from tests.workbench.replay.histories import Churn
from tests.workbench.replay.test_export import run_test
from tests.workbench.replay.test_recording_comparison import place_randomly, two_scores


@pytest.fixture
def invoke():
    return lambda *arguments: CliRunner().invoke(main, ["replay", *map(str, arguments)])


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    directory = tmp_path_factory.mktemp("recording")
    expected = place_randomly(directory, 1, before=1, after=3)
    return directory, expected


def test_the_same_bit_for_bit(invoke, recording):
    result = invoke(recording[0])
    assert result.exit_code == 0
    events, core, same = result.output.splitlines()
    count = events.split()[0]
    assert core == "of 1 core in 1 segment"
    assert same == f"the same, bit for bit: {count} events replayed"


def test_json(invoke, recording):
    result = invoke(recording[0], "-o", "json")
    found = msgspec.json.decode(result.output)
    assert found["comparison"] is None
    assert found["verification"]["replayed"] == found["verification"]["events"] > 200
    assert found["verification"]["firstDifference"] is None


def test_another_configuration_is_told_from_the_first_difference_on(invoke, recording, tmp_path):
    directory, expected = recording
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(two_scores(3)))
    result = invoke(directory, "--config", config)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    pod, node, _ = expected[0]
    assert lines[0].endswith("decisions compared, each on the recorded cluster")
    assert lines[1].startswith("the first that differs is event ")
    assert lines[2].startswith(f"  {pod}: {node} → ")
    assert lines[2].endswith("  because of NodeAffinity")
    assert lines[-1].split() == [str(len(expected)), "because", "of", "NodeAffinity"]
    assert max(map(len, lines)) <= 80
    found = msgspec.json.decode(invoke(directory, "--config", config, "-o", "json").output)
    assert found["verification"] is None
    assert [change["pod"] for change in found["comparison"]["changes"]] == [each[0] for each in expected]


def test_another_seed_and_another_generation(invoke, recording):
    assert "decisions compared" in invoke(recording[0], "--seed", "5").output
    assert "decisions compared" in invoke(recording[0], "--generation", "v1.20").output


def test_what_is_left_of_a_recording_is_compared(invoke, tmp_path):
    lived = Churn(tmp_path, 4, nodes=3)
    lived.recorder._files._segment_limit = 6_000
    for _ in range(16):
        lived.live(6)
        lived.recorder.write()
    lived.close()
    min(tmp_path.iterdir()).unlink()
    result = invoke(tmp_path)
    assert result.exit_code == 0
    assert "the beginning of 1 core is gone: not replayed" in result.output
    assert result.output.splitlines()[-1] == "all of them are the same"


def test_a_bug_report_is_one_file(invoke, recording, tmp_path):
    directory, expected = recording
    pod = expected[0][0]
    result = invoke(directory, "--export", tmp_path / "bug.rec", "--around", pod)
    assert result.exit_code == 0
    assert result.output.startswith(f"wrote {tmp_path}/bug.rec: ")
    assert "events, " in result.output
    again = invoke(tmp_path / "bug.rec")
    assert again.exit_code == 0
    written = msgspec.json.decode(invoke(directory, "--export", tmp_path / "all.rec", "-o", "json").output)
    assert invoke(tmp_path / "all.rec").output == invoke(directory).output
    assert written[0]["bytes"] == (tmp_path / "all.rec").stat().st_size


def test_a_test_is_written_beside_its_recording(invoke, recording, tmp_path):
    directory, expected = recording
    pod, node, _ = expected[0]
    result = invoke(directory, "--to-test", tmp_path / "test_bug.py", "--around", pod.removeprefix("default/"))
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == 2
    run_test(tmp_path / "test_bug.py", (tmp_path / "test_bug.py").read_text())
    assert f'RECORDED = [\n    ("{pod}", "{node}"),\n]' in (tmp_path / "test_bug.py").read_text()


@pytest.mark.parametrize("more", [(), ("--last", "5")])
def test_a_recording_survives_the_test_that_is_written_from_it(invoke, recording, tmp_path, more):
    source = tmp_path / "case.rec"
    assert invoke(recording[0], "--export", source).exit_code == 0
    before = source.read_bytes()
    for arguments in (("--to-test", tmp_path / "case.py"), ("--export", source)):
        result = invoke(source, *arguments, *more)
        assert result.exit_code == 1
        assert "is part of the recording" in result.output
        assert source.read_bytes() == before
        assert list(tmp_path.iterdir()) == [source]
    case = tmp_path / "case.py"
    source.rename(case)
    result = invoke(case, "--to-test", case, "--export", tmp_path / "other.rec")
    assert "is part of the recording" in result.output
    assert case.read_bytes() == before
    assert list(tmp_path.iterdir()) == [case]


def test_what_cannot_become_a_test_leaves_everything_as_it_was(invoke, tmp_path):
    lived = Churn(tmp_path / "d", 4, nodes=3)
    lived.close()  # nothing was decided
    (tmp_path / "case.py").write_text("older")
    (tmp_path / "case.rec").write_text("older, too")
    for name in ("case.py", "new.py"):
        result = invoke(tmp_path / "d", "--to-test", tmp_path / name)
        assert result.exit_code == 1
        assert "no decision that a test could check" in result.output
        assert (tmp_path / "case.py").read_text() == "older"
        assert (tmp_path / "case.rec").read_text() == "older, too"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["case.py", "case.rec", "d"]


def test_what_cannot_be_anonymized_is_not_left_with_its_names(invoke, recording, tmp_path, monkeypatch):
    def refuse(path):
        raise RecordingError(f"{path} cannot be anonymized")

    monkeypatch.setattr("berth_workbench.replay.anonymizer.anonymize", refuse)
    for option, name in (("--export", "bug.rec"), ("--to-test", "bug.py")):
        result = invoke(recording[0], option, tmp_path / name, "--anonymize")
        assert result.exit_code == 1
        assert f"{tmp_path / 'bug.rec'} cannot be anonymized" in result.output
        assert list(tmp_path.iterdir()) == []


def test_names_and_messages_never_steer_a_terminal(invoke, tmp_path):
    steering = "\x1b]0;x\x07\x9b\r{}"
    lived = Churn(tmp_path / "d", 4, nodes=3, names=steering)
    lived.live(30)
    lived.close()
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(two_scores(3)))
    compared = invoke(tmp_path / "d", "--config", config)
    assert compared.exit_code == 0
    assert "default/\\x1b]0;x\\x07\\x9b\\rp" in compared.output
    spoiled = tmp_path / "spoiled.rec"
    spoil(tmp_path / "d", spoiled)
    differs = invoke(spoiled)
    assert differs.exit_code == 1
    assert ": \\x1bnowhere → \\x1b]0;x" in differs.output
    broken = invoke(spoiled, "--export", tmp_path / "x.rec", "--around", steering)
    assert broken.exit_code == 1
    assert "has nothing about a pod default/\\x1b" in broken.output
    for result in (compared, differs, broken):
        assert all(one.isprintable() or one in "\n\t" for one in result.output)


def spoil(recording, target):
    """Write a copy that says of another node in the first decision."""
    for segment in read_segments(recording):
        written = list(segment.calls())
        note = next(note for call in written for note in call.outcome.notes if note[0] == Note.DECIDED)
        note[2] = "\x1bnowhere"
        packer = Packer()
        target.write_bytes(first_line() + packer.pack(segment.header) + packer.pack(written))


def test_a_bug_report_without_names(invoke, recording, tmp_path):
    result = invoke(recording[0], "--export", tmp_path / "bug.rec", "--anonymize")
    assert result.exit_code == 0
    assert "wrote" in result.output
    assert "warning" not in result.output
    again = invoke(tmp_path / "bug.rec")
    assert again.output.splitlines()[-1] == "all of them are the same"


def test_files_that_cannot_be_used_end_with_one_line(invoke, recording, tmp_path):
    (path,) = recording[0].iterdir()
    other, newer, damaged = (tmp_path / name for name in ("other.rec", "newer.rec", "damaged.rec"))
    other.write_text("apiVersion: v1\n")
    newer.write_bytes(b"berth recording 99\n" + path.read_bytes())
    spoiled = bytearray(path.read_bytes())
    spoiled[300] ^= 1
    damaged.write_bytes(spoiled)
    for file, words in (
        (other, "is no recording"),
        (newer, "has format 99, and this version of Berth reads up to 1: use a newer one"),
        (damaged, "is damaged at byte"),
        (tmp_path / "nowhere", "there is no file or directory"),
        (tmp_path / "empty", "holds no recording"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        result = invoke(file)
        assert result.exit_code == 1
        assert words in result.output
        assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--config", "nowhere.yaml"), "cannot read the configuration file"),
        (("--generation", "v1.2"), "Berth knows v1.36, v1.20"),
        (("--generation", "v1.20", "--config", "x.yaml"), "give one of them"),
        (("--plugin", "nowhere:Plugin"), "nowhere"),
        (("--last", "5"), "say what --export and --to-test write"),
        (("--export", "x.rec", "--last", "5", "--around", "p"), "give one of them"),
        (("--to-test", "test_x.py", "--seed", "5"), "write what was recorded"),
        (("--to-test", "test_x.rec"), "must end in .py"),
        (("--to-test", ".py"), "must end in .py"),
    ],
)
def test_wrong_usage_is_exit_code_2(invoke, recording, arguments, words):
    result = invoke(recording[0], *arguments)
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize("command", ["up", "run"])
def test_where_nothing_can_be_recorded(tmp_path, command):
    (tmp_path / "file").write_text("")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
                "current-context": "c",
            }
        )
    )
    more = ["--kubeconfig", str(kubeconfig)] if command == "run" else ["--dir", str(tmp_path / "d")]
    for limit, words in (("1Gi", "--record: cannot record to"), ("3", "is too small for anything: at least 512Ki")):
        result = CliRunner().invoke(
            main, [command, "--record", str(tmp_path / "file" / "d"), "--record-limit", limit, *more]
        )
        assert result.exit_code == 2
        assert words in result.output


@pytest.mark.parametrize("wall_time", [1e300, float("nan"), -1e300])
def test_a_time_that_cannot_be_is_no_traceback(wall_time):
    assert _at(1.0, wall_time) == "at 1.000 s (at no time that there is)"
