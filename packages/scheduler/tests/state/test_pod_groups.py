"""Which members a group has, and which of them count."""

from berth.core.builders import make_node, make_pod
from berth.state.cache import Cache
from berth.state.pod_groups import GroupKey, PodGroups, group_of

KEY = GroupKey("default", "g")


def groups():
    cache = Cache()
    cache.put_node(make_node("n1").capacity(cpu="4").build())
    return cache, PodGroups(cache)


def member(name):
    return make_pod(name).group("g")


def test_a_pod_belongs_to_the_group_of_its_namespace():
    assert group_of(make_pod("p", "prod").group("g").info()) == ("prod", "g")
    assert group_of(make_pod("p").info()) is None


def test_members_come_and_go():
    _, found = groups()
    first, second = member("a").info(), member("b").info()
    for pod in (first, second, make_pod("single").info()):
        found.put(pod)
    assert list(found.members(KEY)) == [first.uid, second.uid]
    found.remove(first)
    found.remove(make_pod("single").info())
    assert list(found.members(KEY)) == [second.uid]
    found.remove(second)
    found.remove(second)
    assert found.members(KEY) == {} and found.count(KEY) == 0


def test_who_is_being_deleted_counts_only_with_a_node():
    cache, found = groups()
    found.put(member("a").info())
    waiting, running = member("b").terminating().info(), member("c").node("n1").terminating().info()
    cache.add_pod(running)
    found.put(waiting)
    found.put(running)
    assert found.count(KEY) == 2
    found.remove(waiting)
    assert found.count(KEY) == 2


def test_assumed_pods_are_placed_until_they_are_forgotten():
    cache, found = groups()
    pod = member("a").info()
    found.put(pod)
    cache.assume(pod, "n1")
    assert found.placed(KEY) == [pod] and found.placed_count(KEY) == 1
    cache.forget(pod.uid)
    assert found.placed(KEY) == [] and found.placed_count(KEY) == 0
