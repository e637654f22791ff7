"""Which changes wake a pod that required affinity or anti-affinity rejected, and which leave it asleep."""

import pytest

from berth.core.builders import make_namespace, make_node, make_pod
from berth.framework.events import Action, QueueingHint
from berth.plugins.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from packages.scheduler.tests.plugins.topology_support import HOST, ZONE, cluster, hint_of, zoned

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
WEB, DB = {"app": "web"}, {"app": "db"}


def plugin(*objects):
    return InterPodAffinity(InterPodAffinityArgs(), cluster(*objects))


NEAR = make_pod("near").pod_affinity(ZONE, WEB)
SERIES = make_pod("series").labels(WEB).pod_affinity(ZONE, WEB)
AWAY = make_pod("away").labels(DB).pod_anti_affinity(HOST, WEB)


def on_node(labels):
    return make_pod("other").labels(labels).node("a1")


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        (NEAR, None, on_node(WEB), QUEUE),
        (NEAR, None, on_node(DB), SKIP),
        (NEAR, None, make_pod("other").labels(WEB), SKIP),
        (NEAR, on_node(DB), on_node(WEB), QUEUE),
        (NEAR, on_node(WEB), on_node(DB), SKIP),
        (NEAR, on_node(WEB), None, SKIP),
        (SERIES, on_node(WEB), None, QUEUE),
        (SERIES, on_node(WEB), on_node(DB), QUEUE),
        (SERIES, on_node(DB), None, SKIP),
        (AWAY, None, on_node(WEB), SKIP),
        (AWAY, on_node(WEB), None, QUEUE),
        (AWAY, on_node(WEB), on_node(DB), QUEUE),
        (AWAY, on_node(WEB), on_node({**WEB, "tier": "gold"}), SKIP),
        (AWAY, on_node(DB), None, SKIP),
        (make_pod("p").labels(DB), on_node(WEB).pod_anti_affinity(ZONE, DB), None, QUEUE),
        (make_pod("p").labels(WEB), on_node(WEB).pod_anti_affinity(ZONE, DB), None, SKIP),
        (AWAY, make_pod("away").pod_anti_affinity(HOST, WEB), AWAY, QUEUE),
        (AWAY, AWAY, AWAY, SKIP),
    ],
)
def test_pods(pod, old, new, expected):
    infos = (None if other is None else other.info() for other in (old, new))
    assert hint_of(plugin(), "Pod")(pod.info(), *infos) is expected


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        (NEAR, None, zoned("n", "a"), QUEUE),
        (NEAR, None, make_node("n"), SKIP),
        (NEAR, make_node("n"), zoned("n", "a"), QUEUE),
        (NEAR, zoned("n", "a"), zoned("n", "b"), QUEUE),
        (NEAR, zoned("n", "a"), zoned("n", "a").label("disk", "ssd"), SKIP),
        (NEAR, zoned("n", "a"), None, SKIP),
        (SERIES, zoned("n", "a"), None, QUEUE),
        (SERIES, make_node("n"), None, SKIP),
        (AWAY, zoned("n", "a"), None, QUEUE),
        (make_pod("p"), zoned("n", "a"), None, SKIP),
        (AWAY, None, make_node("n"), QUEUE),
        (AWAY, make_node("n"), make_node("n").label(HOST, "m"), QUEUE),
        (AWAY, make_node("n"), zoned("n", "a"), SKIP),
    ],
)
def test_nodes(pod, old, new, expected):
    built = (None if node is None else node.build() for node in (old, new))
    assert hint_of(plugin(), "Node")(pod.info(), *built) is expected


def test_nodes_whose_domain_running_pods_guard_are_watched_too():
    guarded = plugin(zoned("a1", "a"), make_pod("guard").node("a1").pod_anti_affinity(ZONE, DB))
    pod = make_pod().labels(DB).info()
    assert hint_of(guarded, "Node")(pod, zoned("a1", "a").build(), zoned("a1", "b").build()) is QUEUE
    assert hint_of(plugin(), "Node")(pod, zoned("a1", "a").build(), zoned("a1", "b").build()) is SKIP
    assert hint_of(guarded, "Node")(pod, zoned("a1", "a").build(), None) is QUEUE
    assert hint_of(plugin(), "Node")(pod, zoned("a1", "a").build(), None) is SKIP


def test_namespaces():
    hint = hint_of(plugin(), "Namespace")
    by_label = make_pod().pod_affinity(ZONE, WEB, namespaceSelector={"matchLabels": {"env": "prod"}}).info()
    assert hint(by_label, None, make_namespace("prod", {"env": "prod"})) is QUEUE
    assert hint(NEAR.info(), None, make_namespace("prod", {"env": "prod"})) is SKIP
    # Running pods' terms may have chosen the pod by its own namespace's labels.
    assert hint(NEAR.info(), make_namespace("default", {"env": "prod"}), make_namespace("default")) is QUEUE


def test_what_is_registered():
    events = {(r.event.resource, r.event.action) for r in plugin().events_to_register()}
    assert ("Pod", Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE) in events
    assert ("Node", Action.ADD | Action.UPDATE_NODE_LABEL | Action.DELETE) in events
