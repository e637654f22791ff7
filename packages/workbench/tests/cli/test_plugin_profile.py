"""`berth plugins --profile`: calls, CPU and what was kept, against what the contract says of each form.

With n nodes that all fit, Filter and Score need n answers each a pod. Who promises nothing is asked for all of them. A
filter that depends on nodes alone is asked once, and a score that depends on pods there again about the node of the
last pod. In columns it is one call a pod, for as many nodes as the engine likes to ask about.
"""

import json
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.config.load import document_enabling, load_config
from berth.core.builders import make_node, make_pod
from berth.framework.registry import Registry
from berth.framework.setup import Setup
from berth.plugin import Dependency, Promises
from berth.plugins.registry import in_tree_registry
from berth_workbench.cli.plugin_profile import profile_plugins
from berth_workbench.snapshot.snapshot import read_cluster

NODES, PENDING, RUNNING = 3, 4, 2


class Watch:
    """A clock that goes on only while a plugin works."""

    now = 0.0


class Plain:
    """Works for two milliseconds a node."""

    name = "Plain"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        Watch.now += 0.002

    def score(self, state, pod, node):
        return max(0, 100 - len(node.pods))


class Kept(Plain):
    name = "Kept"
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE}),
        score_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE}),
    )

    def signature(self, pod):
        return ()


class Columns(Kept):
    """The same in columns."""

    name = "Columns"
    promises: ClassVar[Promises] = Kept.promises

    def score_columns(self, state, pod, table, rows):
        return np.zeros(len(table.valid[rows]), dtype=np.int64)


@pytest.fixture
def cluster(tmp_path):
    pending = [make_pod(f"web-{n}").request(cpu="1").document for n in range(PENDING)]
    nodes = [make_node(f"n{n}").capacity(cpu="16", memory="32Gi", pods="110").document for n in range(NODES)]
    running = [make_pod(f"db-{n}").node("n0").owned_by("StatefulSet", "db").document for n in range(RUNNING)]
    daemon = make_pod("agent").node("n0").owned_by("DaemonSet", "agent").document
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [*nodes, *running, daemon, *pending]}))
    return path


def profiled(cluster, plugin, document=None, **options):
    registry = in_tree_registry().merge(Registry({plugin.name: plugin}, "the test"))
    config = load_config(document or document_enabling({plugin.name: ()}), "the test")
    found = profile_plugins(read_cluster([cluster]), Setup(config, registry), clock=lambda: Watch.now, **options)
    return found, next(each for each in found.plugins if each.name == plugin.name)


def test_a_plugin_without_promises_is_asked_about_every_node_for_every_pod(cluster):
    found, cost = profiled(cluster, Plain)
    assert (found.pods, found.placed, found.nodes) == (PENDING, PENDING, NODES)
    assert cost.origin == "the test"
    assert cost.calls == cost.nodes_asked == cost.nodes_needed == 2 * NODES * PENDING
    assert cost.kept == 0
    assert cost.cpu_ms_per_pod_by_point["Filter"] == pytest.approx(2.0 * NODES)
    assert found.plugins[0] is cost, "the dearest first"


def test_profiles_are_added_up(cluster):
    manifest = json.loads(cluster.read_text())
    for each in manifest["items"]:
        if each["metadata"]["name"] in ("web-0", "web-1"):
            each["spec"]["schedulerName"] = "other"
    cluster.write_text(json.dumps(manifest))
    enabled = {"multiPoint": {"enabled": [{"name": "Plain"}]}}
    names = ("default-scheduler", "other")
    profiles = [{"schedulerName": name, "plugins": enabled} for name in names]
    _, cost = profiled(cluster, Plain, document={**document_enabling({"Plain": ()}), "profiles": profiles})
    assert cost.calls == cost.nodes_asked == cost.nodes_needed == 2 * NODES * PENDING


def test_what_is_promised_is_kept(cluster):
    _, cost = profiled(cluster, Kept)
    asked = NODES + NODES + PENDING - 1
    assert cost.calls == cost.nodes_asked == asked
    assert cost.kept == pytest.approx(1 - asked / (2 * NODES * PENDING), abs=1e-4)
    assert cost.cpu_ms_per_pod == pytest.approx(2.0 * NODES / PENDING)


def test_a_column_is_one_call(cluster):
    _, cost = profiled(cluster, Columns)
    assert cost.calls == NODES + PENDING
    assert NODES + NODES + PENDING - 1 <= cost.nodes_asked < cost.nodes_needed


def test_replicas_of_pods_that_run_are_tried_in_place_of_pending_pods(cluster):
    found, cost = profiled(cluster, Plain, replicas=5)
    assert (found.pods, found.placed) == (5, 5)
    assert cost.calls == 2 * NODES * 5


def run(*arguments):
    return CliRunner().invoke(main, ["plugins", *map(str, arguments)])


def test_the_command_prints_a_table_or_json(cluster):
    done = run("--profile", "--cluster", cluster, "--pods", 2)
    assert done.exit_code == 0, done.output
    title, headings, *rows = done.stdout.splitlines()
    assert title == f"2 pods tried in 2 attempts on {NODES} nodes, 2 placed"
    assert headings.split() == ["Plugin", "Calls", "CPU", "ms/pod", "Nodes", "needed", "Asked", "Kept"]
    assert any(row.startswith("NodeResourcesFit ") for row in rows)
    found = json.loads(run("--profile", "--cluster", cluster, "-o", "json").stdout)
    assert (found["pods"], found["attempts"]) == (PENDING, PENDING)
    (fit,) = [each for each in found["plugins"] if each["name"] == "NodeResourcesFit"]
    assert fit["origin"] == "in-tree" and fit["nodesNeeded"] == 2 * NODES * PENDING


def test_what_makes_no_sense_is_refused_or_said(cluster, tmp_path):
    done = run("--pods", 2)
    assert done.exit_code == 2 and "--pods has no effect without --profile" in done.output
    (tmp_path / "idle.json").write_text(json.dumps(make_node("n0").document))
    assert "No pod is pending; --pods N" in run("--profile", "--cluster", tmp_path / "idle.json").output
