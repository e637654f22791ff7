"""The embedded API server answers recorded requests as a stock kube-apiserver 1.36 does.

`api_answers` plays them, and prints what differs. The shares below are those reached; a change that lowers one is a
step back, and one that raises one should raise the number here.
"""

from tests.conformance import api_answers

STATUSES = 1.0
WHOLE_ANSWERS = 0.999


async def test_answers_are_those_of_the_record():
    asked = api_answers.records()
    assert len(asked) == 1500
    outcomes = await api_answers.play(asked)
    wrong = [
        f"{one.record['group']}: {one.record['path']}: {one.differences[:1]}" for one in outcomes if one.differences
    ]
    statuses, whole = api_answers.shares(outcomes)
    assert statuses >= STATUSES and whole >= WHOLE_ANSWERS, "\n".join([f"{statuses:.1%} {whole:.1%}", *wrong])


def test_what_is_compared():
    # The records' own rules, by hand: what is dropped, what is replaced, and that true is not 1.
    kept = api_answers.normalised({"uid": "x", "a": [{"managedFields": [], "t": "at 2026-01-02T03:04:05Z"}]})
    assert kept == {"a": [{"t": "at TIME"}]}
    assert list(api_answers.differing({"a": 1, "b": [2]}, {"a": True, "b": [2], "c": 3})) == [
        (".a", 1, True),
        (".c", None, 3),
    ]
