"""What plugins tell beside their decisions: asked only where it counts, and in vain where they break."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from berth.core.builders import make_node, make_pod
from berth.core.questions import decision_of, find
from berth.decisions.by_plugins import figures_of, rejection_details
from berth.decisions.explanation import explain
from berth.framework.registry import Registry
from berth.framework.telling import Figure
from berth.plugin import unschedulable
from berth.plugins.registry import in_tree_registry
from berth.runtime.observing.metrics import Metrics, plugin_figures
from berth_workbench.cases.decide import replay
from tests.support import boom, cluster, plugin

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


def test_nobody_is_asked_about_a_pod_that_has_a_node():
    asked = []
    free = plugin("Free", pre_filter=lambda state, pod: None, explain_rejection=asked.append)
    found = cluster(make_node("n1").capacity(cpu="4"), make_pod("web"), plugins=[free])
    found.run()
    decision = found.core.trace["default/web"]
    assert decision.chosen == "n1"
    assert rejection_details(decision, found.core.profiles[PROFILE]) == ()
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
