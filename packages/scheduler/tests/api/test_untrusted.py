"""What is read of JSON that is nested more deeply than the interpreter follows."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.api import untrusted
from berth.api.untrusted import KEPT_DEPTH, MAX_DEPTH, read_deep
from tests.effort import examples

TEXTS = st.text(st.sampled_from('a"\\[]{}\n'))
TREES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=20,
)


def cut(value, levels):
    """A value without what is so many levels deep, by plain recursion."""
    if not isinstance(value, list | dict):
        return value
    if levels == 1:
        return None
    if isinstance(value, list):
        return [cut(each, levels - 1) for each in value]
    return {name: cut(each, levels - 1) for name, each in value.items()}


@settings(max_examples=examples(100))
@given(tree=TREES, levels=st.integers(1, 5), indent=st.sampled_from([None, 1]))
def test_what_is_deeper_is_left_out_and_nothing_else(tree, levels, indent):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(untrusted, "KEPT_DEPTH", levels)
        shallow = untrusted._shallow(json.dumps(tree, indent=indent, ensure_ascii=False).encode())
    assert json.loads(shallow) == cut(tree, levels)


def refusing(document):
    """Read as an interpreter does that follows no further than `KEPT_DEPTH`."""
    if document.count(b"[") >= KEPT_DEPTH:
        raise RecursionError
    return json.loads(document)


def test_a_value_beside_a_deep_one_is_read():
    deep = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)
    found = read_deep(refusing, b'{"deep": %s, "name": "p"}' % deep)
    assert found["name"] == "p" and str(found["deep"]).count("[") == KEPT_DEPTH - 2


@pytest.mark.parametrize(
    "document",
    [
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b"[" * (MAX_DEPTH - 1),
        b"[" * (MAX_DEPTH - 1) + b'"' + b'\\"' * 1_000_000,  # takes a time that grows with its length, no faster
    ],
    ids=["deeper than Go reads", "never closed", "a string that never ends"],
)
def test_what_an_api_server_would_not_take_is_refused(document):
    with pytest.raises(RecursionError):
        read_deep(refusing, document)
