"""What a process tells of itself: flags, status, verbosity and profiles."""

import asyncio
import gzip
import logging
import threading
from collections import Counter

import pytest

from berth.runtime.observing import logs
from berth.runtime.serving.pprof import CodeLocation, CpuProfiler, ProfileBusy, as_pprof, as_text
from berth.runtime.serving.zpages import flagz, statusz
from tests.runtime.test_serving import at_work
from tests.runtime.world import World, configuration


def test_flags_are_listed_without_secrets():
    page = flagz({"v": "2", "master": "https://me:secret@host", "bind-address": "::", "x-token": "abc"})
    assert page.startswith("\nkube-scheduler flagz\nWarning: This endpoint is not meant to be machine parseable, ")
    assert page.splitlines()[4:] == [
        "bind-address=::", "master=https://[redacted]@host", "v=2", "x-token=[redacted]",
    ]  # fmt: skip


def test_status():
    now = 1_000_000_000 + 3 * 3600 + 4 * 60 + 5
    lines = statusz(1_000_000_000, ["/metrics", "/livez"], "v1.36", now=now).splitlines()
    assert lines[1] == "kube-scheduler statusz"
    assert "Started: Sun Sep  9 01:46:40 UTC 2001" in lines
    assert "Up: 3 hr 04 min 05 sec" in lines
    assert "Emulation version: 1.36" in lines
    assert "Paths: /livez /metrics" in lines


async def test_pages_are_plain_text_or_nothing():
    async with at_work(World()) as client:
        for path in ("/flagz", "/statusz"):
            assert (await client.text(path))[0] == 200
            assert await client.accepting("application/json", path) == 406
            assert await client.accepting("text/plain", path) == 200


@pytest.fixture
def verbosity():
    root, own = logging.getLogger(), logging.getLogger("berth")
    before = root.level, own.level
    yield
    root.setLevel(before[0])
    own.setLevel(before[1])


async def test_the_verbosity_is_changed_by_put(verbosity):
    async with at_work(World()) as client:
        assert await client.put("/debug/flags/v", "4") == (200, "successfully set klog.logging.verbosity to 4\n")
        assert logging.getLogger("berth").isEnabledFor(logs.level(4))
        assert not logging.getLogger("berth").isEnabledFor(logs.level(5))
        assert (await client.put("/debug/flags/v", "loud"))[0] == 400
        assert (await client.text("/debug/flags/v"))[0] == 200


async def test_profiles_only_where_profiling_is_on():
    async with at_work(World(), configuration(enableProfiling=False)) as client:
        for path in ("/debug/pprof/", "/debug/pprof/goroutine", "/debug/flags/v"):
            assert (await client.text(path))[0] == 404
    async with at_work(World()) as client:
        assert "goroutine" in (await client.text("/debug/pprof/"))[1]
        _, stacks = await client.text("/debug/pprof/goroutine?debug=2")
        assert "[MainThread]" in stacks and "thread_stacks(...)" in stacks
        assert (await client.text("/debug/pprof/nonsense"))[0] == 404
        status, text = await client.text("/debug/pprof/profile?seconds=0.1&debug=1")
        assert status == 200 and "asyncio" not in text.partition(" ")[0]
        assert (await client.text("/debug/pprof/profile?seconds=1e9"))[0] == 400


async def test_one_profile_at_a_time_and_what_is_busy_is_in_it():
    profiler, ended = CpuProfiler(), threading.Event()
    thread = threading.Thread(target=lambda: [None for _ in iter(ended.is_set, True)])
    thread.start()
    try:
        first = asyncio.create_task(profiler.sample(0.3))
        await asyncio.sleep(0)
        with pytest.raises(ProfileBusy):
            await profiler.sample(0.1)
        found = await first
    finally:
        ended.set()
        thread.join()
    assert "test_one_profile_at_a_time" in as_text(found)


def test_the_text_form_is_outermost_first():
    inner, outer = CodeLocation("inner", "/a/b.py", 3), CodeLocation("outer", "/a/c.py", 7)
    assert as_text(Counter({(inner, outer): 5})) == "outer (c.py:7);inner (b.py:3) 5\n"


def test_the_pprof_form_says_what_the_text_form_says():
    inner, outer = CodeLocation("inner", "b.py", 3), CodeLocation("outer", "c.py", 700)
    message = read(gzip.decompress(as_pprof(Counter({(inner, outer): 5, (outer,): 2}), 1.5, now=2.0)))
    texts = [text.decode() for text in message[6]]
    functions = {read(one)[1][0]: texts[read(one)[2][0]] for one in message[5]}
    locations = {read(one)[1][0]: read(read(one)[4][0]) for one in message[4]}
    samples = []
    for one in message[2]:
        fields = read(one)
        stack = [(functions[locations[at][1][0]], locations[at][2][0]) for at in numbers(fields[1][0])]
        samples.append((stack, numbers(fields[2][0])))
    assert samples == [([("inner", 3), ("outer", 700)], [5, 50_000_000]), ([("outer", 700)], [2, 20_000_000])]
    assert [texts[read(one)[1][0]] for one in message[1]] == ["samples", "cpu"]
    assert texts[0] == "" and message[9] == [2_000_000_000] and message[10] == [1_500_000_000]


def read(data):
    """A protobuf message by field number, as its specification says."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def numbers(data):
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found
