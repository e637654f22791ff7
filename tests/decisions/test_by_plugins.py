"""What plugins tell beside their decisions: asked only where it counts, and in vain where they break."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth.core.questions import choose, decision_of, find
from berth.decisions.by_plugins import figures_of, rejection_details
from berth.decisions.explanation import explain
from berth.framework.registry import Registry
from berth.framework.telling import Figure
from berth.plugin import Narrowed, unschedulable
from berth.plugins.registry import in_tree_registry
from berth.runtime.observing.metrics import Metrics, plugin_figures
from berth_workbench.cases.decide import replay
from packages.scheduler.tests.support import boom, cluster, plugin, with_profiles

PROFILE = "default-scheduler"
TAKEN = [Figure("seats_taken", {"rack": "r1"}, 3), Figure("seats_taken", {"rack": "r2"}, 0)]


def seats(name="Seats", **methods):
    """A plugin that rejects everything."""
    told = {"figures": lambda: TAKEN, "explain_rejection": lambda pod: [f"no seat for {pod.name}"], **methods}
    return plugin(name, pre_filter=lambda state, pod: unschedulable("no seat"), **told)


def decided(*plugins, name="web"):
    found = cluster(make_node("n1").capacity(cpu="4"), plugins=list(plugins))
    attempt = find(found.core, make_pod(name).build())
    return found, decision_of(found.core, attempt)


def test_those_who_have_rejected_a_pod_explain_it():
    silent = plugin("Silent", pre_filter=lambda state, pod: None, explain_rejection=lambda pod: ["never asked"])
    found, decision = decided(silent, seats())
    details = rejection_details(decision, found.core.profiles[PROFILE])
    assert [(each.plugin, each.sentences) for each in details] == [("Seats", ("no seat for web",))]
    assert explain(decision, details=details).details == details


def test_a_filter_that_has_rejected_some_nodes_explains_it():
    full = plugin("Full", filter=lambda state, pod, node: unschedulable("full"), explain_rejection=lambda pod: ["full"])
    found, decision = decided(full)
    assert [each.plugin for each in rejection_details(decision, found.core.profiles[PROFILE])] == ["Full"]


def test_post_filter_and_whoever_says_whose_turn_it_is_explain_what_others_rejected():
    """No name of theirs is on the rejection."""
    said = {"explain_rejection": lambda pod: ["x"]}
    spares = plugin("Spares", post_filter=lambda *_: (None, unschedulable("nobody")), **said)
    sorts = plugin("Sorts", tenant_of=lambda queued: 0, next_tenant=lambda heads: 0, less=lambda a, b: True, **said)
    full = plugin("Full", filter=lambda state, pod, node: unschedulable("full"))
    plugins = {"multiPoint": {"disabled": [{"name": "PrioritySort"}, {"name": "DefaultPreemption"}]}}
    plugins["multiPoint"]["enabled"] = [{"name": each.name} for each in (full, spares, sorts)]
    registry = in_tree_registry().merge(Registry({each.name: each for each in (full, spares, sorts)}, "a test"))
    found = cluster(registry=registry, config=load_config(with_profiles({"plugins": plugins}), "a test"))
    for each in (make_node("n1").capacity(cpu="4"), make_pod("web")):
        found.put(each)
    found.run()
    details = rejection_details(found.core.trace["default/web"], found.core.profiles[PROFILE])
    assert {each.plugin for each in details} == {"Spares", "Sorts"}


def test_who_narrows_the_nodes_down_explains_what_is_left_though_nothing_was_scored():
    def narrow(state, pod, nodes):
        mask = nodes.mask.copy()
        mask[1:] = False
        return Narrowed(mask, unschedulable("later"))

    picks = plugin("Picks", narrow=narrow, explain_score=lambda pod, node: [f"{node.name} is first"])
    found = cluster(*(make_node(f"n{number}").capacity(cpu="4") for number in range(3)), plugins=[picks])
    decision = decision_of(found.core, choose(found.core, make_pod("web").build()))
    profile, table = found.core.profiles[PROFILE], found.core.cache.table
    (told,) = explain(decision, table=table, profile=profile).score_details
    assert (told.node, told.sentences) == ("n0", ("n0 is first",))


def test_nobody_is_asked_about_a_pod_that_has_a_node():
    asked = []
    free = plugin("Free", pre_filter=lambda state, pod: None, explain_rejection=asked.append)
    found = cluster(make_node("n1").capacity(cpu="4"), make_pod("web"), plugins=[free])
    found.run()
    decision = found.core.trace["default/web"]
    assert decision.chosen == "n1"
    assert rejection_details(decision, found.core.profiles[PROFILE]) == ()
    assert not asked


def test_those_who_have_scored_a_node_explain_their_scores_of_the_best_and_of_those_asked_for():
    def told(pod, node):
        return [f"{node.name} has {len(node.pods)} pods without {pod.name}"]

    likes = plugin("Likes", score=lambda state, pod, node: 10 * int(node.name[1:]), explain_score=told)
    mute = plugin("Mute", score=lambda state, pod, node: 1, explain_score=boom)
    nodes = [make_node(f"n{number}").capacity(cpu="4") for number in range(1, 7)]
    found = cluster(*nodes, make_pod("old").node("n2"), plugins=[likes, mute])
    decision = decision_of(found.core, choose(found.core, make_pod("web").build()))
    profile, table = found.core.profiles[PROFILE], found.core.cache.table
    said = explain(decision, nodes=["n2", "gone"], table=table, profile=profile).score_details
    assert {each.plugin for each in said} == {"Likes"}
    assert [(each.node, *each.sentences) for each in said] == [
        ("n6", "n6 has 0 pods without web"),
        ("n5", "n5 has 0 pods without web"),
        ("n4", "n4 has 0 pods without web"),
        ("n2", "n2 has 1 pods without web"),
    ]
    assert explain(decision, table=table).score_details == ()


def test_nobody_explains_scores_where_nothing_was_scored():
    asked = []
    likes = plugin("Likes", score=lambda state, pod, node: 1, explain_score=lambda *given: asked.append(given) or ["x"])
    found = cluster(make_node("n1").capacity(cpu="4"), plugins=[likes])
    decision = decision_of(found.core, choose(found.core, make_pod("web").build()))
    profile, table = found.core.profiles[PROFILE], found.core.cache.table
    assert explain(decision, nodes=["n1"], table=table, profile=profile).score_details == ()
    assert not asked


def test_a_bug_costs_the_plugins_own_answer_alone():
    broken = seats("Broken", figures=boom, explain_rejection=boom)
    found, decision = decided(broken)
    assert rejection_details(decision, found.core.profiles[PROFILE]) == ()
    found, _ = decided(broken, seats())
    profile = found.core.profiles[PROFILE]
    assert [(each.plugin, each.figure) for each in figures_of([profile])] == [("Seats", each) for each in TAKEN]


def test_figures_are_metrics_with_the_labels_of_all_who_use_the_name():
    other = seats("Other", figures=lambda: [Figure("seats_taken", {"floor": "2"}, 7), Figure("beds", {}, 1)])
    found, _ = decided(other, seats())
    families = {each.name: each for each in plugin_figures(figures_of(found.core.profiles.values()))}
    assert sorted(families) == ["scheduler_plugin_beds", "scheduler_plugin_seats_taken"]
    samples = [(each.labels, each.value) for each in families["scheduler_plugin_seats_taken"].samples]
    common = {"profile": PROFILE}
    assert samples == [
        ({"plugin": "Other", **common, "floor": "2", "rack": ""}, 7),
        ({"plugin": "Seats", **common, "floor": "", "rack": "r1"}, 3),
        ({"plugin": "Seats", **common, "floor": "", "rack": "r2"}, 0),
    ]


def test_they_are_scraped_with_the_rest():
    found, _ = decided(seats())

    class Live:
        core, pending_calls, fenced_writes, lost_races = found.core, {}, {}, 0

    metrics = Metrics()
    metrics.observe(Live())
    scraped = {each.name for each in text_string_to_metric_families(metrics.exposition().decode())}
    assert "scheduler_plugin_seats_taken" in scraped
    without = text_string_to_metric_families(metrics.exposition(with_core=False).decode())
    assert "scheduler_plugin_seats_taken" not in {each.name for each in without}


@pytest.mark.parametrize(
    ("figures", "shown"),
    [
        (TAKEN, {"seatsTaken": {"r1": 3, "r2": 0}}),
        ([Figure("beds", {}, 1)], {"beds": 1}),
        ([Figure("beds", {"floor": "1", "side": "left"}, 2)], {"beds": {"1": {"left": 2}}}),
        ([], {}),
    ],
)
def test_a_step_that_is_recorded_shows_them(figures, shown):
    made = plugin("Seats", pre_filter=lambda state, pod: None, figures=lambda: figures)
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Seats"}]}}}],
    }
    pod = {"kind": "Pod", "metadata": {"name": "web", "namespace": "default"}, "spec": {}}
    registry = in_tree_registry().merge(Registry({"Seats": made}, "a test"))
    (step,) = replay({"name": "one", "config": config, "objects": [], "pods": [pod]}, registry)
    assert {key: step[key] for key in shown} == shown
    assert shown or not step.keys() & {"seatsTaken", "beds"}
