"""A cluster in a file, asked about without a scheduler at work."""

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth.decisions.fit_question import FitManifestError
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.cluster_file import ClusterFileSource

LIKES = """
class Likes:
    name = "Likes"

    def __init__(self, args, handle):
        pass

    def score(self, state, pod, node):
        return 30 * int(node.name[1:])

    def explain_score(self, pod, node):
        return [f"{node.name} is liked by {pod.name}"]
"""


def document(struct):
    return Document(type(struct).__name__, msgspec.json.encode(struct), "test")


@pytest.fixture
def source():
    nodes = [make_node(f"n{i}").capacity(cpu="4", memory="8Gi", pods="10").label("pool", f"p{i % 2}") for i in range(4)]
    running = make_pod("running").request(cpu="3").node("n0")
    small = make_pod("small").request(cpu="2")
    huge = [make_pod(f"huge-{i}").request(cpu="9") for i in range(3)]
    return ClusterFileSource("test", Snapshot([document(each.build()) for each in (*nodes, running, small, *huge)]))


async def test_nodes_are_told_as_they_were(source):
    columns = await source.nodes()
    cpu = next(each for each in columns.resources if each.name == "cpu")
    assert columns.names == ["n0", "n1", "n2", "n3"]
    assert cpu.allocatable == [4000] * 4 and cpu.requested == [3000, 0, 0, 0]
    assert columns.pools.names == ("p0", "p1") and columns.pools.of == [0, 1, 0, 1]
    assert columns.pods == [1, 0, 0, 0] and columns.allowed_pods == [10] * 4


async def test_pending_pods_are_grouped_by_what_keeps_them(source):
    report = await source.pending()
    huge, small = report.groups
    assert (report.pods, huge.pods, small.pods) == (4, 3, 1)
    assert huge.reason == "Insufficient cpu" and huge.message == "0/4 nodes are available: 4 Insufficient cpu."
    expected = "needs 9 CPU; of the 4 nodes rejected for it, n1 has the most free: 4 of 4"
    assert huge.shortfalls[0].sentence == expected
    assert huge.named == ("default/huge-0", "default/huge-1", "default/huge-2")
    assert small.reason == "fits now, and had not been placed yet" and small.missing.startswith("Fits now")
    assert huge.missing == "Needs 9 CPU on one node, and n1 has the most free, 4 of 4."
    assert (huge.queues, small.queues) == ({"unschedulable": 3}, {"active": 1})


async def test_pods_of_a_workload_are_one_group_whatever_keeps_each(source):
    """What makes them counts: of a Deployment's, some want a label and some too much; others of their size do not."""
    labels = {"app": "web", "pod-template-hash": "5f6c8"}
    web = [make_pod(f"web-{i}").owned_by("ReplicaSet", "web-5f6c8").labels(labels).request(cpu="9") for i in range(4)]
    web[0].node_selector({"disk": "ssd"})
    documents = [*(await source.snapshot()).documents, *(document(each.build()) for each in web)]
    of_web, huge, _ = (await ClusterFileSource("test", Snapshot(documents)).pending()).groups
    assert (of_web.title, of_web.pods, of_web.reason) == ("Deployment default/web", 4, "Insufficient cpu")
    assert (huge.title, huge.pods) == ("Pods like default/huge-0", 3)


async def test_what_a_pod_names_and_nobody_has_made_is_the_first_sentence(source):
    documents = [*(await source.snapshot()).documents, document(make_pod("db").claim("data").build())]
    asked = ClusterFileSource("test", Snapshot(documents))
    group = next(group for group in (await asked.pending()).groups if group.title == "Pod default/db")
    assert group.missing == "The PersistentVolumeClaim data does not exist."
    story = (await asked.story("default", "db")).decision
    assert story.summary.startswith(
        "default/db could not be scheduled: The PersistentVolumeClaim data does not exist. The scheduler says: 0/4 "
    )
    assert "does not exist" not in story.message, "what the condition says is kube-scheduler's"


async def test_pods_that_nothing_makes_are_one_group_where_they_ask_for_the_same(source):
    """Two that both find no node, one for a label and one for a taint, have nothing in common that could be changed."""
    alike = [
        make_pod(f"a-{i}").request(cpu="1").node_selector({"disk": "wrong"}).label("run", f"{i}") for i in range(2)
    ]
    other = make_pod("b").request(cpu="1").node_selector({"disk": "another"})
    elsewhere = make_pod("c", "shop").request(cpu="1").node_selector({"disk": "another"})
    documents = [*(await source.snapshot()).documents, *(document(each.build()) for each in (*alike, other, elsewhere))]
    groups = (await ClusterFileSource("test", Snapshot(documents)).pending()).groups
    assert {
        group.title: group.named for group in groups if "huge" not in group.title and "small" not in group.title
    } == {
        "Pods like default/a-0": ("default/a-0", "default/a-1"),
        "Pod default/b": ("default/b",),
        "Pod shop/c": ("shop/c",),
    }


async def test_a_pending_pod_is_told_where_it_would_go_and_stays_where_it_is(source):
    report = await source.story("default", "small")
    assert report.decision.node in ("n1", "n2", "n3") and report.decision.feasible_count == 3
    assert len(report.decision.best) == 3 and report.decision.weights
    assert (await source.nodes()).pods == [1, 0, 0, 0]


async def test_what_stands_behind_the_scores_is_told_of_the_best_nodes(source, tmp_path):
    (tmp_path / "likes.py").write_text(LIKES)
    profiles = [{"plugins": {"multiPoint": {"enabled": [{"name": "Likes"}]}}}]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    }
    configuration = ConfigurationSource.of_document("a test", config, [f"{tmp_path / 'likes.py'}:Likes"])
    likes = ClusterFileSource("test", await source.snapshot(), configuration)
    report = await likes.story("default", "running")
    assert [(each.node, each.sentences) for each in report.decision.score_details] == [
        ("n3", ("n3 is liked by running",)), ("n2", ("n2 is liked by running",)), ("n1", ("n1 is liked by running",)),
    ]  # fmt: skip


async def test_a_pod_on_a_node_is_decided_anew_without_itself_and_stays_there(source):
    report = await source.story("default", "running")
    assert report.decision.summary.startswith("default/running is on n0. If it came anew: ")
    assert report.decision.feasible_count == 4
    assert report.pending is None
    assert (await source.nodes()).pods == [1, 0, 0, 0]


async def test_all_nodes_are_told_of_where_that_is_asked(source):
    report = await source.story("default", "huge-1", all_nodes=True)
    assert report.decision.node is None and report.decision.rejected[0].nodes == ("n0", "n1", "n2", "n3")
    assert await source.story("default", "nobody") is None


async def test_the_queue_is_what_is_pending(source):
    sample = await source.sample()
    assert (sample.pending["unschedulable"], sample.pending["active"]) == (3, 1)


async def test_another_configuration_decides_otherwise():
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    configuration = ConfigurationSource.of_document("packing", {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}],
    })  # fmt: skip
    nodes = [make_node(name).capacity(cpu="16", memory="64Gi") for name in ("empty", "full")]
    pods = [
        make_pod("running").request(cpu="8", memory="32Gi").node("full"),
        make_pod("new").request(cpu="1", memory="4Gi"),
    ]
    snapshot = Snapshot([document(each.build()) for each in (*nodes, *pods)])
    for source, node in (
        (ClusterFileSource("", snapshot), "empty"),
        (ClusterFileSource("", snapshot, configuration), "full"),
    ):
        assert (await source.story("default", "new")).decision.node == node
    assert await source.configuration() is configuration


async def test_a_manifest_is_asked_about_and_stays_outside(source):
    text = b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}"
    told = await source.fit(text)
    assert told.fits and told.decision.feasible_count == 3
    assert (await source.nodes()).pods == [1, 0, 0, 0]
    with pytest.raises(FitManifestError, match="kind"):
        await source.fit(b"{}")
