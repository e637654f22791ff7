"""Extenders in the cycle. Rules and messages: pkg/scheduler/schedule_one.go, v1.36, and TestSchedulerSchedulePod."""

import random

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.decisions.explanation import explain, waits_for
from berth.framework.effects import Bind, CallExtenders, ExtenderAnswer, PodRead, PodRef, ReadPod
from berth.framework.extenders import EXTENDER_NAME
from berth.framework.status import unschedulable
from berth.plugins.registry import in_tree_registry
from berth_workbench.cases.decide import replay
from packages.scheduler.tests.extender.support import FAILS, FakeExtenders, configured, keeping, listed, names_of
from packages.scheduler.tests.support import boom, plugin, requests_of, with_profiles

A, B, C = "http://a.test", "http://b.test", "http://c.test"


def nodes(*names):
    return [make_node(name).capacity(cpu="8", memory="8Gi", pods="10") for name in names]


def cluster(answers, *extenders, objects=None, **options):
    """A cluster of nodes n1 to n3 and its extenders, as one that takes their part."""
    config = configured(*extenders, **options.pop("fields", {}))
    found = VirtualCluster(*(objects or nodes("n1", "n2", "n3")), config=config, **options)
    found.answer_call = FakeExtenders(answers)
    return found, found.answer_call


def scheduled(found, name="p"):
    found.put(make_pod(name))
    found.run()
    return found.nodes_of()[name]


def explained(found, name="p", **options):
    return explain(found.core.trace[f"default/{name}"], **options)


# -- filter --


def test_each_filter_is_asked_about_what_those_before_it_left():
    answers = {(0, "filter"): keeping("n1", "n2"), (1, "filter"): keeping("n2", "n3")}
    found, told = cluster(answers, listed(A, "filter", nodeCacheCapable=True), listed(B, "filter"))
    assert scheduled(found) == "n2"
    assert [(place, sorted(names_of(document))) for place, _, document in told.calls] == [
        (0, ["n1", "n2", "n3"]),
        (1, ["n1", "n2"]),
    ]
    assert [(call.extender, call.verb, call.note) for call in explained(found).extenders] == [
        (A, "filter", "2 of 3 nodes left"),
        (B, "filter", "1 of 2 nodes left"),
    ]


def test_where_nothing_is_left_nobody_else_is_asked():
    found, told = cluster({(0, "filter"): keeping()}, listed(A, "filter"), listed(B, "filter"))
    assert scheduled(found) == ""
    assert told.verbs() == [(0, "filter")]


def test_the_reasons_of_extenders_are_in_the_message():
    # TestSchedulerSchedulePod: "test filter plugin returning Unschedulable status" with an extender
    failed = {"n1": 'FakeExtender: node "n1" failed', "n2": 'FakeExtender: node "n2" failed'}
    picky = plugin("Picky", filter=lambda _s, _p, node: unschedulable("not this one") if node.name == "n3" else None)
    enabled = {"plugins": {"multiPoint": {"enabled": [{"name": "Picky"}]}}}
    config = with_profiles(enabled, extenders=[listed(A, "filter")])
    found = VirtualCluster(*nodes("n1", "n2", "n3"), config=config, plugins={"Picky": picky})
    found.answer_call = FakeExtenders({(0, "filter"): keeping(failed=failed)})
    assert scheduled(found) == ""
    (said,) = found.events("FailedScheduling")
    assert said.startswith(
        '0/3 nodes are available: 1 FakeExtender: node "n1" failed, 1 FakeExtender: node "n2" failed, 1 not this one.'
    )
    assert found.core.queue.unschedulable["default/p"].unschedulable_plugins == {EXTENDER_NAME, "Picky"}
    rejected = {(group.plugin, group.code, group.reasons): group.nodes for group in explained(found).rejected}
    assert rejected == {
        ("Picky", "Unschedulable", ("not this one",)): ("n3",),
        (A, "Unschedulable", ('FakeExtender: node "n1" failed',)): ("n1",),
        (A, "Unschedulable", ('FakeExtender: node "n2" failed',)): ("n2",),
    }


def test_unresolvable_wins_over_failed_and_keeps_preemption_away():
    answers = {(0, "filter"): keeping(failed={"n1": "full", "n2": "full"}, unresolvable={"n2": "no driver"})}
    found, _ = cluster(answers, listed(A, "filter"), objects=nodes("n1", "n2"))
    scheduled(found)
    (said,) = found.events("FailedScheduling")
    assert said.startswith("0/2 nodes are available: 1 full, 1 no driver. ")
    assert said.endswith(
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


def test_a_node_left_out_in_silence_counts_as_unresolvable_without_a_reason():
    # NewDefaultNodeToStatus: nodes without a status are UnschedulableAndUnresolvable, and have no reason to count
    found, _ = cluster({(0, "filter"): keeping()}, listed(A, "filter"))
    assert scheduled(found) == ""
    (said,) = found.events("FailedScheduling")
    assert said.startswith("0/3 nodes are available: no new claims to deallocate, preemption: 0/3 nodes are")
    assert "3 Preemption is not helpful for scheduling" in said
    (group,) = explained(found).rejected
    assert (group.plugin, group.reasons, group.count) == (A, ("left out without a reason",), 3)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (FAILS, FAILS.error),
        ({"Error": "no licence left"}, "no licence left"),
        ({"Nodes": {"items": [{"metadata": {"name": "n9"}}]}}, 'claims a filtered node "n9" which is not found'),
        (ExtenderAnswer(b"<html>"), "the document cannot be read"),
    ],
    ids=["transport", "error field", "unknown node", "no JSON"],
)
def test_a_filter_that_fails_ends_the_attempt_unless_it_is_ignorable(answer, message):
    answers = {(0, "filter"): answer, (1, "filter"): keeping("n1", "n2")}
    found, told = cluster(answers, listed(A, "filter"), listed(B, "filter"))
    assert scheduled(found) == ""
    assert message in found.events("FailedScheduling")[0]
    assert found.patches("p")[0].reason == "SchedulerError"
    assert told.verbs() == [(0, "filter")]
    (call,) = explained(found).extenders
    assert message in call.problem and not call.ignored

    entries = (listed(A, "filter", ignorable=True), listed(B, "filter"))
    found, told = cluster(answers, *entries)
    assert scheduled(found) in ("n1", "n2")
    assert told.verbs() == [(1, "filter"), (0, "filter")]
    ignored = explained(found).extenders[1]
    assert ignored.extender == A and message in ignored.problem and ignored.ignored


def test_a_pod_that_failed_is_tried_again_and_any_event_wakes_one_that_was_rejected():
    found, told = cluster({(0, "filter"): FAILS}, listed(A, "filter"))
    scheduled(found)
    told.answers[0, "filter"] = keeping()
    found.advance(2.0)  # the first backoff
    assert found.nodes_of()["p"] == "" and "default/p" in found.core.queue.unschedulable
    told.answers[0, "filter"] = keeping("n1")
    found.put(make_node("n1").capacity(cpu="8", memory="8Gi", pods="10").label("some", "label"))
    found.advance(5.0)
    assert found.nodes_of()["p"] == "n1"


def test_what_a_rejected_pod_waits_for_is_said():
    found, _ = cluster({(0, "filter"): keeping()}, listed(A, "filter"))
    scheduled(found)
    rejectors = found.core.queue.unschedulable["default/p"].rejectors
    assert waits_for(found.core.profiles["default-scheduler"], rejectors)[EXTENDER_NAME] == (
        "any change in the cluster",
    )


def test_a_node_that_is_named_failed_and_kept_is_kept():
    found, _ = cluster({(0, "filter"): keeping("n2", failed={"n2": "perhaps not"})}, listed(A, "filter"))
    assert scheduled(found) == "n2"
    assert explained(found).feasible_count == 1


def test_only_those_who_look_after_the_pod_are_asked():
    managed = {"managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}]}
    found, told = cluster({(0, "filter"): keeping("n2")}, listed(A, "filter", **managed))
    scheduled(found, "plain")
    assert told.calls == []
    found.put(make_pod("gpu").request({"example.com/gpu": "1"}))  # which no node has, and nobody looks for
    found.run()
    assert found.nodes_of()["gpu"] == "n2"


def test_the_nominated_node_is_asked_about_alone_and_others_where_it_is_refused():
    found, told = cluster({(0, "filter"): keeping("n2", "n3")}, listed(A, "filter", nodeCacheCapable=True))
    found.put(make_pod("p").nominated("n2"))
    found.run()
    assert found.nodes_of()["p"] == "n2"
    found.put(make_pod("q").nominated("n1"))
    found.run()
    assert found.nodes_of()["q"] in ("n2", "n3")
    assert [sorted(names_of(document)) for _, _, document in told.calls] == [["n2"], ["n1"], ["n1", "n2", "n3"]]


def test_a_refused_nominated_node_is_not_held_against_the_others():
    fails_first = iter([FAILS])
    answers = {(0, "filter"): lambda document: next(fails_first, None) or keeping("n3")(document)}
    found, _ = cluster(answers, listed(A, "filter"))
    found.put(make_pod("p").nominated("n1"))
    found.run()
    assert found.nodes_of()["p"] == "n3"


# -- prioritize --


def test_scores_count_times_weight_times_ten():
    scores = [{"Host": "n1", "Score": 1}, {"Host": "n2", "Score": 3}, {"Host": "n9", "Score": 10}]
    other = [{"host": "n1", "score": 2}, {"host": "n1", "score": 1}]
    entries = listed(A, "prioritize", weight=2), listed(B, "prioritize", weight=5)
    found, _ = cluster({(0, "prioritize"): scores, (1, "prioritize"): other}, *entries)
    assert scheduled(found) == "n1"
    by_node = {node.node: node for node in explained(found).best}
    assert {name: (node.scores[A], node.scores[B]) for name, node in by_node.items()} == {
        "n1": (1 * 2 * 10, 3 * 5 * 10),
        "n2": (3 * 2 * 10, 0),
        "n3": (0, 0),
    }
    assert by_node["n1"].total - by_node["n3"].total == 20 + 150
    assert explained(found).weights[B] == 5


@pytest.mark.parametrize("memos", [True, False])
def test_scores_count_for_replicas_too(memos):
    """Whose columns and sums are kept from the pods before them."""
    scores = [{"Host": "n2", "Score": 10}]
    found, _ = cluster({(0, "prioritize"): scores}, listed(A, "prioritize", weight=10), memos=memos)
    for number in range(8):
        assert scheduled(found, f"web-{number}") == "n2"


def test_scores_beyond_all_reason_are_bounded():
    scores = [{"Host": "n1", "Score": 2**62}, {"Host": "n2", "Score": -(2**62)}]
    found, _ = cluster({(0, "prioritize"): scores}, listed(A, "prioritize", weight=1000))
    assert scheduled(found) == "n1"


def test_prioritizers_are_asked_together():
    found, _ = cluster({}, listed(A, "prioritize"), listed(B, "prioritize"))
    found.answer_call = None
    scheduled(found)
    (effect,) = requests_of(found, CallExtenders)
    assert [(call.extender, call.verb) for call in effect.calls] == [(0, "prioritize"), (1, "prioritize")]


def test_a_prioritizer_that_fails_is_left_out():
    scores = [{"Host": "n3", "Score": 10}]
    found, _ = cluster(
        {(0, "prioritize"): FAILS, (1, "prioritize"): scores}, listed(A, "prioritize"), listed(B, "prioritize")
    )
    assert scheduled(found) == "n3"
    assert [(call.extender, bool(call.problem), call.ignored) for call in explained(found).extenders] == [
        (A, True, True),
        (B, False, False),
    ]


def test_a_single_node_is_not_scored():
    found, told = cluster({(0, "filter"): keeping("n2")}, listed(A, "filter", "prioritize"))
    assert scheduled(found) == "n2"
    assert told.verbs() == [(0, "filter")]


# -- bind --


def bound_by_extender(found):
    """An answer to bind that really binds."""

    def bind(document):
        pod = found.pod(document["PodName"])
        assert (document["PodNamespace"], document["PodUID"]) == ("default", pod.metadata.uid)
        found.put(make_pod(document["PodName"]).node(document["Node"]))
        return {"Error": ""}

    return bind


def test_a_binder_binds_instead_of_the_plugins():
    found, told = cluster({}, listed(A, "bind"))
    told.answers[0, "bind"] = bound_by_extender(found)
    assert scheduled(found) in ("n1", "n2", "n3")
    assert requests_of(found, Bind) == []
    assert len(found.events("Scheduled")) == 1


def test_a_binder_that_refuses_is_undone():
    found, told = cluster({(0, "bind"): {"Error": "taken"}}, listed(A, "bind"))
    assert scheduled(found) == ""
    assert found.core.cache.state_of("default/p") is None
    assert "taken" in found.events("FailedScheduling")[0]
    assert requests_of(found, Bind) == []
    assert [(call.verb, call.problem) for call in explained(found).extenders] == [("bind", "taken")]
    told.answers[0, "bind"] = bound_by_extender(found)
    found.advance(2.0)
    assert found.nodes_of()["p"] != ""


def test_an_ignorable_binder_that_refuses_leaves_it_to_the_plugins():
    found, _ = cluster({(0, "bind"): {"Error": "taken"}}, listed(A, "bind", ignorable=True))
    assert scheduled(found) != ""
    assert len(requests_of(found, Bind)) == 1


LOST = ExtenderAnswer(error="no answer within 5s (httpTimeout)", is_unknown=True)


@pytest.mark.parametrize("is_bound", [True, False])
def test_after_a_lost_answer_the_pod_says_what_happened(is_bound):
    found, _ = cluster({(0, "bind"): LOST}, listed(A, "bind"))
    found.answers_reads = False
    scheduled(found)
    (request,) = (request for request in found.requests if isinstance(request.effect, ReadPod))
    assert request.effect.pod == PodRef("default", "p", "default/p")
    node = found.core.cache.table.names[next(iter(found.core.cache.states().values())).row]
    found.answer(
        request, result=PodRead(node_name=node, pod=make_pod("p").node(node).build()) if is_bound else PodRead()
    )
    assert len(found.events("Scheduled")) == is_bound
    assert [LOST.error in note for note in found.events("FailedScheduling")] == ([] if is_bound else [True])


@pytest.mark.parametrize("ignorable", [False, True])
def test_a_binder_that_reports_success_and_did_not_bind_is_not_believed(ignorable):
    found, told = cluster({(0, "bind"): {"Error": ""}}, listed(A, "bind", ignorable=ignorable))
    scheduled(found)
    found.advance(2.0)
    if ignorable:
        assert found.nodes_of()["p"] != "" and len(requests_of(found, Bind)) == 1
        return
    assert found.core.cache.assumed_count == 0 and found.events("Scheduled") == []
    assert "reports success, but pod default/p is on no node" in found.events("FailedScheduling")[0]
    told.answers[0, "bind"] = bound_by_extender(found)
    found.advance(10.0)
    assert found.nodes_of()["p"] != "" and len(found.events("Scheduled")) == 1


def test_a_binder_may_answer_before_the_pod_is_seen_on_its_node():
    found, _ = cluster({(0, "bind"): {"Error": ""}}, listed(A, "bind"))
    scheduled(found)
    node = found.core.cache.table.names[found.core.cache.state_of("default/p").row]
    found.put(make_pod("p").node(node))
    found.advance(2.0)
    assert len(found.events("Scheduled")) == 1 and found.events("FailedScheduling") == []


def test_a_binder_that_bound_to_another_node_is_told_and_the_pod_counted_there():
    def bind(document):
        other = next(name for name in ("n1", "n2", "n3") if name != document["Node"])
        found.objects["Pod", "default/p"] = make_pod("p").node(other).build()  # the watch does not show it yet
        return {"Error": ""}

    found, told = cluster({}, listed(A, "bind"))
    told.answers[0, "bind"] = bind
    node = scheduled(found)
    found.advance(10.0)
    state = found.core.cache.state_of("default/p")
    assert found.core.cache.table.names[state.row] == node and not state.assumed
    assert [(call.verb, call.problem) for call in explained(found).extenders] == [
        ("bind", f"the pod is on node {node} instead")
    ]
    assert len(told.calls) == 1 and found.events("Scheduled") == []


def test_a_lost_answer_and_an_api_server_that_cannot_be_asked_keep_the_room_until_it_can():
    found, _ = cluster({(0, "bind"): LOST}, listed(A, "bind"))
    found.answers_reads = False
    scheduled(found)
    for _ in range(5):
        (request,) = (request for request in found.requests if isinstance(request.effect, ReadPod))
        found.answer(request, error="connection refused")
        assert found.core.cache.assumed_count == 1
        found.advance(30.0)
    (request,) = (request for request in found.requests if isinstance(request.effect, ReadPod))
    found.answer(request, result=PodRead())
    assert found.core.cache.assumed_count == 0 and LOST.error in found.events("FailedScheduling")[0]


# -- while a call is under way --


def test_events_wait_for_the_answer_and_nothing_hangs_on_a_late_one():
    found, _ = cluster({}, listed(A, "filter", nodeCacheCapable=True))
    found.answer_call = None
    scheduled(found)
    found.put(*nodes("n4"))
    assert found.core.is_cycle_open and "n4" not in found.core.cache.table.row_of
    (request,) = found.requests
    found.answer(request, result=(ExtenderAnswer(error="no answer within 5s (httpTimeout)"),))
    assert not found.core.is_cycle_open and "n4" in found.core.cache.table.row_of
    assert found.patches("p")[0].message == "no answer within 5s (httpTimeout)"


def test_a_pod_deleted_while_an_extender_thinks():
    found, _ = cluster({}, listed(A, "filter"))
    found.answer_call = None
    scheduled(found)
    found.delete("Pod", "default/p")
    (request,) = found.requests
    found.answer(request, error="gone")
    found.advance(600.0)
    assert len(found.core.queue) == 0 and found.requests == []


def test_a_bug_in_a_plugin_after_an_answer_does_not_stop_others():
    broken = plugin("Broken", pre_score=boom)
    enabled = {"plugins": {"preScore": {"enabled": [{"name": "Broken"}]}}}
    config = with_profiles(enabled, extenders=[listed(A, "filter")])
    found = VirtualCluster(*nodes("n1", "n2"), config=config, plugins={"Broken": broken})
    found.answer_call = FakeExtenders({(0, "filter"): keeping("n1", "n2")})
    assert scheduled(found, "p") == ""
    found.answer_call.answers[0, "filter"] = keeping("n1")
    assert scheduled(found, "q") == "n1"


def moody_run(memos):
    """Where the pods of a seeded run go, with an extender that has moods."""
    rng = random.Random(7)

    def moody(document):
        kept = [name for name in sorted(names_of(document)) if rng.random() < 0.6]
        return keeping(*kept, failed={name: "mood" for name in names_of(document) if name not in kept})(document)

    def scores(document):
        return [{"Host": name, "Score": rng.randrange(11)} for name in sorted(names_of(document))]

    entries = listed(A, "filter", "prioritize", nodeCacheCapable=True, weight=3)
    found, _ = cluster({(0, "filter"): moody, (0, "prioritize"): scores}, entries, seed=3, memos=memos)
    for number in range(40):
        found.put(make_pod(f"p{number}").request(cpu="200m"))
        found.run()
    return found.nodes_of()


def test_what_is_remembered_does_not_change_what_extenders_decide():
    assert moody_run(memos=True) == moody_run(memos=False)


# -- without HTTP --


def test_replays_have_extenders_answered_by_a_function():
    config = configured(listed(A, "filter", nodeCacheCapable=True))
    documents = [{"kind": "Node", **node.document} for node in nodes("n1", "n2")]
    case = {"name": "extended", "config": config, "objects": documents, "pods": [make_pod("p").document]}
    [decision] = replay(case, in_tree_registry(), answer_call=FakeExtenders({(0, "filter"): keeping("n2")}))
    assert decision["chosen"] == "n2"
    [decision] = replay(case, in_tree_registry())
    assert decision["message"] == "extenders are called by a running scheduler only"
