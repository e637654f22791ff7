"""The words in the Status column of pods, as `kubectl get pods` shows them."""

import pytest

from berth_cluster.serving.tables.kinds import COLUMNS
from berth_cluster.serving.tables.pods import status_word
from packages.cluster.tests.objects import START


def pod(status, *, containers=1, init=(), deleted=False):
    meta = {"name": "web"}
    if deleted:
        meta["deletionTimestamp"] = "2025-03-01T12:00:30Z"
    spec = {"containers": [{"name": f"c{number}"} for number in range(containers)], "initContainers": list(init)}
    return {"metadata": meta, "spec": spec, "status": status}


def container(name="c0", *, ready=True, restarts=0, last=None, **state):
    status = {"name": name, "ready": ready, "restartCount": restarts, "state": state or {"running": {}}}
    if last:
        status["lastState"] = {"terminated": {"finishedAt": last}}
    return status


def statuses(*containers, phase="Running", **more):
    return {"phase": phase, "containerStatuses": list(containers), **more}


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
GATED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        (pod({"phase": "Pending"}), "Pending"),
        (pod({"phase": "Pending", **GATED}), "SchedulingGated"),
        (pod(statuses(container())), "Running"),
        (pod(statuses(container(ready=False, waiting={"reason": "CrashLoopBackOff"}))), "CrashLoopBackOff"),
        (pod(statuses(container(ready=False, terminated={"exitCode": 1, "reason": "Error"}))), "Error"),
        (pod(statuses(container(ready=False, terminated={"exitCode": 3}))), "ExitCode:3"),
        (pod(statuses(container(ready=False, terminated={"exitCode": 0, "signal": 9}))), "Signal:9"),
        (pod(statuses(container(**DONE, ready=False), container("c1"), **READY), containers=2), "Running"),
        (pod(statuses(container(**DONE, ready=False), container("c1")), containers=2), "NotReady"),
        (pod({"phase": "Failed", "reason": "OutOfcpu"}), "OutOfcpu"),
        (pod({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        (pod(statuses(container()), deleted=True), "Terminating"),
        (pod({"phase": "Succeeded"}, deleted=True), "Succeeded"),
        (pod({"phase": "Running", "reason": "NodeLost"}, deleted=True), "Unknown"),
        (
            pod({"phase": "Pending", "initContainerStatuses": [container("i", running={})]}, init=[{"name": "i"}]),
            "Init:0/1",
        ),
        (
            pod(
                {"phase": "Pending", "initContainerStatuses": [container("i", terminated={"exitCode": 2})]},
                init=[{"name": "i"}],
            ),
            "Init:ExitCode:2",
        ),
    ],
)
def test_the_status_word(shown, word):
    assert status_word(shown) == word


def row(shown):
    return {column.name: column.cell(shown, START) for column in COLUMNS["", "pods"]}


def test_ready_and_restarts():
    first = container(restarts=2, last="2025-03-01T11:55:00Z")
    cells = row(pod(statuses(first, container("c1", ready=False)), containers=2))
    assert (cells["Ready"], cells["Restarts"]) == ("1/2", "2 (5m ago)")


def test_a_sidecar_counts_as_a_container():
    sidecar = {"name": "s", "restartPolicy": "Always"}
    status = statuses(container(), initContainerStatuses=[{**container("s"), "started": True}])
    assert row(pod(status, init=[sidecar]))["Ready"] == "2/2"
    assert row(pod(status, init=[sidecar]))["Status"] == "Running"


def test_what_is_not_known_yet():
    cells = row(pod({"phase": "Pending"}))
    assert [cells[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")] == ["<none>"] * 4
