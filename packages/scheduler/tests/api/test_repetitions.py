"""Fields that a text gives twice: with what a parser has made of it, the answer is the one without."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api import repetitions
from berth.api.repetitions import repeated_fields


class Pairs(list):
    """The fields of an object, with repetitions."""


TEXTS = st.text(st.sampled_from('ab":\\ {}'), max_size=3)
VALUES = st.recursive(
    TEXTS | st.integers(0, 1) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(TEXTS, inner), max_size=3).map(Pairs),
    max_leaves=8,
)
BLANKS = st.sampled_from(["", " ", "\n\t"])


def written(value, blank):
    if isinstance(value, Pairs):
        fields = ",".join(f"{json.dumps(key)}{blank}:{written(part, blank)}" for key, part in value)
        return f"{{{fields}}}"
    if isinstance(value, list):
        return f"[{','.join(written(part, blank) for part in value)}]"
    return json.dumps(value)


@given(VALUES, BLANKS)
def test_the_decoded_value_changes_no_answer(value, blank):
    text = written(value, blank).encode()
    assert repeated_fields(text, msgspec.json.decode(text)) == repeated_fields(text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"kind": "Pod", "metadata": {"name" : "web", "labels": {}}, "spec": {"containers": [{"name":"a"}]}}',
        rb'{"metadata": {"annotations": {"last-applied": "{\"kind\":\"Pod\",\"spec\":{}}\n"}}}',
    ],
)
def test_a_text_that_is_decoded_is_not_read_again(text, monkeypatch):
    monkeypatch.setattr(repetitions.json, "loads", None)
    assert repeated_fields(text, msgspec.json.decode(text)) == []
