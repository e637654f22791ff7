"""How long a container runs and how it ends, by its command (POSIX sh) or annotations (docs/embedded-cluster.md)."""

import pytest

from berth_cluster.hollow.container_runs import NodeFiles, cannot_be_pulled, plain_run, run_of
from berth_cluster.hollow.shell import ENDLESS


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
        (["sh", "-c", "while true; do sleep 1; done"], (ENDLESS, 0)),
        (["sh", "-c", "until false; do echo; sleep 1; exit 4; done; sleep 1"], (1, 4)),
        (["sh", "-c", "while false; do sleep 1; done; sleep 2"], (2, 0)),
        (["sh", "-c", "while true; do break; done"], None),
        (["sh", "-c", "trap 'exit 0' TERM; sleep infinity"], (ENDLESS, 0)),
        (["sh", "-c", "sleep $SECONDS"], None),
        (["sh", "-c", "sleep $WAIT; exit ${CODE}"], (7, 9)),
        (["sh", "-c", "exit $(( $CODE % 4 ))"], (0, 1)),
        (["sh", "-c", "exit $(expr ${CODE} + 1)"], (0, 10)),
        (["sh", "-c", "exit $(( $CODE / 0 ))"], None),
        (["sh", "-c", "if [ $(expr ${CODE} % 2) -ne 0 ]; then\n exit 1\nelse\n exit 0\nfi"], (0, 1)),
        (["sh", "-c", "if [ $CODE = 8 ]; then exit 1; elif test $CODE -ge 9; then sleep 3; else exit 2; fi"], (3, 0)),
        (["sh", "-c", "if false; then nobody-knows; fi"], (0, 0)),
        (["sh", "-c", "if ! false; then sleep 1; fi; exit"], (1, 0)),
        (["sh", "-c", "if true; then sleep 1"], None),
        (["sh", "-c", '[ -z "" ] && [ -n "$UID_OF" ] && [[ $ZONE != a ]] && exit 5'], (0, 5)),
        (["sh", "-c", "[ $(( 3 * 2 )) -gt 6 ] || exit 5"], (0, 5)),
        (["sh", "-ec", "if false; then true; fi; false || true; sleep 1"], (1, 0)),
        (["sh", "-c", "if [[ -r /data/a ]]; then exit 0; else touch /data/a; exit 1; fi"], (0, 1)),
        (["sh", "-c", "touch /data/a; [ -e /data/a ] && exit 6"], (0, 6)),
        (["sh", "-c", "[ -f /etc/hosts ] && exit 6"], None),
        (["sh", "-c", "if " * 5000], None),
        (["sh", "-c", "echo 'open"], None),
        (["sh", "-c"], None),
        (["exit", "3"], None),
        (["sleep"], None),
        (["nginx", "-g", "daemon off;"], None),
        ([], None),
    ],
)
def test_plain_commands(command, expected):
    env = [
        {"name": "WAIT", "value": "7"},
        {"name": "CODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['example.com/code']"}}},
        {"name": "UID_OF", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "ZONE", "value": "b"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
    ]
    one = pod({"example.com/code": "9"}, command=command, env=env, volumeMounts=MOUNTS)
    assert plain_run(one, one["spec"]["containers"][0], NodeFiles()) == expected


MOUNTS = [{"name": "data", "mountPath": "/data"}]


def test_files_outlive_containers_on_volumes_and_pods_on_the_node():
    script = "if [[ -r /data/a ]]; then exit 0; else touch /data/a; exit 1; fi"
    files = NodeFiles()
    for volume, uid, codes in (
        ({"emptyDir": {}}, "1", [1, 0, 0]),
        ({"emptyDir": {}}, "2", [1, 0, 0]),
        ({"hostPath": {"path": "/tmp/x"}}, "3", [1, 0, 0]),
        ({"hostPath": {"path": "/tmp/x"}}, "4", [0, 0, 0]),
    ):
        one = pod({}, command=["sh", "-c"], args=[script], volumeMounts=MOUNTS)
        one["metadata"]["uid"], one["spec"]["volumes"] = uid, [{"name": "data", **volume}]
        container = one["spec"]["containers"][0]
        for _ in range(2):  # asking again changes nothing
            runs = [run_of(one, container, restarts, files, is_init=False, default_s=2.0) for restarts in range(3)]
            assert [run.exit_code for run in runs] == codes
    files.forget("1")
    assert {key[0] for key in files.runs} == {"2", "3", "4"}


@pytest.mark.parametrize(
    ("image", "run_s"), [("registry.k8s.io/pause:3.10", ENDLESS), ("pause@sha256:00", ENDLESS), ("nginx", 2)]
)
def test_a_pause_image_never_ends(image, run_s):
    one = pod({}, image=image)
    found = run_of(one, one["spec"]["containers"][0], 0, NodeFiles(), is_init=False, default_s=2.0)
    assert found == (run_s, 0)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("webserver:404", True),
        ("foo:non-existent", True),
        ("gcr.io/a/b:nonexistent", True),
        ("localhost:404/web", False),
        ("web:1.404", False),
        ("nginx", False),
    ],
)
def test_images_that_cannot_be_pulled(image, expected):
    assert cannot_be_pulled(image) is expected


def pod(annotations, **container):
    volumes = [{"name": "data", "emptyDir": {}}]
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", **container}], "volumes": volumes}
    return {"metadata": {"name": "web", "uid": "u", "annotations": annotations}, "spec": spec}


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
    assert run_of(one, one["spec"]["containers"][0], restarts, NodeFiles(), is_init=False, default_s=2.0) == expected


def test_what_a_pod_says_is_stronger_than_its_command():
    one = pod({"berth.dev/exit-code": "4"}, command=["sh", "-c", "sleep 5; exit 3"])
    assert run_of(one, one["spec"]["containers"][0], 0, NodeFiles(), is_init=False, default_s=2.0) == (5, 4)


def test_init_containers_end_at_once_unless_they_are_named():
    one = pod({"berth.dev/exit-code": "4", "berth.dev/run-seconds": "setup=3;9"})
    assert run_of(one, {"name": "setup"}, 0, NodeFiles(), is_init=True, default_s=2.0) == (3, 0)
    assert run_of(one, {"name": "other"}, 0, NodeFiles(), is_init=True, default_s=2.0) == (0, 0)
    assert run_of(one, {"name": "proxy", "restartPolicy": "Always"}, 0, NodeFiles(), is_init=True, default_s=2.0) == (
        ENDLESS,
        0,
    )
