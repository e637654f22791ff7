"""A bug of a plugin costs attempts of its pods and nothing else."""

import pytest

from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint
from berth.framework.status import error
from berth.testing.invariants import check
from tests.engine import boom, cluster, document, node, plugin, pod, reserving, with_profiles

BROKEN_POINTS = {
    "pre_filter": {"pre_filter": boom},
    "filter": {"filter": boom},
    "filter_columns": {"filter_columns": boom, "filter": lambda *_: None},
    "pre_score": {"pre_score": boom, "score": lambda *_: 1},
    "score": {"score": boom},
    "normalize_score": {"score": lambda *_: 1, "normalize_score": boom},
    "score out of range": {"score": lambda *_: 101},
    "reserve": {"reserve": boom, "unreserve": lambda *_: None},
    "unreserve": {"reserve": lambda *_: error("full"), "unreserve": boom},
    "permit": {"permit": boom},
    "permit without a timeout": {"permit": lambda *_: None},
    "pre_bind_pre_flight": {"pre_bind_pre_flight": boom, "pre_bind": lambda *_: None},
    "pre_bind": {"pre_bind": boom},
    "bind": {"bind": boom},
}


@pytest.mark.parametrize("methods", BROKEN_POINTS.values(), ids=BROKEN_POINTS)
def test_a_plugins_bug_costs_attempts_of_its_pod_and_nothing_else(methods):
    config = with_profiles(
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": "broken",
            "plugins": {
                "multiPoint": {"enabled": [{"name": "Broken"}]},
                "bind": {"disabled": [{"name": "*"}], "enabled": [{"name": "Broken"}]} if "bind" in methods else {},
            },
        },
    )
    found = cluster(node(cpu="4"), node("n2", "4"), config=config, plugins={"Broken": plugin("Broken", **methods)})
    found.put(pod("a").scheduler("broken").priority(10))
    found.put(pod("b"))
    found.run()
    check(found.core)
    assert found.nodes_of()["a"] == ""
    assert found.nodes_of()["b"] != ""
    assert found.patches("a")[-1].reason == "SchedulerError"
    assert found.core.cache.state_of("default/a") is None
    assert "default/a" in found.core.queue.error_backoff
    found.advance(30.0)
    check(found.core)
    assert found.core.queue.find("default/a").attempts >= 4


def test_post_filters_bug_is_an_error_of_the_attempt():
    broken = plugin("Broken", post_filter=boom)
    plugins = {"postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": "Broken"}]}}
    found = cluster(node(), config=with_profiles({"plugins": plugins}), plugins={"Broken": broken})
    found.put(pod("a", cpu="2"))
    found.run()
    assert found.patches("a")[-1].reason == "SchedulerError"
    assert "boom" in found.patches("a")[-1].message
    check(found.core)


def test_post_binds_bug_changes_nothing_for_a_pod_that_is_bound():
    broken, told = plugin("Broken", post_bind=boom), plugin("Told", post_bind=lambda *_: None)
    found = cluster(node(), config=document("Broken", "Told"), plugins={"Broken": broken, "Told": told})
    found.confirms_binds = False
    found.put(pod("a"))
    found.run()
    assert found.nodes_of() == {"a": "n1"}
    assert found.core.cache.state_of("default/a") is not None
    assert told.calls == ["post_bind"]
    assert found.events("Scheduled") == ["Successfully assigned default/a to n1"]
    assert len(found.core.queue) == len(found.core.queue.in_flight) == 0


def test_one_broken_unreserve_does_not_keep_the_others_from_giving_back():
    broken = plugin("Broken", reserve=lambda *_: None, unreserve=boom)
    first, last = reserving(), plugin("Last", reserve=lambda *_: error("full"), unreserve=lambda *_: None)
    found = cluster(
        node(), config=document("Keeper", "Broken", "Last"), plugins={"Keeper": first, "Broken": broken, "Last": last}
    )
    found.put(pod("a"))
    found.run()
    assert (first.calls, last.calls) == (["reserve", "unreserve"], ["reserve", "unreserve"])
    check(found.core)


def test_pre_enqueues_bug_does_not_lose_the_pod():
    is_broken = [True]
    events = [ClusterEventWithHint(ClusterEvent("Node", Action.ADD))]
    gate = plugin("Gate", events=events, pre_enqueue=lambda pod: boom() if is_broken[0] else None)
    found = cluster(node(), config=document("Gate"), plugins={"Gate": gate})
    found.put(pod("a"))
    found.run()
    check(found.core)
    assert found.nodes_of() == {"a": ""}
    is_broken[0] = False
    found.put(node("n2"))
    found.advance(1.0)
    assert found.nodes_of()["a"] != ""
