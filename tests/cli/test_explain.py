"""`berth explain` against a scheduler that answers as the real one does."""

import io
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner
from rich.console import Console

from berth.cli.explain import command, show
from berth.cli.pod_record import sentences

SCHEDULED = {
    "pod": "default/web",
    "decision": {
        "pod": "default/web", "uid": "u", "profile": "default-scheduler", "outcome": "scheduled", "node": "n1",
        "summary": "default/web goes to n1: 2 of 3 nodes fit, and it has the highest score, 350", "message": "",
        "attempts": 1, "nodeCount": 3, "feasibleCount": 2, "weights": {"TaintToleration": 3, "NodeResourcesFit": 1},
        "best": [
            {"node": "n1", "total": 350, "scores": {"TaintToleration": 300, "NodeResourcesFit": 50}},
            {"node": "n2", "total": 340, "scores": {"TaintToleration": 300, "NodeResourcesFit": 40}},
        ],
        "rejected": [
            {"plugin": "NodeAffinity", "code": "Unschedulable", "reasons": ["no [such] label"], "count": 1,
             "nodes": ["n3"]},
        ],
        "preFilter": None, "postFilter": None, "waitsFor": {}, "nodes": [
            {"node": "n3", "fits": False, "total": None, "scores": {},
             "rejections": [{"plugin": "NodeAffinity", "code": "Unschedulable", "reasons": ["no [such] label"]}]},
        ],
        "time": "2026-01-02T03:04:05Z",
    },
    "pending": None,
}  # fmt: skip
PENDING = {
    "pod": "default/big",
    "decision": None,
    "pending": {
        "pod": "default/big", "uid": "u", "profile": "default-scheduler", "queue": "unschedulable",
        "since": "2026-01-02T03:04:05Z", "attempts": 1, "rejectedBy": ["NodeResourcesFit"], "gatedBy": "",
        "backoffUntil": None, "waitsFor": {"NodeResourcesFit": ["Node: added"]},
    },
}  # fmt: skip


class Scheduler(BaseHTTPRequestHandler):
    asked = []

    def do_GET(self):
        self.asked.append(self.path)
        path = self.path.partition("?")[0]
        found = {"/debug/decisions/default/web": SCHEDULED, "/debug/decisions/other/big": PENDING}.get(path)
        body = json.dumps(found or {"error": "nothing is known of that pod"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def scheduler():
    Scheduler.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Scheduler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(*arguments):
    return CliRunner().invoke(command, arguments)


def test_a_placed_pod_is_explained(scheduler):
    result = run("web", "--server", scheduler, "--node", "n3", "--all-nodes")
    assert result.exit_code == 0, result.output
    assert "default/web goes to n1: 2 of 3 nodes fit" in result.output
    rows = {line.split()[1]: line for line in result.output.splitlines() if line.startswith("│")}
    assert [cell.strip() for cell in rows["n1"].split("│")[1:-1]] == ["n1", "350", "300", "50"]
    assert "TaintToleration x3" in result.output
    assert "no [such] label" in result.output
    assert "n3: does not fit" in result.output
    assert Scheduler.asked == ["/debug/decisions/default/web?node=n3&allNodes=true"]


@pytest.mark.parametrize(
    ("rejections", "told"),
    [
        (
            [{"plugin": "NodeAffinity", "code": "UnschedulableAndUnresolvable", "reasons": ["not named"]}],
            ["n3: was left out before Filter", "NodeAffinity: not named (UnschedulableAndUnresolvable)"],
        ),
        ([], ["n3: was not looked at (no such node then, or enough others were found before)"]),
    ],
)
def test_a_node_that_filter_was_not_asked_about_says_why(rejections, told):
    node = {"node": "n3", "fits": None, "total": None, "scores": {}, "rejections": rejections}
    screen = io.StringIO()
    show({**SCHEDULED, "decision": {**SCHEDULED["decision"], "nodes": [node]}}, Console(file=screen, width=200))
    shown = [line.strip() for line in screen.getvalue().splitlines()]
    assert shown[-len(told) :] == told


@pytest.mark.parametrize("arguments", [("big", "-n", "other"), ("other/big",), ("pod/big", "-n", "other")])
def test_a_pending_pod_says_what_it_waits_for(scheduler, arguments):
    result = run(*arguments, "--server", scheduler)
    assert result.exit_code == 0, result.output
    assert "pending in the unschedulable queue since 2026-01-02T03:04:05Z, tried once" in result.output
    assert "NodeResourcesFit wakes it after: Node: added" in result.output


def test_programs_get_json(scheduler):
    result = run("web", "--json", "--server", scheduler)
    assert json.loads(result.output) == SCHEDULED


def test_an_unknown_pod_is_exit_code_1(scheduler):
    result = run("nobody", "--server", scheduler)
    assert result.exit_code == 1
    assert "nothing is known of that pod" in result.output


def test_no_scheduler_is_exit_code_1():
    result = run("web", "--server", "127.0.0.1:1")
    assert result.exit_code == 1
    assert "does not answer" in result.output
    assert "Traceback" not in result.output


RECORD = {
    "pod": "default/web",
    "node": None,
    "phase": "Pending",
    "condition": {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"},
    "events": [{"time": "2026-01-02T03:04:05Z", "reason": "FailedScheduling", "note": "no room", "count": 3}],
}


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({}, "default/web is pending: Unschedulable: no room"),
        ({"node": "n1", "phase": "Running"}, "default/web is on node n1 (Running)"),
        ({"condition": None}, "default/web is pending, and no scheduler has said why"),
    ],
)
def test_the_record_of_the_cluster_in_sentences(changes, first):
    said = sentences({**RECORD, **changes})
    assert said == [first, "  2026-01-02T03:04:05Z FailedScheduling (x3): no room"]


def test_without_a_usable_kubeconfig_both_reasons_are_told(scheduler, tmp_path):
    result = run("nobody", "--server", scheduler, "--kubeconfig", str(tmp_path / "nothing"))
    assert result.exit_code == 1
    assert "nothing is known of that pod" in result.output
    assert str(tmp_path / "nothing") in result.output


def test_no_message_steers_the_terminal():
    """As kubectl has it since CVE-2021-25743: names and claims are whatever somebody wrote."""
    decision = {**SCHEDULED["decision"], "summary": "claim \x1b]0;evil\x07 not found\nsecond"}
    out = io.StringIO()
    show({**SCHEDULED, "decision": decision}, Console(file=out, width=150))
    assert "\x1b" not in out.getvalue()
    assert "claim \\x1b]0;evil\\x07 not found" in out.getvalue()
