"""A plugin that answers by more than it promises is named, with what it looked at and about which pod."""

from typing import ClassVar

import numpy as np
import pytest

from berth.core.virtual_cluster import BrokenPromiseError
from berth.plugin import CustomResource, Dependency, FilterColumn, Objects, Promises, error, unschedulable
from berth.testing import VirtualCluster, make_node, make_pod

NODE, PODS = frozenset({Dependency.NODE}), frozenset({Dependency.NODE, Dependency.PODS_ON_NODE})
CLOSED = unschedulable("node(s) were closed")
THINGS = CustomResource("example.com", "v1", "things", "Thing")


class Base:
    name = "Suspect"
    promises: ClassVar[Promises] = Promises(filter_depends_on=NODE, score_depends_on=PODS)

    def __init__(self, args, handle):
        self.handle = handle

    def signature(self, pod):
        return ()


def found_out(plugin, *pods, **options):
    """Schedule pods with a plugin; return what is said of its promises."""
    nodes = [make_node(f"n{number}").capacity(cpu="8", memory="32Gi") for number in range(3)]
    cluster = VirtualCluster(*nodes, plugins=[plugin], **options)
    try:
        for pod in pods or (make_pod("a"), make_pod("b")):
            cluster.put(pod)
            cluster.run()
    except BrokenPromiseError as broken:
        return str(broken)
    return ""


def suspect(**methods):
    return type("Suspect", (Base,), {"promises": Base.promises, **methods})


@pytest.mark.parametrize(
    ("look", "told"),
    [
        (lambda self, node: len(node.pods), "node.pods (promise Dependency.PODS_ON_NODE)"),
        (lambda self, node: node.pod_count, "node.pod_count (promise Dependency.PODS_ON_NODE)"),
        (lambda self, node: node.requested["cpu"], "node.requested (promise Dependency.PODS_ON_NODE)"),
        (lambda self, node: [*node.used_ports], "node.pods (promise Dependency.PODS_ON_NODE)"),
        (lambda self, node: [*self.handle.objects.list("Service")],
         "handle.objects.list('Service') (promise Objects(('Service',)))"),
        (lambda self, node: self.handle.cache.states(), "handle.cache.states (promise Dependency.PODS_ANYWHERE)"),
        (lambda self, node: len(self.handle.nodes()), "handle.nodes (promise Dependency.PODS_ANYWHERE)"),
        (lambda self, node: self.handle.now(), "handle.now (which nothing promises)"),
        (lambda self, node: self.handle.nominator.pods_on(node.name),
         "handle.nominator.pods_on (which nothing promises)"),
    ],
)  # fmt: skip
def test_what_is_looked_at_and_not_promised_is_named(look, told):
    plugin = suspect(filter=lambda self, state, pod, node: look(self, node) and None)
    where = "plugin Suspect: filter broke a promise for pod default/a on node n0: it looked at"
    assert found_out(plugin) == f"{where} {told}, which filter_depends_on does not name"


def test_what_is_promised_may_be_looked_at():
    def score(self, state, pod, node):
        return len(node.pods) + len([*self.things.list()]) + len(node.labels)

    def init(self, args, handle):
        self.things = handle.follow(THINGS)

    promises = Promises(score_depends_on=PODS | {Objects((THINGS.name,))})
    assert found_out(suspect(score=score, __init__=init, promises=promises)) == ""
    told = found_out(suspect(score=score, __init__=init))
    assert "things.v1.example.com (promise Objects(('things.v1.example.com',)))" in told


def test_a_plugin_without_promises_may_look_at_everything():
    plugin = suspect(promises=Promises(), filter=lambda self, state, pod, node: len(node.pods) and None)
    assert found_out(plugin) == ""


def test_a_signature_that_says_too_little_is_told_with_what_the_pods_differ_in():
    plugin = suspect(filter=lambda self, state, pod, node: CLOSED if pod.labels.get("app") == "b" else None)
    told = found_out(plugin, make_pod("a").label("app", "a"), make_pod("b").label("app", "b"))
    assert told == (
        "plugin Suspect: filter broke a promise for pod default/b on node n0: that the pod fits was kept, but now it "
        "says Unschedulable: node(s) were closed; its signature is that of pod default/a, which differs in "
        "labels['app']"
    )


def test_an_answer_that_depends_on_what_the_plugin_noted_itself_is_found_out():
    def reserve(self, state, pod, node_name):
        self.taken = True

    plugin = suspect(
        filter=lambda self, state, pod, node: CLOSED if getattr(self, "taken", False) else None,
        reserve=reserve,
        unreserve=lambda self, state, pod, node_name: None,
    )
    assert "that the pod fits was kept, but now it says Unschedulable: node(s) were closed" in found_out(plugin)


def test_forms_that_say_different_things_are_told():
    def columns(self, state, pod, table, rows):
        return FilterColumn((np.array(table.names)[rows] == "n1").astype(np.int32), lambda code: CLOSED)

    told = found_out(suspect(filter=lambda self, state, pod, node: None, filter_columns=columns))
    assert "on node n1: Unschedulable: node(s) were closed was said by column, but that the pod fits" in told


def test_scores_are_checked_as_well():
    plugin = suspect(score=lambda self, state, pod, node: 7 if pod.labels else 3)
    told = found_out(plugin, make_pod("a"), make_pod("b").label("app", "b"))
    assert "score broke a promise for pod default/b on node" in told and "3 was kept, but now it says 7" in told


def test_scores_by_column_and_by_node_are_the_same():
    columns = lambda self, state, pod, table, rows: np.full(table.capacity, 5)[rows]  # noqa: E731
    told = found_out(suspect(score=lambda self, state, pod, node: 7, score_columns=columns))
    assert "on node n0: 5 was said by column, but 7 node by node" in told
    fails = lambda self, state, pod, table, rows: error("no idea")  # noqa: E731
    assert found_out(suspect(promises=Promises(), score=lambda self, state, pod, node: 7, score_columns=fails)) == ""


def test_one_attempt_in_so_many_is_checked():
    plugin = suspect(filter=lambda self, state, pod, node: CLOSED if pod.labels else None)
    pods = [make_pod("a"), make_pod("b").label("app", "b"), make_pod("c").label("app", "c")]
    assert found_out(plugin, *pods, check_promises=3) == found_out(plugin, *pods, check_promises=0) == ""
    assert "pod default/c" in found_out(plugin, *pods, check_promises=2)
