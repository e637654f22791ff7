"""Log lines as kube-scheduler writes them."""

import io
import json
import logging
import re

import pytest

from berth.runtime.observing import logs


@pytest.fixture
def stream():
    """Where the log goes; everything is put back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("berth")
    before = (root.handlers[:], root.level, ours.level)
    yield io.StringIO()
    root.handlers[:], level, our_level = before
    root.setLevel(level)
    ours.setLevel(our_level)


def test_text_lines_are_klogs(stream):
    logs.set_up("text", 0, stream)
    logging.getLogger("berth.scheduler").warning("node %s is odd", "n1")
    line = stream.getvalue()
    assert re.fullmatch(r"W\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_logs\.py:\d+\] node n1 is odd\n", line)


def test_json_lines_are_objects(stream):
    logs.set_up("json", 0, stream)
    logging.getLogger("berth.scheduler").info("hello")
    logging.getLogger("berth.scheduler").error("broken")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["msg"], first["v"]) == ("hello", 0)
    assert first["caller"].startswith("test_logs.py:")
    assert (second["msg"], second["err"]) == ("broken", "")


@pytest.mark.parametrize(
    ("verbosity", "shown"),
    [(0, ["milestone"]), (1, ["milestone"]), (2, ["milestone", "two"]), (9, ["milestone", "two"]),
     (10, ["milestone", "two", "ten"]), (99, ["milestone", "two", "ten"])],
)  # fmt: skip
def test_verbosity_decides_what_is_shown(stream, verbosity, shown):
    logs.set_up("text", verbosity, stream)
    logging.getLogger("berth.x").info("milestone")
    logging.getLogger("berth.x").log(logs.level(2), "two")
    logging.getLogger("berth.x").log(logs.level(10), "ten")
    if verbosity < logs.LIBRARIES_VERBOSITY:
        logging.getLogger("aiohttp.x").info("a library's")
    assert [line.rpartition("] ")[2] for line in stream.getvalue().splitlines()] == shown


def test_fields_are_written_as_klog_writes_them(stream):
    """klog's InfoS: the message quoted, then key="text" or key=number."""
    logs.set_up("text", 2, stream)
    logs.structured(logging.getLogger("berth.x"), logs.level(2), "Bound", pod="default/a", feasibleNodes=3)
    logs.structured(logging.getLogger("berth.x"), logs.level(3), "Not shown", pod="default/a")
    assert stream.getvalue().endswith('] "Bound" pod="default/a" feasibleNodes=3\n')
    logs.set_up("json", 2, stream)
    logs.structured(logging.getLogger("berth.x"), logs.level(2), "Bound", pod="default/a", feasibleNodes=3)
    line = json.loads(stream.getvalue().splitlines()[-1])
    assert (line["msg"], line["v"], line["pod"], line["feasibleNodes"]) == ("Bound", 2, "default/a", 3)


def test_a_bug_brings_its_traceback(stream):
    logs.set_up("text", 0, stream)
    try:
        raise ValueError("a bug")
    except ValueError as error:
        logging.getLogger("berth.x").error("it broke", exc_info=error)
    assert "ValueError: a bug" in stream.getvalue()


def test_nothing_that_is_logged_passes_for_another_record(stream):
    logs.set_up("text", 2, stream)
    logger = logging.getLogger("berth.x")
    logger.warning("pod %s is odd", "a\nE0101 00:00:00.000000 1 x.go:1] all is lost\r\x1b[31m\u202e\x9b")
    logs.structured(logger, logs.level(2), "Bound", pod="a\nb\x9b")
    try:
        raise ValueError("bug\nE0101 it goes on")
    except ValueError as error:
        logger.error("it broke", exc_info=error)
    lines = stream.getvalue().split("\n")
    assert [line[0] for line in lines if line and line[0] != "\t"] == ["W", "I", "E"]
    assert lines[1].endswith("all is lost\\r\\x1b[31m\\u202e\\x9b is odd")
    assert lines[2].endswith('pod="a\\nb\\x9b"')


def test_other_formats_can_be_as_legible():
    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, "a\n\x1b%s", ("b",), None)
    assert logs.LegibleFormatter("%(levelname)s: %(message)s").format(record) == "WARNING: a\n\t\\x1bb"


def test_a_format_of_ones_own_shows_the_fields_as_well():
    formatter = logs.LegibleFormatter("%(levelname)s: %(message)s")
    record = logging.LogRecord("berth.x", logging.ERROR, "x.py", 1, "%s", ("it failed",), None)
    record.fields = {"err": "no\nluck", "pod": "default/a"}
    assert formatter.format(record) == 'ERROR: "it failed" err="no\\nluck" pod="default/a"'


def test_the_verbosity_changes_while_it_runs(stream):
    logs.set_up("text", 0, stream)
    logger = logging.getLogger("berth.x")
    for verbosity in (0, 4, 10, 0):
        logs.set_verbosity(verbosity)
        assert logs.verbosity_now() == verbosity
        logger.log(logs.level(4), "at %d", verbosity)
    assert [line.rpartition("] ")[2] for line in stream.getvalue().splitlines()] == ["at 4", "at 10"]


def test_the_format_changes_while_it_runs(stream):
    logs.set_up("text", 0, stream)
    logger = logging.getLogger("berth.x")
    for log_format in ("json", "text"):
        logs.set_format(log_format)
        assert logs.format_now() == log_format
        logger.warning("written as %s", log_format)
    first, second = stream.getvalue().splitlines()
    assert json.loads(first)["msg"] == "written as json"
    assert second.endswith("] written as text")


def test_other_handlers_keep_their_format(stream):
    logs.set_up("text", 0, stream)
    other = logging.StreamHandler(io.StringIO())
    other.setFormatter(logging.Formatter("%(message)s"))
    logging.getLogger().addHandler(other)
    logs.set_format("json")
    logging.getLogger("berth.x").warning("hello")
    assert other.stream.getvalue() == "hello\n"


@pytest.mark.parametrize("odd", ["name\udcff", object()])
def test_a_line_is_written_whatever_is_in_it(stream, odd):
    """The standard library prints a traceback instead of a line that its formatter cannot make."""
    logs.set_up("json", 0, stream)
    logs.structured(logging.getLogger("berth.x"), logging.ERROR, "Broken", what=odd)
    line = json.loads(stream.getvalue())
    assert line["msg"] == "Broken" and line["what"]
