"""`berth trace` and `berth simulate`, as people type them."""

import json

from click.testing import CliRunner

from berth.cli import main


def run(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def test_a_day_is_drawn_shown_and_lived(tmp_path):
    trace, picture, line = tmp_path / "day.jsonl.gz", tmp_path / "day.html", tmp_path / "line.json"
    made = run("trace", "generate", "--pods", 300, "--nodes", 4, "--services", 2, "-o", trace)
    assert made.exit_code == 0, made.output
    shown = json.loads(run("trace", "show", trace, "-o", "json").stdout)
    assert (shown["pods"], shown["nodes"], shown["hours"]) == (300, 4, 24.0)
    lived = run("simulate", trace, "--plot", picture, "--timeline", line, "--seed", 2)
    assert lived.exit_code == 0, lived.output
    assert "300 pods made" in lived.stdout
    assert max(map(len, lived.stdout.splitlines())) <= 80
    assert "<svg" in picture.read_text()
    assert json.loads(line.read_bytes())["kind"] == "BerthTimeLine"
    first, second = (run("simulate", trace, "--seed", 2, "-o", "json").stdout for _ in range(2))
    assert first == second
    assert json.loads(first)["made"] == 300


def test_gpus_stand_wherever_cpu_and_memory_do(tmp_path):
    trace, picture = tmp_path / "gpus.jsonl", tmp_path / "gpus.html"
    shape = {"cpu": 500, "memory": 1, "resources": {"nvidia.com/gpu": 2}}
    lines = [
        {"kind": "BerthTrace", "version": 1, "source": "gpus", "seconds": 600},
        {"what": "node", "at": 0, "name": "n", "cpu": 1000, "memory": 4, "resources": {"nvidia.com/gpu": 8}},
        {"what": "job", "at": 0, "name": "j", "pods": 1, "runs": [900], "shape": shape},
    ]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    lived = " ".join(run("simulate", trace, "--plot", picture).stdout.split())
    assert "CPU 50%, memory 25% and nvidia.com/gpu 25% requested on average; fairness 1" in lived
    assert "at most: CPU 50%, memory 25%, nvidia.com/gpu 25%" in picture.read_text()
    found = json.loads(run("simulate", trace, "-o", "json").stdout)
    assert found["resources"] == found["samples"][0]["resources"] == {"nvidia.com/gpu": 0.25}


def test_what_cannot_be_is_one_line(tmp_path):
    for args, problem in (
        (("simulate", tmp_path / "none"), "No such file"),
        (
            ("trace", "import", tmp_path, "--format", "google-2019", "-o", tmp_path / "x"),
            "there is no file machine_events",
        ),
        (("trace", "import", tmp_path, "--format", "alibaba-2018", "--largest-node-memory", "x", "-o", "y"), "'x'"),
        (("simulate", tmp_path / "none", "--plot", tmp_path / "a.gif"), "ends in .svg, .png, .html"),
    ):
        told = run(*args)
        assert told.exit_code in (1, 2), told.output
        assert problem in told.stderr, told.stderr
        assert "Traceback" not in told.output
