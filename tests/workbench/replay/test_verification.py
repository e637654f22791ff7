"""What was recorded comes out again, bit for bit; and what is not the same is told."""

import os
import subprocess
import sys

import msgspec
import pytest

from berth.config.load import default_config
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.plugins.registry import in_tree_registry
from berth.recording.calls import CallKind
from berth.recording.configs import config_of
from berth.recording.file_format import Packer, first_line, read_segments
from berth.recording.recorder import Recorder
from berth_workbench.replay.verification import verify
from tests.workbench.replay.histories import LIMIT, REGISTRY, Churn, RecordedLife, no_report


@pytest.fixture(scope="module")
def churn(tmp_path_factory):
    """Ten thousand events and more, with preemption, new configurations, and restarts while evictions are under way."""
    directory = tmp_path_factory.mktemp("churn")
    lived = Churn(directory, 5, nodes=3, hears=24)
    lived.live(180)
    lived.reload(pod_max_backoff_s=3)
    lived.live(100)
    lived.restart()
    lived.live(130)
    lived.close()
    return directory


def test_ten_thousand_events_come_out_bit_for_bit(churn):
    found = verify(read_segments(churn), REGISTRY)
    assert found.first_difference is None
    assert found.events == found.replayed >= 10_000
    assert found.lives == 3
    assert found.bindings > 100
    assert found.evictions > 20
    assert not found.is_cut


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """Fewer events, of all sorts: volumes, devices, groups."""
    directory = tmp_path_factory.mktemp("life")
    lived = RecordedLife(directory, 5)
    lived.live(300)
    lived.settle()
    lived.reload(pod_initial_backoff_s=2)
    lived.live(100)
    lived.restart()
    lived.live(100)
    lived.close()
    return directory


def test_events_of_all_sorts_come_out_bit_for_bit(life):
    found = verify(read_segments(life), REGISTRY)
    assert found.first_difference is None
    assert found.events == found.replayed > 1000
    assert found.lives == 3
    assert found.bindings > 10


def test_another_hash_seed_changes_nothing(life):
    """Sets of strings have another order in each process; a replay is most often another process."""
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.workbench.replay.histories import REGISTRY\n"
        "from berth.recording.file_format import read_segments\n"
        "from berth_workbench.replay.verification import verify\n"
        "found = verify(read_segments(Path(sys.argv[1])), REGISTRY)\n"
        "print(found.first_difference, found.replayed == found.events)"
    )
    here = os.environ.get("PYTHONHASHSEED", "")
    run = subprocess.run(
        [sys.executable, "-c", code, str(life)],
        env={**os.environ, "PYTHONHASHSEED": "1" if here != "1" else "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["None", "True"]


def recorded(directory, nodes=8, pods=20):
    recorder = Recorder(directory, limit=LIMIT, report=no_report)
    cluster = VirtualCluster(*(make_node(f"n{i}").capacity(cpu="4") for i in range(nodes)), build=recorder.build_core)
    for number in range(pods):
        cluster.put(make_pod(f"p{number}").request(cpu="100m"))
        cluster.run()
    recorder.close()
    return cluster


def rewritten(directory, change=lambda _, call: call, *, header=lambda header: header):
    """The same recording with something changed."""
    for path in sorted(directory.iterdir()):
        data, packer = first_line(), Packer()
        for segment in read_segments(path):
            calls = [change(number, call) for number, call in enumerate(segment.calls(), 1)]
            data += packer.pack(header(segment.header)) + packer.pack(calls)
        path.write_bytes(data)


def test_another_seed_differs_where_the_first_tie_is_broken(tmp_path):
    cluster = recorded(tmp_path)
    rewritten(
        tmp_path, lambda _, call: call, header=lambda header: msgspec.structs.replace(header, seed=header.seed + 1)
    )
    found = verify(read_segments(tmp_path), in_tree_registry())
    first = found.first_difference
    assert first is not None
    assert first.recorded == f"to {cluster.nodes_of()[first.what.removeprefix('default/')]}"
    assert first.now.startswith("to n")
    assert first.now != first.recorded
    assert found.replayed == first.event


def test_the_event_that_differs_is_named(tmp_path):
    """One node is half its size when the recording is replayed: the first pod that no longer fits tells."""
    recorder = Recorder(tmp_path, limit=LIMIT, report=no_report)
    cluster = VirtualCluster(make_node("n").capacity(cpu="4"), build=recorder.build_core)
    for number in range(4):
        cluster.put(make_pod(f"p{number}").request(cpu="1"))
        cluster.run()
    recorder.close()

    def halved(_, call):
        if call.entry is CallKind.OBJECT and call.argument[1] == "Node":
            call.argument[2][3]["status"]["allocatable"]["cpu"] = "2"
        return call

    steps = [
        number
        for segment in read_segments(tmp_path)
        for number, call in enumerate(segment.calls(), 1)
        if call.outcome.notes
    ]
    rewritten(tmp_path, halved)
    first = verify(read_segments(tmp_path), in_tree_registry()).first_difference
    assert first is not None
    assert (first.event, first.what, first.recorded) == (steps[2], "default/p2", "to n")
    assert "Insufficient cpu" in first.now


def test_a_core_that_broke_breaks_again(tmp_path):
    class Broken:
        name = "Broken"

        def __init__(self, _args, _handle):
            pass

        def pre_enqueue(self, pod):
            raise RuntimeError("broken")

    recorder = Recorder(tmp_path, limit=LIMIT, report=no_report)
    cluster = VirtualCluster(make_node("n").capacity(cpu="4"), plugins=[Broken], build=recorder.build_core)
    cluster.put(make_pod("p"))
    cluster.run()
    recorder.close()
    found = verify(read_segments(tmp_path), cluster.registry)
    assert found.first_difference is None
    assert found.replayed == found.events > 2


def test_default_configuration_comes_back(tmp_path):
    recorded(tmp_path, pods=1)
    expected = msgspec.structs.replace(default_config(), source="the recorded configuration")
    assert [config_of(segment.header.config) for segment in read_segments(tmp_path)] == [expected]
