"""Whatever comes in is read or refused in a few words, in time and memory that its size allows."""

import tracemalloc
from random import Random

import pytest

from berth.api.codec import KINDS
from tests.effort import calls, times_as_long
from tests.fuzz.inputs import INPUTS
from tests.fuzz.mutation import hostile

CASES = 60
CALLS_A_BYTE = 40
"""The most calls of functions for each byte that was sent, beyond `CALLS`: three times what was seen."""
CALLS = 40_000
BYTES_A_BYTE = 400
"""The most memory for each byte that was sent, beyond `BYTES`."""
BYTES = 8 << 20
LONGEST_LINE = 3000
SORTS = (KINDS.keys() - {"Pod"}, {f"anonymized {kind}" for kind in KINDS.keys() - {"Pod"}})
"""Ways in that differ from another one in the kind of the object only."""
ONE_OF_A_SORT = [
    pytest.param(entry, marks=pytest.mark.long if any(entry.name in sort for sort in SORTS) else ()) for entry in INPUTS
]


def read(entry, text):
    """Read one text; return the refusal, or an empty string."""
    try:
        entry.read(text)
    except entry.refusals as error:
        return str(error) or "the refusal says nothing"
    return ""


def cases(entry, seed, count):
    rng = Random(f"{entry.name} {seed}")
    return [
        hostile(rng, rng.choice(entry.samples)) if _is_json(entry) else _hostile_text(rng, entry) for _ in range(count)
    ]


def _is_json(entry):
    return entry.samples[0][:1] in b"{["


def _hostile_text(rng, entry):
    text = rng.choice(entry.samples[1:])
    for _ in range(rng.choice((1, 3))):
        place = rng.randrange(len(text) + 1)
        piece = rng.choice(
            (*entry.samples[1:], b"(", b")", b"9" * 50, b"\x00", b"\xff", b"'", b" ", b".", b"-", b"!", b",")
        )
        text = rng.choice(
            (text[:place] + piece + text[place:], text[:place], text * 3, text[:place] + text[place + 1 :])
        )
    return rng.choice((text, text, text, text * 500, b"(" * 3000 + text + b")" * 3000))


@pytest.mark.parametrize("entry", INPUTS, ids=lambda entry: entry.name)
def test_good_texts_are_read(entry):
    for sample in entry.samples if _is_json(entry) else entry.samples[1:]:
        assert read(entry, sample) == ""


@pytest.mark.parametrize("entry", INPUTS, ids=lambda entry: entry.name)
def test_hostile_texts_are_read_or_refused_in_a_few_words(entry):
    refused = 0
    for text in cases(entry, 0, CASES):
        message = read(entry, text)
        refused += bool(message)
        for line in message.splitlines():
            assert len(line) < LONGEST_LINE, f"{text[:200]!r}: {message[:500]}…"
        assert "Traceback" not in message and "object at 0x" not in message
    assert refused or not entry.refusals, "nothing was hostile enough to be refused"


@pytest.mark.parametrize("entry", ONE_OF_A_SORT, ids=lambda entry: entry.name)
def test_hostile_texts_cost_work_in_proportion_to_their_size(entry):
    read(entry, entry.samples[-1])
    for text in cases(entry, 0, CASES // 2):
        made = calls(lambda: read(entry, text))  # noqa: B023
        assert made < CALLS + CALLS_A_BYTE * len(text), f"{text[:200]!r} ({len(text)} bytes) took {made} calls"


@pytest.mark.parametrize("entry", [entry for entry in INPUTS if not _is_json(entry)], ids=lambda entry: entry.name)
def test_four_times_as_long_texts_take_four_times_as_long(entry):
    """What patterns and decoders do in C, where no calls are counted; with the square it would be sixteen times."""
    rng = Random(entry.name)
    pieces = [b"(", b"[", b"9", b" ", b"a.", rng.choice(entry.samples[1:]), rng.choice(entry.samples[1:])]
    small, large = ([piece * (size // len(piece)) for piece in pieces] for size in (20_000, 80_000))
    assert times_as_long(lambda: [read(entry, t) for t in large], lambda: [read(entry, t) for t in small]) < 8


@pytest.mark.parametrize("entry", ONE_OF_A_SORT, ids=lambda entry: entry.name)
def test_hostile_texts_cost_memory_in_proportion_to_their_size(entry):
    read(entry, entry.samples[-1])
    tracemalloc.start()
    try:
        for text in cases(entry, 1, CASES // 6):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            read(entry, text)
            taken = tracemalloc.get_traced_memory()[1] - before
            assert taken < BYTES + BYTES_A_BYTE * len(text), f"{text[:200]!r} ({len(text)} bytes) took {taken} bytes"
    finally:
        tracemalloc.stop()
