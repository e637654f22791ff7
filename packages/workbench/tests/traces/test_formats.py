"""Traces in files: our own form, Alibaba's tables, Google's tables, each with what can be wrong with it."""

import gzip
import json

import pytest

from berth_workbench.traces.alibaba_2018 import read_alibaba_2018
from berth_workbench.traces.generator import DailyPattern, daily_pattern
from berth_workbench.traces.google_2019 import read_google_2019
from berth_workbench.traces.trace import (
    JobStarts,
    NodeComes,
    NodeGoes,
    ServiceScales,
    TimedWorkload,
    TraceError,
    TraceHeader,
    read_trace,
    write_trace,
)

GIB = 2**30


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_trace_is_read_as_it_was_written(tmp_path, name):
    trace = daily_pattern(DailyPattern(pods=200, nodes=3, services=2))
    for file in (tmp_path / name, tmp_path / f"again-{name}"):
        write_trace(file, trace.header, trace.records)
        assert read_trace(file) == trace
    assert (tmp_path / name).read_bytes() == (tmp_path / f"again-{name}").read_bytes()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["{}"], "no trace"),
        (["[]"], "no trace"),
        (['{"kind":"BerthTrace","version":9}'], "version 9"),
        (['{"kind":"BerthTrace"}', '{"what":"jump","at":1}'], "jump"),
        (['{"kind":"BerthTrace"}', '{"what":"job","at":1,"name":"j","runs":[1],"pods":0}'], "0 pods"),
        (['{"kind":"BerthTrace"}', '{"what":"job","at":1,"name":"j","runs":[1,2],"pods":3}'], "each of its 3 pods"),
        (['{"kind":"BerthTrace"}', '{"what":"job","at":1,"name":"j","runs":[1],"fails":[1]}'], "does not have"),
        (
            ['{"kind":"BerthTrace"}', *(f'{{"what":"nodeGone","at":{at},"name":"a"}}' for at in (5, 4))],
            "sorted by time",
        ),
    ],
)
def test_what_is_no_trace_is_told_with_its_line(tmp_path, lines, problem):
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join(lines))
    with pytest.raises(TraceError, match=problem) as told:
        read_trace(file)
    assert str(file) in str(told.value)
    assert "\n" not in str(told.value)


def test_a_trace_that_is_cut_off_or_not_there(tmp_path):
    file = tmp_path / "t.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"kind":"BerthTrace"}\n' * 1000)[:-20])
    for each in (file, tmp_path / "none"):
        with pytest.raises(TraceError, match=each.name):
            read_trace(each)


def alibaba(directory, tasks="", containers=""):
    (directory / "machine_meta.csv").write_text(
        "m_1,0,3,7,96,100,USING\nm_1,50,3,7,96,100,USING\nm_2,0,3,8,64,50,USING\n"
    )
    (directory / "container_meta.csv").write_text(containers)
    (directory / "batch_task.csv").write_text(tasks)
    return read_alibaba_2018(directory, largest_memory=512 * GIB)


def test_alibabas_machines_services_and_tasks(tmp_path):
    trace = alibaba(
        tmp_path,
        containers=(
            "c_1,m_1,0,app_1,started,400,800,1.56\n"
            "c_2,m_2,0,app_1,started,400,800,1.56\n"
            "c_2,m_2,30,app_1,stopped,400,800,1.56\n"
            "c_3,m_2,40,app_1,started,400,800,1.56\n"
        ),
        tasks=(
            "M1,3,j_1,1,Terminated,100,160,100,0.5\n"
            "R2_1,1,j_1,1,Terminated,160,160,50,\n"
            "M1,1,j_2,1,Waiting,0,0,100,0.5\n"
        ),
    )
    nodes = [record for record in trace.records if isinstance(record, NodeComes)]
    assert [(n.name, n.cpu, n.memory, n.labels["topology.kubernetes.io/zone"]) for n in nodes] == [
        ("m_1", 96_000, 512 * GIB, "domain-7"),
        ("m_2", 64_000, 256 * GIB, "domain-8"),
    ]
    services = [record for record in trace.records if isinstance(record, ServiceScales)]
    assert [(s.at, s.name, s.replicas, s.shape.cpu) for s in services] == [
        (0.0, "app_1", 2, 4000),
        (40.0, "app_1", 3, 4000),
    ]
    jobs = [record for record in trace.records if isinstance(record, JobStarts)]
    assert [(j.at, j.name, j.pods, j.runs, j.shape.cpu, j.shape.memory) for j in jobs] == [
        (100.0, "j-1-m1", 3, (60.0,), 1000, round(512 * GIB * 0.005)),
        (160.0, "j-1-r2-1", 1, (1.0,), 500, 0),
    ]
    assert trace.header.seconds == 161.0


def test_a_wrong_table_is_told_with_file_and_line(tmp_path):
    with pytest.raises(TraceError, match=r"batch_task.csv:1: instance_num is 'many', not a number"):
        alibaba(tmp_path, tasks="M1,many,j_1,1,Terminated,100,160,100,0.5\n")
    with pytest.raises(TraceError, match=r"batch_task.csv:1: 2 columns, and 9 are expected"):
        alibaba(tmp_path, tasks="M1,3\n")
    with pytest.raises(TraceError, match="there is no file machine_meta"):
        read_alibaba_2018(tmp_path / "empty", largest_memory=1)


def google(directory, machines, instances):
    (directory / "machine_events-0.json").write_text("\n".join(map(json.dumps, machines)))
    (directory / "instance_events-0.json").write_text("\n".join(map(json.dumps, instances)))
    return read_google_2019(directory, largest_cpu=64_000, largest_memory=512 * GIB)


def event(seconds, kind, collection=1, index=0, **more):
    request = {"cpus": 0.125, "memory": 0.25}
    return {
        "time": str(int((600 + seconds) * 1e6)), "type": kind, "collection_id": str(collection), "priority": 200,
        "instance_index": index, "resource_request": request, **more,
    }  # fmt: skip


def test_googles_machines_and_instances(tmp_path):
    machines = [
        {"time": "0", "machine_id": "5", "type": 1, "capacity": {"cpus": 0.5, "memory": 0.5}},
        {"time": str(int(660e6)), "machine_id": "5", "type": 2},
    ]
    instances = [
        event(10, 0), event(12, 3), event(40, "FAIL"), event(41, 0), event(42, 3), event(72, 6),  # fails, runs 30 s
        event(10, 0, index=1), event(11, 3, index=1),  # still runs at the end, at 100
        event(20, 0, index=2),  # never ran
        event(20, 0, collection=2, alloc_collection_id="9"), event(100, 6, collection=2, alloc_collection_id="0"),
    ]  # fmt: skip
    trace = google(tmp_path, machines, instances)
    assert trace.records == (
        NodeComes(at=0.0, name="machine-5", cpu=32_000, memory=256 * GIB, pods=1000,
                  labels={"kubernetes.io/hostname": "machine-5"}),
        JobStarts(at=10.0, name="collection-1", namespace="production", pods=2, runs=(30.0, 89.0), fails=(0,),
                  shape=trace.records[1].shape),
        NodeGoes(at=60.0, name="machine-5"),
    )  # fmt: skip
    shape = trace.records[1].shape
    assert (shape.cpu, shape.memory, shape.priority) == (8000, 128 * GIB, 200)
    assert trace.header.seconds == 100.0


def test_pods_of_a_trace_are_counted_once():
    records = (
        ServiceScales(at=0.0, name="s", replicas=3),
        ServiceScales(at=1.0, name="s", replicas=1),
        ServiceScales(at=2.0, name="s", replicas=2),
        JobStarts(at=3.0, name="j", runs=(1.0,), pods=4),
    )
    assert TimedWorkload(TraceHeader(), records).pods == 3 + 1 + 4
