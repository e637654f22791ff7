"""Documents made hostile: a good one with something done to its text, or to a value somewhere in it."""

import json
from random import Random

KILO = "k" * 1000

HOSTILE_VALUES = (
    None, True, False, 0, -1, 2**31, 2**63, -(2**63), 2**64, 2**200, 0.5, -1e308, "", " ", "\x00", "\ud83d\ude00",
    "a/b/c", "..", KILO, "9" * 400, "1e999999999", "-5", "0x10", "100m", "999999Ei", "1n", "NaN", "=", "!in", "*",
    [], {}, [None], [[]], {"": ""}, {"a": None}, [{}] * 50, {str(number): number for number in range(50)},
    ["x"] * 300, "2001-02-03T04:05:06Z", "9999-99-99T99:99:99Z", "\u202e\x1b[31m",
)  # fmt: skip


def hostile(rng: Random, document: bytes) -> bytes:
    """Return a hostile neighbour of a JSON document."""
    choice = rng.random()
    if choice < 0.2:
        return _broken_text(rng, document)
    if choice < 0.3:
        return _buried(rng, document)
    value = json.loads(document)
    for _ in range(rng.choice((1, 1, 2, 5))):
        value = _changed(rng, value)
    return json.dumps(value, ensure_ascii=rng.random() < 0.8).encode("utf-8", "replace")


def _broken_text(rng: Random, document: bytes) -> bytes:
    place, other = sorted((rng.randrange(len(document) + 1), rng.randrange(len(document) + 1)))
    return rng.choice(
        (
            document[:place],
            document[place:],
            document[:place] + bytes([rng.randrange(256)]) + document[place + 1 :],
            document[:other] + document[place:other] * 3 + document[other:],
            document + document,
            b"",
            b"null",
            b"[" * 20_000,
            b'{"a":' * 20_000,
            b'"' + b"\\ud800" * 100 + b'"',
            bytes(rng.randrange(256) for _ in range(200)),
        )
    )


def _buried(rng: Random, document: bytes) -> bytes:
    """The document with a value in it that is nested as deeply as an API server lets through, or deeper."""
    depth = rng.choice((500, 3000, 9_000, 11_000))
    deep = rng.choice((b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth))
    where = [place for place, character in enumerate(document) if character == ord(":")]
    if not where:
        return deep
    place = rng.choice(where)
    return document[: place + 1] + deep + b',"z":' + document[place + 1 :]


def _changed(rng: Random, value):
    """Change one node of a tree, wherever it is."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        return _changed_member(rng, value, key)
    if isinstance(value, list) and value and rng.random() < 0.85:
        return _changed_element(rng, value)
    return rng.choice(HOSTILE_VALUES)


def _changed_member(rng: Random, value, key):
    choice = rng.random()
    if choice < 0.08:
        return {name: member for name, member in value.items() if name != key}
    if choice < 0.12:
        return {**value, rng.choice(("", KILO, "metadata", "\x00")): value[key]}
    return {**value, key: _changed(rng, value[key])}


def _changed_element(rng: Random, value):
    choice, place = rng.random(), rng.randrange(len(value))
    if choice < 0.1:
        return value * rng.choice((2, 40))
    if choice < 0.15:
        return value[:place] + value[place + 1 :]
    return [*value[:place], _changed(rng, value[place]), *value[place + 1 :]]
