"""Questions from a program: the same answers as on the command line, shown in a notebook."""

import json

import pytest

from berth_workbench.lab.asking import ask
from berth_workbench.simulation.changes import Drain
from berth_workbench.traces.generator import DailyPattern, daily_pattern
from tests.test_library import node, pod


@pytest.fixture
def cluster(tmp_path):
    file = tmp_path / "cluster.json"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u", "controller": True}
    web = pod("w<b>-1", cpu="2", nodeName="n1")
    web["metadata"] |= {"ownerReferences": [owner], "namespace": "default", "uid": "p1"}
    nodes = [{**node(name), "apiVersion": "v1"} for name in ("n1", "n2")]
    for each in nodes:
        each["status"]["allocatable"] = each["status"]["capacity"]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, {**web, "apiVersion": "v1"}]}))
    return file


def test_a_what_if_is_told_in_text_and_html(cluster):
    told = ask("whatif", cluster, Drain("n1"))
    assert told.verdict == "Yes: every pod that moves or is new has a place, and nothing breaks."
    assert repr(told).startswith(told.verdict)
    html = told._repr_html_()
    assert told.verdict in html and "w&lt;b&gt;-1" in html and "<b>" not in html


def test_a_plan_is_told_too(cluster):
    told = ask("survive", cluster)
    assert told.verdict and told.verdict in told._repr_html_()


def test_a_simulated_day_has_its_pictures():
    trace = daily_pattern(DailyPattern(pods=60, nodes=2, services=1, seconds=3600.0))
    html = ask("simulate", None, workload=trace)._repr_html_()
    assert "<svg" in html and "How long pods waited" in html


def test_a_fraction_is_not_taken_for_a_whole_number(cluster):
    with pytest.raises(ValueError, match=r"at_most: a whole number is expected, not 2\.5"):
        ask("survive", cluster, at_most=2.5)


def test_a_question_that_there_is_not(cluster):
    with pytest.raises(ValueError, match="there is no question 'whatiff'"):
        ask("whatiff", cluster)
