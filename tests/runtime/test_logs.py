"""Log lines as kube-scheduler writes them."""

import io
import json
import logging
import re
from types import SimpleNamespace

import pytest

from berth.runtime import logs
from berth.state.queued_pod import QueuedPod
from berth.testing.builders import make_pod


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


@pytest.mark.parametrize(("verbosity", "shown"), [(0, ["milestone"]), (1, ["milestone"]), (2, ["milestone", "detail"])])
def test_verbosity_decides_what_is_shown(stream, verbosity, shown):
    logs.set_up("text", verbosity, stream)
    logging.getLogger("berth.x").info("milestone")
    logging.getLogger("berth.x").debug("detail")
    logging.getLogger("aiohttp.x").info("a library's")
    assert [line.rpartition("] ")[2] for line in stream.getvalue().splitlines()] == shown


def test_a_bug_brings_its_traceback(stream):
    logs.set_up("text", 0, stream)
    try:
        raise ValueError("a bug")
    except ValueError as error:
        logging.getLogger("berth.x").error("it broke", exc_info=error)
    assert "ValueError: a bug" in stream.getvalue()


def test_each_pods_fate_is_a_detail(caplog):
    log, pod = logs.SchedulerLog(), make_pod("web").info()
    with caplog.at_level(logging.DEBUG, logger="berth.scheduler"):
        log.decided(SimpleNamespace(pod=pod, chosen=None, attempts=2, message="0/1 nodes are available"), 0.1)
        log.decided(SimpleNamespace(pod=pod, chosen="n1", attempts=3, message=""), 0.1)
        log.bound(QueuedPod(pod, 0.0), "n1", 0.0)
        log.binding_failed(pod, "refused")
    assert [record.getMessage() for record in caplog.records] == [
        "unable to schedule pod default/web, attempt 2: 0/1 nodes are available",
        "bound pod default/web to node n1, attempt 0",
        "pod default/web was chosen a node, but not bound: refused",
    ]
