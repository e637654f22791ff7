"""Which names are suggested for one that nobody knows, the likeliest first, and when none is."""

import pytest

from berth.api.near_names import alike, nearest


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("nod-1", ["node-1", "other"], ["node-1"]),
        ("NodeName", ["nodeName", "zone"], ["nodeName"]),
        ("wbe", ["web", "db"], ["web"]),  # two letters swapped are much of a short name
        ("n9", ["n0", "n1"], []),
        ("web", ["db", "cache"], []),
        ("x", [], []),
    ],
)
def test_names_that_look_like_it(name, known, found):
    assert alike(name, known) == found


def test_the_clause_asks_and_is_nothing_where_there_is_nothing_to_ask():
    assert nearest("nod-1", ["node-1"]) == "; did you mean node-1?"
    assert nearest("zebra", ["node-1"]) == ""
