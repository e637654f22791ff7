"""Runs of each configuration on its own, the figures side by side, and the command."""

from typing import NamedTuple

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth import Scheduler
from berth.cli import main
from berth.config.types import ExtensionPoint
from berth.core.builders import make_node, make_pod
from berth.framework.setup import Setup
from berth_workbench.comparison import two_configurations
from berth_workbench.comparison.configurations import ConfigurationSource, enabling
from berth_workbench.comparison.decisions import decide
from berth_workbench.comparison.loads import ClusterLoad, packed, unpacked
from berth_workbench.comparison.run import run
from berth_workbench.comparison.two_configurations import compare, compared
from berth_workbench.simulation import processes
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import WatchUntil
from packages.workbench.tests.comparison.clusters import document, random_load, random_settings, source, with_plugin
from packages.workbench.tests.comparison.stateful import Steered

PACKED = {
    "NodeResourcesFit": (1, {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}}),
}
SPREAD = {
    "NodeResourcesFit": (1, {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu"}]}}),
}


@pytest.fixture(params=[True, False], ids=["each part in a fork", "one process"])
def may_fork(request, monkeypatch):
    """Whether this process may be forked, whatever threads tests before have left to it."""
    monkeypatch.setattr(processes, "may_fork", lambda: request.param)
    monkeypatch.setattr(two_configurations, "may_fork", lambda: request.param)
    return request.param


@pytest.mark.parametrize("seed", range(12))
def test_a_run_places_every_pod_where_the_engine_run_alone_places_it(seed):
    load, settings = random_load(seed, pods=14), random_settings(seed)
    alone = Scheduler(document(settings), seed=seed)
    alone.add(*load.standing)
    alone.add(*load.pods)
    alone.schedule_all()
    found = run(load, source(settings).load(), seed)
    assert found.placements == {pod.key: alone.placements[pod.key] or "" for pod in load.pods}
    assert found.figures["pending"] == sum(not node for node in found.placements.values())


def test_higher_priorities_are_placed_first_and_preempt():
    nodes = (make_node("a").capacity(cpu="4", memory="8Gi", pods="9").build(),)
    running = make_pod("old").request(cpu="2").priority(0).node("a").build()
    pods = (make_pod("low").request(cpu="2").priority(1).build(), make_pod("high").request(cpu="4").priority(2).build())
    settings = {**random_settings(0), "NodeResourcesFit": (1, None)}
    found = run(ClusterLoad((*nodes, running), pods), source(settings).load(), 0)
    assert found.placements == {"default/low": "", "default/high": "a"}
    assert found.figures["preemptions"] == 1


def test_a_packed_load_is_the_same_unpacked():
    load = random_load(5)
    assert unpacked(packed(load)) == load
    assert packed(unpacked(packed(load))) == packed(load)


def snapshot(*objects):
    return Snapshot([Document(each.document["kind"], each.document, "here") for each in objects])


def test_the_load_of_a_cluster():
    node = make_node("a").capacity(cpu="4", pods="9")
    owned = make_pod("owned").owned_by("ReplicaSet", "r").node("a").created("2026-01-02T00:00:00Z")
    older = make_pod("older").owned_by("ReplicaSet", "r").node("a").created("2026-01-01T00:00:00Z")
    daemon = make_pod("daemon").owned_by("DaemonSet", "d").node("a")
    bare, done = make_pod("bare").node("a"), make_pod("done").owned_by("Job", "j").node("a").phase("Succeeded")
    pending, leaving = make_pod("pending").created("2026-01-03T00:00:00Z"), make_pod("leaving").terminating()
    everything = snapshot(node, owned, older, daemon, bare, done, pending, leaving)
    load = ClusterLoad.of(everything)
    assert [pod.key for pod in load.pods] == ["default/pending"]
    assert len(load.standing) == 7
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}},
        },
    }
    again = ClusterLoad.of(everything, [Document("Deployment", deployment, "there")], replaces_all=True)
    names = [pod.metadata.name for pod in again.pods]
    assert names[:3] == ["older", "owned", "pending"]
    assert [name.startswith("web-") for name in names[3:]] == [True, True]
    assert not any(pod.spec.node_name for pod in again.pods)
    kept = {obj.metadata.name for obj in again.standing}
    assert {"daemon", "bare", "done", "leaving", "a"} <= kept


def test_of_pods_of_the_same_second_those_that_found_a_node_have_come_first():
    """Creation times have whole seconds; by name alone, who types quickly would get another answer."""
    node, at = make_node("a").capacity(cpu="4", pods="9"), "2026-01-01T00:00:00Z"
    waits, early = make_pod("a-waits").created(at), make_pod("z-early").created("2025-12-31T23:59:59Z")
    ran = [make_pod(name).owned_by("ReplicaSet", "r").node("a").created(at) for name in ("web-1", "web-0")]
    load = ClusterLoad.of(snapshot(node, waits, *ran, early), replaces_all=True)
    assert [pod.metadata.name for pod in load.pods] == ["z-early", "web-0", "web-1", "a-waits"]


def test_figures_side_by_side_and_which_is_better_only_where_all_seeds_agree():
    a = [{"pending": 3.0, "fairness": 0.5, "nodes": 2.0, "cost": 1.0}, {"pending": 2.0, "fairness": 0.5, "nodes": 2.0}]
    b = [{"pending": 1.0, "fairness": 0.4, "nodes": 3.0}, {"pending": 1.0, "fairness": 0.6, "nodes": 3.0}]
    found = {figure.name: figure for figure in compared(a, b)}
    pending = found["pending"]
    assert (pending.a, pending.b, pending.difference, pending.better) == (2.5, 1.0, -1.5, "b")
    assert pending.deviation == pytest.approx(0.5**0.5)
    assert found["fairness"].better == ""
    assert (found["nodes"].difference, found["nodes"].better) == (1.0, "")
    assert (found["cost"].b, found["cost"].difference, found["cost"].better) == (None, None, "")


def test_packing_is_cheaper_than_spreading_and_the_same_seeds_give_the_same_comparison():
    nodes = tuple(make_node(f"n{i}").capacity(cpu="8", memory="8Gi", pods="20").build() for i in range(4))
    pods = tuple(make_pod(f"p{i}").request(cpu="1", memory="1Gi").build() for i in range(8))
    load = ClusterLoad(nodes, pods)

    def compare_once():
        return compare(load, source(SPREAD, "even"), source(PACKED, "packed"), prices=Prices(default=2.0))

    found = compare_once()
    measures = {figure.name: figure for figure in found.measures}
    assert (measures["cost"].a, measures["cost"].b, measures["cost"].better) == (8.0, 2.0, "b")
    assert (measures["nodesUsed"].a, measures["nodesUsed"].b) == (4, 1)
    assert found.causes == {"NodeResourcesFit": len(found.decisions.changes)} != {}
    assert found.is_complete and found.seeds == (0, 1, 2)
    assert msgspec.json.encode(found) == msgspec.json.encode(compare_once())


class Given(NamedTuple):
    """A configuration of a test, where `compare` expects what a file says."""

    name: str
    setup: Setup
    asks_extenders = False

    def load(self):
        return self.setup


@pytest.mark.usefixtures("may_fork")
def test_parts_that_share_a_loaded_cluster_are_those_of_clusters_of_their_own():
    """A plugin that remembers what it was told must not hear in one run of another one's pods."""
    load = random_load(3, pods=12)
    plain, steered = source(random_settings(3)).load(), with_plugin(Steered)
    found = compare(load, Given("plain", plain), Given("steered", steered), seeds=(4, 5))
    assert found.decisions == decide(load, plain, steered)
    runs = [[run(load, each, seed).figures for seed in (4, 5)] for each in (plain, steered)]
    assert found.measures == compared(*runs)


def test_whoever_stops_it_in_the_middle_of_the_decisions_keeps_those_that_are_made(monkeypatch):
    """Looked at for each object that is loaded, before each part, and before each pod that is decided."""
    monkeypatch.setattr(two_configurations, "may_fork", lambda: False)
    load = random_load(1, pods=10)
    loading = 2 * (len(load.standing) + len(load.pods))

    class StopsAtLook(WorkWatch):
        looks = 0

        @property
        def is_stopped(self):
            self.looks += 1
            return self.looks > loading + 6

    half = compare(load, source(SPREAD), source(PACKED), watch=StopsAtLook())
    assert (half.decisions.decided, half.measures, half.is_complete) == (5, (), False)


@pytest.mark.usefixtures("may_fork")
def test_whoever_stops_it_keeps_what_is_done():
    """The decisions come first, then each configuration with each seed; loading before them counts steps of its own."""
    watch = WatchUntil(lambda _: watch.doing == "comparing decisions and runs" and watch.done == 3)
    one_seed = compare(random_load(1, pods=10), source(SPREAD), source(PACKED), watch=watch)
    assert (one_seed.decisions.decided, one_seed.seeds, one_seed.is_complete) == (10, (0,), False)
    assert {figure.deviation for figure in one_seed.measures} == {None}


@pytest.fixture
def files(tmp_path):
    nodes = [make_node(f"n{i}").capacity(cpu="8", memory="8Gi", pods="20").document for i in range(3)]
    pods = [make_pod(f"p{i}").request(cpu="1", memory="1Gi").document for i in range(6)]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(nodes))
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump_all(pods))
    (tmp_path / "even.yaml").write_text(yaml.safe_dump(document(SPREAD)))
    (tmp_path / "packed.yaml").write_text(yaml.safe_dump(document(PACKED)))
    vip = make_pod("vip").request(cpu="1").set_spec(priorityClassName="nope").document
    (tmp_path / "vip.yaml").write_text(yaml.safe_dump(vip))
    (tmp_path / "prices.yaml").write_text("n0: 1\nn1: 1\nn2: 1\n")
    return tmp_path


def invoke(files, *args):
    arguments = [str(files / arg) if arg.endswith((".yaml", ".svg")) else arg for arg in args]
    return CliRunner().invoke(main, ["compare", *arguments])


def test_the_command(files):
    usual = ("even.yaml", "packed.yaml", "--cluster", "cluster.yaml", "-f", "pods.yaml")
    result = invoke(files, *usual, "--prices", "prices.yaml", "--plot", "out.svg")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "pods decided differently; B (packed.yaml) is better in " in " ".join(lines[:2])
    assert any(line.startswith("Of the pods that are decided differently, ") for line in lines)
    assert any(line.split()[:6] == ["cost", "of", "used", "nodes", "3", "1"] for line in lines)
    assert "NodeResourcesFit" in result.output
    assert (files / "out.svg").read_bytes().startswith(b"<?xml")
    as_json = msgspec.json.decode(invoke(files, *usual, "-o", "json", "--seeds", "1").stdout)
    assert as_json["seeds"] == [0]
    assert {each["kind"] for each in as_json["decisions"]["changes"]} == {"elsewhere"}
    assert as_json["causes"] == {"NodeResourcesFit": len(as_json["decisions"]["changes"])}
    same = invoke(files, "default", "default", *usual[2:])
    assert same.stdout.splitlines()[0].startswith("0 of 6 pods decided differently; neither is better")


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        (("missing.yaml", "default", "--cluster", "cluster.yaml"), 2, "cannot read the configuration file"),
        (("pods.yaml", "default", "--cluster", "cluster.yaml"), 2, "pods.yaml"),
        (("default", "default", "--cluster", "cluster.yaml"), 1, "there are no pods to place"),
        (("default", "default", "--cluster", "pods.yaml", "--prices", "nothing.yaml"), 1, "--prices"),
        (("default", "default", "--cluster", "none.yaml"), 1, "there is no such file"),
        (("default", "default", "--cluster", "cluster.yaml", "-f", "vip.yaml"), 1, "no PriorityClass with name nope"),
        (("default", "default", "--cluster", "pods.yaml", "--plot", "out.gif"), 1, "a picture's name ends in"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(files, args, code, problem):
    result = invoke(files, *args)
    assert (result.exit_code, problem in result.output) == (code, True), result.output
    assert "Traceback" not in result.output


def test_extenders_and_sampling_are_told():
    config = {**document(SPREAD), "percentageOfNodesToScore": 50, "extenders": [{"urlPrefix": "http://127.0.0.1:1"}]}
    found = compare(random_load(0), ConfigurationSource.of_document("sampled", config), source(PACKED), seeds=(0,))
    assert [note.split(";")[0] for note in found.notes] == [
        "extenders are not asked",
        "sampled: decisions are compared with every node looked at",
    ]


def test_an_order_that_is_added_takes_the_place_of_the_one_a_document_names():
    """A scheduler that tells its configuration names its QueueSort plugin, too."""
    first = {"name": "PrioritySort"}
    document = {"profiles": [{"plugins": {"multiPoint": {"enabled": [first]}, "queueSort": {"enabled": [first]}}}]}
    (profile,) = enabling(document, {"ByDue": {ExtensionPoint.QUEUE_SORT}})["profiles"]
    assert profile["plugins"] == {
        "multiPoint": {"enabled": [first, {"name": "ByDue"}]},
        "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "ByDue"}]},
    }
