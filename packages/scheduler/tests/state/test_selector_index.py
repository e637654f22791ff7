"""Nothing that selects a pod is missed by the index, and what it yields is little more than that."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from berth.api.selectors import EVERYTHING, NOTHING, Requirement, Selector, parse_label_selector
from berth.state.selector_index import SelectorIndex

KEYS, VALUES = ("app", "tier"), ("", "a", "b")
REQUIREMENTS = st.one_of(
    st.builds(Requirement, st.sampled_from(KEYS), st.just("In"), st.sampled_from((("a",), ("b",), ("a", "b")))),
    st.builds(Requirement, st.sampled_from(KEYS), st.just("NotIn"), st.sampled_from((("a",), ("b",)))),
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(("Exists", "DoesNotExist"))),
)
SELECTORS = st.one_of(
    st.sampled_from((EVERYTHING, NOTHING)), st.lists(REQUIREMENTS, max_size=3).map(lambda some: Selector(tuple(some)))
)
EVERY_LABELS = [
    {key: value for key, value in zip(KEYS, values, strict=True) if value}
    for values in product(VALUES, repeat=len(KEYS))
]


@given(st.lists(st.lists(SELECTORS, max_size=2), max_size=8), st.sets(st.integers(0, 7)))
def test_whatever_selects_a_pod_is_among_the_candidates_for_its_labels(things, removed):
    index = SelectorIndex()
    for number, selectors in enumerate(things):
        index.add(number, selectors)
    left = set(range(len(things))) - removed
    for number in removed & set(range(len(things))):
        index.remove(number)
    for labels in EVERY_LABELS:
        candidates = list(index.candidates(labels))
        assert len(candidates) == len(set(candidates)) and set(candidates) <= left
        assert {n for n in left if all(each.matches(labels) for each in things[n])} <= set(candidates)


def test_what_demands_another_label_is_not_tried():
    index = SelectorIndex()
    for number in range(100):
        index.add(number, [parse_label_selector(f"team=x,app=app-{number}")])
    assert len(list(index.candidates({"team": "x", "app": "app-7"}))) <= 2
    assert not list(index.candidates({"team": "y"}))
