"""A run of alike pods ends with all that may make the next pod fare otherwise, and goes on without it.

`tests/engine/remembered` holds what runs find against what is worked out afresh; here each thing that a run stands on
changes by itself, most of which need a rare moment there.
"""

from typing import Any

import pytest

from berth.api.codec import decode
from berth.core import questions
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.engine.alike import AlikeRun, run_after
from berth.framework.promises import Dependency, Objects
from berth.framework.registry import Registry
from berth.plugins.registry import in_tree_registry
from packages.scheduler.tests.engine.remembered.afresh import asked_afresh
from packages.scheduler.tests.engine.remembered.lives import config_of
from packages.scheduler.tests.engine.remembered.made_up import KINDS, Habits, plugin_of

ROW = frozenset({"columns", "row"})
ON_NODE = frozenset({Dependency.NODE, Dependency.PODS_ON_NODE})
FILTER = Habits("A", filter_on=ON_NODE, filter_forms=ROW)
SCORE = Habits("B", score_on=ON_NODE, score_forms=ROW, levels=101)
BY_OBJECTS = Habits("C", filter_on=frozenset({Objects(KINDS[:1])}), filter_forms=ROW)


class Begun:
    """A run after one pod of a workload has got its node."""

    def __init__(self, *habits: Habits, nodes: int = 8, indexed: bool = False, **options: Any) -> None:
        self.habits, self._count, self._indexed = habits or (FILTER, SCORE, BY_OBJECTS), 0, indexed
        plugins = {each.name: plugin_of(each) for each in self.habits}
        self.cluster = VirtualCluster(
            registry=in_tree_registry().merge(Registry(plugins)),
            config=config_of(list(self.habits), in_tree=False, **options),
            check_promises=0,
        )
        for number in range(nodes):
            mode, zone = "abc"[number % 3], "123"[number % 3]
            node = make_node(f"n{number}").capacity(cpu="8", memory="8Gi", pods="20").label("mode", mode)
            self.cluster.put(node.label("zone", zone))
        self.core = self.cluster.core
        self.memos, self.table = self.core.memos, self.core.cache.table
        for _ in range(2):  # what is said is kept from the second time on
            self.attempt()
        self.run = self.begun()

    def pod(self, **labels: str) -> Any:
        self._count += 1
        pod = make_pod(f"p{self._count}").label("app", "x").owned_by("ReplicaSet", "x").request(cpu="100m")
        for key, value in labels.items():
            pod.label(key, value)
        if self._indexed:
            pod.label("index", str(self._count % 5))
        return self.core.intake.info(pod.build())

    def attempt(self) -> Any:
        search = questions.search_beside(self.core)
        self.memos.more_to_come = True
        attempt = questions.choose(self.core, self.pod(), search=search)
        self.memos.more_to_come = False
        return attempt

    def begun(self) -> AlikeRun | None:
        attempt = self.attempt()
        found, following = attempt.found, self.pod()
        run = run_after(attempt.profile, attempt.pod, following, attempt.state, found.verdicts, found.scored)
        self.place(attempt.pod, self.table.names[attempt.outcome.chosen_row])
        return run

    def place(self, pod: Any, node_name: str) -> None:
        self.core.cache.assume(pod, node_name)

    def goes_on(self) -> bool:
        """Whether the run knows where the next pod goes; if it does, it is right."""
        assert self.run is not None
        pod = self.pod()
        rows = self.run.best_rows(pod) if self.run.takes(pod) else None
        if rows is not None:
            assert list(rows) == asked_afresh(self.core, pod).best
            self.place(pod, self.table.names[int(rows[0])])
        return rows is not None


def test_a_run_goes_on_while_nothing_but_rows_has_changed():
    begun = Begun()
    assert all(begun.goes_on() for _ in range(12))
    begun.core.cache.forget("default/p4")
    begun.core.cache.touch("n3")
    assert all(begun.goes_on() for _ in range(3))


def an_object(begun):
    meta = {"name": "a", "uid": "a"}
    begun.cluster.put(decode("PriorityClass", {"metadata": meta, "value": 1}))


def a_nomination(begun):
    begun.core.nominator.nominate(make_pod("promised").info(), "n3")


def another_column(begun):
    """Somebody asks about a pod of another kind, and what is said of it is kept."""
    for _ in range(2):
        pod = begun.core.intake.info(make_pod("other").label("app", "y").build())
        questions.find(begun.core, pod, search=questions.search_beside(begun.core))


def room_for_a_node_more(begun):
    """A pod on a node that is not there takes the first row beyond those that there were."""
    begun.core.cache.add_pod(make_pod("elsewhere").node("nowhere").request(cpu="100m").info())


def many_rows(begun):
    for number in range(9):
        begun.core.cache.add_pod(make_pod(f"r{number}").node(f"n{number}").request(cpu="100m").info())


def many_changes(begun):
    """More than the log of changes still knows."""
    for _ in range(9000):
        begun.core.cache.touch("n1")


ENDS = {
    "columns are given up": lambda begun: begun.memos.clear(),
    "a column is kept for the first time": another_column,
    "an object changes": an_object,
    "nothing is to be remembered": lambda begun: setattr(begun.memos, "enabled", False),
    "a node changes": lambda begun: begun.cluster.put(make_node("n3").capacity(cpu="4", pods="20").label("mode", "c")),
    "the table grows": room_for_a_node_more,
    "a pod is nominated": a_nomination,
    "many rows change": many_rows,
    "much has changed": many_changes,
}


@pytest.mark.parametrize("change", ENDS)
def test_a_run_ends_with(change):
    begun = Begun(nodes=64)
    assert begun.goes_on()
    ENDS[change](begun)
    assert not begun.goes_on()


def raises(*_: Any) -> int:
    raise ValueError("boom")


@pytest.mark.parametrize("answer", [raises, lambda *_: 1000], ids=["raises", "is no score"])
def test_a_run_ends_where_a_score_of_a_row_cannot_be_relied_on(answer):
    """The attempt that follows meets the same, and says whose bug it is."""
    begun = Begun()
    assert begun.goes_on()
    run = begun.run
    scores = [entry for entry, _ in run._shares]
    assert any(entry in scores for _, _, entry in run._moving)
    run._moving = [(runner, answer if entry in scores else form, entry) for runner, form, entry in run._moving]
    begun.core.cache.touch("n3")
    assert run.best_rows(begun.pod()) is None


def test_no_run_begins_before_it_is_known_that_all_is_kept():
    """Plain answers are kept at once, and what holds of all of them is noted the second time they are asked for."""
    begun = Begun(Habits("A", filter_on=ON_NODE), Habits("B", score_on=ON_NODE))
    found = []
    for _ in range(3):
        search = questions.search_beside(begun.core)
        pod = make_pod("another").label("app", "y").owned_by("ReplicaSet", "y").request(cpu="200m")
        attempt = questions.choose(begun.core, begun.core.intake.info(pod.build()), search=search)
        found.append(attempt.profile.kept_plans(attempt.state, attempt.pod) is not None)
    assert found == [False, True, True]


RESERVING = frozenset({Dependency.NODE, Dependency.OWN_RESERVATIONS})
KEPT_AS_A_WHOLE = {
    "by reservations, which their plugin changes when it likes": Habits("A", filter_on=RESERVING, filter_forms=ROW),
    "without a row form": Habits("A", filter_on=ON_NODE, filter_forms=frozenset({"columns"})),
    "each by all nodes": Habits("A", score_on=ON_NODE | {Dependency.ALL_NODES}, score_forms=ROW, levels=101),
}


@pytest.mark.parametrize("kept", KEPT_AS_A_WHOLE)
def test_no_run_begins_where_answers_are_kept(kept):
    assert Begun(FILTER, SCORE).run is not None
    assert Begun(KEPT_AS_A_WHOLE[kept], SCORE).run is None


def test_a_single_node_that_is_left_is_taken_without_a_score():
    """As in an attempt (pkg/scheduler/schedule_one.go, schedulePod): so that takes one, and nobody scores here."""
    by_load = Habits("A", filter_by="load", filter_on=ON_NODE, filter_forms=ROW)
    anywhere = Habits("B", score_on=frozenset({Dependency.PODS_ANYWHERE}), score_forms=frozenset({"columns"}))
    begun = Begun(by_load, anywhere, nodes=3)
    assert begun.goes_on()
    left = begun.run.best_rows(begun.pod())[0]
    for row in {0, 1, 2} - {int(left)}:
        large = make_pod(f"large{row}").request(cpu="5")
        begun.place(begun.core.intake.info(large.build()), begun.table.names[row])
    (plugin,) = [each.plugin for each in begun.core.profiles["default-scheduler"].plugins if each.name == "B"]
    plugin.calls.clear()
    assert not begun.goes_on()
    assert plugin.calls == {}


def test_a_pod_that_is_nominated_takes_an_attempt():
    begun = Begun()
    status = make_pod("promised").label("app", "x").owned_by("ReplicaSet", "x").request(cpu="100m").nominated("n2")
    pod = begun.core.intake.info(status.build())
    assert begun.run.takes(pod)
    assert begun.run.best_rows(pod) is None
    assert begun.goes_on()


def test_a_run_takes_pods_of_its_shape_and_profile():
    begun = Begun()
    assert begun.run.takes(begun.pod())
    assert not begun.run.takes(begun.pod(tier="s"))
    other = make_pod("q").label("app", "x").owned_by("ReplicaSet", "x").request(cpu="100m").build()
    elsewhere = begun.core.intake.info(other)
    from msgspec.structs import force_setattr

    force_setattr(elsewhere, "profile_name", "another")
    assert not begun.run.takes(elsewhere)


def test_a_run_of_pods_that_differ_in_labels_takes_those_of_which_the_plugins_read_the_same():
    begun = Begun(FILTER, SCORE, indexed=True)
    assert begun.run.takes(begun.pod(tier="s"))
    reading = Begun(FILTER, SCORE._replace(reads=("tier",)), indexed=True)
    assert not reading.run.takes(reading.pod(tier="s"))
    assert reading.goes_on()
    from msgspec.structs import force_setattr

    larger = make_pod("larger").label("app", "x").label("tier", "s").owned_by("ReplicaSet", "x").request(cpu="200m")
    assert not begun.run.takes(begun.core.intake.info(larger.build())), "it differs in more than labels"
    elsewhere = begun.pod()
    force_setattr(elsewhere, "profile_name", "another")
    assert not begun.run.takes(elsewhere)
