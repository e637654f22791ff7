"""Budgets are counted as the disruption controller counts them, and evictions are refused as the API refuses them."""

import pytest

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth_workbench.simulation.cluster import SimulatedCluster


def budget(name="pdb", selector=None, **spec):
    selector = {"matchLabels": {"app": "web"}} if selector is None else selector
    return decode(
        "PodDisruptionBudget",
        {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"selector": selector, **spec}},
    )


def replica_set(replicas, name="rs"):
    return decode(
        "ReplicaSet", {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"replicas": replicas}}
    )


def web(number, node="n0"):
    return make_pod(f"web-{number}").label("app", "web").request(cpu="1").owned_by("ReplicaSet", "rs").node(node)


def cluster_of(*objects, pods=4, bound=4):
    made = [web(number, "n0" if number < bound else "").build() for number in range(pods)]
    found = SimulatedCluster([make_node("n0").capacity(cpu="4", pods="110").build(), *made, *objects])
    found.publish_budgets()
    return found


def status_of(cluster, name="pdb"):
    status = cluster.objects["PodDisruptionBudget", f"default/{name}"].status
    return status.disruptions_allowed, status.current_healthy, status.desired_healthy, status.expected_pods


@pytest.mark.parametrize(
    ("spec", "objects", "expected"),
    [
        ({"minAvailable": 3}, [], (1, 4, 3, 4)),
        ({"minAvailable": 9}, [], (0, 4, 9, 4)),
        ({"minAvailable": "50%"}, [], (2, 4, 2, 4)),
        ({"minAvailable": "50%"}, [replica_set(7)], (0, 4, 4, 7)),  # half of 7, rounded up
        ({"maxUnavailable": 1}, [], (1, 4, 3, 4)),
        ({"maxUnavailable": 1}, [replica_set(6)], (0, 4, 5, 6)),
        ({"maxUnavailable": "30%"}, [], (2, 4, 2, 4)),  # 1.2 pods, rounded up
        ({}, [], (4, 4, 0, 4)),
    ],
)
def test_the_status_is_counted_from_pods_and_what_their_controllers_ask_for(spec, objects, expected):
    assert status_of(cluster_of(budget(**spec), *objects)) == expected


def test_pods_without_a_node_and_pods_that_are_not_ready_are_not_healthy():
    unready = web(9).set_status(conditions=[{"type": "Ready", "status": "False"}]).build()
    over = web(8).phase("Succeeded").build()
    assert status_of(cluster_of(budget(minAvailable=2), unready, over, pods=4, bound=3)) == (1, 3, 2, 5)


def test_the_status_follows_evictions_and_placements():
    cluster = cluster_of(budget(minAvailable=3))
    cluster.delete("Pod", "default/web-0")
    cluster.publish_budgets()
    assert status_of(cluster) == (0, 3, 3, 3)
    cluster.put(web(7, node="").build())
    cluster.settle()
    assert status_of(cluster) == (1, 4, 3, 4)


def test_a_budget_that_comes_after_the_pods_counts_them_too():
    cluster = cluster_of()
    cluster.put(budget(minAvailable=1))
    cluster.publish_budgets()
    assert status_of(cluster) == (3, 4, 1, 4)


def test_an_eviction_is_refused_with_the_numbers_of_the_budget():
    cluster = cluster_of(budget(minAvailable=4))
    name, why = cluster.budgets.refusal(cluster.pod("web-0"))
    assert name == "default/pdb"
    assert why == "The disruption budget pdb needs 4 healthy pods and has 4 currently"
    assert cluster_of(budget(minAvailable=3)).budgets.refusal(cluster.pod("web-0")) == ("", "")


def test_two_budgets_for_one_pod_forbid_every_eviction():
    cluster = cluster_of(budget(minAvailable=0), budget("other", {}, minAvailable=0))
    assert "more than one PodDisruptionBudget" in cluster.budgets.refusal(cluster.pod("web-0"))[1]


def test_a_pod_that_is_not_ready_may_go_while_the_others_suffice():
    unready = web(9).set_status(conditions=[{"type": "Ready", "status": "False"}]).build()
    cluster = cluster_of(budget(minAvailable=4), unready)
    assert cluster.budgets.refusal(cluster.pod("web-9")) == ("", "")
    assert cluster.budgets.refusal(cluster.pod("web-0"))[0] == "default/pdb"


@pytest.mark.parametrize(("policy", "goes"), [("AlwaysAllow", True), ("IfHealthyBudget", False), (None, False)])
def test_the_policy_of_a_budget_may_let_a_pod_go_that_is_not_ready_while_the_others_do_not_suffice(policy, goes):
    """`unhealthyPodEvictionPolicy` in the documentation of policy/v1; healthy pods are protected as ever."""
    unready = web(9).set_status(conditions=[{"type": "Ready", "status": "False"}]).build()
    cluster = cluster_of(budget(minAvailable=5, unhealthyPodEvictionPolicy=policy), unready)
    assert (cluster.budgets.refusal(cluster.pod("web-9")) == ("", "")) is goes
    assert cluster.budgets.spends_nothing(cluster.pod("web-9")) is goes
    assert cluster.budgets.refusal(cluster.pod("web-0"))[0] == "default/pdb"
    assert not cluster.budgets.spends_nothing(cluster.pod("web-0"))


def test_pods_of_another_namespace_or_without_labels_are_in_no_budget():
    cluster = cluster_of(budget(selector={}, minAvailable=4))
    for pod in (
        make_pod("bare").node("n0").build(),
        make_pod("far", namespace="far").label("app", "web").node("n0").build(),
    ):
        cluster.put(pod)
        assert cluster.budgets.refusal(pod) == ("", "")
    cluster.publish_budgets()
    assert status_of(cluster)[3] == 4


@pytest.mark.parametrize(("protected", "expected"), [("a", "n1"), ("b", "n0")])
def test_preemption_spares_the_pods_of_a_budget_that_was_never_counted(protected, expected):
    """A manifest's budget has no status; read as it is, it would allow no disruption, or none of it would count."""
    running = [
        make_pod(f"{app}-{number}").label("app", app).request(cpu="2").node(node).priority(0).build()
        for app, node in (("a", "n0"), ("b", "n1"))
        for number in range(2)
    ]
    nodes = [make_node(name).capacity(cpu="4", pods="10").build() for name in ("n0", "n1")]
    loose = budget("loose", {"matchLabels": {"app": "b" if protected == "a" else "a"}}, minAvailable=0)
    strict = budget("strict", {"matchLabels": {"app": protected}}, minAvailable=2)
    cluster = SimulatedCluster([*nodes, *running, loose, strict])
    cluster.put(make_pod("vip").request(cpu="4").priority(10).build())
    cluster.settle()
    assert cluster.placements["default/vip"] == expected
    assert len(cluster.evictions) == 2
