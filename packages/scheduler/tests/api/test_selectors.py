"""Label and field selectors against k8s.io/apimachinery/pkg/labels and pkg/fields."""

import pytest

from berth.api.meta import LabelSelector, LabelSelectorRequirement
from berth.api.selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
    is_label_key,
    is_label_value,
    parse_field_selector,
    parse_int64,
    parse_label_selector,
    selector_from_map,
)


@pytest.mark.parametrize(
    ("operator", "values", "accepted", "refused"),
    [
        ("In", ("a", "b"), ["a", "b"], ["c", "", None]),
        ("NotIn", ("a", "b"), ["c", "", None], ["a", "b"]),
        ("Exists", (), ["a", ""], [None]),
        ("DoesNotExist", (), [None], ["a", ""]),
        ("Gt", ("5",), ["6", "+6", "0006", "9223372036854775807"], ["5", "4", "-7", "x", "5.5", "", None]),
        ("Lt", ("5",), ["4", "-7", "004"], ["5", "6", "x", "4.5", "", None, "-9223372036854775809"]),
    ],
)
def test_operators(operator, values, accepted, refused):
    requirement = Requirement("key", operator, values)
    requirement.check()
    assert [label for label in accepted + refused if requirement.accepts(label)] == accepted


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("In", ()),
        ("NotIn", ()),
        ("Exists", ("a",)),
        ("DoesNotExist", ("a",)),
        ("Gt", ()),
        ("Gt", ("1", "2")),
        ("Gt", ("x",)),
        ("Lt", ("1.5",)),
        ("Near", ("a",)),
        ("in", ("a",)),
        ("In", ("not a value",)),
        ("NotIn", ("x" * 64,)),
        ("NotIn", ("-a",)),
    ],
)
def test_what_no_selector_can_say(operator, values):
    with pytest.raises(SelectorError, match=r"key|operator"):
        Requirement("key", operator, values).check()


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("app", True),
        ("kubernetes.io/hostname", True),
        ("a.b-c_D", True),
        ("x" * 63, True),
        ("x" * 64, False),
        ("", False),
        ("/app", False),
        ("example.com/", False),
        ("Example.com/app", False),
        ("a/b/c", False),
        ("-app", False),
        ("app ", False),
        (f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}/app", True),
        (f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 62}/app", False),
    ],
)
def test_label_keys(key, valid):
    assert is_label_key(key) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [("", True), ("a", True), ("A-1_b.c", True), ("a-", False), (".a", False), ("ä", False)],
)
def test_label_values(text, valid):
    assert is_label_value(text) is valid


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("9" * 5000, None),
        ("", None),
        ("-", None),
        ("1_0", None),
        ("0x1", None),
        (" 1", None),
        ("1\n", None),
        ("\u0661", None),
    ],
)
def test_integers_are_those_of_go(text, number):
    assert parse_int64(text) == number


def expression(key, operator, *values):
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


def test_no_label_selector_selects_nothing_and_an_empty_one_everything():
    assert compile_selector(None) == NOTHING
    assert compile_selector(LabelSelector()) == EVERYTHING
    assert not NOTHING.matches({"a": "b"}) and not NOTHING.matches({})
    assert EVERYTHING.matches({"a": "b"}) and EVERYTHING.matches({})


def test_all_of_match_labels_and_match_expressions_must_hold():
    selector = compile_selector(
        LabelSelector(match_labels={"app": "web"}, match_expressions=(expression("tier", "NotIn", "test"),))
    )
    assert selector.matches({"app": "web"})
    assert selector.matches({"app": "web", "tier": "prod"})
    assert not selector.matches({"app": "web", "tier": "test"})
    assert not selector.matches({"tier": "prod"})


def test_equal_selectors_are_equal_values_however_they_are_written():
    one = LabelSelector(match_labels={"a": "1", "b": "2"}, match_expressions=(expression("c", "In", "x", "y"),))
    other = LabelSelector(
        match_expressions=(expression("c", "In", "y", "x"), expression("b", "In", "2"), expression("a", "In", "1"))
    )
    assert compile_selector(one) == compile_selector(other)
    assert hash(compile_selector(one)) == hash(compile_selector(other))


@pytest.mark.parametrize("operator", ["Gt", "Lt", "Nope", ""])
def test_label_selectors_of_objects_know_four_operators(operator):
    with pytest.raises(SelectorError, match="is not a valid label selector operator"):
        compile_selector(LabelSelector(match_expressions=(expression("a", operator, "1"),)))


def test_impossible_match_labels_are_an_error():
    with pytest.raises(SelectorError, match="not a valid label value"):
        compile_selector(LabelSelector(match_labels={"a": "b c"}))


def test_a_plain_map_selects_by_equality_and_an_empty_one_nothing():
    assert selector_from_map({}) == NOTHING
    selector = selector_from_map({"app": "web"})
    assert selector.matches({"app": "web", "x": "y"}) and not selector.matches({"app": "db"})


def requirements(*parts):
    return Selector(tuple(Requirement(*part) for part in parts))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", EVERYTHING),
        ("   ", EVERYTHING),
        ("a=b", requirements(("a", "In", ("b",)))),
        ("a==b", requirements(("a", "In", ("b",)))),
        ("a = b", requirements(("a", "In", ("b",)))),
        ("a=", requirements(("a", "In", ("",)))),
        ("a!=b", requirements(("a", "NotIn", ("b",)))),
        ("a", requirements(("a", "Exists", ()))),
        ("!a", requirements(("a", "DoesNotExist", ()))),
        ("! a", requirements(("a", "DoesNotExist", ()))),
        ("a in (c, b)", requirements(("a", "In", ("b", "c")))),
        ("a notin (b)", requirements(("a", "NotIn", ("b",)))),
        ("a in (b,)", requirements(("a", "In", ("", "b")))),
        ("a>5", requirements(("a", "Gt", ("5",)))),
        ("a<5", requirements(("a", "Lt", ("5",)))),
        ("in in (in)", requirements(("in", "In", ("in",)))),
        (
            "x.io/a=b,c in (d,e),!f,g",
            requirements(
                ("x.io/a", "In", ("b",)), ("c", "In", ("d", "e")), ("f", "DoesNotExist", ()), ("g", "Exists", ())
            ),
        ),
    ],
)
def test_selector_text(text, expected):
    assert parse_label_selector(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "=b",
        "a b",
        "a=b c",
        "a=b=c",
        "a in b",
        "a in (b",
        "a in b)",
        ",",
        ",a",
        "a,",
        "a=b,,c",
        "!a=b",
        "a>x",
        "a>",
        "!",
        "-a",
        "(a)",
    ],
)
def test_selector_text_that_cannot_be_parsed(text):
    with pytest.raises(SelectorError):
        parse_label_selector(text)


@pytest.mark.parametrize(
    "text",
    ["a=b!", "a/b/c=d", "a in ((b))", "a=-", "a=" + "x" * 64],
)
def test_selector_text_that_makes_no_sense(text):
    with pytest.raises(SelectorError):
        parse_label_selector(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("spec.nodeName=n1", [("spec.nodeName", "=", "n1")]),
        ("spec.nodeName=", [("spec.nodeName", "=", "")]),
        ("a==b,c!=d", [("a", "=", "b"), ("c", "!=", "d")]),
        ("a=b,", [("a", "=", "b")]),
        (r"a=b\,c,d=e", [("a", "=", "b,c"), ("d", "=", "e")]),
        (r"a=b\=c", [("a", "=", "b=c")]),
        (r"a=b\\,c=d", [("a", "=", "b\\"), ("c", "=", "d")]),
    ],
)
def test_field_selector_text(text, expected):
    assert [tuple(requirement) for requirement in parse_field_selector(text)] == expected


@pytest.mark.parametrize("text", ["a", "=b", "a>b", "a=b=c", "a=b\\", r"a=b\c", "a,b=c"])
def test_field_selector_text_that_makes_no_sense(text):
    with pytest.raises(SelectorError, match="invalid"):
        parse_field_selector(text)
