"""Coscheduling in a scheduler in virtual time; expectations from upstream's README and records' words."""

import pytest

from berth.testing import VirtualCluster, make_node, make_pod
from berth_plugins.coscheduling import GROUPS, LABEL, Coscheduling


def group(name="g", least=2, created="2026-01-01T00:00:00Z", **spec):
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created}
    return GROUPS.read({"metadata": metadata, "spec": {"minMember": least, **spec}})


def member(name, cpu="3", of="g"):
    return make_pod(name).request(cpu=cpu).label(LABEL, of)


def node(name):
    return make_node(name).capacity(cpu="4", memory="8Gi")


@pytest.fixture
def cluster(config):
    def made(*objects, **args):
        found = VirtualCluster(
            plugins={"Coscheduling": Coscheduling}, config=config("Coscheduling", args=args or None, sorts=True)
        )
        for obj in objects:
            found.put(obj)
        return found

    return made


def told(found, words):
    return any(words in note for note in found.events("FailedScheduling"))


def test_members_are_bound_when_enough_have_a_place(cluster):
    found = cluster(node("n1"), node("n2"), group(), member("g-1")).run()
    assert found.nodes_of() == {"g-1": ""}
    assert told(found, "cannot find enough sibling pods, current pods number: 1, minMember of group: 2")
    found.put(member("g-2"))
    assert sorted(found.advance(10).nodes_of().values()) == ["n1", "n2"]


def test_half_a_group_gives_its_places_back_and_comes_when_there_is_room(cluster):
    found = cluster(node("n1"), group(), member("g-1"), member("g-2")).advance(10)
    assert set(found.nodes_of().values()) == {""}
    assert told(found, "gets rejected due to Pod") and told(found, "optimistic rejection in PostFilter")
    found.put(node("n2"))
    assert sorted(found.advance(30).nodes_of().values()) == ["n1", "n2"]


def test_a_small_gap_leaves_those_that_wait_until_their_time_is_up(cluster):
    found = cluster(
        node("n1"), group(scheduleTimeoutSeconds=30), member("g-1"), member("g-2"), podGroupRejectPercentage=50
    ).run()
    assert [waiting.pod.namespace for waiting in found.core.waiting] == ["default"]
    found.advance(31)
    assert told(found, "rejected due to timeout after waiting 30s at plugin Coscheduling")


def test_a_group_rests_after_it_has_failed(cluster):
    found = cluster(node("n1"), group(), member("g-1"), member("g-2"), podGroupBackoffSeconds=20).run()
    found.put(node("n2"))
    assert set(found.advance(10).nodes_of().values()) == {""}
    assert told(found, "podGroup default/g failed recently")
    assert "" not in found.advance(15).nodes_of().values()  # as soon as it has rested, though nothing happens


def test_a_group_asks_for_its_resources_at_once(cluster):
    needy = group(minResources={"cpu": "8", "example.com/gpu": "1"})
    found = cluster(node("n1"), node("n2"), needy, member("g-1"), member("g-2")).run()
    assert told(found, "resource gap: map[example.com/gpu:{{1 0} {<nil>}  DecimalSI}]")
    found.put(group(minResources={"cpu": "8"}))
    assert "" not in found.advance(10).nodes_of().values()


def test_gated_members_must_be_to_spare(cluster):
    gated = member("g-2")
    gated.spec["schedulingGates"] = [{"name": "later"}]
    found = cluster(node("n1"), node("n2"), group(), member("g-1"), gated).run()
    assert told(found, "cannot proceed due to gated pods in the same PodGroup")
    assert set(found.nodes_of().values()) == {""}


def test_a_group_that_is_not_there_holds_its_pods_back_until_it_comes(cluster):
    found = cluster(node("n1"), member("g-1")).run()
    assert told(found, "0/1 nodes are available: 1 PodGroup not found.")
    found.put(group(least=1))
    assert found.advance(10).nodes_of() == {"g-1": "n1"}


def test_members_that_run_count_after_a_restart(cluster):
    found = cluster(node("n1"), node("n2"), group(), member("g-1"), member("g-2")).run()
    found.restart().delete("Pod", "default/g-1")
    found.put(member("g-3"))
    assert sorted(found.run().nodes_of().values()) == ["n1", "n2"]


def test_the_queue_is_by_priority_and_age_of_the_group(cluster):
    found = cluster(group("old", created="2026-01-01T00:00:00Z"), group("new", created="2026-01-03T00:00:00Z"))
    between = make_pod("between").created("2026-01-02T00:00:00Z")
    urgent = make_pod("urgent").created("2026-01-09T00:00:00Z").priority(1)
    for pod in (member("new-1", of="new"), between, member("old-2", of="old"), member("old-1", of="old"), urgent):
        found.put(pod)
    queued = [each.pod.name for each in found.core.queue.active.ordered()]
    assert queued == ["urgent", "old-1", "old-2", "between", "new-1"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"permitWaitingTimeSeconds": -1}, "permitWaitingTimeSeconds: Invalid value: -1: must be greater than 0"),
        ({"podGroupBackoffSeconds": -1}, "podGroupBackoffSeconds: Invalid value: -1: must be greater than 0"),
        ({"podGroupRejectPercentage": 101}, "podGroupRejectPercentage: Invalid value: 101: must be between 0 and 100"),
    ],
)
def test_wrong_args_are_refused_in_upstreams_words(cluster, args, words):
    with pytest.raises(ValueError, match=words):
        cluster(**args)


def told_of(found, pod):
    (profile,) = found.core.profiles.values()
    plugin = next(each.plugin for each in profile.plugins if each.name == "Coscheduling")
    return list(plugin.explain_rejection(pod.info())), list(plugin.remedies(pod.info()))


def test_it_says_how_many_members_are_there_and_how_many_more_are_needed(cluster):
    gated = member("g-2")
    gated.spec["schedulingGates"] = [{"name": "example.com/wait"}]
    found = cluster(node("n1"), group(least=3, minResources={"cpu": "9"}), member("g-1"), gated).run()
    said, remedies = told_of(found, member("g-1"))
    assert said[:3] == [
        "PodGroup default/g: 2 members are there, 0 have a place, 3 are needed (minMember)",
        "1 members are gated",
        "2 more are needed",
    ]
    (failed,) = said[3:]  # PostFilter is asked whoever has rejected a member
    assert failed.startswith("the group failed last at ")
    (remedy,) = remedies  # of its 9 CPUs there are 4
    assert remedy.patch == {"spec": {"minMember": 1, "minResources": None}}
    assert remedy.what == "lower minMember from 3 to 1 and leave out minResources"
    assert told_of(found, make_pod("other")) == ([], [])


def test_it_says_who_waits_since_when_and_until_when(cluster):
    found = cluster(
        node("n1"), group(least=2, scheduleTimeoutSeconds=30), member("g-1"), member("g-2"), podGroupRejectPercentage=50
    ).run()
    found.advance(10)
    said, _ = told_of(found, member("g-2"))
    assert said == [
        "PodGroup default/g: 2 members are there, 1 have a place, 2 are needed (minMember)",
        "1 have waited with their place for 10 s, and will for 20 s more",
    ]
    found.advance(31)
    said, _ = told_of(found, member("g-2"))
    assert any(each.startswith("the group failed last at ") for each in said)
