"""`berth explain` against a scheduler that answers as the real one does."""

import io
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from berth.cli.explain import command
from berth.cli.explain_output import show, show_pending
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


LACK = {"resource": "cpu", "needs": "9", "mostFree": "5", "of": "8", "node": "n3", "nodes": 3, "fitsNow": False}
GROUP = {
    "reason": "Insufficient cpu", "pods": 11, "priority": 5, "since": "2026-01-02T03:04:05Z",
    "namespaces": {"default": 10, "other": 1}, "queues": {"unschedulable": 11}, "named": ["default/a", "default/b"],
    "message": "0/3 nodes are available: 3 Insufficient cpu.", "shortfalls": [LACK], "workload": "Deployment/web",
    "missing": "Needs 9 CPU on one node, and n3 has the most free, 5 of 8.",
}  # fmt: skip
PENDING_REPORT = {
    "pods": 12,
    "groups": [
        GROUP,
        {
            **GROUP,
            "reason": "held back by Gang",
            "pods": 1,
            "queues": {"gated": 1},
            "shortfalls": [],
            "namespaces": {"other": 1},
            "named": ["other/c"],
            "workload": "",
            "missing": "",
        },
    ],
}


SHADOWS = {
    "shadows": [
        {
            "shadow": "next", "of": "default-scheduler", "percentage": 12.5, "decisions": 40,
            "kinds": {"same": 33, "elsewhere": 5, "fitsNow": 2},
            "causes": [{"kind": "elsewhere", "plugin": "ImageLocality", "decisions": 4},
                       {"kind": "elsewhere", "plugin": "Bad\x1b[2J", "decisions": 1}],
            "skipped": {"busy": 7},
            "differences": [
                {"pod": "default/web", "uid": "u", "time": "2026-01-02T03:04:05Z", "kind": "elsewhere", "node": "n1",
                 "shadowNode": "n2", "plugins": ["ImageLocality"], "why": "the scores differ"},
            ],
        },
    ],
}  # fmt: skip


class Scheduler(BaseHTTPRequestHandler):
    asked = []
    is_down = False

    def do_GET(self):
        self.asked.append(self.path)
        path = self.path.partition("?")[0]
        known = {"/debug/decisions/default/web": SCHEDULED, "/debug/decisions/other/big": PENDING}
        found = {**known, "/debug/pending": PENDING_REPORT, "/debug/shadows": SHADOWS}.get(path)
        body = json.dumps(found or {"error": "nothing is known of that pod"}).encode()
        self.send_response(503 if self.is_down else 200 if found else 404)
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
    assert ["n1", "350", "50"] in [line.split() for line in result.output.splitlines()]
    assert "the same for all 2: TaintToleration x3 300" in result.output
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


def test_a_pod_that_a_plugin_has_put_off_says_until_when():
    screen = io.StringIO()
    pending = {**PENDING["pending"], "wakesAt": "2026-01-02T03:05:00Z"}
    show({**PENDING, "pending": pending}, Console(file=screen, width=200))
    assert "tried again at 2026-01-02T03:05:00Z, as a plugin has asked" in screen.getvalue()


def test_shadows_are_told_with_their_differences(scheduler):
    result = run("--shadow", "--server", scheduler, "-o", "wide")
    assert result.exit_code == 0, result.output
    said = result.output
    assert "next, the shadow of default-scheduler for 12.5 % of its pods: 7 of 40 decisions would have been" in said
    assert "5 go elsewhere (because of ImageLocality 4, Bad" in said
    assert "\x1b" not in said
    assert "2 fit now\n" in said
    assert "not looked at: busy 7" in said
    assert "default/web: n1; the shadow: n2, because of ImageLocality: the scores differ" in said
    run("other/web", "--shadow", "--json", "--server", scheduler)
    assert Scheduler.asked == ["/debug/shadows?pod=", "/debug/shadows?pod=other%2Fweb"]
    assert run("--shadow", "--server", scheduler, "-o", "name").output == "default/web\n"


@pytest.mark.parametrize("arguments", [("web", "--node", "n1"), ("web", "--all-nodes"), ("web", "db"), ("-l", "a=b"),
                                       ("deploy/web",)])  # fmt: skip
def test_a_shadow_is_asked_about_one_pod_or_all(scheduler, arguments):
    result = run(*arguments, "--shadow", "--server", scheduler)
    assert result.exit_code == 2
    assert "--shadow" in result.output


WIDE_NAMES = {
    "NodeResourcesFit": 1, "NodeResourcesBalancedAllocation": 1, "PodTopologySpread": 2, "ImageLocality": 1,
    "InterPodAffinity": 2, "TaintToleration": 3, "NodeAffinity": 2,
}  # fmt: skip


def test_tables_fit_80_columns_and_what_is_the_same_is_said_once():
    telling = list(WIDE_NAMES)[:4]
    best = [
        {
            "node": f"gke-production-europe-west4-highmem-pool-1a2b3c4d-x{number}",
            "total": 700 - number,
            "scores": {name: 100 - number if name in telling else 0 for name in WIDE_NAMES},
        }
        for number in range(10)
    ]
    rejected = [
        {
            "plugin": "NodeResourcesBalancedAllocation", "code": "Unschedulable", "count": 90,
            "reasons": ["node(s) had untolerated taint {node.example.com/dedicated-to-a-team: machine-learning}"],
            "nodes": [node["node"] for node in best],
        }
    ]  # fmt: skip
    decision = {**SCHEDULED["decision"], "best": best, "weights": WIDE_NAMES, "rejected": rejected, "nodes": []}
    screen = io.StringIO()
    show({**SCHEDULED, "decision": {**decision, "node": best[0]["node"]}}, Console(file=screen, width=80))
    said = screen.getvalue()
    assert max(map(len, said.splitlines())) <= 80
    assert "the same for all 10: InterPodAffinity x2 0, TaintToleration x3 0, NodeAffinity" in said
    lines = said.splitlines()
    row = next(at for at, line in enumerate(lines) if line.split() == [best[0]["node"], "700", "100", "100"])
    assert lines[row + 1].strip() == "NodeResourcesBalancedAllocation 100, ImageLocality 100"
    assert "…" not in said  # nothing is cut off


PERMIT = {
    **SCHEDULED,
    "permit": {
        "pod": "default/web", "uid": "u", "profile": "default-scheduler", "node": "n1", "since": "2026-01-02T03:04:05Z",
        "heldBy": [{"plugin": "Gang", "says": "waiting for others", "until": "2026-01-02T03:09:05Z"}],
        "members": {"group": "default/train", "present": 3, "placed": 2, "needed": 3},
    },
    "story": [
        {"time": "2026-01-01T23:59:59Z", "what": "queued", "text": "arrived", "times": 1},
        {"time": "2026-01-02T00:00:01Z", "what": "decided", "text": "attempt 1: goes to n1", "times": 1},
    ],
}  # fmt: skip


def shown(report, width=80, **options):
    screen = io.StringIO()
    show(report, Console(file=screen, width=width), **options)
    return screen.getvalue()


def test_a_pod_at_permit_is_told_as_waiting():
    said = shown(PERMIT)
    assert said.startswith("default/web waits on Permit for n1, since 2026-01-02T03:04:05Z\n")
    assert "  held by Gang: waiting for others; it is turned away at 2026-01-02T03:09:05Z" in said
    assert "  2 of 3 members of pod group default/train have a node\n" in said


def test_a_story_has_dates_where_they_change():
    said = shown(PERMIT).splitlines()
    assert [line.split() for line in said[-5:]] == [
        ["Story", "(UTC)"],
        ["2026-01-01"],
        ["23:59:59", "arrived"],
        ["2026-01-02"],
        ["00:00:01", "attempt", "1:", "goes", "to", "n1"],
    ]


def test_a_long_story_is_cut_unless_all_is_asked_for():
    lines = [{"time": f"2026-01-02T00:{n:02}:00Z", "what": "bound", "text": f"step {n}", "times": 1} for n in range(50)]
    said = shown({**PERMIT, "story": lines})
    assert "38 earlier steps; -o wide shows all" in said and "step 37" not in said and "step 38" in said
    assert "step 0\n" in "\n".join(map(str.rstrip, shown({**PERMIT, "story": lines}, in_full=True).splitlines())) + "\n"


def test_what_is_lacking_is_said_in_numbers():
    said = shown({**SCHEDULED, "decision": {**SCHEDULED["decision"], "shortfalls": [LACK]}})
    assert "  needs 9 CPU; of the 3 nodes rejected for it, n3 has the most free: 5 of 8\n" in said


def test_what_plugins_say_of_a_rejection_is_said_below_it():
    details = [{"plugin": "Seats", "sentences": ["4 of 4 seats are taken", "the longest by web-1"]}]
    said = shown({**SCHEDULED, "decision": {**SCHEDULED["decision"], "details": details}})
    assert "  Seats: 4 of 4 seats are taken\n  Seats: the longest by web-1\n" in said


def test_what_plugins_say_of_a_score_is_said_below_it():
    node = {"node": "n1", "fits": True, "total": 50, "scores": {"NodeResourcesFit": 50}, "rejections": []}
    told = [
        {"node": "n1", "plugin": "NodeResourcesFit", "sentences": ["4 of 8 CPU are free"]},
        {"node": "n2", "plugin": "NodeResourcesFit", "sentences": ["3 of 8 CPU are free"]},
    ]
    decision = {**SCHEDULED["decision"], "nodes": [node], "scoreDetails": told}
    screen = io.StringIO()
    show({**SCHEDULED, "decision": decision}, Console(file=screen, width=200))
    assert "  NodeResourcesFit: 50 (weight 1)\n    4 of 8 CPU are free\n  total: 50" in screen.getvalue()
    assert "3 of 8 CPU" not in screen.getvalue()


def test_programs_get_json(scheduler):
    result = run("web", "--json", "--server", scheduler)
    assert json.loads(result.output) == SCHEDULED


@pytest.mark.parametrize("option", ["json", "yaml"])
def test_several_pods_at_once(scheduler, option):
    result = run("web", "other/big", "nobody", "--server", scheduler, "-o", option)
    assert result.exit_code == 1
    told = yaml.safe_load(result.stdout)
    assert [report["pod"] for report in told["pods"]] == ["default/web", "default/big"]
    assert "nothing is known of that pod" in result.stderr
    in_words = run("web", "other/big", "nobody", "--server", scheduler)
    assert in_words.exit_code == 1
    assert "default/web goes to n1" in in_words.stdout and "pending in the unschedulable queue" in in_words.stdout
    assert "nothing is known of that pod" in in_words.stderr


def test_without_a_name_all_that_is_pending_is_told_by_workload(scheduler):
    result = run("--server", scheduler)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(
        "12 pods are pending, of 2 workloads, the most first\n\nDeployment default/web: 11 "
    )
    assert "11 pods pending, the longest for " in result.output and ", priority 5\n" in result.output
    assert "  Needs 9 CPU on one node, and n3 has the most free, 5 of 8.\n" in result.output
    assert "  pods: default/a, default/b and 9 more\n" in result.output
    assert result.output.index("11 pods") < result.output.index("Pod other/c: 1 pod pending")
    assert "  held back by Gang\n" in result.output, "an older scheduler says the reason only"
    assert json.loads(run("--server", scheduler, "--json").output) == PENDING_REPORT
    assert Scheduler.asked[0] == "/debug/pending?namespace="
    run("--server", scheduler, "-n", "other")
    assert Scheduler.asked[-1] == "/debug/pending?namespace=other"


def test_watching_prints_what_has_changed_until_ctrl_c(scheduler, monkeypatch):
    rounds = iter(["the same", "another", "gone", "ctrl-c"])

    def after_a_while(_seconds):
        match next(rounds):
            case "another":
                monkeypatch.setitem(PENDING["pending"], "attempts", 2)
            case "gone":
                monkeypatch.setattr(Scheduler, "is_down", True)
            case "ctrl-c":
                raise KeyboardInterrupt

    monkeypatch.setattr("berth.cli.explain.time.sleep", after_a_while)
    result = run("other/big", "--watch", "--server", scheduler)
    assert result.exit_code == 0, result.output
    told = result.output.split("---\n")
    assert len(told) == 3
    assert "tried once" in told[0] and "tried 2 times" in told[1]
    assert f"the scheduler at {scheduler} answered 503" in told[2]


def test_nothing_pending_is_said_so():
    screen = io.StringIO()
    show_pending({"pods": 0, "groups": []}, Console(file=screen, width=80), "web")
    assert screen.getvalue() == "no pod is pending in namespace web\n"


def test_node_is_about_a_pod(scheduler):
    result = run("--server", scheduler, "--node", "n1")
    assert result.exit_code == 2
    assert "name one" in result.output


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
