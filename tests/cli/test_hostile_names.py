"""Names in files that steer a terminal or look like markup: every command shows them as text."""

import json

import pytest
from click.testing import CliRunner
from rich.console import Console

from berth.cli import main
from berth_cluster.cli.placement_table import placement_table

STEERS = "\x1b]0;owned\x07\x1b[31m[/x][bold"


def node(name):
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    labels = {"pool": f"p{STEERS}", "topology.kubernetes.io/zone": f"z{STEERS}"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(name, on="", cpu="1"):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"o{STEERS}", "uid": "o", "controller": True}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": f"{name}{STEERS}", "namespace": "default", "uid": name, "ownerReferences": [owner]},
        "spec": {"containers": [container], **({"nodeName": on} if on else {"nodeSelector": {f"d{STEERS}": STEERS}})},
        "status": {"phase": "Running" if on else "Pending"},
    }


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A cluster, a manifest, a trace, two configurations and a sweep, with names that steer a terminal."""
    monkeypatch.chdir(tmp_path)
    names = [f"{name}{STEERS}" for name in "ab"]
    items = [*map(node, names), *(pod(f"r{index}", name) for index, name in enumerate(names)), pod("waits")]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (tmp_path / "new.json").write_text(json.dumps(pod("new")))
    lines = [
        {"kind": "BerthTrace", "version": 1, "source": f"s{STEERS}", "seconds": 100.0},
        {"what": "node", "at": 0.0, "name": names[0], "cpu": 8000, "memory": 1 << 35, "labels": {}, "price": 1.0},
        {"what": "job", "at": 1, "name": f"j{STEERS}", "namespace": f"n{STEERS}", "runs": [5], "pods": 2,
         "shape": {"cpu": 100}},
        {"what": "job", "at": 1, "name": "huge", "namespace": "n", "runs": [5], "pods": 1, "shape": {"cpu": 100_000}},
    ]  # fmt: skip
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    scoring = {
        "schedulerName": "default-scheduler",
        "plugins": {"score": {"disabled": [{"name": "NodeResourcesFit"}]}},
    }
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [scoring],
    }
    (tmp_path / "b.yaml").write_text(json.dumps(configuration))
    sweep = {
        "clusters": {f"l{STEERS}": {"cluster": "cluster.json"}},
        "configurations": {f"c{STEERS}": "default"},
        "seeds": 1,
    }
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    return tmp_path


CLUSTER = ("--cluster", "cluster.json")


@pytest.mark.parametrize(
    "words",
    [
        ("whatif", *CLUSTER, "-f", "new.json", "--drain", f"a{STEERS}"),
        ("whatif", *CLUSTER, "--lose-zone", f"z{STEERS}"),
        ("whatif", *CLUSTER, "--drain", "zz"),
        ("capacity", *CLUSTER, "-f", "new.json"),
        ("rebalance", *CLUSTER, "--goal", "empty-nodes"),
        ("rebalance", *CLUSTER, "--goal", "empty-nodes", "--commands"),
        ("compare", "default", "b.yaml", *CLUSTER, "--replace-all", "--seeds", "1"),
        ("simulate", "t.jsonl"),
        ("trace", "show", "t.jsonl"),
        ("sweep", "sweep.yaml"),
        ("explain", f"waits{STEERS}", "--what-would-help", *CLUSTER),
        ("explain", "nobody", "--what-would-help", *CLUSTER),
    ],
)
def test_names_are_shown_and_do_nothing(files, words):
    result = CliRunner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "\x1b" not in result.output
    assert "\x07" not in result.output
    assert r"\x1b" in result.output, result.output


def test_where_pods_went_is_text(capsys):
    made = {"metadata": {"name": f"p{STEERS}", "namespace": "d"}, "spec": {"nodeName": f"n{STEERS}"}}
    placement_table([made], {}, {f"n{STEERS}": f"z{STEERS}"}).print(Console(width=200))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown.count("[/x][bold") == 3


def test_top_without_a_terminal_names_what_prints(files):
    told = CliRunner().invoke(main, ["top", *CLUSTER]).output
    assert "`berth capacity` and `berth whatif` print" in told
    assert "`berth explain`" not in told
    assert "`berth explain` prints" in CliRunner().invoke(main, ["top"]).output
