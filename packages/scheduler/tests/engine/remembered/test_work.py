"""How often plugins are asked where something is remembered: about what has changed, and about nothing else.

A plugin is asked about each row, or as a whole, as often as its answers may have changed. Whoever keeps less than that
decides the same and takes longer; whoever keeps more decides wrongly, which `test_lives` finds.
"""

from typing import Any

import pytest

from berth.api.codec import decode
from berth.core import questions
from berth.core.builders import make_namespace, make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.promises import Dependency, Objects
from berth.framework.registry import Registry
from berth.plugins.registry import in_tree_registry
from packages.scheduler.tests.engine.remembered.lives import config_of
from packages.scheduler.tests.engine.remembered.made_up import KINDS, ON_ZONES, ZONE, ZONES, Habits, plugin_of

NODE, PODS, ANYWHERE = Dependency.NODE, Dependency.PODS_ON_NODE, Dependency.PODS_ANYWHERE
ALL_NODES, RESERVED, OBJECTS = Dependency.ALL_NODES, Dependency.OWN_RESERVATIONS, Objects(KINDS[:1])
ROWS = 64
"""How many rows the table has, most of which hold no node."""
NODES, FEW = 20, 8
COLUMNS, ROW = frozenset({"columns"}), frozenset({"columns", "row"})


class Asked:
    """A cluster, and how often its plugins are asked about the pods of one workload."""

    def __init__(self, *habits: Habits) -> None:
        plugins = {each.name: plugin_of(each) for each in habits}
        self.cluster = VirtualCluster(
            registry=in_tree_registry().merge(Registry(plugins)),
            config=config_of(list(habits), in_tree=False),
            check_promises=0,
        )
        for number in range(NODES):
            self.put_node(number)
        self.core = self.cluster.core

    def put_node(self, number: int, mode: str = "") -> None:
        node = make_node(f"n{number}").capacity(cpu="8", memory="8Gi", pods="20").label(ZONE, "123"[number % 3])
        self.cluster.put(node.label("mode", mode or "abc"[number % 3]))

    def run_pods(self, *numbers: int) -> None:
        for number in numbers:
            pod = make_pod(f"r{len(self.cluster.objects)}").label("app", "y").request(cpu="100m")
            self.cluster.put(pod.node(f"n{number}"))

    @property
    def plugins(self) -> list[Any]:
        return [
            each.plugin for each in self.core.profiles["default-scheduler"].plugins if hasattr(each.plugin, "calls")
        ]

    def calls(self, app: str = "x") -> dict[str, int]:
        """Ask about a pod; return about how many rows each form was asked."""
        for plugin in self.plugins:
            plugin.calls.clear()
        pod = make_pod("asked").label("app", app).owned_by("ReplicaSet", "x").request(cpu="100m")
        info = self.core.intake.info(pod.build())
        attempt = questions.find(self.core, info, search=questions.search_beside(self.core))
        if attempt.found.nodes is not None:
            scored = questions.score(self.core, attempt, search=questions.search_beside(self.core))
            assert scored is None or scored.best_rows() is not None
        counts: dict[str, int] = {}
        for plugin in self.plugins:
            for form, count in plugin.calls.items():
                counts[form] = counts.get(form, 0) + count
        return counts

    def steady(self) -> "Asked":
        """Ask until all is kept that ever will be."""
        for _ in range(4):
            self.calls()
        return self


def nothing(asked: Asked) -> None:
    pass


def a_pod(asked: Asked) -> None:
    asked.run_pods(3)


def a_node(asked: Asked) -> None:
    asked.put_node(3, "c")


def nine_pods(asked: Asked) -> None:
    asked.run_pods(*range(9))


def nine_nodes(asked: Asked) -> None:
    for number in range(9):
        asked.put_node(number, "z")


def most_pods(asked: Asked) -> None:
    asked.run_pods(*range(17))


def most_nodes(asked: Asked) -> None:
    for number in range(17):
        asked.put_node(number, "q")


def an_object(asked: Asked) -> None:
    asked.cluster.put(decode("PriorityClass", {"metadata": {"name": "a", "uid": "a"}, "value": 1}))


def another_object(asked: Asked) -> None:
    meta = {"name": "a", "uid": "a"}
    asked.cluster.put(decode("StorageClass", {"metadata": meta, "provisioner": "example.com/none"}))


def a_reservation(asked: Asked) -> None:
    for plugin in asked.plugins:
        plugin.handle.reservation_changed(plugin.name)


def another_reservation(asked: Asked) -> None:
    asked.plugins[0].handle.reservation_changed("Another")


def a_namespace(asked: Asked) -> None:
    asked.cluster.put(make_namespace("default", {"env": "prod"}))


CHANGES = (
    nothing, a_pod, a_node, nine_pods, nine_nodes, most_pods, most_nodes, an_object, another_object, a_reservation,
    another_reservation, a_namespace,
)  # fmt: skip
CHANGED_ROWS = {a_pod: 1, nine_pods: 9, most_pods: 17, a_node: 1, nine_nodes: 9, most_nodes: 17}
BY_PODS, BY_NODES = (a_pod, nine_pods, most_pods), (a_node, nine_nodes, most_nodes)
DEPENDENCIES = {
    "nothing": frozenset(),
    "nodes": frozenset({NODE}),
    "pods": frozenset({NODE, PODS}),
    "objects": frozenset({NODE, OBJECTS}),
    "pods and objects": frozenset({NODE, PODS, OBJECTS}),
    "all nodes": frozenset({NODE, ALL_NODES}),
    "reservations": frozenset({NODE, RESERVED}),
    "pods anywhere": frozenset({NODE, ANYWHERE}),
    "who knows what": frozenset({Dependency.UNKNOWN}),
}


def expected(depends_on: Any, change: Any) -> int | None:
    """About how many rows is to be asked; None for all of them."""
    if depends_on & {ANYWHERE, Dependency.UNKNOWN}:
        return None
    if (change is an_object and OBJECTS in depends_on) or (change is a_reservation and RESERVED in depends_on):
        return None
    if change in BY_NODES and ALL_NODES in depends_on:
        return None
    if change in BY_NODES or (change in BY_PODS and PODS in depends_on):
        rows = CHANGED_ROWS[change]
        return None if rows * 4 > ROWS else rows
    return 0


@pytest.mark.parametrize("depends_on", DEPENDENCIES)
@pytest.mark.parametrize("forms", ["", "columns", "row"])
@pytest.mark.parametrize("point", ["filter", "score"])
def test_a_plugin_is_asked_about_what_has_changed(point, forms, depends_on):
    needs = DEPENDENCIES[depends_on]
    own = {"": frozenset(), "columns": COLUMNS, "row": ROW}[forms]
    asked = Asked(Habits("A", **{f"{point}_on": needs, f"{point}_forms": own, "levels": 101})).steady()
    for change in CHANGES:
        change(asked)
        assert asked.calls() == calls_expected(point, own, needs, change), change.__name__
        assert asked.calls() == calls_expected(point, own, needs, nothing), f"{change.__name__}, once more"


def calls_expected(point, own, needs, change):
    rows = expected(needs, change)
    if rows == 0:
        return {}
    if not own:
        # Of a plain score as many rows are asked about as are feasible, which all are here.
        return {point: NODES if rows is None else rows}
    if rows is None:
        # Scores that are not kept are asked for where the pod fits, and no row lies beyond those.
        is_kept = not needs & {ANYWHERE, Dependency.UNKNOWN} or point == "filter"
        return {f"{point}_columns": ROWS if is_kept else NODES}
    return {f"{point}_row" if "row" in own and rows <= FEW else f"{point}_columns": rows}


@pytest.mark.parametrize("point", ["filter", "score"])
def test_a_table_that_has_grown_for_pods_alone_is_asked_about_as_a_whole(point):
    """Pods on nodes that are not there take rows, and no node has changed; columns must have an element for each."""
    asked = Asked(Habits("A", **{f"{point}_on": frozenset({NODE}), f"{point}_forms": COLUMNS, "levels": 101})).steady()
    asked.run_pods(*range(NODES, ROWS + 1))
    assert asked.calls() == {f"{point}_columns": 2 * ROWS}
    assert asked.calls() == {}


@pytest.mark.parametrize("change", [nothing, a_pod, an_object])
def test_nodes_that_are_alike_are_asked_about_once(change):
    """Three modes of nodes, and of the node that a pod has come to there is no other."""
    habits = Habits("A", filter_on=frozenset({NODE, PODS, OBJECTS}), sees_kinds=True)
    asked = Asked(habits).steady()
    change(asked)
    assert asked.calls() == {nothing: {}, a_pod: {"filter": 1}, an_object: {"filter": 3}}[change]


def test_what_is_kept_of_one_kind_of_pods_serves_all_that_are_read_alike():
    asked = Asked(Habits("A", reads=(), filter_on=frozenset({NODE}), filter_forms=ROW)).steady()
    assert asked.calls("y") == {}
    reading = Asked(Habits("A", filter_on=frozenset({NODE}), filter_forms=ROW)).steady()
    assert [reading.calls("y") for _ in range(3)] == [{"filter_columns": ROWS}, {}, {}]


def test_whole_domains_are_asked_about_once_for_each_pod():
    """And so no row is looked at, where every node has a zone, and the other scores are kept."""
    by_zone = Habits("A", score_by="zone", score_on=ON_ZONES, score_forms=ZONES)
    by_row = Habits("B", score_on=frozenset({NODE, PODS}), score_forms=ROW)
    filters = Habits("C", filter_by="zone", filter_on=ON_ZONES, filter_forms=ZONES)
    asked = Asked(by_zone, by_row, filters).steady()
    assert asked.calls() == {"score_domains": 1, "filter_domains": 1}
    a_pod(asked)
    assert asked.calls() == {"score_domains": 1, "filter_domains": 1, "score_row": 1}
    asked.cluster.put(make_node("n3").capacity(cpu="8", pods="20").label("mode", "a"))
    assert asked.calls()["score_columns"] >= NODES


def test_scores_that_are_all_zero_are_normalized_once():
    asked = Asked(Habits("A", score_on=frozenset({NODE}), score_forms=ROW, normalizes="up", levels=1)).steady()
    a_node(asked)
    assert asked.calls() == {"score_row": 1}
    others = Asked(Habits("A", score_on=frozenset({NODE}), score_forms=ROW, normalizes="up", levels=101)).steady()
    assert others.calls() == {"normalize_score": 1}
