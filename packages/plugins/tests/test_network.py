"""NetworkOverhead and TopologicalSort; expectations from upstream's README (KEP 260) and records' words."""

import msgspec
import pytest

from berth.plugin import CycleState
from berth.testing import VirtualCluster, check_plugin, make_node, make_pod
from berth_plugins.network.app_groups import APP_GROUPS, GROUP_LABEL, WORKLOAD_LABEL
from berth_plugins.network.network_overhead import NetworkOverhead
from berth_plugins.network.network_topology import NETWORK_TOPOLOGIES, REGION, ZONE
from berth_plugins.network.topological_sort import TopologicalSort

ZONES = ("z1", "z2", "z3")


def topology(costs, regions=(), name="UserDefined"):
    def listed(key, pairs):
        origins = {}
        for (origin, destination), cost in dict(pairs).items():
            origins.setdefault(origin, []).append({"destination": destination, "networkCost": cost})
        return {
            "topologyKey": key,
            "originList": [{"origin": each, "costList": found} for each, found in origins.items()],
        }

    lists = [listed(ZONE, costs), listed(REGION, regions)]
    metadata = {"name": "nt-default", "namespace": "default", "uid": "nt"}
    return NETWORK_TOPOLOGIES.read({"metadata": metadata, "spec": {"weights": [{"name": name, "topologyList": lists}]}})


def app_group(dependencies, order=(), name="shop"):
    workloads = [
        {"workload": {"selector": each}, "dependencies": [
            {"workload": {"selector": other}, "maxNetworkCost": limit} for other, limit in needed.items()]}
        for each, needed in dependencies.items()
    ]  # fmt: skip
    status = {"topologyOrder": [{"workload": {"selector": each}, "index": place} for each, place in order]}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return APP_GROUPS.read({"metadata": metadata, "spec": {"workloads": workloads}, "status": status})


def node(name, zone="", region="r1"):
    found = make_node(name).capacity(cpu="8", memory="64Gi")
    for key, value in ((ZONE, zone), (REGION, region)):
        if value:
            found.label(key, value)
    return found


def member(name, workload, group="shop"):
    return make_pod(name).request(cpu="1").label(GROUP_LABEL, group).label(WORKLOAD_LABEL, workload)


@pytest.fixture
def cluster(config):
    def made(*objects, sorts=False):
        named = {"NetworkOverhead": NetworkOverhead} | ({"TopologicalSort": TopologicalSort} if sorts else {})
        found = VirtualCluster(plugins=named, config=config(*named, sorts=sorts), unschedulable_age_s=float("inf"))
        for obj in objects:
            found.put(obj)
        return found

    return made


def told(found, words):
    return any(words in note for note in found.events("FailedScheduling"))


NEEDS_DB = {"web": {"db": 5}, "db": {}}
COSTS = {("z1", "z2"): 5, ("z1", "z3"): 9, ("z2", "z1"): 4, ("z3", "z1"): 20}


def test_pods_go_near_to_those_that_they_depend_on(cluster):
    found = cluster(node("far", "z3"), node("near", "z2"), topology(COSTS), app_group(NEEDS_DB))
    found.put(node("there", "z1").capacity(cpu="1", memory="1Gi"))
    found.put(member("db-1", "db").node("there"))
    found.put(member("web-1", "web"))
    assert found.run().nodes_of()["web-1"] == "near"


def test_nodes_too_far_away_are_ruled_out_until_somebody_is_near(cluster):
    found = cluster(node("far", "z3"), node("there", "z1").capacity(cpu="1", memory="1Gi"), topology(COSTS))
    found.put(app_group(NEEDS_DB))
    found.put(member("db-1", "db").node("there"))
    found.put(member("web-1", "web"))
    assert found.run().nodes_of()["web-1"] == ""
    assert told(found, "Node far does not meet several network requirements from Workload dependencies: Satisfied: 0 V")
    found.put(member("db-2", "db").node("far"))
    assert found.advance(10).nodes_of()["web-1"] == "far"


@pytest.mark.parametrize("change", ["costs", "limit", "label", "node", "gone"])
def test_whatever_helps_wakes_the_pod(cluster, change):
    found = cluster(node("far", "z3"), node("there", "z1").capacity(cpu="1", memory="1Gi"), topology(COSTS))
    found.put(app_group(NEEDS_DB))
    found.put(member("db-1", "db").node("there"))
    found.put(member("web-1", "web"))
    assert found.run().nodes_of()["web-1"] == ""
    if change == "gone":
        found.delete("Pod", "default/db-1")
    else:
        found.put({
            "costs": topology({("z3", "z1"): 5}),
            "limit": app_group({"web": {"db": 20}}),
            "label": node("far", "z1"),
            "node": node("near", "z2"),
        }[change])  # fmt: skip
    assert found.advance(10).nodes_of()["web-1"] == ("near" if change == "node" else "far")


def test_a_group_or_a_topology_that_is_not_there_holds_pods_back_until_it_comes(cluster):
    found = cluster(node("n1", "z1"), node("n2", "z2"), member("db-1", "db").node("n1"), member("web-1", "web"))
    assert found.run().nodes_of()["web-1"] == ""
    assert told(found, "AppGroup shop was not found in the namespace default")
    found.put(app_group(NEEDS_DB))
    assert found.advance(10).nodes_of()["web-1"] == ""
    assert told(found, "NetworkTopology nt-default was not found in the namespace default")
    found.put(topology(COSTS))
    assert found.advance(10).nodes_of()["web-1"] == "n1"


def test_a_dependency_on_a_node_that_is_gone_is_an_error_in_upstreams_words(cluster):
    found = cluster(node("n1", "z1"), topology(COSTS), app_group(NEEDS_DB), member("db-1", "db").node("gone"))
    found.put(member("web-1", "web"))
    found.run()
    assert told(found, 'pod hostname not found: nodeinfo not found for node name "gone"')


def test_it_says_which_cost_is_too_high_on_the_nearest_node(cluster):
    found = cluster(node("far", "z3"), node("there", "z1").capacity(cpu="1", memory="1Gi"), topology(COSTS))
    found.put(app_group(NEEDS_DB))
    found.put(member("db-1", "db").node("there"))
    (profile,) = found.core.profiles.values()
    plugin = next(each.plugin for each in profile.plugins if each.name == "NetworkOverhead")
    assert plugin.explain_rejection(member("web-1", "web").info()) == [
        "nearest is there: 1 near enough, 0 too far away, cost 0",
        "nearest of those too far away is far: 0 near enough, 1 too far away, cost 20",
        "from far to db on there: cost 20, at most 5",
    ]
    assert plugin.explain_rejection(make_pod("other").info()) == ()


def plugin_of(found):
    (profile,) = found.core.profiles.values()
    return next(each.plugin for each in profile.plugins if each.name == "NetworkOverhead")


def test_it_says_what_each_dependency_costs_from_a_node(cluster):
    needs = {"web": {"db": 5, "cache": 9}, "db": {}, "cache": {}}
    found = cluster(node("near", "z2"), node("there", "z1"), topology(COSTS), app_group(needs))
    for name, workload, where in (("db-1", "db", "there"), ("db-2", "db", "near"), ("cache-1", "cache", "there")):
        found.put(member(name, workload).node(where))
    table = found.core.cache.table
    assert plugin_of(found).explain_score(member("web-1", "web").info(), table.view(table.row_of["near"])) == [
        "2 pod(s) of db cost 4, 4 each at most; maxNetworkCost is 5",
        "1 pod(s) of cache cost 4, 4 each at most; maxNetworkCost is 9",
        "together 8, and the least is best",
    ]


def test_the_least_that_a_maximum_could_be_raised_is_told_with_all_that_the_group_says(cluster):
    found = cluster(node("far", "z3"), node("there", "z1").capacity(cpu="1", memory="1Gi"), topology(COSTS))
    said = app_group(NEEDS_DB)
    dependency = {"workload": {"selector": "db", "kind": "Deployment", "apiVersion": "apps/v1", "name": "db"}}
    dependency |= {"maxNetworkCost": 5, "minBandwidth": "100Mi"}
    workloads = [{"workload": {"selector": "web"}, "dependencies": [dependency]}, {"workload": {"selector": "db"}}]
    found.put(APP_GROUPS.read({"metadata": msgspec.to_builtins(said.metadata), "spec": {"workloads": workloads}}))
    found.put(member("db-1", "db").node("there"))
    (remedy,) = plugin_of(found).remedies(member("web-1", "web").info())
    assert (remedy.namespace, remedy.name) == ("default", "shop")
    assert remedy.what == "raise maxNetworkCost of web from 5 to 20 for db"
    changed = {**dependency, "maxNetworkCost": 20}
    assert remedy.patch == {"spec": {"workloads": [{**workloads[0], "dependencies": [changed]}, workloads[1]]}}
    assert plugin_of(found).remedies(make_pod("other").info()) == ()


def test_what_would_be_without_a_pod_is_what_is_once_it_is_gone(cluster):
    """On its own node a dependency costs nothing; without it, the other one is too far away."""
    found = cluster(node("far", "z3"), node("here", "z1"), topology(COSTS), app_group(NEEDS_DB))
    for name in ("far", "here"):
        found.put(member(f"db-{name}", "db").node(name))
    plugin, table, pod = plugin_of(found), found.core.cache.table, member("web", "web").info()

    def verdicts(*gone):
        state, answers = CycleState(), {}
        assert plugin.pre_filter(state, pod) is None
        for name in gone:
            row = table.row_of[name]
            (removed,) = table.pods[row].values()
            plugin.remove_pod(state, pod, removed, table.view(row))
        for name in ("far", "here"):
            rows = table.rows()
            status = plugin.filter(state, pod, table.view(table.row_of[name]))
            codes = dict(zip(rows.tolist(), plugin.filter_columns(state, pod, table, rows).codes.tolist(), strict=True))
            assert (status is None) is (codes[table.row_of[name]] == 0)
            answers[name] = status is None
        return answers

    assert verdicts() == {"far": True, "here": True}
    assert verdicts("here") == {"far": True, "here": False}
    assert verdicts("here", "far") == {"far": True, "here": True}
    found.delete("Pod", "default/db-here")
    assert verdicts() == {"far": True, "here": False}


def test_it_keeps_its_contract_as_everything_changes(config):
    def some_node(rng, name):
        return node(name, rng.choice(["", *ZONES]), rng.choice(["", "r1", "r2", "z1"]))

    def some_objects(rng):
        if rng.random() < 0.5:
            return [app_group({each: {other: rng.randrange(25) for other in "abc"} for each in "abc"})]
        costs = {(rng.choice(ZONES), rng.choice(ZONES)): rng.randrange(30) for _ in range(4)}
        regions = {(rng.choice(["r1", "z1"]), rng.choice(["r1", "r2"])): rng.randrange(30) for _ in range(2)}
        return [topology(costs, regions, rng.choice(["UserDefined", "NetperfCosts"]))]

    check_plugin(
        NetworkOverhead,
        config=config("NetworkOverhead"),
        nodes=some_node,
        pods=lambda rng, name: member(name, rng.choice("abc")),
        objects=some_objects,
        histories=6,
    )


def test_the_queue_is_by_the_order_of_the_group(cluster):
    found = cluster(app_group({}, order=[("db", 1), ("web", 2)]), sorts=True)
    for pod in (member("web-1", "web").priority(5), member("db-1", "db"), make_pod("first").priority(9)):
        found.put(pod)
    assert [each.pod.name for each in found.core.queue.active.ordered()] == ["first", "db-1", "web-1"]


def test_without_its_group_the_queue_is_by_priority(cluster):
    found = cluster(sorts=True)
    for pod in (member("web-1", "web"), member("db-1", "db").priority(5)):
        found.put(pod)
    assert [each.pod.name for each in found.core.queue.active.ordered()] == ["db-1", "web-1"]
