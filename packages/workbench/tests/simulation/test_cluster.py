"""A cluster in memory: what is put in is placed, what is preempted comes back, and questions change nothing."""

import pytest

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth.core.questions import Trial, judge
from berth.decisions.explanation import rejected_nodes
from berth_workbench.simulation.admission import admitted, with_priority
from berth_workbench.simulation.cluster import SimulatedCluster

CLASS = {"metadata": {"name": "fast"}, "provisioner": "disks.test", "volumeBindingMode": "WaitForFirstConsumer"}
CLAIM = {
    "metadata": {"name": "data", "namespace": "default", "uid": "claim-1"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    },
    "status": {"phase": "Pending"},
}


def nodes(count, cpu="4"):
    return [make_node(f"n{i}").capacity(cpu=cpu, memory="8Gi", pods="10").build() for i in range(count)]


def pods(count, cpu="1", prefix="p"):
    return [make_pod(f"{prefix}{i}").request(cpu=cpu).build() for i in range(count)]


def test_what_fits_is_placed_and_the_rest_is_told_why():
    cluster = SimulatedCluster([*pods(9), *nodes(2)])
    cluster.settle()
    placed = [node for node in cluster.placements.values() if node]
    assert sorted(placed) == ["n0"] * 4 + ["n1"] * 4
    (message,) = cluster.messages.values()
    assert message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_the_same_seed_gives_the_same_placements_and_another_does_not():
    def placements(seed):
        cluster = SimulatedCluster([*nodes(8), *pods(8)], seed=seed)
        cluster.settle()
        return cluster.placements

    assert placements(1) == placements(1)
    assert any(placements(1) != placements(seed) for seed in range(2, 6))


def test_a_preempted_pod_with_a_controller_comes_back_and_one_without_is_gone():
    owned = make_pod("owned").request(cpu="2").node("n0").priority(1).owned_by("ReplicaSet", "rs", uid="rs-1").build()
    bare = make_pod("bare").request(cpu="2").node("n0").priority(0).build()
    cluster = SimulatedCluster([*nodes(1), owned, bare])
    cluster.put(make_pod("vip").request(cpu="4").priority(100).build())
    cluster.settle()
    assert cluster.placements == {"default/owned": "", "default/vip": "n0"}
    assert sorted((each.pod, each.node, each.by) for each in cluster.evictions) == [
        ("default/bare", "n0", "default/vip"),
        ("default/owned", "n0", "default/vip"),
    ]
    cluster.put(make_node("n1").capacity(cpu="4", memory="8Gi", pods="10").build())
    cluster.settle()
    assert cluster.placements["default/owned"] == "n1"


def test_a_claim_that_waits_for_its_consumer_gets_a_volume_where_the_pod_goes():
    zones = [make_node(f"z{zone}").capacity(cpu="4", pods="9").zone(zone).build() for zone in "ab"]
    csi = [
        decode(
            "CSINode",
            {
                "metadata": {"name": node.metadata.name},
                "spec": {"drivers": [{"name": "disks.test", "topologyKeys": ["topology.kubernetes.io/zone"]}]},
            },
        )
        for node in zones
    ]
    pod = make_pod("db").request(cpu="3").claim("data").build()
    cluster = SimulatedCluster(
        [*zones, *csi, decode("StorageClass", CLASS), decode("PersistentVolumeClaim", CLAIM), pod]
    )
    cluster.settle()
    node = cluster.placements["default/db"]
    claim = cluster.objects["PersistentVolumeClaim", "default/data"]
    volume = cluster.objects["PersistentVolume", claim.spec.volume_name]
    assert volume.metadata.name == "pvc-claim-1", "called so as an external provisioner calls it"
    (term,) = volume.spec.node_affinity.required.node_selector_terms
    assert term.match_expressions[0].values == (node.removeprefix("z"),)
    cluster.delete("Pod", "default/db")
    other = "zb" if node == "za" else "za"
    assert judge(cluster.core, pod).node_names == [node]
    assert other not in judge(cluster.core, pod).node_names


def test_asking_changes_nothing():
    cluster = SimulatedCluster([*nodes(3), *pods(3, "3")])
    cluster.settle()
    big, small = make_pod("big").request(cpu="2").build(), make_pod("small").request(cpu="1").build()
    before = dict(cluster.placements)
    assert judge(cluster.core, small).node_names == ["n0", "n1", "n2"]
    asked = judge(cluster.core, big)
    assert (asked.node_names, [group.count for group in rejected_nodes(asked.decision)]) == ([], [3])
    assert asked.message.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    with Trial(cluster.core) as trial:
        where = [trial.place(make_pod(f"s{i}").request(cpu="1").build())[0] for i in range(4)]
        assert (sorted(where[:3]), where[3], len(trial)) == (["n0", "n1", "n2"], None, 3)
    assert cluster.placements == before
    assert judge(cluster.core, small).node_names == ["n0", "n1", "n2"]


def test_what_the_api_server_would_fill_in():
    limits = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    pod = admitted({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", **limits}]}})
    assert dict(pod.spec.containers[0].resources.requests) == {"cpu": "1", "memory": "1Gi"}
    assert {each.key for each in pod.spec.tolerations} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    classes = {
        name: decode("PriorityClass", {"metadata": {"name": name}, "value": value, "globalDefault": value == 7})
        for name, value in (("high", 1000), ("usual", 7))
    }
    assert with_priority(pod, classes).spec.priority == 7
    assert with_priority(make_pod("b").set_spec(priorityClassName="high").build(), classes).spec.priority == 1000
    with pytest.raises(ValueError, match="no PriorityClass with name nope"):
        with_priority(make_pod("b").set_spec(priorityClassName="nope").build(), classes)


def test_a_pod_of_a_class_that_is_gone_stays_in_its_cluster_and_a_new_one_is_refused():
    """Admission looks at a pod once; the scheduler takes one without a priority for 0."""
    pod = make_pod("old").request(cpu="1").set_spec(priorityClassName="gone").build()
    cluster = SimulatedCluster([*nodes(1), pod])
    cluster.settle()
    assert cluster.placements == {"default/old": "n0"} and cluster.pods["default/old"].spec.priority == 0
    cluster.create([make_pod("new").set_spec(priorityClassName="gone").build()])
    assert cluster.refused["default/new"].why == "no PriorityClass with name gone was found"
    assert "default/new" not in cluster.pods
    with pytest.raises(ValueError, match="'Secret'"):
        admitted({"kind": "Secret", "metadata": {"name": "s"}})


def test_pods_are_tried_once_where_there_is_no_node():
    pods = [make_pod(f"web-{number}").build() for number in range(3)]
    cluster = SimulatedCluster(pods)
    cluster.settle()
    assert [queued.attempts for queued in cluster.core.queue] == [1, 1, 1]
    cluster.put(make_node("late").capacity(cpu="4", memory="8Gi", pods="110").build())
    cluster.settle()
    assert set(cluster.placements.values()) == {"late"}
