"""How a profile runs its plugins, point by point."""

import numpy as np
import pytest
from msgspec.structs import force_setattr

from berth.core.builders import make_namespace, make_node, make_pod, make_service
from berth.core.virtual_cluster import VirtualCluster
from berth.engine.profile import searched_rows
from berth.framework.cycle_state import CycleState
from berth.framework.health import FAILURES
from berth.framework.interface import FilterColumn, PreFilterResult
from berth.framework.promises import UNKNOWN, Dependency, Objects
from berth.framework.status import SKIP, Code, Status, error, unresolvable, unschedulable
from berth.testing.invariants import check, check_memos
from packages.scheduler.tests.support import document, once, plugin, with_profiles


def nodes(count=3, cpu="4"):
    return [make_node(f"n{index}").capacity(cpu=cpu, memory="8Gi") for index in range(count)]


def run(*plugins, count=3, pod=None):
    config = document(*(made.name for made in plugins))
    found = VirtualCluster(*nodes(count), config=config, plugins={made.name: made for made in plugins})
    found.put(pod or make_pod("a").request(cpu="1"))
    found.run()
    check(found.core)
    return found


def message(found):
    return next(patch.message for patch in found.patches("a") if patch.message)


def narrow(*names):
    return lambda *_: PreFilterResult(frozenset(names))


# -- PreFilter -------------------------------------------------------------------------------------------------------


def test_pre_filter_narrows_the_search_to_what_all_plugins_name():
    asked = []
    seen = plugin("Seen", filter=lambda state, pod, node: asked.append(node.name))
    one, two = plugin("One", pre_filter=narrow("n0", "n1", "gone")), plugin("Two", pre_filter=narrow("n1", "n2"))
    assert run(one, two, seen).nodes_of() == {"a": "n1"}
    assert set(asked) >= {"n1"}


def test_names_that_no_plugins_agree_on_reject_the_pod():
    one, two = plugin("One", pre_filter=narrow("n0")), plugin("Two", pre_filter=narrow("n1"))
    assert "node(s) didn't satisfy plugin(s) [One Two] simultaneously" in message(run(one, two))


def test_a_plugin_that_leaves_no_node_at_all_is_named_alone():
    """pkg/scheduler/framework/runtime/framework.go, RunPreFilterPlugins: others than one are told in brackets."""
    assert message(run(plugin("One", pre_filter=narrow()))).startswith(
        "0/3 nodes are available: node(s) didn't satisfy plugin One. "
    )


def test_a_plugin_that_names_no_nodes_narrows_nothing():
    """PreFilterResult.AllNodes: no names mean every node."""
    found = run(plugin("All", pre_filter=lambda *_: PreFilterResult(None)), plugin("One", pre_filter=narrow("n2")))
    assert found.nodes_of() == {"a": "n2"}


def test_nodes_that_pre_filter_left_out_are_told_of():
    one = plugin("One", pre_filter=narrow("n0"), filter=lambda *_: unschedulable("too small"))
    found = run(one)
    assert message(found).startswith("0/3 nodes are available: 1 too small, 2 node(s) didn't satisfy plugin(s) [One].")
    assert found.core.queue.find("default/a").unschedulable_plugins == {"One"}


def test_a_plugin_that_skips_in_pre_filter_is_not_asked_in_filter():
    made = plugin("One", pre_filter=lambda *_: SKIP, filter=lambda *_: unschedulable("never said"))
    assert run(made).nodes_of()["a"]
    assert "filter" not in made.calls


@pytest.mark.parametrize(
    ("status", "reason", "plugins"),
    [
        (unschedulable("full"), "Unschedulable", {"One"}),
        (unresolvable("never"), "Unschedulable", {"One"}),
        (error("broken"), "SchedulerError", set()),
    ],
)
def test_pre_filter_turns_a_pod_away(status, reason, plugins):
    later = plugin("Two", filter=lambda *_: None)
    found = run(plugin("One", pre_filter=lambda *_: status), later)
    assert found.patches("a")[-1].reason == reason
    assert status.message in message(found)
    assert later.calls == []
    assert found.core.queue.find("default/a").unschedulable_plugins == plugins


def test_an_optional_plugin_that_is_taken_out_is_asked_at_no_point():
    """As if it had skipped the pod in PreFilter (docs/living-with-plugins.md)."""
    methods = {"filter": lambda *_: None, "pre_score": lambda *_: None, "score": lambda *_: 1}
    promises = {"pre_filter_is_pure": True, "pre_score_is_pure": True}
    made = plugin("One", optional=True, pre_filter=lambda *_: unschedulable("no"), **methods, **promises)
    found = run(made)
    assert made.calls == ["pre_filter"]
    (health,) = found.core.health
    for _ in range(FAILURES):
        found.core.health.rounds.number += 1
        health.called("attempts")
        health.failed("attempts", "a test says so")
    for name in "bcd":  # what pure plugins say is kept once pods of a shape come again
        found.put(make_pod(name).request(cpu="1"))
        assert found.run().nodes_of()[name]
    assert made.calls == ["pre_filter"]


# -- Filter ----------------------------------------------------------------------------------------------------------


def test_a_per_node_filter_is_asked_about_each_node():
    made = plugin("One", filter=lambda state, pod, node: None if node.name == "n1" else unschedulable("not n1"))
    assert run(made).nodes_of() == {"a": "n1"}
    assert made.calls == ["filter"] * 3


def test_reasons_are_counted_and_sorted():
    def by_name(state, pod, node):
        return unschedulable("odd") if node.name in ("n1", "n3") else unresolvable("even")

    assert message(run(plugin("One", filter=by_name), count=5)).startswith("0/5 nodes are available: 2 odd, 3 even.")


def test_the_first_plugin_that_rejects_a_node_is_told_of():
    one = plugin("One", filter=lambda s, p, node: unschedulable("one") if node.name == "n0" else None)
    two = plugin("Two", filter=lambda s, p, node: unschedulable("two"))
    found = run(one, two)
    assert message(found).startswith("0/3 nodes are available: 1 one, 2 two.")
    assert found.core.queue.find("default/a").unschedulable_plugins == {"One", "Two"}


def test_a_filter_that_breaks_is_named_with_its_node():
    def breaks(state, pod, node):
        raise ValueError("boom")

    found = run(plugin("One", filter=breaks), count=1)
    place = f"packages/scheduler/tests/engine/test_profile.py:{breaks.__code__.co_firstlineno + 1}"
    expected = f"running \"One\" filter plugin: plugin 'One' failed on node 'n0': ValueError: boom ({place})"
    assert message(found) == expected
    assert found.patches("a")[-1].reason == "SchedulerError"


def test_a_pending_status_is_remembered_as_such():
    found = run(plugin("One", filter=lambda *_: Status(Code.PENDING, ("wait",))))
    queued = found.core.queue.find("default/a")
    assert (queued.pending_plugins, queued.unschedulable_plugins) == ({"One"}, frozenset())


def column_plugin(dependencies=UNKNOWN):
    """Rejects nodes whose index is odd, and prefers the highest index; by column, and node by node."""

    def odd(table, rows):
        names = [table.names[row] for row in np.arange(table.capacity)[rows]]
        return np.array([int(name[1:] or 0) % 2 if name else 0 for name in names], dtype=np.int32)

    def best(table, rows):
        names = [table.names[row] for row in np.arange(table.capacity)[rows]]
        return np.array([int(name[1:]) if name else 0 for name in names], dtype=np.int64)

    return plugin(
        "Columns",
        filter_depends_on=dependencies,
        score_depends_on=dependencies,
        signature=lambda pod: "every pod",
        filter_columns=lambda state, pod, table, rows: FilterColumn(odd(table, rows), lambda _: unschedulable("odd")),
        filter=lambda state, pod, node: unschedulable("odd") if int(node.name[1:]) % 2 else None,
        score_columns=lambda state, pod, table, rows: best(table, rows),
        score=lambda state, pod, node: int(node.name[1:]),
    )


def plain(name):
    """The same plugin node by node only."""
    made = column_plugin()
    for method in ("filter_columns", "score_columns"):
        delattr(made, method)
    return made


@pytest.mark.parametrize(
    "made",
    [column_plugin(), column_plugin(frozenset({Dependency.NODE})), plain("Plain")],
    ids=["columns", "columns that are kept", "node by node"],
)
def test_out_of_tree_plugins_in_both_forms(made):
    found = run(made, count=6, pod=make_pod("a").request(cpu="4"))
    assert found.core.trace["default/a"].statuses(found.core.cache.table.row_of["n1"])[0].reasons == ("odd",)
    assert {found.core.cache.table.names[row] for row in found.core.trace["default/a"].feasible} == {"n0", "n2", "n4"}
    for name in "bcd":
        found.put(make_pod(name).request(cpu="4"))
        found.run()
    found.put(make_node("n8").capacity(cpu="4", memory="8Gi"))
    found.advance(20.0)
    assert sorted(found.nodes_of().values()) == ["n0", "n2", "n4", "n8"]
    check(found.core)
    found.put(make_pod("e").request(cpu="1"))
    check_memos(found.core, make_pod("e").request(cpu="1").info())


# -- What-ifs --------------------------------------------------------------------------------------------------------


def test_what_filters_say_beside_nominated_pods_holds_on_one_basis():
    """That is what they depend on beside the rows themselves: here on Services, and on nothing else."""
    depends_on = frozenset({Dependency.NODE, Objects(("Service",))})
    made = plugin("One", filter=lambda *_: None, signature=lambda pod: 0, filter_depends_on=depends_on)
    found = run(made)
    profile, state, pod = found.core.profiles["default-scheduler"], CycleState(), found.core.intake.pod("default/a")
    assert profile.run_pre_filter(state, pod).status is None
    before = profile.basis(state, pod)
    assert before is not None
    found.put(make_namespace("another"))
    assert profile.basis(state, pod) == before
    found.put(make_service("s", {}))
    assert profile.basis(state, pod) != before
    skipping = CycleState()
    force_setattr(skipping, "skip_filter", state.skip_filter | {"NodeResourcesFit"})
    assert profile.basis(skipping, pod) not in (None, profile.basis(state, pod)), "others are asked"
    with found.core.memos.switched(on=False):
        assert profile.basis(state, pod) is None
    unsaid = run(plugin("One", filter=lambda *_: None))
    profile, pod = unsaid.core.profiles["default-scheduler"], unsaid.core.intake.pod("default/a")
    assert profile.basis(CycleState(), pod) is None, "who knows on what that stands"


def test_profiles_have_plans_of_their_own_for_one_shape():
    """A canary takes pods of another profile's shapes."""
    found = VirtualCluster(*nodes(), config=with_profiles(*[{"schedulerName": name} for name in ("first", "second")]))
    pod = found.core.intake.info(make_pod("a").build())
    bases = []
    for profile in found.core.profiles.values():
        state = CycleState()
        profile.run_pre_filter(state, pod)
        bases.append(profile.basis(state, pod))
    assert None not in bases and bases[0] != bases[1]


def test_only_rows_that_hold_nodes_are_searched():
    found = run(plugin("One", filter=lambda *_: None))
    found.put(make_pod("elsewhere").node("gone"))
    table = found.core.cache.table
    assert "gone" in table.row_of
    assert searched_rows(table, frozenset({"n1", "gone", "unheard of"})).nonzero()[0].tolist() == [table.row_of["n1"]]
    assert searched_rows(table, None) is table.valid


def test_the_attempts_own_state_does_not_follow_pods_of_a_what_if():
    followed = []
    follows = {"pre_filter": lambda *_: None, "remove_pod": lambda *_: None, "filter": lambda *_: None}
    found = run(plugin("One", **follows, add_pod=lambda state, pod, added, node: followed.append((state, added.name))))
    profile, state, pod = found.core.profiles["default-scheduler"], CycleState(), make_pod("b").info()
    profile.run_pre_filter(state, pod)
    others = [make_pod(name).info() for name in "cd"]
    assert profile.run_filter_with(others, state, pod, found.core.cache.table.view(0)) is None
    assert [name for _, name in followed] == ["c", "d"]
    assert followed[0][0] is followed[1][0] is not state


@pytest.mark.parametrize("answer", [None, Status(Code.SUCCESS), error("lost count")], ids=["none", "success", "error"])
@pytest.mark.parametrize("what", ["add_pod", "remove_pod"])
def test_the_first_plugin_that_cannot_follow_a_pod_ends_the_what_if(what, answer):
    """pkg/scheduler/framework/runtime/framework.go, RunPreFilterExtensionAddPod and …RemovePod."""
    follows = {"pre_filter": lambda *_: None, "add_pod": lambda *_: None, "remove_pod": lambda *_: None}
    skips = plugin("Skips", **{**follows, "pre_filter": lambda *_: SKIP, what: lambda *_: error("never asked")})
    one, two = plugin("One", **{**follows, what: lambda *_: answer}), plugin("Two", **follows)
    found = run(skips, one, two)
    profile, state, pod = found.core.profiles["default-scheduler"], CycleState(), make_pod("b").info()
    assert profile.run_pre_filter(state, pod).status is None
    follow = getattr(profile, f"run_{what}")
    status = follow(state, pod, make_pod("c").info(), found.core.cache.table.view(0))
    assert status == (None if answer is None or answer.code is Code.SUCCESS else answer.by("One"))
    assert (what in two.calls) == (status is None) and what not in skips.calls
    if what == "add_pod":
        beside = profile.run_filter_with([make_pod("c").info()], state, pod, found.core.cache.table.view(0))
        assert beside == status, "whether it fits beside that pod is not known"


# -- Score -----------------------------------------------------------------------------------------------------------


def test_a_search_that_stops_early_stops_at_the_first_node_only_where_nobody_scores():
    """pkg/scheduler/schedule_one.go, `hasScoring`: else the best of as many as the percentage asks for is taken."""
    scores = plugin("Last", score=lambda state, pod, node: 100 if node.name == "n2" else 0)
    for name, expected in (("Last", "n2"), ("Plain", "n0")):
        plugins = {"Last": scores, "Plain": plugin("Plain", filter=lambda *_: None)}
        enabled = [{"name": each} for each in ("PrioritySort", name, "DefaultBinder")]
        own = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
        config = {**document(), "profiles": [{"plugins": own, "percentageOfNodesToScore": 100}]}
        found = VirtualCluster(*nodes(), config=config, plugins=plugins)
        found.put(make_pod("a"))
        assert found.run().nodes_of() == {"a": expected}


def test_scores_belong_to_the_feasible_nodes_wherever_these_begin():
    """The best of nodes that lie together behind one that does not fit, by scores that are worked out for this pod."""
    made = plugin(
        "Last",
        filter=lambda state, pod, node: unschedulable("first") if node.name == "n0" else None,
        score=lambda state, pod, node: 100 if node.name == "n2" else 0,
    )
    assert run(made).nodes_of() == {"a": "n2"}


@pytest.mark.parametrize("value", [-1, 101, 1000])
@pytest.mark.parametrize("normalizes", [True, False])
def test_a_score_out_of_range_is_an_error_of_plugin_and_value(value, normalizes):
    methods = {"score": lambda s, p, node: value if node.name == "n1" else 5}
    if normalizes:
        methods["normalize_score"] = lambda state, pod, scores: scores
    found = run(plugin("Wild", **methods))
    assert message(found) == (
        'applying score defaultWeights on Score plugins: plugin "Wild" '
        f"returns an invalid score {value}, "
        "it should in the range of [0, 100] after normalizing"
    )
    assert found.patches("a")[-1].reason == "SchedulerError"


def test_raw_scores_may_have_any_scale_if_they_are_normalised():
    methods = {"score": lambda s, p, node: 1000 if node.name == "n2" else -1000}
    made = plugin("Scaled", **methods, normalize_score=lambda state, pod, scores: (scores + 1000) // 20)
    assert run(made).nodes_of() == {"a": "n2"}


@pytest.mark.parametrize("answer", [error("no idea"), None], ids=["says so", "raises"])
def test_a_score_that_fails_is_an_error(answer):
    def score(state, pod, node):
        if answer is None:
            raise KeyError("boom")
        return answer

    found = run(plugin("One", score=score))
    place = f"packages/scheduler/tests/engine/test_profile.py:{score.__code__.co_firstlineno + 2}"
    said = "no idea" if answer is not None else f"node 'n0': KeyError: 'boom' ({place})"
    assert message(found) == f'running Score plugins: plugin "One" failed with: {said}'


def test_a_normalisation_that_fails_is_an_error():
    made = plugin("One", score=lambda *_: 5, normalize_score=lambda *_: error("no idea"))
    expected = 'running Normalize on Score plugins: plugin "One" failed with: no idea'
    assert message(run(made)) == expected


def test_a_plugin_that_skips_in_pre_score_does_not_score():
    made = plugin("One", pre_score=lambda *_: SKIP, score=lambda *_: 100)
    found = run(made)
    assert "score" not in made.calls
    assert "One" not in {scores.plugin for scores in found.core.trace["default/a"].scores}


def test_pre_score_may_fail():
    assert message(run(plugin("One", pre_score=lambda *_: error("no")))) == 'running PreScore plugin "One": no'


def test_a_single_feasible_node_is_not_scored():
    made = plugin("One", score=lambda *_: 5)
    assert run(made, count=1).nodes_of() == {"a": "n0"}
    assert made.calls == []


# -- Reserve and after -----------------------------------------------------------------------------------------------


def test_reserve_goes_forward_and_unreserve_back_through_all():
    order = []

    def keeper(name, status=None):
        return plugin(
            name,
            reserve=lambda *_: (order.append(f"+{name}"), status)[1],
            unreserve=lambda *_: order.append(f"-{name}"),
        )

    found = run(keeper("A"), keeper("B", unschedulable("full")), keeper("C"))
    assert order == ["+A", "+B", "-C", "-B", "-A"]
    assert message(found) == "0/1 nodes are available: 1 full.", "told as the rejection by the one node that was chosen"
    assert found.core.queue.find("default/a").unschedulable_plugins == {"B"}
    assert found.core.cache.assumed_count == 0


def test_the_first_binder_that_does_not_skip_binds():
    skips, binds, late = (
        plugin("Skips", bind=lambda *_: SKIP),
        plugin("Binds", bind=lambda *_: None),
        plugin("Late", bind=lambda *_: None),
    )
    plugins = {made.name: made for made in (skips, binds, late)}
    own = {"bind": {"enabled": [{"name": name} for name in plugins], "disabled": [{"name": "DefaultBinder"}]}}
    config = {**document(), "profiles": [{"plugins": own}]}
    found = VirtualCluster(*nodes(), config=config, plugins=plugins)
    found.put(make_pod("a"))
    found.run()
    assert [made.calls for made in plugins.values()] == [["bind"], ["bind"], []]
    assert len(found.events("Scheduled")) == 1


def test_without_a_binder_that_takes_the_pod_it_is_an_error():
    own = {"bind": {"enabled": [{"name": "Skips"}], "disabled": [{"name": "*"}]}}
    config = {**document(), "profiles": [{"plugins": own}]}
    found = VirtualCluster(*nodes(), config=config, plugins={"Skips": plugin("Skips", bind=lambda *_: SKIP)})
    found.put(make_pod("a"))
    found.run()
    assert message(found).startswith("no Bind plugin took the pod")


@pytest.mark.parametrize(
    ("pre_flight", "tells"),
    [(None, True), (SKIP, False), ("absent", True)],
    ids=["work", "nothing to do", "no pre-flight"],
)
def test_pods_whose_binding_has_work_to_do_say_where_they_go(pre_flight, tells):
    methods = {"pre_bind": lambda *_: None}
    if pre_flight != "absent":
        methods["pre_bind_pre_flight"] = lambda *_: pre_flight
    found = run(plugin("Work", **methods), count=1)
    assert found.nodes_of() == {"a": "n0"}
    assert [patch.nominated_node_name for patch in found.patches("a")] == (["n0"] if tells else [])


@pytest.mark.parametrize("status", [unschedulable("not yet"), error("broken")])
def test_pre_bind_may_stop_a_binding(status):
    found = run(plugin("Work", pre_bind=once(status)))
    expected = 'running PreBind plugin "Work": broken' if status.code is Code.ERROR else "not yet"
    assert message(found) == expected
    assert found.core.cache.assumed_count == 0
