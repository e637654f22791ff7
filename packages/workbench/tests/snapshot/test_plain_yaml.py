"""What is read line by line is read as PyYAML reads it, whatever is done to the text."""

import json
from random import Random
from typing import Any

import pytest
import yaml

from berth.api.yaml_census import PARSER
from berth_workbench.snapshot import documents
from berth_workbench.snapshot.documents import SnapshotError, parse_documents
from berth_workbench.snapshot.plain_yaml import UnusualYAML, parse_plain, plain_list
from tests.conformance.records import cases

CASES = 250

AS_KUBECTL_WRITES = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{},"name":"a"}}
      message: |-
        first

          third
    creationTimestamp: "2026-01-01T00:00:00Z"
    labels:
      app.kubernetes.io/name: 'it''s'
      empty: ""
    managedFields:
    - fieldsV1:
        f:metadata:
          f:labels:
            .: {}
            k:{"type":"Ready"}:
              f:type: {}
      time: 2026-01-01
    name: a
  spec:
    containers:
    - args:
      - --serve
      - -v
      - "5"
      - "tab\\there"
      command: []
      image: registry.example.com/a@sha256:0a1b
      ports:
      - containerPort: 8080
        protocol: TCP
    hostNetwork: true
    nodeSelector: {}
    priority: -10
    terminationGracePeriodSeconds: 30
    nodeName:
  status:
    matrix:
    - - 1
      - x
    - - 2.5
- apiVersion: v1
  kind: Node
  metadata:
    name: n
kind: List
metadata:
  resourceVersion: ""
"""


def test_what_kubectl_writes_is_read_line_by_line() -> None:
    list_, items = plain_list(AS_KUBECTL_WRITES.encode())
    whole = yaml.load(AS_KUBECTL_WRITES, Loader=PARSER)
    assert [parse_plain(item, 2) for item in items] == whole.pop("items")
    assert list_ == whole
    assert parse_plain(b"a:\n- b\n-   c\n".replace(b"-   ", b"- ")) == {"a": ["b", "c"]}


@pytest.mark.parametrize(
    "text",
    [
        "- a\n", "a\n", "a: [b]\n", "a: {b: c}\n", "a: &x b\n", "a: *x\n", "a: !!str b\n", "a: b # c\n", "# c\na: b\n",
        "a: >\n  b\n", "a: |+\n  b\n", "a: |2\n   b\n", "a: b\n  c\n", "a: 'b\n  c'\n", 'a: "b\n  c"\n', "a:\tb\n",
        "? a\n: b\n", "yes: b\n", "1: b\n", "<<: b\n", "a: b: c\n", "a: b:\n", "a: b \n", "a:  b\n", 'a: "\\x41"\n',
        'a: "\\u0041"\n', "a:\n   b: c\n  d: e\n", "a: b\n c: d\n", "a:\n- b\n c: d\n", "a: \u2028\n", "a: \u0085b\n",
        "a: b\r\n", "'a': b\n", "a b: c\n", "a: %b\n", "a: @b\n", "a: 'b'c\n", "-\n", "a:\n-\n", "a: |\nb: c\n",
        "a: \x07\n",
    ],
)  # fmt: skip
def test_what_is_unusual_is_left_to_the_parser_of_the_whole_language(text: str) -> None:
    with pytest.raises(UnusualYAML):
        parse_plain(text.encode())


def outcome(text: bytes) -> list[Any] | str:
    try:
        return [(each.kind, each.body, each.api_version, each.name) for each in parse_documents(text, "a file")]
    except SnapshotError:
        return "refused"


class Literal(yaml.SafeDumper):
    """Writes text of several lines as kubectl does."""


Literal.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None)
)
STYLES: tuple[dict[str, Any], ...] = (
    {}, {"width": 40}, {"indent": 4}, {"width": 10**6, "allow_unicode": True}, {"Dumper": Literal, "width": 10**6},
    {"Dumper": Literal}, {"default_style": "'"}, {"default_style": '"'}, {"default_flow_style": True},
)  # fmt: skip
TEXTS = (
    "a\nb\n", "a: b", "- a", " a", "a ", "true", "", "a\n  b\n\nc", "'q'", '"d"', "a #b", "#c", "{}", "x:", "0o17", "é",
    "😀", "a\tb", "\n", "|", "2001-01-01", "no", "-", "--x", "?x", "? x", "[a]", "a\n\n\n", "1_000", "1:30", "=", "~",
)  # fmt: skip
PIECES = (
    "- ", "  ", ": ", "'", '"', "#", "\n", "|", "|-\n", ">", "&a ", "*a", "{", "}", "[", "]", "\t", "?", "!!bool ",
    "!!int ", "---\n", "\n---\n", "...\n", "yes", "null", "~", "<<", " ", "\u2028", "\x07", "é", "- - ", "items:\n",
    "\n- ", "%", "\r\n",
)  # fmt: skip


def objects() -> list[dict[str, Any]]:
    return [each for theme in ("mixed", "volumes", "dra") for each in next(cases(f"v1.36/{theme}"))["objects"]]


def changed(rng: Random, text: str) -> str:
    place, lines = rng.randrange(len(text) + 1), text.split("\n")
    number = rng.randrange(len(lines))
    return rng.choice(
        (
            text[:place] + rng.choice(PIECES) + text[place:],
            text[:place] + text[place + rng.choice((1, 2, 5)) :],
            "\n".join([*lines[:number], " " + lines[number], *lines[number + 1 :]]),
            "\n".join([*lines[:number], lines[number][1:], *lines[number + 1 :]]),
            "\n".join([*lines[:number], rng.choice(lines), *lines[number:]]),
        )
    )


def test_hostile_texts_mean_what_they_mean_to_the_parser_of_the_whole_language(monkeypatch) -> None:
    rng, known, quickly = Random(11), objects(), 0
    for _ in range(CASES):
        chosen = [json.loads(json.dumps(each)) for each in rng.sample(known, rng.choice((1, 2, 4)))]
        chosen[0]["metadata"]["annotations"] = {"x": rng.choice(TEXTS), "y": rng.choice(TEXTS)}
        style = rng.choice(STYLES)
        if rng.random() < 0.6:
            text = yaml.dump({"kind": "List", "items": chosen, "metadata": {}}, **style)
        else:
            text = yaml.dump_all(chosen, **style)
        for _ in range(rng.choice((0, 1, 1, 2))):
            text = changed(rng, text)
        content, asked = text.encode("utf-8", "replace"), []
        with monkeypatch.context() as patch:
            patch.setattr(documents, "_parse_any_yaml", lambda *_, asked=asked: asked.append(1) or ())
            found = outcome(content)
        if asked:
            continue  # it was not read line by line
        quickly += 1
        with monkeypatch.context() as patch:
            patch.setattr(documents, "_plain_documents", unusual)
            assert outcome(content) == found, text
    assert quickly > CASES / 3


def unusual(*_: object) -> None:
    raise UnusualYAML
