"""CapacityScheduling in a scheduler in virtual time; expectations from upstream's README (KEP 9) and records' words."""

import random

import pytest

from berth.testing import VirtualCluster, make_node, make_pod
from berth_plugins.capacity.capacity_scheduling import BEYOND, CapacityScheduling
from berth_plugins.capacity.elastic_quotas import ELASTIC_QUOTAS


def quota(namespace, least=None, most=None, created="2026-01-01T00:00:00Z", name="quota"):
    spec = {key: value for key, value in (("min", least), ("max", most)) if value is not None}
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "creationTimestamp": created}
    return ELASTIC_QUOTAS.read({"metadata": metadata, "spec": spec})


def cpu(amount, memory="100Gi"):
    return {"cpu": amount, "memory": memory}


def pod(name, namespace="a", cpu="1"):
    return make_pod(name, namespace).request(cpu=cpu)


def node(name="n1", cpu="8"):
    return make_node(name).capacity(cpu=cpu, memory="64Gi")


@pytest.fixture
def cluster(config):
    def made(*objects, unschedulable_age_s=float("inf")):
        """Return a cluster in which no flush by age hides a pod that nobody wakes."""
        found = VirtualCluster(
            plugins={"CapacityScheduling": CapacityScheduling},
            config=config("CapacityScheduling"),
            unschedulable_age_s=unschedulable_age_s,
        )
        for obj in objects:
            found.put(obj)
        return found

    return made


def told(found, words):
    return any(words in note for note in found.events("FailedScheduling"))


def plugin_of(found):
    (profile,) = found.core.profiles.values()
    return next(each.plugin for each in profile.plugins if each.name == "CapacityScheduling")


def used(found):
    return {(labels["namespace"], labels["resource"]): value for _, labels, value in plugin_of(found).figures()}


def test_a_namespace_gets_no_more_than_its_max_until_less_is_used(cluster):
    found = cluster(node(), quota("a", cpu("4"), cpu("2")), pod("one"), pod("two")).run()
    found.put(pod("three"))
    assert found.run().nodes_of() == {"one": "n1", "two": "n1", "three": ""}
    assert told(found, "Pod a/three is rejected in PreFilter because ElasticQuota a is more than Max")
    found.delete("Pod", "a/one")
    assert found.advance(10).nodes_of() == {"two": "n1", "three": "n1"}


def test_all_together_get_no_more_than_the_sum_of_the_mins(cluster):
    borrowing = [pod(f"b-{number}", "b") for number in range(3)]
    found = cluster(node(), quota("a", cpu("2")), quota("b", cpu("1")), *borrowing, pod("a-1", cpu="2")).run()
    assert found.nodes_of()["a-1"] == "n1"  # it takes back what b has borrowed
    assert len(found.nodes_of()) == 2
    found.put(pod("b-3", "b"))
    assert found.run().nodes_of()["b-3"] == ""
    assert told(found, "Pod b/b-3 is rejected in PreFilter because total ElasticQuota used is more than min")


def test_what_is_borrowed_is_taken_back_whatever_its_priority(cluster):
    important = [pod(f"b-{number}", "b").priority(1000) for number in range(4)]
    found = cluster(node(cpu="4"), quota("a", cpu("2")), quota("b", cpu("2")), *important).run()
    found.put(pod("a-1", cpu="2").priority(-5))
    assert found.run().nodes_of()["a-1"] == "n1"
    assert len(found.nodes_of()) == 3


def test_beyond_its_min_a_pod_preempts_lower_priorities_of_its_namespace_alone(cluster):
    others = [pod("b-1", "b", cpu="2"), pod("a-1", cpu="2").priority(1)]
    found = cluster(node(cpu="4"), quota("a", cpu("1")), quota("b", cpu("3")), *others).run()
    found.put(pod("a-2", cpu="2").priority(5))
    assert found.run().nodes_of() == {"b-1": "n1", "a-2": "n1"}
    found.put(pod("a-3", cpu="2").priority(5))
    assert found.run().nodes_of()["a-3"] == ""
    assert told(found, "No victims found on node n1 for preemptor pod a-3")


def test_a_pod_without_a_quota_preempts_only_such_pods(cluster):
    found = cluster(node(cpu="2"), quota("a", cpu("2")), pod("a-1"), pod("free", "c")).run()
    found.put(pod("urgent", "d", cpu="2").priority(10))
    assert found.run().nodes_of()["urgent"] == ""
    found.put(pod("modest", "d").priority(10))
    assert found.run().nodes_of() == {"a-1": "n1", "modest": "n1", "urgent": ""}


def test_what_runs_counts_after_a_restart_and_for_a_quota_that_comes_late(cluster):
    found = cluster(node(), pod("one"), pod("two")).run()
    found.put(quota("a", cpu("4"), cpu("2")))
    found.put(pod("three"))
    assert found.run().nodes_of()["three"] == ""
    found.restart().put(pod("four"))
    assert found.run().nodes_of()["four"] == ""


def test_a_quota_that_is_raised_or_goes_wakes_its_pods(cluster):
    found = cluster(node(), quota("a", cpu("4"), cpu("1")), pod("one")).run()
    found.put(pod("two"))
    found.run().put(quota("a", cpu("4"), cpu("2")))
    assert found.advance(10).nodes_of()["two"] == "n1"
    found.put(pod("three"))
    found.run().delete(ELASTIC_QUOTAS.name, "a/quota")
    assert found.advance(10).nodes_of()["three"] == "n1"


def test_pods_of_other_namespaces_wake_those_that_wait_for_the_sum(cluster):
    found = cluster(node(cpu="4"), quota("a", cpu("1")), quota("b", cpu("2")), pod("a-1"), pod("b-1", "b", cpu="2"))
    found.run().put(pod("a-2"))
    assert found.run().nodes_of()["a-2"] == ""
    found.delete("Pod", "b/b-1")
    assert found.advance(10).nodes_of()["a-2"] == "n1"


def test_another_quota_that_lends_more_wakes_those_that_wait_for_the_sum(cluster):
    found = cluster(node(), quota("a", cpu("1")), quota("b", cpu("0")), pod("a-1")).run()
    found.put(pod("a-2"))
    found.run().put(quota("b", cpu("1")))
    assert found.advance(10).nodes_of()["a-2"] == "n1"


def test_room_in_its_namespace_that_victims_complete_wakes_a_pod(cluster):
    found = cluster(node(), quota("a", cpu("4"), cpu("4")), pod("low").priority(1), pod("high", cpu="3").priority(9))
    found.run().put(pod("new", cpu="3").priority(5))
    found.run().put(quota("a", cpu("3"), cpu("3")))
    assert found.advance(10).nodes_of() == {"low": "n1", "high": "n1", "new": ""}
    found.delete("Pod", "a/high")
    assert found.advance(10).nodes_of() == {"new": "n1"}


def test_what_others_borrow_later_is_taken_back_at_once(cluster):
    """Upstream waits for the flush: a pod that is added is none of its events."""
    quotas = [quota("a", cpu("2")), quota("b", cpu("2")), quota("c", cpu("0"))]
    found = cluster(node(cpu="4"), *quotas, pod("c-1", "c").node("elsewhere"), pod("b-1", "b", cpu="2").node("n1"))
    found.put(pod("a-1", cpu="2"))
    assert found.run().nodes_of()["a-1"] == ""  # b is not over its min
    found.put(pod("b-2", "b").priority(5).node("n1"))
    assert found.advance(10).nodes_of() == {"a-1": "n1", "b-2": "n1", "c-1": "elsewhere"}


def test_a_reserved_pod_counts_until_it_is_given_back(cluster):
    found = cluster(node(), quota("a", cpu("4"), cpu("1")))
    plugin, info = plugin_of(found), pod("one").info()
    plugin.reserve(None, info, "n1")
    assert used(found)["a", "cpu"] == 1000
    plugin.unreserve(None, info, "n1")
    plugin.unreserve(None, info, "n1")
    assert used(found) == {("a", "cpu"): 0, ("a", "memory"): 0}
    bound = pod("one").node("n1").info()
    plugin.reserve(None, info, "n1")
    plugin.pod_updated(info, bound)
    plugin.unreserve(None, info, "n1")  # the answer to the binding was lost
    assert used(found)["a", "cpu"] == 1000
    plugin.pod_removed(bound)
    assert used(found)["a", "cpu"] == 0


def test_init_containers_and_overhead_count_as_upstream_counts_them(cluster):
    made = make_pod("one", "a").request(cpu="100m").node("n1")
    made.spec["initContainers"] = [{"name": "i", "resources": {"requests": {"cpu": "300m", "example.com/gpu": "1"}}}]
    made.spec["overhead"] = {"cpu": "50m"}
    found = cluster(node(), quota("a"), made)
    assert used(found) == {("a", "cpu"): 350, ("a", "memory"): 0, ("a", "example.com/gpu"): 1}


def test_of_several_quotas_in_a_namespace_the_oldest_counts(cluster):
    late = quota("a", cpu("9"), cpu("9"), created="2026-02-01T00:00:00Z", name="generous")
    found = cluster(node(), late, quota("a", cpu("1"), cpu("1")), pod("one")).run()
    found.put(pod("two"))
    assert found.run().nodes_of()["two"] == ""


def test_it_says_of_what_there_is_too_much_and_what_would_help(cluster):
    found = cluster(node(), quota("a", cpu("1"), cpu("2")), quota("b", cpu("2")), pod("b-1", "b", cpu="2"), pod("a-1"))
    found.run()
    plugin, asking = plugin_of(found), pod("a-2", cpu="1500m").info()
    assert plugin.explain_rejection(asking) == [
        "max.cpu of ElasticQuota a/quota: 2; used: 1; asked for: 1500m",
        "min.cpu of all ElasticQuotas together: 3; used: 3; asked for: 1500m",
        f"{BEYOND.format('cpu')}: 1; used: 1; asked for: 1500m",
    ]
    (remedy,) = plugin.remedies(asking)
    assert remedy.what == "raise max.cpu from 2 to 2500m and min.cpu from 1 to 2500m"
    assert remedy.patch == {"spec": {"max": {"cpu": "2500m"}, "min": {"cpu": "2500m"}}}
    found.put(quota("a", cpu("2500m"), cpu("2500m")))
    found.put(pod("a-2", cpu="1500m"))
    assert found.run().nodes_of()["a-2"] == "n1"
    assert plugin.explain_rejection(pod("free", "c").info()) == ()


@pytest.mark.parametrize("seed", range(6))
def test_nobody_waits_in_vain_and_nothing_is_counted_twice_whatever_happens(cluster, seed):
    """A scheduler that starts anew tries every pod: it finds no place for one that the old one had left waiting."""
    rng = random.Random(seed)
    found = cluster(node("n0", "4"), quota("a", cpu("2"), cpu("4")), quota("b", cpu("2"), cpu("3")))
    for step in range(80):
        act = rng.randrange(8)
        keys = [key for kind, key in found.objects if kind == "Pod"]
        namespace = rng.choice("abc")
        if act < 4:
            made = pod(f"p{step}", namespace, cpu=rng.choice(["500m", "1", "2"])).priority(rng.randrange(3))
            found.put(made.node("n0") if rng.random() < 0.1 else made)
        elif act < 6 and keys:
            found.delete("Pod", rng.choice(keys))
        elif act == 6:
            found.put(node(f"n{rng.randrange(3)}", rng.choice(["2", "4"])))
        elif rng.random() < 0.2 and (ELASTIC_QUOTAS.name, f"{namespace}/quota") in found.objects:
            found.delete(ELASTIC_QUOTAS.name, f"{namespace}/quota")
        else:
            found.put(quota(namespace, cpu(rng.choice(["1", "3"])), rng.choice([None, cpu("4")])))
        if rng.random() < 0.2:
            found.refuse("the object has been modified (Conflict, HTTP 409)")
        found.run()
        if rng.random() < 0.3:
            found.advance(20)
    found.advance(700)
    before, counted = found.nodes_of(), used(found)
    assert "" in before.values(), "nobody had to wait"
    assert found.restart().advance(700).nodes_of() == before
    assert used(found) == counted


@pytest.mark.parametrize("nodes", [200, 5_000])
def test_what_is_said_of_a_pod_does_not_grow_with_the_nodes(cluster, nodes):
    found = cluster(*(node(f"n{number}") for number in range(nodes)), quota("a", cpu("1"), cpu("1")))
    found.put(pod("one", cpu="2"))
    (said,) = set(found.run().events("FailedScheduling"))
    over = "Pod a/one is rejected in PreFilter because ElasticQuota a is more than Max."
    assert said == (
        f"0/{nodes} nodes are available: {over} "
        f"0/{nodes} nodes are available: {nodes} No victims found for preemptor pod one."
    )


def test_a_pod_that_quota_rejects_again_is_tried_on_changed_nodes_alone(cluster, monkeypatch):
    """A crowd of such pods would look for victims on every node at each attempt."""
    asked = []
    search = CapacityScheduling.potential_victims
    monkeypatch.setattr(
        CapacityScheduling, "potential_victims", lambda *given: asked.append(given[-1].name) or search(*given)
    )
    found = cluster(quota("a", cpu("40"), cpu("40")), quota("b", cpu("90")))
    for number in range(40):
        found.put(node(f"n{number}"))
        found.put(pod(f"a-{number}").node(f"n{number}"))
        found.put(pod(f"b-{number}", "b").priority(-5).node(f"n{number}"))

    def asked_when(*objects):
        """Return which nodes were asked about, and how many attempts there were."""
        cycles = found.core.queue.scheduling_cycle
        asked.clear()
        for each in objects:
            found.put(each)
        found.run()
        return set(asked), len(asked), found.core.queue.scheduling_cycle - cycles

    assert asked_when(pod("first")) == ({f"n{number}" for number in range(40)}, 40, 1)
    _, count, attempts = asked_when(*(pod(f"more-{number}") for number in range(20)))
    assert attempts == 20 and count == 20, "of a node that is no different one is asked, for its words"
    nodes, count, attempts = asked_when(pod("b-more", "b").node("n7"), pod("late"))
    assert "n7" in nodes and count <= attempts + 1
    nodes, _, _ = asked_when(pod("urgent").priority(9))
    assert len(nodes) == 40 and found.nodes_of()["urgent"] != "", "of a higher priority it may evict others"


def rejected_beside_a_nominated_pod(cluster, *others, victim_cpu="2", cpu_of_new="2", nominated_cpu="3"):
    """Return what is told of a pod that may preempt on n1, while one of its namespace is nominated to n2.

    The quota has room for it once its victim is gone, but not for the nominated pod besides.
    """
    found = cluster(node("n1", "2"), node("n2", "4"), quota("a", cpu("1"), cpu("4")), quota("b", cpu("90")))
    found.put(pod("free", "c", cpu="4").node("n2"))
    found.put(pod("low", cpu=victim_cpu).node("n1"))
    promised = pod("promised", cpu=nominated_cpu).priority(10, "Never").set_status(nominatedNodeName="n2")
    for each in (promised, *others):
        found.put(each)
    found.run()
    found.put(pod("new", cpu=cpu_of_new).priority(5))
    return found.run(), [said for said in found.events("FailedScheduling") if "a/new" in said]


OVER = "0/2 nodes are available: Pod a/new is rejected in PreFilter because ElasticQuota a is more than Max."


def test_upstream_takes_a_victim_off_twice_that_neither_filters_nor_quota_spare(cluster):
    """Upstream, SelectVictimsOnNode: `reprievePod` takes the pod off as no filter lets the new one in beside it, and
    once more as the quota is over with what is nominated. NodeInfo.RemovePod has an error for that, which is all that
    Preempt returns where no other node can be freed; that is what PostFilter says, behind the message of PreFilter.
    """
    found, told = rejected_beside_a_nominated_pod(cluster)
    assert set(told) == {f"{OVER} no corresponding pod low in pods of node n1"}
    assert found.nodes_of()["low"] == "n1", "nobody is evicted"


def test_a_victim_that_the_quota_alone_does_not_spare_is_taken_off_once(cluster):
    """The filters let the new pod in beside it; then only the quota takes it off again."""
    found, _ = rejected_beside_a_nominated_pod(cluster, victim_cpu="1", cpu_of_new="1")
    assert "low" not in found.nodes_of()


def test_a_victim_that_filters_do_not_spare_goes_where_the_quota_has_room_for_all(cluster):
    found, _ = rejected_beside_a_nominated_pod(cluster, nominated_cpu="2")
    assert "low" not in found.nodes_of()


def test_another_node_that_can_be_freed_makes_up_for_one_where_upstream_fails(cluster):
    found, _ = rejected_beside_a_nominated_pod(
        cluster, node("n3", "9"), pod("other", cpu="1").node("n3"), pod("more", "c", cpu="6").node("n3")
    )
    assert "other" not in found.nodes_of() and found.nodes_of()["low"] == "n1"
