"""Answers of plain filters and scores are kept by what their plugin promises, and are what it would say now."""

from collections import Counter
from typing import ClassVar

import pytest

from berth.engine import verdicts
from berth.plugin import Dependency, Objects, Promises, Status, unschedulable
from berth.testing import VirtualCluster, make_node, make_object, make_pod

NODES = 40
ON_NODE = frozenset({Dependency.NODE, Dependency.PODS_ON_NODE})


class QuietRack:
    """The plugin of the README's first page, which counts how often it is asked."""

    name = "QuietRack"

    def __init__(self, args, handle):
        self.calls = Counter()

    def signature(self, pod):
        return ()

    def filter(self, state, pod, node) -> Status | None:
        self.calls["filter"] += 1
        return unschedulable("node(s) were in a quiet rack") if node.labels.get("mode") == "quiet" else None

    def score(self, state, pod, node) -> int:
        self.calls["score"] += 1
        return max(0, 100 - len(node.pods))


class Promised(QuietRack):
    promises: ClassVar[Promises] = Promises(filter_depends_on=frozenset({Dependency.NODE}), score_depends_on=ON_NODE)


def node(number, mode="loud"):
    return make_node(f"n{number:02d}").capacity(cpu="8", memory="32Gi", pods=110).label("mode", mode)


def cluster_of(plugin, nodes=NODES, quiet=(), **options):
    made = VirtualCluster(plugins=[plugin], check_promises=0, **options)
    for number in range(nodes):
        made.put(node(number, "quiet" if number in quiet else "loud"))
    return made


def plugin_of(cluster):
    plugins = cluster.core.profiles["default-scheduler"].plugins
    return next(each.plugin for each in plugins if each.name == QuietRack.name)


def placed(cluster, name, **labels):
    pod = make_pod(name).request(cpu="10m")
    for key, value in labels.items():
        pod = pod.label(key, value)
    cluster.put(pod)
    cluster.run()


def calls_of_next_pods(cluster, count=3):
    """Return how often the plugin is asked for each of the pods that come next."""
    plugin, counts = plugin_of(cluster), []
    for _ in range(count):
        before = Counter(plugin.calls)
        placed(cluster, f"next-{len(cluster.nodes_of())}")
        counts.append(dict(plugin.calls - before))
    return counts


def test_a_promise_makes_the_second_pod_cost_the_nodes_that_have_changed():
    cluster = cluster_of(Promised)
    placed(cluster, "first")
    assert calls_of_next_pods(cluster) == [{"score": 1}] * 3
    cluster.put(node(5, "quiet"))
    assert calls_of_next_pods(cluster, 2) == [{"filter": 1, "score": 2}, {"score": 1}]


def test_without_a_promise_every_node_is_asked_about_for_every_pod():
    cluster = cluster_of(QuietRack)
    placed(cluster, "first")
    assert calls_of_next_pods(cluster) == [{"filter": NODES, "score": NODES}] * 3


def test_where_no_signature_says_for_which_pods_an_answer_holds_it_is_not_kept():
    class NoSignature(Promised):
        promises: ClassVar[Promises] = Promised.promises

        def signature(self, pod):
            return None

    cluster = cluster_of(NoSignature)
    placed(cluster, "first")
    assert calls_of_next_pods(cluster, 1) == [{"filter": NODES, "score": NODES}]


def test_reasons_keep_their_meaning_when_rows_are_repaired():
    class ByMode(Promised):
        promises: ClassVar[Promises] = Promised.promises

        def filter(self, state, pod, node):
            mode = node.labels["mode"]
            return None if mode == "loud" else unschedulable(f"the mode was {mode}")

    cluster = cluster_of(ByMode, nodes=6, quiet=(0, 1))
    for number in range(2, 6):
        cluster.put(node(number, "broken"))
    for pod in ("a", "b"):
        placed(cluster, pod)
        cluster.put(node(5, f"odd for {pod}"))
    placed(cluster, "c")
    told = cluster.events("FailedScheduling")[-1]
    assert "1 the mode was odd for b" in told and "3 the mode was broken" in told and "2 the mode was quiet" in told


def test_more_reasons_than_are_kept_are_told_all_the_same(monkeypatch):
    monkeypatch.setattr(verdicts, "REASONS_AT_MOST", 5)

    class Named(Promised):
        promises: ClassVar[Promises] = Promised.promises

        def filter(self, state, pod, node):
            self.calls["filter"] += 1
            if node.labels["mode"] == "loud":
                return None
            return unschedulable(f"{node.name} was {node.labels['mode']}")

    cluster = cluster_of(Named, nodes=8, quiet=(0, 1))
    placed(cluster, "first")
    for turn in range(10):
        cluster.put(node(0, f"in turn {turn}"))
        before = plugin_of(cluster).calls["filter"]
        placed(cluster, f"p{turn}")
        # New reasons now and then fill the table, and the column is computed anew; it is kept in between.
        assert plugin_of(cluster).calls["filter"] - before in (1, 1 + 8)
    for number in range(8):
        cluster.put(node(number, "quiet"))
    placed(cluster, "nowhere")
    before = plugin_of(cluster).calls["filter"]
    placed(cluster, "nowhere-else")
    assert plugin_of(cluster).calls["filter"] - before == 8, "eight reasons are too many to be kept"


def test_what_a_plugin_says_where_it_breaks_is_never_kept():
    class Breaks(Promised):
        promises: ClassVar[Promises] = Promised.promises
        broken = True

        def filter(self, state, pod, node):
            self.calls["filter"] += 1
            if self.broken:
                raise ValueError("not now")
            return

    cluster = cluster_of(Breaks, nodes=3)
    placed(cluster, "a")
    assert cluster.nodes_of()["a"] == ""
    plugin_of(cluster).broken = False
    cluster.advance(60.0)
    assert cluster.nodes_of()["a"] != ""
    assert calls_of_next_pods(cluster, 2)[1] == {"score": 1}


def test_no_score_is_asked_for_where_few_nodes_are_left():
    cluster = cluster_of(Promised, quiet=range(3, NODES))
    placed(cluster, "first")
    assert plugin_of(cluster).calls["score"] == 3
    assert calls_of_next_pods(cluster) == [{"score": 1}] * 3
    cluster.put(node(7))
    placed(cluster, "later")
    assert cluster.nodes_of()["later"] == "n07"


def test_where_most_nodes_are_left_the_others_are_scored_as_well():
    """Then nothing is lacking, and what is summed may be kept; a pod that may go there finds the score."""
    cluster = cluster_of(Promised, quiet=range(3))
    placed(cluster, "first")
    assert plugin_of(cluster).calls["score"] == NODES
    assert calls_of_next_pods(cluster) == [{"score": 1}] * 3


def test_a_score_that_breaks_on_a_node_that_is_not_left_is_nobodys_error():
    class Breaks(Promised):
        promises: ClassVar[Promises] = Promised.promises

        def score(self, state, pod, node):
            if node.labels["mode"] == "quiet":
                raise KeyError("never asked about")
            return super().score(state, pod, node)

    cluster = cluster_of(Breaks, quiet=(0, 1))
    placed(cluster, "first")
    assert [list(each) for each in calls_of_next_pods(cluster)] == [["score"]] * 3
    assert all(cluster.nodes_of().values())


def test_a_score_that_breaks_where_it_counts_ends_the_attempt_each_time():
    class Breaks(Promised):
        promises: ClassVar[Promises] = Promised.promises

        def score(self, state, pod, node):
            if node.name == "n01":
                raise KeyError("mode")
            return super().score(state, pod, node)

    for plugin in (Breaks, type("Unpromised", (Breaks,), {"name": "QuietRack"})):
        cluster = cluster_of(plugin, nodes=4)
        for pod in ("a", "b"):
            placed(cluster, pod)
            assert cluster.nodes_of()[pod] == ""
            assert "node 'n01': KeyError: 'mode'" in cluster.events("FailedScheduling")[-1]


def test_objects_that_a_plugin_depends_on_make_its_answers_stale():
    class ByClaims(Promised):
        promises: ClassVar[Promises] = Promises(
            filter_depends_on=frozenset({Objects(("StorageClass",))}),
            score_depends_on=frozenset({Dependency.NODE, Objects(("StorageClass",))}),
        )

        def __init__(self, args, handle):
            super().__init__(args, handle)
            self._objects = handle.objects

        def score(self, state, pod, node):
            self.calls["score"] += 1
            return 50 if self._objects.list("StorageClass") else 10

    cluster = cluster_of(ByClaims)
    placed(cluster, "first")
    assert calls_of_next_pods(cluster) == [{}] * 3
    document = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
    cluster.put(make_object({**document, "provisioner": "example.com/none"}))
    assert calls_of_next_pods(cluster, 2) == [{"filter": NODES, "score": NODES}, {}]


@pytest.mark.parametrize("plugin", [Promised, QuietRack])
def test_decisions_are_those_without_memos(plugin):
    """The same pods and changes with and without memos, on nodes that come and go and change."""
    told = []
    for memos in (True, False):
        cluster = cluster_of(plugin, nodes=12, quiet=(1, 4), memos=memos)
        for turn in range(30):
            placed(cluster, f"p{turn}")
            if turn % 3 == 0:
                cluster.put(node(turn % 12, "quiet" if turn % 2 else "loud"))
            if turn % 7 == 0:
                cluster.delete("Node", f"n{turn % 12:02d}")
        told.append(cluster.nodes_of())
    assert told[0] == told[1]


class ByKind(Promised):
    promises: ClassVar[Promises] = Promised.promises

    def signature(self, pod):
        return pod.labels["app"]

    def node_signature(self, node):
        self.calls["node"] += 1
        return node.labels["mode"], len(node.pods)


def test_of_nodes_that_are_alike_one_is_asked_about():
    cluster = cluster_of(ByKind, quiet=(3, 7))
    plugin = plugin_of(cluster)

    def calls_of(name):
        plugin.calls.clear()
        placed(cluster, name, app=name)
        return plugin.calls

    # Filter and Score have kinds of their own. Two kinds are filtered and one is scored; of the few quiet nodes that
    # are left, each is asked about so that the whole column can be kept.
    assert calls_of("a") == {"node": 2 * NODES, "filter": 2, "score": 1 + 2}
    # The node with a pod is of another kind now.
    assert calls_of("b") == {"node": 2, "filter": 3, "score": 2 + 2}
    cluster.put(node(39, "quiet"))
    assert calls_of("c") == {"node": 4, "filter": 3, "score": 2 + 3}


def test_decisions_by_kinds_of_nodes_are_those_without_them():
    told = []
    for plugin in (ByKind, Promised):
        cluster = cluster_of(plugin, nodes=60, quiet=range(20))
        for turn in range(30):
            placed(cluster, f"p{turn}", app=f"a{turn % 20}")
            if turn % 3 == 0:
                cluster.put(node(turn, "quiet" if turn % 2 else "loud"))
            if turn % 7 == 0:
                cluster.delete("Node", f"n{turn % 12 + 30:02d}")
        told.append(cluster.nodes_of())
    assert told[0] == told[1]
