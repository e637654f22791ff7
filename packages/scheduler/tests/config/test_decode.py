"""Strict decoding: every fault is found, named and explained."""

import msgspec
import pytest

from berth.config.decode import Decoder
from berth.config.durations import Duration


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    max_skew: int
    note: str = "none"


class Outer(msgspec.Struct, frozen=True, rename="camel"):
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    by_name: dict[str, int] = {}
    timeout: Duration = Duration(1)
    share: float = 0.5
    data: bytes = b""
    on: bool = False


def test_decodes_nested_values():
    decoder = Decoder()
    document = {
        "inner": {"maxSkew": 1},
        "many": [{"maxSkew": 2, "note": "x"}],
        "byName": {"a": 1},
        "timeout": "1m",
        "share": 2,
        "data": "aGk=",
        "on": True,
    }
    assert decoder.decode(document, Outer) == Outer(
        inner=Inner(1),
        many=(Inner(2, "x"),),
        by_name={"a": 1},
        timeout=Duration(60),
        share=2.0,
        data=b"hi",
        on=True,
    )
    assert decoder.errors == []


def test_null_counts_as_absent():
    decoder = Decoder()
    assert decoder.decode({"inner": None, "many": None, "timeout": None}, Outer) == Outer()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"inner": {}}, "inner.maxSkew: Required value"),
        ({"inner": {"maxSkew": None}}, "inner.maxSkew: Required value"),
        ({"inner": 1}, "inner: Invalid value: 1: expected a mapping, got an integer"),
        ({"many": {"a": 1}}, 'many: Invalid value: {"a": 1}: expected a list, got a mapping'),
        ({"many": [{"maxSkew": "1"}]}, 'many[0].maxSkew: Invalid value: "1": expected an integer, got a string'),
        ({"many": [{"maxSkew": True}]}, "many[0].maxSkew: Invalid value: true: expected an integer, got true or false"),
        ({"byName": {"x y": "1"}}, 'byName["x y"]: Invalid value: "1": expected an integer, got a string'),
        ({"byName": []}, "byName: Invalid value: []: expected a mapping, got a list"),
        ({"on": "yes"}, 'on: Invalid value: "yes": expected true or false, got a string'),
        ({"timeout": "10"}, 'timeout: Invalid value: "10": "10" is not a duration'),
        ({"timeout": 10}, "timeout: Invalid value: 10: expected a duration such as 10s"),
        ({"Inner": {}}, 'Inner: unknown field "Inner"; did you mean inner?'),
        ({"zzz": 1}, 'zzz: unknown field "zzz"; the fields here: byName, data, inner, many, on, share, timeout'),
        ([], "document: Invalid value: []: expected a mapping, got a list"),
    ],
)
def test_names_the_fault(document, message):
    decoder = Decoder()
    assert decoder.decode(document, Outer) is None
    assert len(decoder.errors) == 1
    assert message in decoder.errors[0]


def test_reports_all_faults_together():
    decoder = Decoder()
    decoder.decode({"on": 1, "many": [{}, {"maxSkew": 1, "x": 1}], "share": "a"}, Outer, "args")
    assert [error.split(":")[0] for error in decoder.errors] == [
        "args.on",
        "args.many[0].maxSkew",
        "args.many[1].x",
        "args.share",
    ]


def test_hints_explain_fields_of_other_versions():
    decoder = Decoder({"old": "use inner"})
    decoder.decode({"old": 1}, Outer)
    assert decoder.errors == ['old: unknown field "old": use inner']
