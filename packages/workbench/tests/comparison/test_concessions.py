"""What tuned weights give up: the preferences that the documentation says each of these plugins scores by."""

import pytest
import yaml
from click.testing import CliRunner

from berth.agreement.report import FigureCompared
from berth.cli import main
from berth.core.builders import expression, make_node, make_pod
from berth_workbench.comparison.concessions import PREFERENCES, given_up
from berth_workbench.comparison.loads import ClusterLoad
from berth_workbench.comparison.settings import SettingSpace
from berth_workbench.comparison.tune import TuningResult
from berth_workbench.traces.generator import DailyPattern, daily_pattern
from packages.workbench.tests.comparison.test_tune import DEFAULT

BASE = dict.fromkeys((*PREFERENCES, "NodeResourcesFit"), 2)
PLAIN = make_pod("plain")
STATED = {
    "InterPodAffinity": make_pod("a").prefer_pod_anti_affinity(1, "zone", {"app": "a"}),
    "NodeAffinity": make_pod("b").prefer_node(1, expression("disk", "In", "ssd")),
    "PodTopologySpread": make_pod("c").spread("zone", when="ScheduleAnyway"),
}


def load(*pods, taint="NoSchedule"):
    nodes = [make_node("n1").taint("a", effect=taint).build(), make_node("n2").build()]
    return ClusterLoad(tuple(nodes), tuple(pod.build() for pod in pods))


@pytest.mark.parametrize("name", STATED)
def test_pods_whose_preference_counts_for_less_are_counted(name):
    """Weights 2, 2, 2, 2 and 2: each counts for a fifth."""
    stated = load(PLAIN, *STATED.values())
    (nothing,) = given_up(BASE, BASE | {name: 0}, stated)
    assert nothing.startswith(f"{name}: 1 of 4 pods prefer ")
    assert nothing.endswith("; that is 0% of a node's score instead of 20%")
    (less,) = given_up(BASE, BASE | {name: 1}, stated)
    assert less.endswith("; that is 11% of a node's score instead of 20%")
    assert given_up(BASE, BASE, stated) == ()
    assert given_up(BASE, BASE | {name: 0}, load(PLAIN)) == ()


def test_a_preference_is_given_up_by_a_weight_of_something_else_too():
    (told,) = given_up(BASE, BASE | {"NodeResourcesFit": 50}, load(PLAIN, STATED["NodeAffinity"]))
    assert told == "NodeAffinity: 1 of 2 pods prefer some nodes; that is 3% of a node's score instead of 20%"
    assert given_up(BASE, {name: 10 * weight for name, weight in BASE.items()}, load(*STATED.values())) == ()


def test_nodes_that_prefer_no_pods_are_counted():
    less = BASE | {"TaintToleration": 0}
    (told,) = given_up(BASE, less, load(PLAIN, taint="PreferNoSchedule"))
    assert told.startswith("TaintToleration: 1 of 2 nodes have taints that prefer no pods")
    assert given_up(BASE, less, load(PLAIN)) == ()


def test_pods_of_a_controller_are_spread_by_the_default_constraints():
    """Upstream's defaults are soft; they hold for pods without constraints of their own."""
    owned, hard = make_pod("a").owned_by("ReplicaSet", "r"), make_pod("b").owned_by("ReplicaSet", "r").spread("zone")
    (told,) = given_up(BASE, BASE | {"PodTopologySpread": 1}, load(owned, hard))
    assert told.startswith("PodTopologySpread: 1 of 2 pods prefer to be spread")


def test_of_a_workload_over_time_it_is_told_without_counting():
    day = daily_pattern(DailyPattern(pods=50, nodes=3, services=2, seconds=3600.0), 0)
    assert given_up(BASE, BASE | {"NodeAffinity": 0}, day)[0].startswith("NodeAffinity: pods may prefer some nodes")


def test_every_plugin_of_the_default_profile_that_filters_and_scores_by_preferences_is_known():
    """NodeResourcesFit filters and scores, too; how full nodes are is what the measures tell."""
    from berth_workbench.simulation.cluster import SimulatedCluster

    loaded = DEFAULT.load()
    profile = next(iter(SimulatedCluster(config=loaded.config, registry=loaded.registry).core.profiles.values()))
    filters = {each.name for each in profile.filters}
    space = SettingSpace(DEFAULT)
    both = {name for name in space.weights(space.base) if name in filters}
    assert both - {"NodeResourcesFit", "VolumeBinding", "DynamicResources"} == set(PREFERENCES)


def test_the_command_tells_what_the_best_costs(tmp_path):
    """Two nodes, of which either is enough for all pods, and pods that prefer another one each: packing costs that."""
    pods = [make_pod(f"p{i}").request(cpu="1").prefer_node(100, expression("own", "In", f"n{i % 2}")) for i in range(4)]
    nodes = [make_node(f"n{i}").capacity(cpu="8", memory="8Gi", pods="20").label("own", f"n{i}") for i in range(2)]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([each.document for each in (*nodes, *pods)]))
    words = ["tune", "--cluster", str(tmp_path / "cluster.yaml"), "--objective", "nodesUsed", "--budget", "40"]
    done = CliRunner().invoke(
        main, [*words, "--seeds", "2", "--jobs", "1", "--plugins", "NodeAffinity,NodeResourcesFit"]
    )
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.partition("---\n")[0].split())
    assert "nodes used 2 → 1" in told
    assert "It gives up something that no measure shows: NodeAffinity: 4 of 4 pods prefer some nodes; that is " in told


def test_measures_that_are_worse_with_each_seed_are_the_price():
    def figure(name, better):
        return FigureCompared(name, 1.0, 2.0, 1.0, 0.1, better)

    check = (figure("cost", "a"), figure("fragmentation.cpu", "a"), figure("pods", ""), figure("packing.cpu", "b"))
    found = TuningResult(("cost",), "default", 1, 1, (), {}, {}, check, 2, (check[0],), is_better=False)
    assert [each.name for each in found.worse] == ["fragmentation.cpu"]
