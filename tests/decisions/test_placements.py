"""What is on the nodes: one node with its pods, and the pods of all nodes as columns."""

from berth.core.builders import make_node, make_pod
from berth.decisions.placements import copy_pods, node_and_pods
from berth_workbench.simulation.cluster import SimulatedCluster


def table_of(*builders):
    return SimulatedCluster([each.build() for each in builders]).core.cache.table


def node(name):
    return make_node(name).capacity(cpu="4", memory="8Gi", pods="10")


def test_a_node_is_told_with_its_taints_labels_and_pods_the_highest_priority_first():
    table = table_of(
        node("a").label("pool", "fast").taint("gpu", "yes", "NoSchedule").taint("spot", "", "NoExecute"),
        node("b"),
        make_pod("small").request(cpu="100m").node("a").priority(5),
        make_pod("large").request(cpu="2", memory="1Gi").node("a").priority(5),
        make_pod("first").request(cpu="50m").node("a").priority(9),
        make_pod("elsewhere").node("b"),
    )
    found = node_and_pods(table, "a").details()
    assert [pod.pod for pod in found.pods] == ["default/first", "default/large", "default/small"]
    assert found.pods[1].requests == {"cpu": 2000, "memory": 2**30}
    assert found.taints == ("gpu=yes:NoSchedule", "spot:NoExecute")
    assert (found.pool, found.labels["pool"]) == ("fast", "fast")
    assert (found.allocatable["cpu"], found.requested["cpu"], found.allowed_pods) == (4000, 2150, 10)
    assert node_and_pods(table, "nowhere") is None


def test_all_pods_are_told_with_node_namespace_workload_and_requests():
    cluster = SimulatedCluster([node("a").build(), node("b").build()])
    web = make_pod("web-1", "shop").label("pod-template-hash", "5f6").request(cpu="1").node("b")
    cluster.put(web.owned_by("ReplicaSet", "web-5f6").build())
    cluster.put(make_pod("db-0").request(memory="1Gi").node("a").owned_by("StatefulSet", "db").build())
    cluster.put(make_pod("bare").node("a").priority(7).build())
    found = copy_pods(cluster.core.cache.table).columns()
    told = {
        name: (
            found.nodes.names[found.nodes.of[at]],
            found.namespaces.names[found.namespaces.of[at]],
            found.workloads.names[found.workloads.of[at]],
            found.requests["cpu"][at],
            found.requests["memory"][at],
            found.priorities[at],
        )
        for at, name in enumerate(found.names)
    }
    assert told == {
        "web-1": ("b", "shop", "Deployment/web", 1000, 0, 0),
        "db-0": ("a", "default", "StatefulSet/db", 0, 2**30, 0),
        "bare": ("a", "default", "", 0, 0, 7),
    }


def test_of_too_many_pods_only_the_number_is_told():
    table = table_of(node("a"), *(make_pod(f"p{number}").node("a") for number in range(5)))
    copied = copy_pods(table)
    found = copied.columns(max_pods=4)
    assert (found.total, found.names, found.nodes.of) == (5, [], [])
    assert len(copied.columns(max_pods=5).names) == 5


def test_pods_are_found_by_their_name_and_by_their_workload_however_many_there_are():
    web = [make_pod(f"web-5f6-{at}", "shop").label("pod-template-hash", "5f6").node("a") for at in range(4)]
    copied = copy_pods(table_of(
        node("a"), *(each.owned_by("ReplicaSet", "web-5f6") for each in web),
        make_pod("x", "shop").owned_by("Job", "night").node("a"), make_pod("web-less").node("a"),
    ))  # fmt: skip

    def found(text, most=2):
        columns = copied.columns(text, max_pods=most)
        return columns.total, columns.names

    assert found("deployment/WEB", 9) == (4, [f"web-5f6-{at}" for at in range(4)])
    assert found("shop/night") == found("Job/") == (1, ["x"]), "the workload's name, not the pod's"
    assert found("web") == (5, ["web-5f6-0", "web-5f6-1"]), "the first that match, and how many do"
    assert found("shop/x") == (1, ["x"]) and found("default/x") == (0, [])
