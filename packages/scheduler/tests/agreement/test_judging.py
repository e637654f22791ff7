"""What agreement is, case by case, each with a small cluster and the way a stock scheduler comes to differ.

The expectations follow from how kube-scheduler works: one pod at a time in the order of its queue, on a cache that has
what it has assumed, with bindings sent beside the next cycles.
"""

import pytest

from berth.agreement.observer import MOST_HELD_S, Lookahead
from berth.api.pod import Pod
from berth.core.builders import PodBuilder, make_namespace, make_node, make_pod
from packages.scheduler.tests.agreement.observing import Bystander


def nodes(count: int = 3) -> list:  # type: ignore[type-arg]
    return [make_node(f"n{number}").capacity(cpu="4", memory="8Gi", pods="20") for number in range(1, count + 1)]


def pod(name: str, cpu: str = "1") -> PodBuilder:
    return make_pod(name).request(cpu=cpu, memory="1Gi")


def test_a_pod_on_one_of_the_best_nodes_agrees_and_its_totals_are_those_at_its_binding() -> None:
    seen = Bystander(*nodes())
    first, second = pod("first"), pod("second")
    seen.put(first)
    seen.bind(first, "n2")
    seen.pass_revisions()
    seen.put(second)
    seen.bind(second, "n3")
    assert seen.results() == {"first": "agrees", "second": "agrees"}
    assert seen.judged[0].decision.best == ("n1", "n2", "n3")
    assert seen.judged[1].decision.best == ("n1", "n3")
    totals = seen.judged[1].decision.totals
    assert totals["n1"] == totals["n3"] > totals["n2"]


def test_a_pod_on_a_worse_node_is_told_with_both_nodes_and_what_makes_the_difference() -> None:
    seen = Bystander(*nodes(2))
    full, late = pod("full", "3"), pod("late")
    seen.put(full)
    seen.bind(full, "n1")
    seen.pass_revisions()
    seen.put(late)
    seen.bind(late, "n1")
    assert seen.results() == {"full": "agrees", "late": "otherwise"}
    judged = seen.judged[1]
    assert judged.decision.best == ("n2",)
    assert judged.theirs is not None and judged.theirs.node == "n1"
    assert judged.ours is not None and judged.ours.node == "n2"
    assert judged.points == judged.decision.totals["n2"] - judged.decision.totals["n1"] > 0
    assert judged.plugins[0] == "NodeResourcesFit"


def test_a_pod_where_it_does_not_fit_is_told_with_the_plugin_that_rejects_the_node() -> None:
    seen = Bystander(*nodes(1), make_node("n2").capacity(cpu="4", memory="8Gi", pods="20").taint("gpu"))
    stray = pod("stray")
    seen.put(stray)
    seen.bind(stray, "n2")
    assert seen.results() == {"stray": "otherwise"}
    theirs = seen.judged[0].theirs
    assert theirs is not None and list(theirs.rejected_by) == ["TaintToleration"]
    assert seen.judged[0].decision.best == ("n1",)


def test_pods_that_were_assumed_and_are_bound_in_another_order_agree_with_the_order_of_the_queue() -> None:
    seen = Bystander(*nodes(2))
    first, second = pod("first"), pod("second")
    seen.put(first)
    seen.put(second)
    # Decided in the order in which they came, so the second saw n1 taken; their bindings crossed.
    seen.bind(second, "n2")
    seen.bind(first, "n1")
    assert seen.results() == {"first": "agrees", "second": "agrees"}
    first_judged, second_judged = seen.judged
    assert first_judged.decision.best == ("n1", "n2")
    assert second_judged.decision.best == ("n2",)


def test_a_binding_is_held_back_until_those_before_it_have_arrived_however_late() -> None:
    seen = Bystander(*nodes(3), ahead=1)
    pods = [pod(name) for name in ("first", "second", "third")]
    for each in pods:
        seen.put(each)
    # Decided in the order in which they came; the first one's binding comes long after the others'.
    seen.bind(pods[2], "n3")
    seen.bind(pods[1], "n2")
    for number in range(20):
        seen.put(pod(f"later-{number}"))
    assert not seen.judged
    seen.bind(pods[0], "n1")
    assert [each.decision.pod for each in seen.judged] == ["default/first", "default/second", "default/third"]
    assert [each.decision.best for each in seen.judged] == [("n1", "n2", "n3"), ("n2", "n3"), ("n3",)]
    assert seen.core.cache.assumed_count == 1  # until its own binding is taken in
    seen.finish()
    assert seen.core.cache.assumed_count == 0
    assert {name: len(seen.core.cache.table.view(row).pods) for name, row in seen.core.cache.table.row_of.items()} == {
        "n1": 1,
        "n2": 1,
        "n3": 1,
    }


def test_where_bindings_come_without_a_pause_none_is_late() -> None:
    seen = Bystander(*nodes(100), lookahead=Lookahead(None, 0.0995))
    pods = [make_pod(f"p{number}").request(cpu="1m") for number in range(1500)]
    for each in pods:
        seen.put(each)
    for number, each in enumerate(pods):  # one each millisecond, for more than a second
        seen.bind(each, f"n{number % 100 + 1}")
    seen.finish()
    assert seen.core.agreement.pods == 1500 and not seen.core.agreement.skipped
    assert set(seen.results().values()) == {"agrees"}


def test_a_pod_of_which_nothing_is_heard_is_waited_for_once() -> None:
    seen = Bystander(*nodes(2), ahead=1)
    for each in (silent := pod("silent"), second := pod("second"), third := pod("third")):
        seen.put(each)
    seen.bind(second, "n1")
    assert not seen.judged
    seen.revision += int(MOST_HELD_S * 1000)  # milliseconds, too
    seen.put(pod("other"))
    assert [each.decision.pod for each in seen.judged] == ["default/second"]
    seen.bind(third, "n2")
    seen.put(pod("another"))
    assert [each.decision.pod for each in seen.judged] == ["default/second", "default/third"]
    seen.bind(silent, "n1")
    assert seen.results()["silent"] != "otherwise"


def test_of_a_pod_of_higher_priority_that_came_later_both_orders_are_tried() -> None:
    seen = Bystander(*nodes(2))
    low, high = pod("low"), pod("high").priority(10)
    seen.put(low)
    seen.put(high)
    # The low one was decided first, as it came first, though the binding of the high one came before its own.
    seen.bind(high, "n1")
    seen.bind(low, "n1")
    results = seen.results()
    assert results == {"high": "agrees", "low": "couldHaveSeen"}


def test_a_pod_that_came_after_the_binding_was_decided_about_later() -> None:
    seen = Bystander(*nodes(2))
    early, late = pod("early"), pod("late", "3").priority(10)
    full = pod("full", "2")
    seen.put(full)
    seen.bind(full, "n1")
    seen.pass_revisions()
    seen.put(early)
    seen.bind(early, "n1")  # best only if n2 has got the late one by now
    seen.put(late)
    seen.bind(late, "n2")
    assert seen.results() == {"full": "agrees", "early": "otherwise", "late": "agrees"}


def test_what_happened_within_the_moment_that_a_binding_takes_was_hardly_seen() -> None:
    seen = Bystander(*nodes(2))
    old = pod("old", "3")
    seen.put(old)
    seen.bind(old, "n2")
    seen.pass_revisions()
    new = pod("new")
    seen.put(new)
    seen.delete(old.copy().node("n2").build())
    seen.bind(new, "n1")
    assert seen.results() == {"old": "agrees", "new": "agrees"}
    assert seen.judged[1].decision.best == ("n1",)


def test_an_earlier_state_of_the_window_is_told_with_its_lag() -> None:
    seen = Bystander(*nodes(2))
    old, new = pod("old", "3"), pod("new")
    seen.put(old)
    seen.bind(old, "n2")
    seen.put(new)
    seen.delete(old.copy().node("n2").build())
    seen.pass_revisions(20)
    seen.bind(new, "n1")
    busy = pod("busy", "2")
    assert seen.results()["new"] == "agrees"
    seen.put(busy)
    seen.put(make_node("n2").capacity(cpu="4", memory="8Gi", pods="20").unschedulable())
    seen.pass_revisions(50)
    seen.bind(busy, "n2")
    assert seen.results()["busy"] == "couldHaveSeen"
    assert seen.judged[-1].decision.lag_ms == 51


def test_a_state_before_the_pod_came_explains_nothing() -> None:
    seen = Bystander(*nodes(2))
    seen.put(make_node("n1").capacity(cpu="4", memory="8Gi", pods="20").unschedulable())
    late = pod("late")
    seen.put(late)
    seen.bind(late, "n1")
    assert seen.results() == {"late": "otherwise"}


def test_a_terminating_pod_counts_as_it_did_before() -> None:
    spread = pod("third").label("app", "web").spread("zone", {"app": "web"})
    seen = Bystander(*(each.label("zone", name) for each, name in zip(nodes(2), "ab", strict=True)))
    first, second = pod("first").label("app", "web"), pod("second").label("app", "web")
    for each, name in ((first, "n1"), (second, "n2")):
        seen.put(each)
        seen.bind(each, name)
        seen.pass_revisions()
    seen.put(spread)
    seen.tell("MODIFIED", second.copy().node("n2").terminating().build())
    seen.bind(spread, "n1")  # with both counted n1 may have it; once the second does not count, only n2
    assert seen.results()["third"] == "agrees"


def test_a_scheduler_that_looks_at_a_part_of_the_nodes_may_miss_the_best() -> None:
    many = [make_node(f"n{number:03}").capacity(cpu="4", memory="8Gi", pods="20") for number in range(200)]
    seen = Bystander(*many)
    for number in range(150):  # the first 150 nodes are worse
        filler = pod(f"filler-{number}").node(f"n{number:03}")
        seen.put(filler)
    stray = pod("stray")
    seen.put(stray)
    seen.bind(stray, "n007")
    assert seen.results() == {"stray": "sampled"}
    judged = seen.judged[0]
    assert judged.points > 0 and judged.plugins[0] == "NodeResourcesFit"
    assert dict(seen.core.agreement.lost_points) == {judged.points: 1}


@pytest.mark.parametrize(("emptied_before", "result", "states"), [(True, "sampled", 1), (False, "couldHaveSeen", 2)])
def test_where_sampling_explains_a_node_only_states_are_tried_in_which_it_may_be_the_best(
    emptied_before: bool, result: str, states: int
) -> None:
    seen = Bystander(*(make_node(f"n{number:03}").capacity(cpu="4", memory="8Gi", pods="20") for number in range(200)))
    fillers = [pod(f"filler-{number}").node(f"n{number:03}") for number in range(200)]
    for filler in fillers:
        seen.put(filler)
    new = pod("new")
    if not emptied_before:
        seen.put(new)
    seen.delete(fillers[150].build())  # now n150 is better than all others
    if emptied_before:
        seen.put(new)
    seen.put(pod("elsewhere").node("n190"))
    seen.pass_revisions()
    seen.bind(new, "n007")
    assert seen.results() == {"new": result}
    assert seen.judged[0].states == states


def test_nodes_that_are_better_all_around_cannot_all_have_been_missed() -> None:
    """A search goes from node to node in their order, so that of every hundred nodes it has looked at some of these."""
    many = [make_node(f"n{number:03}").capacity(cpu="4", memory="8Gi", pods="20") for number in range(200)]
    seen = Bystander(*many)
    for number in range(200):
        if number % 3:
            seen.put(pod(f"filler-{number}").node(f"n{number:03}"))
    stray = pod("stray")
    seen.put(stray)
    seen.bind(stray, "n007")
    assert seen.results() == {"stray": "otherwise"}


def test_a_node_that_closed_after_a_sampled_decision_is_told_as_sampled() -> None:
    many = [make_node(f"n{number:03}").capacity(cpu="4", memory="8Gi", pods="20") for number in range(200)]
    seen = Bystander(*many)
    for number in range(150):
        seen.put(pod(f"filler-{number}").node(f"n{number:03}"))
    stray = pod("stray")
    seen.put(stray)
    seen.put(make_node("n007").capacity(cpu="4", memory="8Gi", pods="20").unschedulable())
    seen.pass_revisions()
    seen.bind(stray, "n007")
    assert seen.results() == {"stray": "sampled"}
    assert seen.judged[0].points > 0 and seen.judged[0].decision.lag_ms == 11


@pytest.mark.parametrize(
    ("percentage", "better"),
    [(100, 150), (None, 120)],
    ids=["it looks at all of them", "it must have looked at a better one"],
)
def test_sampling_explains_nothing_that_it_cannot_have_done(percentage: int | None, better: int) -> None:
    many = [make_node(f"n{number:03}").capacity(cpu="4", memory="8Gi", pods="20") for number in range(200)]
    config = {} if percentage is None else {"percentageOfNodesToScore": percentage}
    seen = Bystander(*many, config=config)
    for number in range(200 - better):
        seen.put(pod(f"filler-{number}").node(f"n{number:03}"))
    stray = pod("stray")
    seen.put(stray)
    seen.bind(stray, "n007")
    assert seen.results() == {"stray": "otherwise"}


def test_pods_of_other_schedulers_are_counted_and_judged_only_if_they_are_asked_for() -> None:
    seen = Bystander(*nodes(2), scheduler_names=frozenset({"mine"}))
    mine, other = pod("mine").scheduler("mine"), pod("other", "3")
    seen.put(other)
    seen.bind(other, "n1")
    seen.pass_revisions()
    seen.put(mine)
    seen.bind(mine, "n2")
    assert seen.results() == {"mine": "agrees"}
    assert seen.judged[0].decision.best == ("n2",)


def test_pods_that_had_a_node_when_they_were_first_seen_are_not_judged() -> None:
    seen = Bystander(*nodes(1), pod("there").node("n1"))
    assert seen.results() == {}


def waiting(builder: PodBuilder, message: str, *, nominated: str = "") -> PodBuilder:
    told = builder.copy()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    told.set_status(conditions=[condition], **({"nominatedNodeName": nominated} if nominated else {}))
    return told


def preempted(builder: PodBuilder, node: str) -> Pod:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    return builder.copy().node(node).set_status(conditions=[target]).build()


def test_why_a_pod_fits_nowhere_is_compared_word_for_word() -> None:
    seen = Bystander(*nodes(2))
    large = pod("large", "16")
    seen.put(large)
    seen.tell("MODIFIED", waiting(large, "0/2 nodes are available: 2 Insufficient memory.").build())
    seen.finish()
    ours = seen.failures[-1].our_message
    seen.tell("MODIFIED", waiting(large, ours).build())
    seen.finish()
    assert [failure.result for failure in seen.failures] == ["otherwise", "agrees"]
    assert "2 Insufficient cpu" in ours


@pytest.mark.parametrize(("victim", "result"), [("cheap", "agrees"), ("dear", "otherwise")])
def test_room_is_made_on_the_same_node_or_one_that_costs_as_much(victim: str, result: str) -> None:
    seen = Bystander(*nodes(2))
    cheap, dear = pod("cheap", "4").priority(1), pod("dear", "4").priority(5)
    for each, name in ((cheap, "n1"), (dear, "n2")):
        seen.put(each)
        seen.bind(each, name)
        seen.pass_revisions()
    urgent = pod("urgent", "2").priority(100)
    seen.put(urgent)
    node, gone = ("n1", cheap) if victim == "cheap" else ("n2", dear)
    seen.tell("MODIFIED", waiting(urgent, "0/2 nodes are available: 2 Insufficient cpu.", nominated=node).build())
    seen.tell("MODIFIED", preempted(gone, node))
    seen.finish()
    (failure,) = seen.failures
    assert failure.preemption is not None
    assert failure.preemption.victims == (f"default/{victim}",)
    assert failure.preemption.our_victims == ("default/cheap",)
    assert failure.result == result


def test_as_many_victims_of_the_same_priority_are_not_as_good_where_they_make_no_room() -> None:
    seen = Bystander(*nodes(2))
    large, small = pod("large", "4"), pod("small", "1")
    rest = pod("rest", "3").priority(1000)
    for each, name in ((large, "n1"), (rest, "n2"), (small, "n2")):
        seen.put(each)
        seen.bind(each, name)
        seen.pass_revisions()
    urgent = pod("urgent", "2").priority(100)
    seen.put(urgent)
    seen.tell("MODIFIED", waiting(urgent, "0/2 nodes are available: 2 Insufficient cpu.", nominated="n2").build())
    seen.tell("MODIFIED", preempted(small, "n2"))
    seen.finish()
    (failure,) = seen.failures
    assert failure.result == "otherwise" and failure.preemption is not None
    assert failure.preemption.our_victims == ("default/large",)
    assert failure.preemption.victims == ("default/small",)


def test_of_two_preemptors_on_a_node_each_is_held_to_the_victims_that_it_needs() -> None:
    """The first needs two pods to go, of which the API server hears of one only when the second is nominated."""
    seen = Bystander(*nodes(1))
    pods = [pod(f"p{number}") for number in range(4)]
    for each in pods:
        seen.put(each)
        seen.bind(each, "n1")
        seen.pass_revisions()
    first, second = pod("first", "2").priority(100), pod("second", "1").priority(100)
    seen.put(first)
    seen.put(second)
    told = "0/1 nodes are available: 1 Insufficient cpu."
    a, b, c, _ = pods
    seen.tell("MODIFIED", preempted(a, "n1"))
    seen.tell("MODIFIED", waiting(first, told, nominated="n1").build())
    seen.tell("MODIFIED", preempted(c, "n1"))
    seen.tell("MODIFIED", preempted(b, "n1"))
    seen.tell("MODIFIED", waiting(second, told, nominated="n1").build())
    seen.finish()
    assert [failure.result for failure in seen.failures] == ["agrees", "agrees"]


def test_a_pod_that_has_waited_may_have_missed_what_came_before_bindings_that_were_assumed() -> None:
    seen = Bystander(*nodes(3))
    old, half, late, beside = pod("old", "3"), pod("half", "500m"), pod("late"), pod("beside", "2")
    for each, name in ((old, "n1"), (half, "n3")):
        seen.put(each)
        seen.bind(each, name)
        seen.pass_revisions()
    seen.put(late)
    seen.tell("MODIFIED", waiting(late, "0/3 nodes are available: 3 Insufficient cpu.").build())
    seen.put(beside)
    seen.pass_revisions()
    seen.delete(old.copy().node("n1").build())
    seen.pass_revisions()
    seen.bind(beside, "n2")
    seen.pass_revisions()
    seen.bind(late, "n3")  # the best of three with the old one on n1 still, and the one beside on n2 already
    assert seen.results()["late"] == "couldHaveSeen"


def test_other_objects_are_taken_in_as_by_any_core() -> None:
    seen = Bystander(*nodes(1))
    seen.tell("ADDED", make_namespace("shop", {"team": "a"}))
    assert seen.core.objects.get("Namespace", "shop") is not None
