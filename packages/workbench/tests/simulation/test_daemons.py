"""Where the pods of DaemonSets are and stay; the rules are those of NodeShouldRunDaemonPod (pkg/controller/daemon)."""

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth_workbench.planning.whatif import WhatIfRun
from berth_workbench.simulation.changes import parse_flag
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.site import Site
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot

DAEMONS = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "log", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "log"}},
        "template": {
            "metadata": {"labels": {"app": "log"}},
            "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c"}]},
        },
    },
}


def after(*flags, running=True):
    nodes = [make_node(f"n{number}").label("disk", "ssd").capacity(cpu="4", pods="9").document for number in range(2)]
    pods = [
        make_pod(f"log-n{number}").label("app", "log").owned_by("DaemonSet", "log").node(f"n{number}").document
        for number in range(2)
    ]
    manifests = [*nodes, DAEMONS, *(pods if running else [])]
    documents = [Document(each["kind"], msgspec.json.encode(each), "a test") for each in manifests]
    cluster = SimulatedCluster(Snapshot(documents).structs())
    result = WhatIfRun(Site(cluster, documents)).run([parse_flag(*flag) for flag in flags])
    return sorted(cluster.placements.values()), result


def test_a_no_schedule_taint_lets_stay_what_is_there():
    placed, result = after(("taint", "n0:team=x:NoSchedule"))
    assert placed == ["n0", "n1"]
    assert result.after.pods == 2


@pytest.mark.parametrize("flag", [("taint", "n0:team=x:NoExecute"), ("label", "n0:disk=hdd"), ("label", "n0:disk-")])
def test_a_no_execute_taint_or_another_label_sends_it_away(flag):
    assert after(flag)[0] == ["n1"]


def test_a_no_schedule_taint_keeps_a_new_one_away_until_it_is_taken_off():
    taint, back = ("taint", "n0:team=x:NoSchedule"), ("label", "n0:disk=ssd")
    gone = ("label", "n0:disk=hdd")
    assert after(taint, gone, back)[0] == ["n1"]
    assert after(taint, gone, back, ("untaint", "n0:team"))[0] == ["n0", "n1"]


def test_nodes_that_are_added_after_it_is_deleted_have_none():
    placed, _ = after(("delete", "ds/log"), ("addNodes", "2=n0"))
    assert placed == []
