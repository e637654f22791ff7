"""Text to JSON values: what Kubernetes reads, and where the rest goes wrong."""

import pytest

from berth.config.document import parse_document
from berth.config.errors import ConfigError

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ('{"a": [1, "b", null, true, 1.5]}', {"a": [1, "b", None, True, 1.5]}),
        ('{\n\t"a": 1\n}', {"a": 1}),
        ("", None),
        ("a: 1\n---\nb: 1", {"a": 1}),
        ("a: 2020-01-01", {"a": "2020-01-01"}),
        ("a: 1:30", {"a": "1:30"}),
        ("1: a", {"1": "a"}),
        ("true: a", {"true": "a"}),
        ("base: &b {x: 1, y: 2}\na: {<<: *b, y: 3}", {"base": {"x": 1, "y": 2}, "a": {"x": 1, "y": 3}}),
    ],
)
def test_reads(text, value):
    assert parse_document(text, "f.yaml") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "f.yaml: a (line 3): the key stands in line 1 already: keep one"),
        ('{"p": {"x": 1, "x": 2}}', "f.yaml: p.x (line 1): the key stands in line 1 already: keep one"),
        ("a: b: c", "f.yaml: line 1, column 5: not readable as YAML or JSON: "),
        ("a: &x [*x]", "f.yaml: no configuration: the alias *x stands inside of what it names"),
        ("? [1]\n: 2", "f.yaml: document (line 1): a key must be a string"),
        ("a: !!binary aGk=", "is not a kind of value that JSON has"),
        ("a: .inf", "f.yaml: a (line 1): .inf is not a number that JSON has"),
        ("a: !!python/name:os.system x", "f.yaml: a (line 1): not a value: "),
        ("a: \x00", "f.yaml: not readable as YAML or JSON: "),
        ("[" * 300_000, "f.yaml: no configuration: it is nested more than 100 levels deep"),
        (BOMB, "f.yaml: no configuration: it stands for more than 100000 values"),
    ],
)
def test_refuses(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_document(text, "f.yaml")
    assert message in str(caught.value)


def test_refuses_bytes_that_are_no_text():
    with pytest.raises(ConfigError, match=r"f\.yaml: .*not readable"):
        parse_document(b"a: \xff\xfe", "f.yaml")
