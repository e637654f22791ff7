"""`berth shrink` as people and programs use it."""

import json

from click.testing import CliRunner

from berth.cli import main
from packages.workbench.tests.planning.test_shrink import one_deployment


def run(tmp_path, *flags, usage="shop/web: {cpu: 100m, memory: 10Mi}"):
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": one_deployment()}))
    (tmp_path / "usage.yaml").write_text(usage)
    return CliRunner().invoke(main, ["shrink", "--cluster", str(tmp_path / "cluster.json"), *flags])


def test_people_read_what_is_freed_and_the_command(tmp_path):
    told = run(tmp_path, "--usage", str(tmp_path / "usage.yaml"))
    assert told.exit_code == 0, told.output
    assert "1 workload requests too much, by 0.88 CPU and 500Mi of memory" in told.output
    assert "kubectl -n shop patch deployment web -p" in told.output


def test_programs_read_json(tmp_path):
    told = json.loads(run(tmp_path, "--usage", str(tmp_path / "usage.yaml"), "--margin", "50", "-o", "json").output)
    assert told["workloads"][0]["containers"][0]["proposed"] == {"cpu": 150, "memory": 15 << 20}
    assert (told["pending"], told["fitNow"], told["fitThen"]) == (0, 0, 0)


def test_a_file_has_no_metrics(tmp_path):
    told = run(tmp_path)
    assert told.exit_code == 2 and "--usage" in told.output


def test_what_cannot_be_read_is_one_line(tmp_path):
    told = run(tmp_path, "--usage", str(tmp_path / "usage.yaml"), usage="web: {cpu: 1}")
    assert told.exit_code == 1 and "is not namespace/name" in told.output
