"""Traces of GPU clusters, of parallel machines, and of one's own cluster: each format, and what is wrong with it."""

import json

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.config.feature_gates import feature_gates
from berth.config.load import document_enabling, load_config
from berth_workbench.traces.alibaba_gpu_2023 import GPU, GPU_MILLI, MODEL, read_alibaba_gpu_2023
from berth_workbench.traces.audit_log import read_audit_log
from berth_workbench.traces.generator import DailyPattern, daily_pattern
from berth_workbench.traces.philly import read_philly
from berth_workbench.traces.run import TraceRun
from berth_workbench.traces.swf import read_swf
from berth_workbench.traces.trace import (
    JobStarts,
    NodeComes,
    NodeGoes,
    ObjectComes,
    ObjectGoes,
    TraceError,
    read_trace,
    write_trace,
)

GIB = 2**30
OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,64000,262144,2,P100\nopenb-node-0001,32000,65536,0,\n"
OPENB_HEAD = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


def openb(directory, *pods):
    (directory / "openb_node_list_all_node.csv").write_text(OPENB_NODES)
    (directory / "openb_pod_list_default.csv").write_text(OPENB_HEAD + "".join(f"{pod}\n" for pod in pods))
    return read_alibaba_gpu_2023(directory)


def of(trace, kind):
    return [record for record in trace.records if isinstance(record, kind)]


def test_openbs_nodes_and_pods_with_whole_gpus_and_shares_of_one(tmp_path):
    trace = openb(
        tmp_path,
        "openb-pod-0000,12000,16384,1,1000,P100|V100M16,LS,Running,0,500,100",
        "openb-pod-0001,6000,12288,1,460,,BE,Failed,20,120,70",
        "openb-pod-0002,1000,1024,0,0,,Burstable,Pending,30,90,",
    )
    with_gpus, without = of(trace, NodeComes)
    assert (with_gpus.cpu, with_gpus.memory) == (64_000, 256 * GIB)
    assert (with_gpus.resources, with_gpus.labels[MODEL]) == ({GPU: 2, GPU_MILLI: 2000}, "P100")
    assert (without.resources, MODEL in without.labels) == ({}, False)
    whole, share, none = of(trace, JobStarts)
    assert (whole.at, whole.runs, whole.shape.resources) == (0, (400,), {GPU: 1, GPU_MILLI: 1000})
    assert whole.shape.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": MODEL, "operator": "In", "values": ["P100", "V100M16"]}]}]
    }
    assert (share.runs, share.shape.resources, share.shape.labels) == ((50,), {GPU_MILLI: 460}, {"qos": "BE"})
    assert (none.runs, none.shape.resources) == ((60,), {})
    result = TraceRun(trace).live()
    assert (result.made, result.bound) == (3, 3)
    assert result.resources[GPU_MILLI] > 0


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        ("p,x,1,0,0,,LS,Running,0,1,0", r"openb_pod_list_default.csv:2: cpu_milli is 'x', not a number"),
        ("p,1,1,1,1460,,LS,Running,0,1,0", r":2: gpu_milli is 1460; a GPU has 1000"),
        ("p,1,1,1,460,,LS,Running,0,1,5", r":2: deletion_time 1 is before 5"),
        ("p,1,1,-3,0,,LS,Running,0,1,0", r":2: num_gpu is '-3'; it should be from 0 to 1024"),
        (",1,1,0,0,,LS,Running,0,1,0", r":2: name is empty"),
    ],
)
def test_what_is_wrong_with_openbs_tables_is_told_with_its_line(tmp_path, pod, problem):
    with pytest.raises(TraceError, match=problem):
        openb(tmp_path, pod)


def test_lists_of_other_workloads_are_not_read_as_one(tmp_path):
    """The authors keep 23 lists beside each other, whose pods have the same names; four of them have no times."""
    openb(tmp_path, "openb-pod-0000,12000,16384,1,1000,,LS,Running,0,500,100")
    other = tmp_path / "openb_pod_list_gpuspec33.csv"
    other.write_text(OPENB_HEAD + "openb-pod-0000,12000,16384,1,1000,P100,LS,Running,0,500,100\n")
    with pytest.raises(TraceError, match=r"gpuspec33.csv:2: openb-pod-0000 is in openb_pod_list_default.csv too"):
        read_alibaba_gpu_2023(tmp_path)
    (pod,) = of(read_alibaba_gpu_2023(other), JobStarts)
    assert pod.shape.spec and len(of(read_alibaba_gpu_2023(other), NodeComes)) == 2
    other.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nopenb-pod-0000,12000,16384,1,1000\n")
    with pytest.raises(TraceError, match=r"gpuspec33.csv:2: there is no column gpu_spec, .*creation_time"):
        read_alibaba_gpu_2023(other)


def philly_job(**given):
    attempts = [
        {
            "start_time": "2017-10-07 01:12:09",
            "end_time": "2017-10-07 01:13:09",
            "detail": [{"ip": "m1", "gpus": ["g"]}],
        },
        {
            "start_time": "2017-10-07 01:20:00",
            "end_time": "2017-10-07 01:20:30",
            "detail": [{"ip": each, "gpus": ["gpu0", "gpu1"]} for each in ("m1", "m2")],
        },
    ]
    job = {"status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "submitted_time": "2017-10-07 01:11:39"}
    return {**job, "attempts": attempts, "user": "ce2f4c", **given}


def philly(directory, *jobs):
    (directory / "cluster_machine_list").write_text(
        "machineId,number of GPUs, single GPU mem\nm1,2, 12GB\nm2,8, 24GB\n"
    )
    (directory / "cluster_job_log").write_text(json.dumps(jobs))
    return read_philly(directory, cpu=64_000, memory=512 * GIB)


def test_phillys_jobs_have_a_pod_for_each_machine_of_their_last_attempt(tmp_path):
    trace = philly(
        tmp_path,
        philly_job(submitted_time="2017-10-07 01:12:39", jobid="application_2"),
        philly_job(),
        philly_job(jobid="never", attempts=[{"start_time": None, "end_time": None, "detail": []}]),
    )
    assert [(node.name, node.resources[GPU]) for node in of(trace, NodeComes)] == [("m1", 2), ("m2", 8)]
    first, second = of(trace, JobStarts)
    assert (first.name, first.namespace, first.at, second.at) == ("application_1", "ee9e8c", 0, 60)
    assert (first.pods, first.runs, first.shape.resources[GPU]) == (2, (90,), 2)


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        ({"submitted_time": "yesterday"}, "cluster_job_log: job 0, application_1: 'yesterday' is no time"),
        ({"attempts": 3}, "cluster_job_log: .*attempts"),
        ({"vc": "a/b"}, "job 0, application_1: vc is no name"),
    ],
)
def test_what_is_wrong_with_phillys_log_is_told_with_the_job(tmp_path, job, problem):
    with pytest.raises(TraceError, match=problem):
        philly(tmp_path, philly_job(**job))


SWF = """; Computer: A small machine
; MaxNodes: 3
; MaxProcs: 8
  1 0 10 100 4 -1 2048 4 120 -1 1 7 1 1 1 1 -1 -1
  2 50 0 -1 4 -1 -1 4 120 -1 5 7 1 1 1 1 -1 -1
  3 60 0 30 2 -1 -1 -1 -1 -1 1 -1 1 1 1 1 -1 -1
"""


def test_the_standard_workload_format(tmp_path):
    file = tmp_path / "a.swf"
    file.write_text(SWF)
    trace = read_swf(file, node_memory=GIB)
    assert trace.header.source == "A small machine"
    assert sum(node.cpu for node in of(trace, NodeComes)) == 8000
    assert len(of(trace, NodeComes)) == 3
    first, third = of(trace, JobStarts)
    assert (first.name, first.namespace, first.at, first.pods, first.runs) == ("job-1", "user-7", 0, 4, (100,))
    assert (first.shape.cpu, first.shape.memory) == (1000, 2048 * 1024)
    assert (third.name, third.namespace, third.pods) == ("job-3", "unknown", 2)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 2 3", r"a.swf:4: 3 fields, and 18 are expected"),
        ("1 0 10 x 4 -1 2048 4 120 -1 1 7 1 1 1 1 -1 -1", r"a.swf:4: could not convert"),
        ("1 0 10 nan 4 -1 2048 4 120 -1 1 7 1 1 1 1 -1 -1", r"a.swf:4: a field is no finite number"),
    ],
)
def test_what_is_wrong_with_a_job_is_told_with_its_line(tmp_path, line, problem):
    file = tmp_path / "a.swf"
    file.write_text("".join(SWF.splitlines(keepends=True)[:3]) + line)
    with pytest.raises(TraceError, match=problem):
        read_swf(file, node_memory=GIB)
    file.write_text("; Computer: x\n")
    with pytest.raises(TraceError, match="neither MaxProcs nor MaxNodes"):
        read_swf(file, node_memory=GIB)


def a_node(name="n1", version="1"):
    metadata = {"name": name, "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", GPU: "2"}}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {**metadata, "labels": {"disk": "ssd"}}, "status": status}


def a_pod(version, node="", created="2026-01-01T00:00:10Z", scheduled=None, phase="Pending"):
    metadata = {"name": "p", "namespace": "team", "uid": "u", "resourceVersion": version, "creationTimestamp": created}
    requests = {"cpu": "500m", "memory": "1Gi", GPU: "1"}
    spec = {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "resources": {"requests": requests}}]}
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}] if scheduled else []
    spec |= {"nodeName": node} if node else {}
    status = {"phase": phase, "conditions": conditions}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


def audit(verb, resource, at, name="p", code=200, part="", asked=None, answered=None):
    ref = {"resource": resource, "name": name, "namespace": "team" if resource == "pods" else "", "subresource": part}
    event = {"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": verb}
    event |= {"objectRef": ref, "responseStatus": {"code": code}, "stageTimestamp": f"2026-01-01T00:{at}.500000Z"}
    return json.dumps({**event, "requestObject": asked, "responseObject": answered})


def test_an_audit_log(tmp_path):
    binding = {"kind": "Binding", "target": {"kind": "Node", "name": "n1"}}
    file = tmp_path / "audit.log"
    lines = [
        audit("patch", "nodes", "00:00", "n1", part="status", answered=a_node()),
        audit("create", "pods", "00:05", "", 409, asked=a_pod("")),
        audit("create", "pods", "00:10", asked=a_pod("")),
        audit("create", "pods", "00:20", part="binding", code=201, asked=binding),
        audit("get", "secrets", "00:25"),
        audit("delete", "pods", "01:00"),
        audit("delete", "nodes", "02:00", "n1"),
    ]
    file.write_text("\n".join(lines))
    trace = read_audit_log(file)
    node, pod = of(trace, ObjectComes)
    assert (node.at, node.is_of("Node"), pod.is_of("Pod")) == (0, True, True)
    assert pod.manifest["spec"].get("nodeName", "") == ""
    gone = [(each.at, each.kind, each.key) for each in of(trace, ObjectGoes)]
    assert [each[1:] for each in gone] == [("Pod", "team/p")]
    (left,) = of(trace, NodeGoes)
    assert (left.name, left.at - gone[0][0], left.at - pod.at) == ("n1", 60, 110)
    assert TraceRun(trace).live().bound == 1
    for line, problem in (("{", ":8: "), ('{"kind": "Pod"}', ":8: 'Pod' is no Event of an audit log")):
        file.write_text("\n".join([*lines, line]))
        with pytest.raises(TraceError, match=problem):
            read_audit_log(file)


@pytest.mark.parametrize("of_format", ["swf", "philly", "alibaba-gpu-2023", "audit", "watch"])
def test_every_format_is_imported_by_the_command(tmp_path, of_format):
    source = tmp_path / "in"
    source.mkdir()
    if of_format == "swf":
        source = source / "a.swf"
        source.write_text(SWF)
    elif of_format == "philly":
        philly(source, philly_job())
    elif of_format == "alibaba-gpu-2023":
        openb(source, "openb-pod-0000,12000,16384,1,1000,,LS,Running,0,500,100")
    elif of_format == "audit":
        (source / "a.log").write_text(audit("patch", "nodes", "00:00", "n1", part="status", answered=a_node()))
    else:
        (source / "nodes.json").write_text(json.dumps({"type": "ADDED", "object": a_node()}))
    out = tmp_path / "out.jsonl"
    done = CliRunner().invoke(main, ["trace", "import", str(source), "--format", of_format, "-o", str(out)])
    assert done.exit_code == 0, done.output
    found = read_trace(out)
    assert of(found, NodeComes) or of(found, ObjectComes)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "there is no node, no pod and no job in it"),
        (b"\x82\xff\x00\n", "openb_node_list_all_node.csv: it is no text in UTF-8"),
        (b"\x1f\x8b\x82\xff", "openb_node_list_all_node.csv: the compressed file is cut short"),
    ],
)
def test_files_with_nothing_or_anything_in_them_are_told_in_words(tmp_path, content, problem):
    for table in ("openb_node_list_all_node.csv", "openb_pod_list_default.csv"):
        (tmp_path / table).write_bytes(content)
    out = tmp_path / "out.jsonl"
    done = CliRunner().invoke(main, ["trace", "import", str(tmp_path), "--format", "alibaba-gpu-2023", "-o", str(out)])
    assert (done.exit_code, out.exists()) == (1, False)
    assert problem in done.output


def test_a_generated_day_with_gpus_shares_models_and_gangs(tmp_path):
    pattern = DailyPattern(pods=400, nodes=10, services=4, seconds=4 * 3600.0, gpu_nodes=6)
    trace = daily_pattern(pattern, 1)
    with_gpus = [node for node in of(trace, NodeComes) if node.resources]
    assert (len(with_gpus), {node.resources[GPU] for node in with_gpus}) == (6, {8})
    assert len({node.labels[MODEL] for node in with_gpus}) == 3
    jobs = [job for job in of(trace, JobStarts) if job.shape.resources]
    shared, whole = ([job for job in jobs if (GPU in job.shape.resources) == is_whole] for is_whole in (False, True))
    assert shared and whole
    assert all(0 < job.shape.resources[GPU_MILLI] < 1000 for job in shared)
    assert all(job.shape.resources[GPU_MILLI] == 1000 * job.shape.resources[GPU] for job in whole)
    gangs = {each.manifest["metadata"]["name"]: each.manifest["spec"] for each in of(trace, ObjectComes)}
    assert gangs == {job.name: {"schedulingPolicy": {"gang": {"minCount": job.pods}}} for job in whole if job.pods > 1}
    plain = daily_pattern(DailyPattern(pods=400, nodes=10, services=4, seconds=4 * 3600.0), 1)
    assert [job.at for job in of(plain, JobStarts)] == [job.at for job in of(trace, JobStarts)]

    gates = feature_gates({"GenericWorkload": True, "GangScheduling": True})
    config = load_config(document_enabling({}), "a test", gates)
    for run in (TraceRun(trace), TraceRun(trace, config=config)):
        result = run.live()
        assert result.resources[GPU] > 0 and 0 <= result.stranded[GPU] <= 1
        assert [each.pod for each in run.placements if each.waited == 0]
    begun = {}
    for each in run.placements:  # the members of a gang begin together
        begun.setdefault(each.pod.rpartition("-")[0].partition("/")[2], []).append(each.at)
    assert begun.keys() & gangs.keys()
    for name in begun.keys() & gangs.keys():
        members = gangs[name]["schedulingPolicy"]["gang"]["minCount"]
        assert len(set(begun[name][:members])) == 1


def test_simulate_writes_who_went_where(tmp_path):
    trace = openb(tmp_path, "openb-pod-0000,12000,16384,1,1000,P100,LS,Running,0,500,100")
    write_trace(tmp_path / "t.jsonl", trace.header, trace.records)
    out = tmp_path / "placements.csv"
    done = CliRunner().invoke(main, ["simulate", str(tmp_path / "t.jsonl"), "--placements", str(out)])
    assert done.exit_code == 0, done.output
    assert out.read_text().splitlines() == ["at,pod,node,waited", "0.0,openb/openb-pod-0000-0,openb-node-0000,0.0"]
    assert "0% of nvidia.com/gpu was of no use" in " ".join(done.output.split())
