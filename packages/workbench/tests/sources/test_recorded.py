"""A recording as the page's last hour."""

import base64

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.plugins.registry import in_tree_registry
from berth.recording.errors import RecordingError
from berth.recording.file_format import read_segments
from berth.recording.recorder import Recorder
from berth_workbench.sources.levels import FULL
from berth_workbench.sources.recorded import read_history


def recorded(directory, limit=1 << 30):
    """A node gets a pod each minute, until the fifth, which does not fit."""
    recorder = Recorder(directory, limit=limit, report=pytest.fail, wall_clock=lambda: 1.7e9)
    cluster = VirtualCluster(make_node("n").capacity(cpu="4"), build=recorder.build_core)
    for number in range(5):
        cluster.put(make_pod(f"p{number}").request(cpu="1"))
        cluster.run()
        cluster.advance(60.0)
    recorder.close()


def test_nodes_queue_and_attempts_are_as_they_were_at_each_moment(tmp_path):
    recorded(tmp_path)
    found = read_history(read_segments(tmp_path), in_tree_registry(), every_s=1.0)
    told = found.levels.document()
    levels = [base64.b64decode(each)[0] for each in told["levels"] if base64.b64decode(each)]
    assert sorted(set(levels)) == [FULL * count // 4 for count in range(5)] and levels == sorted(levels)
    last = found.history.samples[-1]
    assert last.pending["unschedulable"] + last.pending["backoff"] + last.pending["active"] == 1
    assert last.attempts["scheduled"] == 4 and last.attempts["unschedulable"] >= 1
    assert told["times"] == sorted(told["times"]) and told["times"][-1] - told["times"][0] >= 200


def test_a_recording_whose_beginning_is_gone_is_refused(tmp_path):
    recorded(tmp_path)
    with pytest.raises(RecordingError, match="the beginning of what was recorded is gone"):
        read_history([], in_tree_registry())
