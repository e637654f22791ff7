"""Nothing in the tests sleeps but `tests/waiting.py`, no verdict hangs on a clock, and waiting in vain is told of."""

import ast
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.waiting import eventually, pass_time, until, virtually

TESTS = {
    path.relative_to(ROOT).as_posix(): path
    for place in (ROOT / "tests", *sorted((ROOT / "packages").glob("*/tests")))
    for path in sorted(place.rglob("*.py"))
}
"""Every module of tests, by its path from the root."""
SCHEDULER = "packages/scheduler/tests"
MAY_SLEEP = {
    "tests/waiting.py": "until something outside of the test is so",
    f"{SCHEDULER}/kube/test_reflector.py": "in virtual time: the waits of reflectors are what it gives them",
    f"{SCHEDULER}/testing/test_virtual_loop.py": "in virtual time: what sleeping does there is what it tests",
    f"{SCHEDULER}/testing/blind_plugins.py": "plugins that keep the scheduler waiting, for the check that finds them",
}


def sleeps(source):
    """The lines in which something sleeps; `asyncio.sleep(0)` is a turn of the event loop and takes no time."""
    nodes = list(ast.walk(ast.parse(source)))
    turns = {node.func for node in nodes if isinstance(node, ast.Call) and ast.unparse(node) == "asyncio.sleep(0)"}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio"):
            found = any(each.name == "sleep" for each in node.names)
        else:
            found = isinstance(node, ast.Attribute) and ast.unparse(node) in ("time.sleep", "asyncio.sleep")
        if found and node not in turns:
            yield node.lineno


def test_only_those_sleep_that_may():
    found = {
        f"{name}:{line}"
        for name, path in TESTS.items()
        if name not in MAY_SLEEP
        if "sleep" in (source := path.read_text())
        for line in sleeps(source)
    }
    assert not found, f"use tests/waiting.py: `until`, `eventually`, or `pass_time` in virtual time; {sorted(found)}"


MAY_LOOK_AT_CLOCKS = {
    "tests/waiting.py": "so that what hangs is told",
    "tests/effort.py": "to compare two sizes of the same work",
    "tests/workbench/page/test_time_to_answer.py": "the same, in a browser",
    "packages/cluster/tests/test_chaos.py": "what must take a while, however fast the machine",
    f"{SCHEDULER}/testing/blind_plugins.py": "a plugin that works for too long, for the check that finds it",
}
CLOCKS = ("process_time", "thread_time", "perf_counter", "monotonic()")


def test_no_verdict_depends_on_how_fast_the_machine_is():
    """Count what is done, or compare two sizes: `tests/effort.py`."""
    found = {
        name
        for name, path in TESTS.items()
        if path != Path(__file__) and any(clock in path.read_text() for clock in CLOCKS)
    }
    assert found == set(MAY_LOOK_AT_CLOCKS)


def test_those_that_may_sleep_do():
    assert [name for name in MAY_SLEEP if not list(sleeps(TESTS[name].read_text()))] == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("time.sleep(1)", [1]),
        ("await asyncio.sleep(0.01)", [1]),
        ("await asyncio.sleep(0)", []),
        ("from time import sleep", [1]),
        ("run(sleep=asyncio.sleep)", [1]),
        ("clock.sleep(5)", []),
    ],
)
def test_what_counts_as_sleeping(source, lines):
    assert list(sleeps(source)) == lines


def test_what_does_not_come_about_is_told_with_what_was_found():
    with pytest.raises(AssertionError, match=r"in 0\.01 s: it is \[\]"):
        eventually(list, seconds=0.01)


async def test_the_same_on_an_event_loop_where_looking_takes_an_await():
    answers = iter(["", "", "found"])

    async def look():
        return next(answers)

    assert await until(look) == "found"
    with pytest.raises(AssertionError, match=r"in 0\.01 s: it is None"):
        await until(lambda: None, seconds=0.01)


async def test_real_time_is_not_passed():
    with pytest.raises(AssertionError, match="wait until something is so"):
        await pass_time(0.001)


def test_virtual_time_passes_at_once():
    virtually(lambda hours: pass_time(3600 * hours))(24)
