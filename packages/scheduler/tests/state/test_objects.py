"""The object store: what changed since when, and what is assumed."""

from berth.core.builders import make_node
from berth.state.objects import CHANGES_KEPT, ObjectStore


def node(name, version=""):
    found = make_node(name)
    found.metadata["resourceVersion"] = version
    return found.build()


def test_changes_since_a_version():
    store = ObjectStore()
    assert store.changed_since("Node", 0) == []
    store.put("Node", node("a"))
    store.put("Node", node("b"))
    version = store.version("Node")
    store.put("Node", node("a"))
    store.remove("Node", node("b"))
    store.remove("Node", node("gone"))
    assert store.changed_since("Node", version) == ["a", "b"]
    assert store.changed_since("Node", 0) == ["a", "b", "a", "b"]
    assert store.changed_since("Node", store.version("Node")) == []


def test_changes_too_long_ago_are_not_known():
    store = ObjectStore()
    for number in range(3 * CHANGES_KEPT):
        store.put("Node", node(str(number)))
    assert store.changed_since("Node", 0) is None
    recent = store.changed_since("Node", store.version("Node") - CHANGES_KEPT)
    assert recent == [str(number) for number in range(2 * CHANGES_KEPT, 3 * CHANGES_KEPT)]


def test_an_assumption_holds_for_one_state_of_its_object():
    store = ObjectStore()
    stored, assumed = node("a", "1"), node("a", "1")
    store.put("Node", stored)
    store.assumed.put("Node", "a", stored, assumed)
    assert store.latest("Node", "a") is assumed
    assert store.get("Node", "a") is stored
    store.put("Node", node("a", "1"))  # the same state, listed again
    assert store.latest("Node", "a") is assumed
    newer = node("a", "2")
    store.put("Node", newer)
    assert store.latest("Node", "a") is newer
    assert not len(store.assumed)


def test_an_assumption_goes_with_its_object_or_when_it_is_dropped():
    store = ObjectStore()
    for name in ("a", "b"):
        store.put("Node", node(name))
        store.assumed.put("Node", name, store.get("Node", name), node(name))
    assert sorted(store.assumed.keys("Node")) == ["a", "b"]
    store.remove("Node", node("a"))
    assert store.latest("Node", "a") is None
    store.assumed.drop("Node", "b")
    store.assumed.drop("Node", "b")
    assert store.latest("Node", "b") is store.get("Node", "b")
    assert not len(store.assumed)
