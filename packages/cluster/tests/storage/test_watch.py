"""Watches: what they see, from when on, and through which filter."""

import random

import msgspec
import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.storage.watch import WatchLimits
from packages.cluster.tests.objects import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NEW_EVENTS,
    PODS,
    config_map,
    make_store,
    pod,
)


def seen(watch):
    return [(event.type, event.object["metadata"]["name"]) for event in watch.events()]


def label(store, name, **labels):
    store.patch(CONFIG_MAPS, "default", name, {"metadata": {"labels": labels}}, "application/merge-patch+json")


def test_without_a_version_the_present_comes_first():
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map("b"))
    store.create(CONFIG_MAPS, "default", config_map("a"))
    watch = store.watch(CONFIG_MAPS)
    assert seen(watch) == [("ADDED", "a"), ("ADDED", "b")]
    store.delete(CONFIG_MAPS, "default", "a")
    assert seen(watch) == [("DELETED", "a")]


def test_a_watch_resumes_after_a_version():
    store = make_store()
    made = store.create(CONFIG_MAPS, "default", config_map("a"))
    store.create(CONFIG_MAPS, "default", config_map("b"))
    store.create(PODS, "default", pod())
    watch = store.watch(CONFIG_MAPS, resource_version=made["metadata"]["resourceVersion"])
    assert seen(watch) == [("ADDED", "b")]


def test_a_watch_sees_one_namespace_when_asked():
    store = make_store()
    watch = store.watch(CONFIG_MAPS, "default", resource_version=str(store.revision))
    store.create(CONFIG_MAPS, "kube-system", config_map("other"))
    store.create(CONFIG_MAPS, "default", config_map("mine"))
    assert seen(watch) == [("ADDED", "mine")]


def test_objects_enter_and_leave_a_filter():
    store = make_store()
    watch = store.watch(CONFIG_MAPS, label_selector="team=a")
    store.create(CONFIG_MAPS, "default", config_map("x"))
    label(store, "x", team="a")
    label(store, "x", more="b")
    label(store, "x", team="b")
    left = store.revision
    events = watch.events()
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    # The last event shows the object as it last matched, at the version where it left.
    assert events[-1].object["metadata"]["labels"] == {"team": "a", "more": "b"}
    assert events[-1].object["metadata"]["resourceVersion"] == str(left)


def test_a_deletion_is_seen_at_its_own_version():
    store = make_store()
    made = store.create(CONFIG_MAPS, "default", config_map("a"))
    watch = store.watch(CONFIG_MAPS, resource_version=str(store.revision))
    store.delete(CONFIG_MAPS, "default", "a")
    (event,) = watch.events()
    assert int(event.object["metadata"]["resourceVersion"]) == int(made["metadata"]["resourceVersion"]) + 1


def test_a_version_that_is_forgotten_is_gone():
    store = make_store(history=3)
    made = store.create(CONFIG_MAPS, "default", config_map("a"))
    for number in range(5):
        store.create(CONFIG_MAPS, "default", config_map(f"b{number}"))
    with pytest.raises(StoreError) as caught:
        store.watch(CONFIG_MAPS, resource_version=made["metadata"]["resourceVersion"])
    assert (caught.value.status_code, caught.value.reason) == (410, "Expired")
    assert caught.value.message.startswith("too old resource version: ")


def test_a_quiet_resource_can_be_watched_from_long_ago():
    store = make_store(history=3)
    made = store.create(PODS, "default", pod())
    for number in range(50):
        store.create(CONFIG_MAPS, "default", config_map(f"b{number}"))
    assert seen(store.watch(PODS, resource_version=made["metadata"]["resourceVersion"])) == []


def test_the_reader_is_woken_once_for_many_events():
    store = make_store()
    watch = store.watch(CONFIG_MAPS, resource_version=str(store.revision))
    woken = []
    watch.wake = lambda: woken.append(1)
    for name in ("a", "b", "c"):
        store.create(CONFIG_MAPS, "default", config_map(name))
    assert (len(woken), len(watch.events())) == (1, 3)
    store.create(CONFIG_MAPS, "default", config_map("d"))
    assert len(woken) == 2


def test_a_closed_watch_hears_nothing():
    store = make_store()
    watch = store.watch(CONFIG_MAPS, resource_version=str(store.revision))
    watch.close()
    store.create(CONFIG_MAPS, "default", config_map("a"))
    assert watch.events() == []


def test_a_reader_that_is_too_slow_gets_what_is_queued_and_no_more():
    store = make_store(watch_limits=WatchLimits(events=2))
    watch = store.watch(CONFIG_MAPS, resource_version=str(store.revision))
    for name in ("a", "b", "c", "d"):
        store.create(CONFIG_MAPS, "default", config_map(name))
    assert watch.overflowed and store.collection(CONFIG_MAPS).watches == {}
    assert seen(watch) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_slow_reader_is_measured_in_bytes_too():
    store = make_store(watch_limits=WatchLimits(size=10_000))
    watch = store.watch(CONFIG_MAPS, resource_version=str(store.revision))
    for name in ("a", "b"):
        store.create(CONFIG_MAPS, "default", config_map(name, text="x" * 4000))
    assert len(watch.events(1)) == 1
    store.create(CONFIG_MAPS, "default", config_map("c", text="x" * 4000))
    assert not watch.overflowed
    store.create(CONFIG_MAPS, "default", config_map("d", text="x" * 4000))
    assert watch.overflowed and seen(watch) == [("ADDED", "b"), ("ADDED", "c")]


def test_one_object_larger_than_the_limit_still_arrives():
    store = make_store(watch_limits=WatchLimits(size=100))
    watch = store.watch(CONFIG_MAPS, resource_version=str(store.revision))
    store.create(CONFIG_MAPS, "default", config_map("a", text="x" * 4000))
    assert seen(watch) == [("ADDED", "a")] and not watch.overflowed


def test_a_resumed_watch_is_not_cut_off_by_what_it_has_missed():
    store = make_store(watch_limits=WatchLimits(events=2))
    then = str(store.revision)
    for number in range(9):
        store.create(CONFIG_MAPS, "default", config_map(f"a{number}"))
    watch = store.watch(CONFIG_MAPS, resource_version=then)
    assert len(seen(watch)) == 9 and not watch.overflowed


def test_history_is_bounded_by_bytes():
    store = make_store(history_bytes=50_000)
    for name in ("big", "small"):
        store.create(CONFIG_MAPS, "default", config_map(name))
    for number in range(100):
        store.update(CONFIG_MAPS, "default", "big", config_map("big", text=f"{number}" + "x" * 10_000))
    collection = store.collection(CONFIG_MAPS)
    assert 20_000 < collection.history_bytes <= 50_000
    # What is left of it still works.
    assert len(seen(store.watch(CONFIG_MAPS, resource_version=str(store.revision - 3)))) == 3
    with pytest.raises(StoreError, match="too old resource version"):
        store.watch(CONFIG_MAPS, resource_version=str(store.revision - 10))


def test_namespaces_and_names_that_came_and_went_leave_nothing():
    store = make_store(history=5)
    collection = store.collection(CONFIG_MAPS)
    for number in range(5000):
        store.create(CONFIG_MAPS, "default", config_map(f"a{number}"))
        store.delete(CONFIG_MAPS, "default", f"a{number}")
        if number == 0:
            store.create(CONFIG_MAPS, "default", config_map("kept"))
    assert len(collection._namespaces["default"]._names) < 2000
    assert seen(store.watch(CONFIG_MAPS)) == [("ADDED", "kept")]
    store.delete(CONFIG_MAPS, "default", "kept")
    assert collection._namespaces == {}


@pytest.mark.parametrize("seed", range(5))
def test_lists_are_right_at_every_revision_and_from_every_place(seed):
    rng, store = random.Random(seed), make_store()
    store.create(NAMESPACES, "", {"metadata": {"name": "apart"}})
    states = {}
    for _ in range(60):
        namespace, name = rng.choice(("default", "apart")), rng.choice("abcdefgh")
        if store.find(CONFIG_MAPS, namespace, name) is None:
            store.create(CONFIG_MAPS, namespace, config_map(name))
        elif rng.random() < 0.6:
            store.delete(CONFIG_MAPS, namespace, name)
        else:
            store.update(CONFIG_MAPS, namespace, name, config_map(name, n=str(rng.random())))
        present = store.collection(CONFIG_MAPS).entries()
        states[store.revision] = sorted((entry.place, entry.revision) for entry in present)
    for revision, state in states.items():
        after = rng.choice([None, ("apart", "d"), ("default", "c"), ("default", "z")])
        for namespace in ("", "apart", "default"):
            shown = store.snapshot(CONFIG_MAPS, namespace, revision, after)
            assert [(entry.place, entry.revision) for entry in shown] == [
                one for one in state if (not namespace or one[0][0] == namespace) and (after is None or one[0] > after)
            ]


def test_all_watchers_share_one_encoding():
    store = make_store()
    first = store.watch(CONFIG_MAPS, resource_version=str(store.revision))
    second = store.watch(CONFIG_MAPS, resource_version=str(store.revision))
    store.create(CONFIG_MAPS, "default", config_map("a", color="red"))
    (one,), (other,) = first.events(), second.events()
    assert one.line is other.line
    assert msgspec.json.decode(one.line) == {"type": "ADDED", "object": one.object}


def test_events_are_watched_in_both_shapes():
    store = make_store()
    old = store.watch(EVENTS, field_selector="involvedObject.name=web")
    new = store.watch(NEW_EVENTS, field_selector="regarding.name=web")
    for name in ("web", "other"):
        event = {"metadata": {"name": f"{name}.1"}, "regarding": {"kind": "Pod", "name": name}, "note": "hello"}
        store.create(NEW_EVENTS, "default", event)
    (as_old,), (as_new,) = old.events(), new.events()
    assert (as_old.object["apiVersion"], as_old.object["message"]) == ("v1", "hello")
    assert (as_new.object["apiVersion"], as_new.object["note"]) == ("events.k8s.io/v1", "hello")


def test_a_past_version_can_be_listed():
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map("a"))
    store.create(CONFIG_MAPS, "default", config_map("b"))
    then = store.revision
    store.delete(CONFIG_MAPS, "default", "a")
    store.update(CONFIG_MAPS, "default", "b", config_map("b", changed="yes"))
    store.create(CONFIG_MAPS, "default", config_map("c"))
    entries = store.entries(CONFIG_MAPS, revision=then)
    assert [entry.obj["metadata"]["name"] for entry in entries] == ["a", "b"]
    assert "changed" not in entries[1].obj.get("data", {})
