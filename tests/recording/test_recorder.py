"""Recording beside a scheduler: what it takes, what it leaves out, and what happens when it cannot go on."""

import random

import msgspec
import pytest

from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.plugins.registry import in_tree_registry
from berth.recording.configs import config_of, plain_config
from berth.recording.errors import RecordingError
from berth.recording.file_format import read_segments
from berth.recording.files import SMALLEST_LIMIT, SegmentFiles
from berth.recording.recorder import Recorder
from berth_workbench.replay.verification import verify
from tests.workbench.replay.histories import LIMIT, Churn, no_report


def test_decisions_are_those_of_a_core_with_the_same_seed(tmp_path):
    """Recording changes nothing: the core draws what any core with its seed would."""
    recorder = Recorder(tmp_path, limit=LIMIT, report=no_report)
    objects = [make_node(f"n{i}").capacity(cpu="4") for i in range(9)]
    recorded = VirtualCluster(*objects, build=recorder.build_core)
    plain = VirtualCluster(*objects, seed=random.Random(0).getrandbits(63))
    for cluster in (recorded, plain):
        for number in range(30):
            cluster.put(make_pod(f"p{number}").request(cpu="1"))
        cluster.run()
    recorder.close()
    assert recorded.nodes_of() == plain.nodes_of()
    assert recorded.effects == plain.effects


def test_the_directory_stays_within_its_limit(tmp_path):
    limit = SMALLEST_LIMIT
    lived = Churn(tmp_path, 4, limit=limit, nodes=3)
    lived.recorder._files._segment_limit = limit // 40
    lived.recorder._files._limit = limit // 10
    for _ in range(40):
        lived.live(6)
        lived.recorder.write()
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= limit // 10 + 8_000
    lived.close()
    numbers = sorted(int(path.stem) for path in tmp_path.iterdir())
    assert numbers[0] > 1
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    headers = [segment.header for segment in read_segments(tmp_path)]
    assert {header.begins for header in headers} == {"rotation"}
    found = verify(read_segments(tmp_path), in_tree_registry())
    assert (found.headless_lives, found.replayed, found.first_difference) == (1, 0, None)


def test_segments_of_one_core_are_replayed_as_one(tmp_path):
    lived = Churn(tmp_path, 4, nodes=3)
    lived.recorder._files._segment_limit = 8_000
    for _ in range(20):
        lived.live(6)
        lived.recorder.write()
    lived.close()
    found = verify(read_segments(tmp_path), in_tree_registry())
    assert found.segments > 2
    assert (found.lives, found.headless_lives) == (1, 0)
    assert found.first_difference is None
    assert found.replayed == found.events


def test_numbers_go_on_after_a_restart(tmp_path):
    lived = Churn(tmp_path, 4)
    lived.live(3)
    lived.restart()
    lived.live(3)
    lived.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001.rec", "00000002.rec"]
    assert [segment.header.begins for segment in read_segments(tmp_path)] == ["start", "start"]


def test_one_process_at_a_time(tmp_path):
    recorder = Recorder(tmp_path, limit=LIMIT, report=no_report)
    with pytest.raises(RecordingError, match="another process records to"):
        Recorder(tmp_path, limit=LIMIT, report=no_report)
    recorder.close()
    Recorder(tmp_path, limit=LIMIT, report=no_report).close()


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RecordingError, match="cannot record to"):
        Recorder(tmp_path / "file", limit=LIMIT, report=no_report)


def test_a_full_disk_ends_the_recording_and_not_the_scheduling(tmp_path, monkeypatch):
    told = []
    recorder = Recorder(tmp_path, limit=LIMIT, report=told.append)
    cluster = VirtualCluster(make_node("n").capacity(cpu="4"), build=recorder.build_core)
    cluster.put(make_pod("p1").request(cpu="1"))
    cluster.run()
    recorder.write()

    def full(_files, _data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SegmentFiles, "_put", full)
    for name in ("p2", "p3"):
        cluster.put(make_pod(name).request(cpu="1"))
        cluster.run()
        recorder.write()
    assert cluster.nodes_of() == {"p1": "n", "p2": "n", "p3": "n"}
    assert told == [f"the recording ends, while scheduling goes on: {tmp_path}: No space left on device"]
    assert not recorder.is_recording
    recorder.close()
    monkeypatch.undo()
    assert verify(read_segments(tmp_path), in_tree_registry()).bindings == 1


def test_a_slow_disk_ends_the_recording(tmp_path, monkeypatch):
    monkeypatch.setattr("berth.recording.recorder.MOST_WAITING", 5)
    told = []
    recorder = Recorder(tmp_path, limit=LIMIT, report=told.append)
    VirtualCluster(*(make_node(f"n{i}") for i in range(9)), build=recorder.build_core)
    assert len(told) == 1
    assert "the disk is too slow" in told[0]
    recorder.close()


def test_no_secrets_of_extenders(tmp_path):
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [
            {
                "urlPrefix": "https://user:hunter2@example.com/scheduler?token=hunter2",
                "filterVerb": "filter",
                "enableHTTPS": True,
                "tlsConfig": {"certData": "aHVudGVyMg==", "keyData": "aHVudGVyMg==", "insecure": True},
            }
        ],
    }
    plain = plain_config(load_config(document))
    text = msgspec.json.encode(plain)
    assert b"hunter2" not in text
    assert b"aHVudGVyMg" not in text
    (extender,) = config_of(plain).extenders
    assert (extender.filter_verb, extender.tls) == ("filter", None)


def test_a_core_that_was_to_take_over_and_did_not(tmp_path):
    """A new configuration's core breaks while it is told everything: the old one goes on, in a segment of its own."""
    lived = Churn(tmp_path, 4)
    lived.live(5)
    before = lived.cluster.core
    lived.reload(pod_max_backoff_s=3)
    lived.cluster.core = before
    lived.live(5)
    lived.recorder.write()
    lived.live(5)
    lived.close()
    headers = [segment.header for segment in read_segments(tmp_path)]
    assert [header.begins for header in headers] == ["start", "reload", "rotation"]
    assert headers[0].life == headers[2].life != headers[1].life
    assert verify(read_segments(tmp_path), in_tree_registry()).first_difference is None
