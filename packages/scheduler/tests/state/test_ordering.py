"""Keys in the order in which they came, and taken back to where they stood."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.state.ordering import OrderedKeys
from tests.effort import examples


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 1 << 32))
def test_what_is_taken_back_stands_where_it_stood(seed):
    lots = random.Random(seed)
    keys = OrderedKeys()
    for name in "abcdef":
        keys.add(name)
    before, next_place, gone = list(keys), keys.next_place, {}
    for _ in range(lots.randrange(12)):
        name = lots.choice("abcdefgh")
        if name in list(keys) and lots.random() < 0.6:
            place = keys.remove(name)
            if place < next_place:
                gone[name] = place
        else:
            keys.add(name)
        if lots.random() < 0.3:
            assert len(list(keys)) == len(keys) == len(set(keys))
    for name in set(keys) - set(before):
        keys.remove(name)
    for name, place in gone.items():
        keys.add(name)
        keys.put_back(name, place)
    keys.next_place = next_place
    assert list(keys) == before
    keys.add("z")
    assert list(keys) == [*before, "z"]
