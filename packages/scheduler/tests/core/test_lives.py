"""Whatever happens to a core, nothing is lost or miscounted, and it decides as one does that remembers nothing.

The lives are those of `tests/engine/remembered` and of `tests/cycle/test_churn.py`, lived here for what the core does:
taking events in, stepping, placing alike pods in runs, and asking.
"""

import pytest

from berth.core import questions
from berth.core.builders import make_pod
from berth.core.intake import FoundGone, ObjectEvent, ShardsHeld
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.events import Action
from berth.testing.invariants import check
from packages.scheduler.tests.cycle.test_churn import Churn
from packages.scheduler.tests.engine.remembered.lives import Life
from packages.scheduler.tests.support import cluster, document, node, plugin, pod


@pytest.mark.parametrize("at_once", [False, True], ids=["in cycles", "in runs"])
@pytest.mark.parametrize("case", range(4))
def test_decisions_are_those_of_a_core_that_remembers_nothing(at_once, case):
    for seed in range(5000 + case * 8, 5008 + case * 8):
        Life(seed, at_once=at_once).live(12)


@pytest.mark.parametrize("generation", [None, "v1.20"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_and_what_could_run_does(seed, generation):
    churn = Churn(900 + seed, generation=generation)
    for _ in range(120):
        churn.happen()
        check(churn.cluster.core)
    churn.settle()
    check(churn.cluster.core)
    assert churn.cluster.core.unfinished == 0
    if generation is None:
        fresh = VirtualCluster(*churn.cluster.objects.values()).run()
        assert fresh.nodes_of() == churn.cluster.nodes_of()


class TestRuns:
    """What a core does with pods in a row that it may bind itself."""

    def made(self, *objects, **options):
        found = cluster(node("n1", "8"), node("n2", "8"), *objects, **options)
        found.core.let_bind(found.bind_at_once)
        return found

    def alike(self, count):
        return [make_pod(f"p{number}").owned_by("ReplicaSet", "w").request(cpu="500m") for number in range(count)]

    def steps_for(self, found):
        steps = 0
        while found.core.has_work:
            found.step()
            steps += 1
        return steps

    def test_alike_pods_are_placed_in_one_step_after_the_first(self):
        found = self.made(*self.alike(12))
        assert self.steps_for(found) <= 4
        assert all(found.nodes_of().values())
        check(found.core)

    def test_no_more_than_so_many_at_once(self):
        found = cluster(node("n1", "64"), node("n2", "64"))
        found.core.let_bind(found.bind_at_once)
        for number in range(200):
            found.put(make_pod(f"p{number}").owned_by("ReplicaSet", "w").request(cpu="1m"))
        before, most = 0, 0
        while found.core.has_work:
            found.step()
            placed = sum(map(bool, found.nodes_of().values()))
            before, most = placed, max(most, placed - before)
        assert most == 128 + 1, "the pod with which the next run begins has an attempt in the same step"
        check(found.core)

    def test_one_by_one_where_runs_are_not_wanted(self):
        found = self.made(*self.alike(6))
        found.core.let_bind(found.bind_at_once, in_runs=False)
        assert self.steps_for(found) == 6
        assert len(found.core.trace) == 6

    def test_a_pod_that_is_not_wanted_any_more_ends_no_run_wrongly(self):
        found = self.made(*self.alike(8))
        found.step()
        found.step()
        terminating = self.alike(10)
        found.put(terminating[8])
        found.put(terminating[8].copy().terminating())
        found.put(terminating[9])
        self.steps_for(found)
        assert found.nodes_of()["p8"] == ""
        assert found.nodes_of()["p9"]
        check(found.core)

    def test_nothing_is_sent_for_a_pod_that_was_bound_at_once(self):
        found = self.made(*self.alike(3))
        found.run()
        assert found.effects == []
        found.core.let_bind(None)
        found.put(make_pod("late").request(cpu="1m"))
        found.run()
        assert [type(effect).__name__ for effect in found.effects] == ["Request", "EmitEvent"]

    def test_a_plugin_that_has_to_do_with_binding_is_asked(self):
        asked = plugin("Asked", reserve=lambda *_: None, unreserve=lambda *_: None)
        found = self.made(*self.alike(4), config=document("Asked"), plugins={"Asked": asked})
        found.run()
        assert asked.calls.count("reserve") == 4

    def test_pods_that_were_bound_wake_those_that_wait_for_them(self):
        near = make_pod("near").pod_affinity("kubernetes.io/hostname", {"app": "w"}).priority(9)
        found = self.made(near)
        found.run()
        found.put(make_pod("w").label("app", "w"))
        found.advance(30.0)
        assert found.nodes_of()["near"] == found.nodes_of()["w"] != ""


class TestIntake:
    """What an event is taken for."""

    LABELS = (
        ("a pod comes", [make_pod("a")], ["UnschedulablePodAdd"]),
        ("a pod comes on a node", [make_pod("a").node("n1")], ["AssignedPodAdd"]),
        ("another's pod comes", [make_pod("a").scheduler("other")], []),
        ("it is bound", [make_pod("a"), make_pod("a").node("n1")], ["AssignedPodAdd", "UnschedulablePodDelete"]),
        ("another's is bound", [make_pod("a").scheduler("o"), make_pod("a").scheduler("o").node("n1")],
         ["AssignedPodAdd"]),
        ("it changes", [make_pod("a"), make_pod("a").label("x", "y")], ["UnschedulablePodUpdate"]),
        ("it changes on its node", [make_pod("a").node("n1"), make_pod("a").node("n1").label("x", "y")],
         ["AssignedPodUpdate"]),
        ("it goes", [make_pod("a"), make_pod("a").phase("Failed")], ["UnschedulablePodDelete"]),
        ("another's goes", [make_pod("a").scheduler("o"), make_pod("a").scheduler("o").phase("Failed")], []),
        ("it goes from its node", [make_pod("a").node("n1"), make_pod("a").node("n1").phase("Failed")],
         ["AssignedPodDelete"]),
        ("it is being deleted", [make_pod("a"), make_pod("a").terminating()], ["UnschedulablePodDelete"]),
    )  # fmt: skip

    @pytest.mark.parametrize(("states", "labels"), [each[1:] for each in LABELS], ids=[each[0] for each in LABELS])
    def test_it_is_told_what_an_event_was_taken_for(self, states, labels):
        found = cluster(node())
        for state in states:
            found.put(state)
        meant = [label for label in found.core.intake.meant if "PodLabel" not in label]
        assert meant == labels

    def test_a_pod_that_took_the_name_of_one_whose_deletion_was_missed_is_another(self):
        found = cluster(node("n1", "1"), pod("a").uid("first").node("n1"))
        found.put(pod("a").uid("second"))
        check(found.core)
        assert found.core.cache.state_of("first") is None
        found.run()
        assert found.nodes_of() == {"a": "n1"}

    def test_of_a_pod_that_was_found_gone_nothing_is_heard_until_the_watch_says_so(self):
        found = cluster(node("n1", "1"), pod("a").uid("first").node("n1"))
        gone = found.objects["Pod", "default/a"]
        inbox = found.core._inbox
        inbox.put(FoundGone(gone))
        assert found.core.cache.state_of("first") is None
        found.put(pod("a").uid("first").node("n1").label("late", "yes"))
        assert found.core.cache.state_of("first") is None
        found.delete("Pod", "default/a")
        found.put(pod("a").uid("first").node("n1"))
        assert found.core.cache.state_of("first") is not None
        inbox.put(FoundGone(pod("a").uid("another").build()))
        assert found.core.cache.state_of("first") is not None
        check(found.core)

    def test_whoever_is_placed_by_another_and_whoever_vanishes_is_told_of(self):
        found = cluster(node("n1", "4"))
        intake = found.core.intake
        found.put(pod("a").node("n1"))
        assert intake.placed_elsewhere.name == "a"
        found.put(pod("a").node("n1").label("x", "y"))
        assert intake.placed_elsewhere is None
        found.delete("Pod", "default/a")
        assert (intake.placed_elsewhere, intake.vanished.name) == (None, "a")
        found.put(pod("b").node("n1").terminating())
        found.delete("Pod", "default/b")
        assert intake.vanished is None
        found.put(pod("c"))
        found.delete("Pod", "default/c")
        assert intake.vanished is None
        found.put(pod("d"))
        found.run()
        assert intake.placed_elsewhere is None, "we placed it"

    def test_pods_of_shards_that_are_ours_are_queued_and_those_of_others_are_not(self):
        found = cluster(node("n1", "8"), shards=2)
        namespaces = [f"team-{number}" for number in range(6)]
        for name in namespaces:
            found.put(make_pod("a", name).uid(name).request(cpu="100m"))
        found.put(make_pod("b", namespaces[0]).uid("bound").node("n1"))
        found.put(make_pod("c", namespaces[0]).uid("theirs").scheduler("another"))
        assert not [each.pod.uid for each in found.core.queue]
        held = {}
        for shard in (0, 1):
            found.handle(ShardsHeld(frozenset({shard})))
            held[shard] = sorted(each.pod.uid for each in found.core.queue)
            check_queue_only(found)
        assert sorted(held[0] + held[1]) == namespaces
        assert held[0] and held[1]
        found.answers_binds = False
        found.run()
        (assumed, *_) = held[1]
        assert found.core.cache.state_of(assumed) is not None
        found.handle(ShardsHeld(frozenset({0})))
        assert sorted(each.pod.uid for each in found.core.queue) == held[0]

    def test_an_object_that_nobody_knew_moves_nobody(self):
        found = cluster(node())
        found.handle(ObjectEvent("DELETED", "Node", node("none").build()))
        assert found.core.intake.meant == []
        found.put(node("n2"))
        assert found.core.intake.meant == ["NodeAdd"]
        found.delete("Node", "n2")
        assert found.core.intake.meant == ["NodeDelete"]
        assert Action.ADD != Action.DELETE


def check_queue_only(found):
    known = [each.pod.uid for each in found.core.queue]
    assert len(known) == len(set(known))


class TestQuestions:
    """Asking about pods changes nothing, and by a search that is given nothing of the core's own either."""

    def test_the_search_that_is_given_is_the_one_that_is_used(self):
        found = cluster(node("n1", "4"), node("n2", "4"), node("n3", "4"))
        drawn = []
        search = questions.search_beside(found.core)
        search.break_tie = lambda rows: drawn.append(list(rows)) or int(rows[len(rows) - 1])
        table = found.core.cache.table
        attempt = questions.choose(found.core, pod("a").build(), search=search)
        assert table.names[attempt.outcome.chosen_row] == "n3"
        decided = questions.decide(found.core, pod("a").build(), questions.unanswered, search=search)
        assert table.names[decided.outcome.chosen_row] == "n3"
        assert len(drawn) == 2
        states = found.rng.getstate()
        beside = questions.search_beside(found.core)
        assert table.names[questions.choose(found.core, pod("a").build(), search=beside).outcome.chosen_row] == "n1"
        assert found.rng.getstate() == states, "no lot was drawn"

    def test_a_single_node_is_scored_where_that_is_wanted(self):
        found = cluster(node("n1", "4"))
        attempt = questions.find(found.core, pod("a").build())
        assert questions.score(found.core, attempt) is None
        search = questions.search_beside(found.core)
        search.score_single_node = True
        assert questions.score(found.core, attempt, search=search) is not None

    def test_one_bug_leaves_no_half_answer(self):
        found = cluster(node("n1", "4"), node("n2", "4"), plugins=[plugin("Mine", score=lambda *_: 1 / 0)])
        attempt = questions.find(found.core, pod("a").build())
        assert questions.score(found.core, attempt) is None
        assert "ZeroDivisionError" in attempt.outcome.error


def test_the_conditions_of_a_pod_are_as_the_api_server_would_keep_them():
    found = cluster(node("n1", "1"), pod("a", "2"))
    found.run()
    found.put(node("n2", "1"))
    found.advance(340.0)  # by then it is tried again, whatever has happened
    conditions = found.pod("a").status.conditions
    assert [condition.type for condition in conditions] == ["PodScheduled"]
    assert conditions[0].message.startswith("0/2 nodes")


def test_patches_bindings_and_evictions_of_a_pod_that_is_another_by_now_do_nothing():
    found = cluster(node("n1", "1"))
    found.answers_binds = found.answers_evictions = False
    found.put(pod("a").uid("first"))
    found.run()
    (bind,) = found.requests
    found.delete("Pod", "default/a")
    found.put(pod("a", "2").uid("second"))
    found.answer(bind)
    assert found.nodes_of() == {"a": ""}


@pytest.mark.parametrize("waits", [False, True])
def test_pods_on_nodes_are_taken_in_at_once_before_the_first_step_and_while_nobody_waits(waits):
    found = cluster(node("n1", "1"), *([pod("late", "900m")] if waits else []))
    if waits:
        found.put(pod("first", "900m").node("n1"))
        found.run()
        found.core.takes_many = True
        assert len(found.core.queue.unschedulable) == 1
    pods = [pod("b", "1m").node("n1").build(), pod("c", "1m").node("n1").build()]
    found.core.handle_placed(pods, found.now)
    assert {each.name for each in found.core.cache.table.pods[0].values()} >= {"b", "c"}
    twice = [pod("d", "1m").node("n1").build()] * 2
    found.core.handle_placed(twice, found.now)
    found.core.handle_placed([pod("b", "2m").node("n1").build()], found.now)
    assert found.core.cache.table.requested[0, 0] == (902 if waits else 2) + 2
