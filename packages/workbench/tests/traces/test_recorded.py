"""Watch events as a workload over time: what people did there, without what the cluster's scheduler made of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from berth.agreement.stream import EventStream
from berth.api.quantity import milli_value
from berth.cli import main
from berth.config.load import load_config
from berth.framework.setup import Setup
from berth.plugins.registry import full_registry
from berth_workbench.comparison.loads import packed, unpacked
from berth_workbench.comparison.run import run
from berth_workbench.traces.recorded import SAMPLES, recorded_workload
from berth_workbench.traces.result import SimulatedTime
from berth_workbench.traces.run import TraceRun
from tests.paths import ROOT

OBSERVED = ROOT / "tests/conformance/observed"
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
PACKING = {
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
        }
    ]
}


class Stream:
    """Events as kubectl prints them, a revision for each; times are seconds of one minute or two."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def tell(self, type_: str, kind: str, name: str, **parts: Any) -> None:
        metadata = {"name": name, "uid": name, "resourceVersion": str(len(self.lines) + 1), **parts.pop("metadata", {})}
        if kind == "Pod":
            metadata["namespace"] = "default"
        self.lines.append(json.dumps({"type": type_, "object": {"kind": kind, "metadata": metadata, **parts}}))

    def node(self, name: str, cpu: str = "2", type_: str = "ADDED") -> None:
        self.tell(type_, "Node", name, status={"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}})

    def pod(
        self, type_: str, name: str, at: int, node: str = "", *, cpu: str = "500m", owner: str = "", **status: Any
    ) -> None:
        """A pod that came, or was bound, at a second."""
        moment = f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z"
        owners = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}] if owner else []
        conditions = [*status.pop("conditions", ())]
        if type_ != "ADDED":
            scheduled = "True" if node else "False"
            conditions.append({"type": "PodScheduled", "status": scheduled, "lastTransitionTime": moment})
        self.tell(
            type_,
            "Pod",
            name,
            metadata={"creationTimestamp": moment, "ownerReferences": owners},
            spec={"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            status={**status, "conditions": conditions},
        )

    def lived(self, directory: Path, **config: Any) -> SimulatedTime:
        """Live through it, measured each second."""
        (directory / "events").write_text("\n".join(self.lines))
        workload = recorded_workload([str(directory / "events")])
        assert packed(unpacked(packed(workload))) == packed(workload)
        return TraceRun(
            workload, config=load_config({**CONFIG, **config}), registry=full_registry(), sample_s=1.0
        ).live()


def test_pods_go_where_the_configuration_puts_them_and_not_where_they_went(tmp_path: Path) -> None:
    stream = Stream()
    stream.node("n0")
    stream.node("n1")
    for number, node in enumerate(("n0", "n1")):
        stream.pod("ADDED", f"p{number}", 10 * number)
        stream.pod("MODIFIED", f"p{number}", 10 * number, node)
    stream.pod("MODIFIED", "p1", 30, "n1", phase="Running")
    assert stream.lived(tmp_path).samples[-1].nodes_used == 2
    assert stream.lived(tmp_path, profiles=[PACKING]).samples[-1].nodes_used == 1


def test_a_pod_that_ended_runs_as_long_from_its_binding_and_one_that_was_deleted_goes_when_it_went(
    tmp_path: Path,
) -> None:
    stream = Stream()
    stream.node("n0")
    stream.pod("ADDED", "ends", 0, cpu="2")
    stream.pod("MODIFIED", "ends", 0, "n0", cpu="2")
    stream.pod("ADDED", "waits", 5, cpu="2")
    stream.pod("ADDED", "other", 20)
    stream.pod("MODIFIED", "ends", 20, "n0", cpu="2", phase="Succeeded")
    stream.pod("MODIFIED", "waits", 25, "n0", cpu="2")
    stream.pod("ADDED", "late", 40)
    stream.pod("DELETED", "waits", 40, "n0", cpu="2")
    stream.pod("ADDED", "last", 60)
    result = stream.lived(tmp_path)
    assert (result.finished, result.bound) == (1, 5)
    # `waits` gets the node when `ends` is over, 20 s after it came; the others when `waits` is deleted.
    assert result.waits_by_namespace["default"].max == pytest.approx(20, abs=1.5)
    assert [sample.running for sample in result.samples if sample.at in (10.0, 30.0)] == [1, 1]


def test_a_pod_that_was_preempted_there_stays_here_and_what_replaced_it_is_taken_for_itself(tmp_path: Path) -> None:
    stream = Stream()
    stream.node("n0")
    stream.pod("ADDED", "web-a", 0, owner="web")
    stream.pod("MODIFIED", "web-a", 0, "n0", owner="web")
    gone = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    stream.pod("MODIFIED", "web-a", 10, "n0", owner="web", conditions=gone)
    stream.pod("ADDED", "web-b", 11, owner="web")
    stream.pod("DELETED", "web-a", 12, "n0", owner="web", conditions=gone)
    stream.pod("MODIFIED", "web-b", 15, "n0", owner="web")
    stream.pod("ADDED", "later", 20)
    result = stream.lived(tmp_path)
    assert (result.made, result.bound, result.waiting) == (2, 2, 0)
    stream.pod("DELETED", "web-b", 30, "n0", owner="web")
    stream.pod("ADDED", "last", 35)
    result = stream.lived(tmp_path)
    assert (result.made, result.waiting, result.samples[-1].running) == (3, 0, 1), "who deletes it, deletes the first"


def test_what_was_there_stays_where_it_is_and_what_is_changed_is_changed(tmp_path: Path) -> None:
    stream = Stream()
    stream.pod("ADDED", "daemon", 0, "n0", cpu="1")
    stream.node("n0")
    stream.pod("ADDED", "big", 50, cpu="3")
    stream.pod("MODIFIED", "big", 51, cpu="3")
    stream.node("n0", "4", "MODIFIED")
    stream.pod("ADDED", "last", 60, cpu="8")
    result = stream.lived(tmp_path)
    assert (result.made, result.bound, result.waiting) == (3, 1, 1)
    assert (result.samples[0].running, result.samples[-1].cpu) == (1, 1.0)


def test_a_pod_without_a_controller_is_gone_with_its_node(tmp_path: Path) -> None:
    stream = Stream()
    stream.node("n0")
    for name, owner in (("alone", ""), ("owned", "web")):
        stream.pod("ADDED", name, 0, owner=owner)
        stream.pod("MODIFIED", name, 0, "n0", owner=owner)
    stream.tell("DELETED", "Node", "n0")
    stream.pod("ADDED", "last", 30)
    result = stream.lived(tmp_path)
    assert (result.bound, result.waiting, result.never_placed) == (2, 2, 1)


@pytest.mark.parametrize(
    ("name", "bound", "pending", "preempted"),
    [("calm", 314, 3, 0), pytest.param("bursts", 1415, 108, 1, marks=pytest.mark.long)],
)
def test_the_stock_schedulers_own_configuration_places_as_many_as_it_did(
    name: str, bound: int, pending: int, preempted: int
) -> None:
    """Who goes where is by lot among equals; how many find a node in these streams is not."""
    path = str(OBSERVED / f"{name}.jsonl.gz")
    header = EventStream([path]).header
    assert header is not None
    result = TraceRun(recorded_workload([path]), config=load_config(header.configuration)).live()
    assert (result.bound, result.waiting, result.preempted) == (bound, pending, preempted)


@pytest.mark.parametrize("profile", [{}, PACKING], ids=["stock", "packing"])
def test_what_is_requested_over_time_is_what_was_requested_there(profile: dict[str, Any]) -> None:
    """Every pod of this stream that found a node found it at once, and so it does wherever the others are."""
    path = str(OBSERVED / "calm.jsonl.gz")
    events = [(event.type, event.kind, event.obj, at) for event, at in EventStream([path])]
    begin = next(at for type_, _, _, at in events if type_ != "ADDED")
    bound = {pod.metadata.uid for _, kind, pod, _ in events if kind == "Pod" and pod.spec.node_name}
    changes = [
        (max(at - begin, 0.0), (1 if type_ == "ADDED" else -1) * _cpu(pod))
        for type_, kind, pod, at in events
        if kind == "Pod" and type_ != "MODIFIED" and pod.metadata.uid in bound
    ]
    whole = sum(milli_value(node.status.allocatable["cpu"]) for _, kind, node, _ in events if kind == "Node")
    seconds = events[-1][3] - begin
    times = [seconds / SAMPLES * number for number in range(SAMPLES)]
    wanted = [sum(amount for at, amount in changes if at <= time) / whole for time in times]
    config = load_config({**CONFIG, "profiles": [profile]})
    figures = run(recorded_workload([path]), Setup(config, full_registry()), 0).figures
    assert figures["utilisation.cpu"] == pytest.approx(sum(wanted) / len(wanted), rel=0.02)


def _cpu(pod: Any) -> int:
    return sum(milli_value(each.resources.requests.get("cpu", "0")) for each in pod.spec.containers)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["compare", "default", "default", "--events", "x", "--trace", "y"], "--events"),
        (["compare", "default", "default", "--events", "x", "--cluster", "y"], "and so has --events"),
        (["simulate"], "either TRACE or --events"),
        (["simulate", "x", "--events", "y"], "either TRACE or --events"),
    ],
)
def test_one_workload_is_needed(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2 and says in result.output
