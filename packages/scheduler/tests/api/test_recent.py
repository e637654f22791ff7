"""Stores are bounded in number and in size, and keep what was asked for last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.recent import Recent, json_size
from berth.api.selectors import Requirement, Selector


def test_what_was_asked_for_least_recently_goes_first():
    store = Recent(3)
    for name in "abc":
        store.put(name, name.upper(), 1)
    assert store.get("a") == "A"
    assert list(store.put("d", "D", 1)) == ["B"]
    assert list(store.values()) == ["C", "A", "D"] and "b" not in store


def test_large_things_leave_room_for_few():
    store = Recent(100, 10)
    for name in "abc":
        store.put(name, name, 3)
    assert list(store.put("d", "d", 7)) == ["a", "b"]
    assert list(store.put("e", "e", 50)) == ["c", "d"], "the last one is always kept"
    assert list(store.put("f", "f", 1)) == ["e"]


@given(steps=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9), st.sampled_from(["put", "get", "pop"]))))
def test_the_bounds_hold_whatever_is_done(steps):
    store, sizes = Recent(3, 12), {}
    for key, size, what in steps:
        if what == "put":
            store.put(key, key, size)
            sizes[key] = size
        elif what == "get":
            assert store.get(key) in (key, None)
        else:
            store.pop(key)
        kept = [sizes[name] for name in store.values()]
        assert len(kept) <= 3 and (len(kept) <= 1 or sum(kept) <= 12)


@pytest.mark.parametrize(
    ("said", "size"),
    [("ab", 4), (("a", frozenset({"b"})), 11), (Selector((Requirement("k", "In", ("v",)),)), 26)],
)
def test_sizes_are_those_of_json(said, size):
    assert json_size(said) == size


def test_what_json_does_not_know_has_a_size_too():
    assert 0 < json_size((object(), "a")) < 50
