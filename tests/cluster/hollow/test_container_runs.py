"""How long a container runs and how it ends, by its command (POSIX sh) or annotations (docs/embedded-cluster.md)."""

import pytest

from berth_cluster.hollow.container_runs import ENDLESS, plain_run, run_of


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["true"], (0, 0)),
        (["/bin/false"], (0, 1)),
        (["sleep", "5"], (5, 0)),
        (["sleep", "1m", "2.5s"], (62.5, 0)),
        (["sleep", "infinity"], (ENDLESS, 0)),
        (["sh", "-c", "exit 3"], (0, 3)),
        (["/bin/sh", "-c", "sleep 5 && exit 3"], (5, 3)),
        (["sh", "-c", "sleep 1; false"], (1, 1)),
        (["sh", "-c", "false; true"], (0, 0)),
        (["sh", "-ec", "false; true"], (0, 1)),
        (["sh", "-c", "false && sleep 9; sleep 1"], (1, 0)),
        (["sh", "-c", "false || sleep 2"], (2, 0)),
        (["sh", "-c", "true || nobody-knows; exit"], (0, 0)),
        (["bash", "-c", "echo 'a && b'\nsleep 3\nexit 300\n"], (3, 44)),
        (["sh", "-c", "echo $(hostname)"], None),
        (["sh", "-c", "sleep 1 & sleep 2"], None),
        (["sh", "-c", "echo hi > /tmp/file"], None),
        (["sh", "-c", "while true; do sleep 1; done"], None),
        (["sh", "-c", "sleep $SECONDS"], None),
        (["sh", "-c", "echo 'open"], None),
        (["sh", "-c"], None),
        (["exit", "3"], None),
        (["sleep"], None),
        (["nginx", "-g", "daemon off;"], None),
        ([], None),
    ],
)
def test_plain_commands(command, expected):
    assert plain_run(command) == expected


def pod(annotations, **container):
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", **container}]}
    return {"metadata": {"name": "web", "annotations": annotations}, "spec": spec}


@pytest.mark.parametrize(
    ("annotations", "restarts", "expected"),
    [
        ({}, 0, (2, 0)),
        ({"run-seconds": "7"}, 0, (7, 0)),
        ({"exit-code": "3"}, 0, (2, 3)),
        ({"exit-code": "1,0"}, 0, (2, 1)),
        ({"exit-code": "1,0"}, 1, (2, 0)),
        ({"exit-code": "1,0"}, 5, (2, 0)),
        ({"exit-code": "main=4;1"}, 0, (2, 4)),
        ({"exit-code": "other=4;1", "run-seconds": "other=9"}, 0, (2, 1)),
        ({"exit-code": "256", "run-seconds": "-1"}, 0, (2, 0)),
    ],
)
def test_annotations(annotations, restarts, expected):
    one = pod({f"berth.dev/{name}": text for name, text in annotations.items()})
    assert run_of(one, one["spec"]["containers"][0], restarts, is_init=False, default_s=2.0) == expected


def test_what_a_pod_says_is_stronger_than_its_command():
    one = pod({"berth.dev/exit-code": "4"}, command=["sh", "-c", "sleep 5; exit 3"])
    assert run_of(one, one["spec"]["containers"][0], 0, is_init=False, default_s=2.0) == (5, 4)


def test_init_containers_end_at_once_unless_they_are_named():
    one = pod({"berth.dev/exit-code": "4", "berth.dev/run-seconds": "setup=3;9"})
    assert run_of(one, {"name": "setup"}, 0, is_init=True, default_s=2.0) == (3, 0)
    assert run_of(one, {"name": "other"}, 0, is_init=True, default_s=2.0) == (0, 0)
    assert run_of(one, {"name": "proxy", "restartPolicy": "Always"}, 0, is_init=True, default_s=2.0) == (ENDLESS, 0)
