"""Asking a core about a pod: each question tells what a cycle would, and leaves the core as it was."""

import random

import pytest

from berth.core.questions import (
    Trial,
    attempt_for,
    choose,
    decide,
    decision_of,
    find,
    granting,
    judge,
    profile_of,
    raised_again,
    run,
    score,
    search_beside,
    unanswered,
)
from berth.extender.in_process import nobody
from berth.framework.effects import Answer, ApiCall
from berth.framework.status import unschedulable
from berth.testing.invariants import check
from packages.scheduler.tests.support import boom, cluster, node, plugin, pod, with_profiles


def three_nodes(*objects, **options):
    return cluster(node("n1"), node("n2", "2"), node("n3", "3"), *objects, **options).run()


def core_with(**methods):
    return three_nodes(plugins=[plugin("Mine", **methods)]).core


def built(name, cpu="600m"):
    return pod(name, cpu).build()


def test_filters_tell_where_a_pod_fits_and_why_nowhere():
    core = three_nodes().core
    assert judge(core, built("a", "2")).node_names == ["n2", "n3"]
    asked = judge(core, built("a", "4"))
    assert (asked.node_names, asked.rows.tolist()) == ([], [])
    assert asked.message.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert asked.decision.message == asked.message


def test_a_judgement_stays_as_it_is_when_the_cluster_goes_on():
    found = three_nodes()
    asked = judge(found.core, built("a", "2"))
    found.put(pod("b", "3").node("n3"))
    found.delete("Node", "n2")
    assert asked.node_names == ["n2", "n3"]
    assert judge(found.core, built("a", "2")).node_names == []


def test_the_choice_is_that_of_the_cycle():
    found = three_nodes()
    asked = choose(found.core, built("a", "2500m"))
    assert found.core.cache.table.names[asked.outcome.chosen_row] == "n3"
    assert asked.found.scored is None, "a single node needs no score"
    asked = choose(found.core, built("a"))
    row, total = asked.outcome.chosen_row, asked.found.scored.total(asked.found.nodes.row_array())
    assert total[asked.found.nodes.row_array().tolist().index(row)] == total.max()
    assert decision_of(found.core, asked).chosen == found.core.cache.table.names[row]
    found.put(pod("a"))
    assert found.run().nodes_of() == {"a": found.core.cache.table.names[row]}
    assert choose(found.core, built("b", "4")).outcome.chosen_row is None


def test_scores_that_fail_are_the_outcome():
    core = core_with(score=boom)
    asked = choose(core, built("a"))
    assert (asked.outcome.chosen_row, asked.found.scored) == (None, None)
    assert "boom" in asked.outcome.error
    asked = find(core, built("a", "4"))
    assert score(core, asked) is None, "there is nothing to be scored"


def test_a_whole_attempt_may_make_room():
    found = three_nodes(pod("weak", "3").priority(0).node("n3"))
    strong = pod("strong", "3").priority(9).build()
    asked = decide(found.core, strong, granting(nobody))
    assert asked.outcome.nominated_node_name == "n3"
    assert [victim.name for victim in asked.outcome.victims] == ["weak"]
    assert found.run().nodes_of() == {"weak": "n3"}


def asks_outside(_state, _pod, _diagnosis):
    answer = yield ApiCall("patch", "Pod", "default", "a", {})
    return None, unschedulable("was answered" if answer is not None else "was not")


@pytest.mark.parametrize(("answer", "says"), [(granting(nobody), "was answered"), (unanswered, "Insufficient cpu.")])
def test_what_the_outside_is_asked_is_answered_by_whoever_asks(answer, says):
    core = core_with(post_filter=asks_outside)
    asked = decide(core, built("a", "4"), answer)
    assert asked.outcome.message.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert asked.outcome.message.endswith(says)


def test_steps_are_run_with_answers_to_their_end_or_to_where_there_is_none():
    def steps():
        first = yield "first"
        second = yield "second"
        return first.ticket, second.ticket

    tickets = {"first": Answer(1), "second": Answer(2)}
    assert run(steps(), tickets.get) == (1, 2)
    begun = steps()
    assert run(begun, {"first": Answer(1)}.get) is None
    assert begun.gi_frame is None, "it is closed, and cannot go on"


@pytest.mark.parametrize("ask", [find, lambda core, pod, **more: decide(core, pod, unanswered, **more)])
def test_a_bug_is_raised_or_worded_by_whoever_asks(ask):
    core = core_with(pre_filter=boom)
    with pytest.raises(RuntimeError, match="Mine"):
        ask(core, built("a"), on_bug=raised_again)
    asked = ask(core, built("a"), on_bug=lambda bug: f"broken: {type(bug).__name__}")
    assert asked.outcome.error == "broken: PluginBrokenError"
    assert asked.outcome.chosen_row is None


def test_a_search_beside_the_core_s_own_leaves_it_where_it_was():
    profile = {"schedulerName": "default-scheduler", "percentageOfNodesToScore": 1}
    found = cluster(*(node(f"n{i}") for i in range(200)), config=with_profiles(profile)).run()
    search, start = search_beside(found.core), found.core.search.start_index
    decide(found.core, built("a"), unanswered, search=search)
    assert (found.core.search.start_index, search.start_index > start) == (start, True)


def test_a_pod_of_a_foreign_scheduler_is_asked_of_the_first_profile():
    core = three_nodes().core
    foreign = pod("a").scheduler("other").build()
    assert profile_of(core, foreign) is core.profiles["default-scheduler"]
    given = with_profiles({"schedulerName": "one"}, {"schedulerName": "two"})
    core = three_nodes(config=given).core
    assert profile_of(core, pod("a").scheduler("two").build()) is core.profiles["two"]
    attempt = attempt_for(core, pod("a").scheduler("two").build(), profile=core.profiles["one"])
    assert attempt.profile is core.profiles["one"]


def test_a_trial_places_one_after_the_other_and_takes_all_back():
    found = three_nodes()
    with Trial(found.core) as trial:
        where = [trial.place(built(f"p{i}", "1"))[0] for i in range(7)]
        assert (sorted(where[:6]), where[6], len(trial)) == (["n1", "n2", "n2", "n3", "n3", "n3"], None, 6)
    assert len(trial) == 0
    assert judge(found.core, built("a", "3")).node_names == ["n3"]
    check(found.core)


def test_a_trial_gives_back_what_reserve_refuses():
    given_back = []
    core = core_with(
        reserve=lambda *_: unschedulable("taken"), unreserve=lambda _state, pod, name: given_back.append(name)
    )
    with Trial(core) as trial:
        node_name, message = trial.place(built("a", "3"))
        assert (node_name, len(trial)) == (None, 0)
    assert "taken" in message and given_back == ["n3"]
    assert core.cache.state_of(built("a").metadata.uid) is None


@pytest.mark.parametrize("methods", [{"reserve": boom, "unreserve": lambda *_: None}, {"permit": boom}], ids=list)
def test_a_trial_keeps_nothing_of_a_pod_on_which_a_plugin_breaks(methods):
    core = core_with(**methods)
    with Trial(core) as trial:
        with pytest.raises(RuntimeError, match="Mine"):
            trial.place(built("a", "3"))
        assert len(trial) == 0
        assert core.cache.state_of(built("a").metadata.uid) is None


def test_asking_leaves_random_clusters_as_they_were():
    rng = random.Random(7)
    found = three_nodes(*(pod(f"r{i}", f"{rng.randint(1, 9)}00m").node(f"n{rng.randint(1, 3)}") for i in range(4)))
    for number in range(20):
        asked = built(f"p{number}", f"{rng.randint(1, 30)}00m")
        names = judge(found.core, asked).node_names
        chosen = choose(found.core, asked).outcome.chosen_row
        decided = decide(found.core, asked, unanswered).outcome.chosen_row
        table = found.core.cache.table
        assert {table.names[row] for row in (chosen, decided) if row is not None} <= set(names)
        assert (chosen is None) == (decided is None) == (not names)
        check(found.core)
