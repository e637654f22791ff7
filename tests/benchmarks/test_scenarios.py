"""The workloads that are measured: each is what its name says, and `berth bench` plays it to its end.

Expectations: what nodes have to give, as the generator's docstring says it: 8 devices, 25 volumes that its driver can
attach, 5 volumes of its own; a gang is bound as a whole or not at all (KEP-4671).
"""

import io
import json
import subprocess
import sys
from collections import Counter

import msgspec
import pytest

from benchmarks.scenarios import FEATURE_GATES, PUBLISHED, WITH_OBJECTS, write
from berth.config.feature_gates import parse_feature_gates
from berth.config.load import document_enabling, load_config
from berth.plugins.registry import in_tree_registry
from berth_workbench.bench import run
from tests.paths import ROOT


def workload(scenario, nodes, pods):
    out = io.StringIO()
    write(scenario, nodes, pods, out)
    return out.getvalue().encode().splitlines()


def figures(lines, scenario="", **options):
    gates = parse_feature_gates(FEATURE_GATES.get(scenario, ""))
    config = load_config(document_enabling({}), "a test's config", gates)
    return run(lines, in_tree_registry(), config=config, **options)


@pytest.mark.parametrize("memos", [True, False])
@pytest.mark.parametrize(
    ("scenario", "nodes", "pods", "failed"),
    [("devices", 3, 30, 6), ("volumes", 2, 60, 10), ("localvolumes", 3, 20, 5), ("gangs", 2, 110, 50)],
)
def test_as_many_pods_fit_as_nodes_have_to_give(scenario, nodes, pods, failed, memos):
    found = figures(workload(scenario, nodes, pods), scenario, check=1000, memos=memos)
    assert (found.nodes, found.pods, found.failed, found.nodes_used) == (nodes, pods, failed, nodes)
    assert found.checked == (0 if scenario == "gangs" else pods)


def test_who_waits_for_what_nobody_does_has_failed():
    lines = workload("devices", 1, 3)
    for index, line in enumerate(lines):
        document = json.loads(line)
        if document["kind"] == "ResourceSlice":
            for device in document["spec"]["devices"]:
                device |= {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
            lines[index] = json.dumps(document).encode()
    assert figures(lines).failed == 3


@pytest.mark.parametrize("scenario", PUBLISHED)
def test_published_scenarios_are_those_of_their_own_generator(scenario, tmp_path):
    with (tmp_path / "ours").open("w") as out:
        write(scenario, 4, 12, out)
    generator = [sys.executable, ROOT / "benchmarks/gen_workload.py", scenario, "4", "12"]
    theirs = subprocess.run(generator, check=True, capture_output=True).stdout
    assert (tmp_path / "ours").read_bytes() == theirs


@pytest.mark.parametrize("scenario", WITH_OBJECTS)
def test_nodes_and_pods_are_like_those_of_the_published_scenarios(scenario, tmp_path):
    generator = [sys.executable, ROOT / "benchmarks/gen_workload.py", "basic", "4", "60"]
    theirs = [
        json.loads(line)
        for line in subprocess.run(generator, check=True, capture_output=True).stdout.split(b"\n")
        if line
    ]
    ours = [msgspec.json.decode(line) for line in workload(scenario, 4, 60)]
    for field in ("status", "metadata"):
        assert [_told(one, field) for one in ours if one["kind"] == "Node"] == [
            _told(one, field) for one in theirs if one["kind"] == "Node"
        ]
    containers = {json.dumps(one["spec"]["containers"]) for one in (*ours, *theirs) if one["kind"] == "Pod"}
    assert len(containers) == 1
    assert Counter(one["kind"] for one in ours)["Pod"] == 60


def _told(document, field):
    return {key: value for key, value in document[field].items() if key != "uid"}


def test_an_unknown_scenario_is_refused():
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks/scenarios.py", "levitation", "1", "1"], capture_output=True, check=False
    )
    assert done.returncode == 1
    assert b"no scenario 'levitation'" in done.stderr
