"""Traces, tables and patterns that are damaged or impossible: one line that says where, before any work is done."""

import gzip

import msgspec
import pytest
from click.testing import CliRunner

from berth.cli import main
from berth_workbench.snapshot import text
from berth_workbench.traces import trace as trace_module
from berth_workbench.traces.alibaba_2018 import read_alibaba_2018
from berth_workbench.traces.generator import DailyPattern, daily_pattern
from berth_workbench.traces.google_2019 import read_google_2019
from berth_workbench.traces.trace import TraceError, read_trace

HEADER = '{"kind":"BerthTrace","seconds":10}'
NODE = '{"what":"node","at":0,"name":"n","cpu":1000,"memory":1000}'


def job(shape="{}", name="j", namespace="default"):
    return f'{{"what":"job","at":1,"name":"{name}","namespace":"{namespace}","runs":[1],"shape":{shape}}}'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (job('{"priority":3000000000}'), "job j: Expected "),
        (job('{"spec":{"nodeSelector":5}}'), "job j: Expected "),
        (job('{"spec":{"nodeName":"n"}}'), "job j: its pods name a node"),
        (job('{"cpu":-1}'), "job j: cpu is -1"),
        (job('{"memory":-1}'), "job j: memory is -1"),
        (job('{"cpu":1180591620717411303424}'), "job j: cpu is 1180591620717411303424"),
        (job('{"resources":{"nvidia.com/gpu":-2}}'), "job j: nvidia.com/gpu is -2"),
        (job(name=""), "a job without a name"),
        (job(namespace=""), "job j: its namespace is empty"),
        (job(name="a/b"), "a job called 'a/b'"),
        (job(namespace="[/x]\\u001b"), "job j: a namespace called"),
        ('{"what":"service","at":0,"name":"s","replicas":1,"shape":{"priority":3000000000}}', "service s: Expected "),
        ('{"what":"node","at":0,"name":"","cpu":1,"memory":1}', "a node without a name"),
        ('{"what":"node","at":0,"name":"n","cpu":-1,"memory":1}', "node n: cpu is -1"),
        ('{"what":"node","at":0,"name":"n","cpu":1,"memory":-1}', "node n: memory is -1"),
        ('{"what":"node","at":0,"name":"n","cpu":1,"memory":1,"pods":-1}', "node n: pods is -1"),
        ('{"what":"node","at":0,"name":"n","cpu":4611686018427387904,"memory":1}', "node n: cpu is 46"),
        ('{"what":"nodeGone","at":1e15,"name":"n"}', "at 1e"),
    ],
)
def test_what_no_cluster_can_have_is_told_with_its_line(tmp_path, line, problem):
    file = tmp_path / "t.jsonl"
    file.write_text(f"{HEADER}\n\n{NODE}\n{line}\n")  # lines are counted as an editor counts them
    with pytest.raises(TraceError) as told:
        read_trace(file)
    assert str(told.value).startswith(f"{file}:4: {problem}")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("seconds", ["-1", "1e300"])
def test_a_time_that_nobody_lives_through(tmp_path, seconds):
    file = tmp_path / "t.jsonl"
    file.write_text(f'{{"kind":"BerthTrace","seconds":{seconds}}}\n{NODE}\n')
    with pytest.raises(TraceError, match=r"t\.jsonl:1: seconds is"):
        read_trace(file)


def damaged(content):
    packed = bytearray(gzip.compress(content, mtime=0))
    packed[len(packed) // 2 : len(packed) // 2 + 8] = b"\xff" * 8
    return bytes(packed)


def test_a_damaged_file_is_one_line(tmp_path):
    file = tmp_path / "t.jsonl.gz"
    trace = daily_pattern(DailyPattern(pods=300, nodes=3, services=2))
    file.write_bytes(damaged(repr(trace).encode()))
    with pytest.raises(TraceError, match=r"t\.jsonl\.gz: the compressed file is damaged"):
        read_trace(file)


def test_a_small_file_does_not_unpack_without_end_and_no_line_does(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "FREE_BYTES", 1 << 20)
    file = tmp_path / "t.jsonl.gz"
    file.write_bytes(gzip.compress(HEADER.encode() + b"\n" * (8 << 20)))
    with pytest.raises(TraceError, match="unpacks to more than"):
        read_trace(file)
    (tmp_path / "machine_meta.csv.gz").write_bytes(gzip.compress(b"m_1,0,3,7,96,100,USING\n" * (1 << 19)))
    with pytest.raises(TraceError, match="unpacks to more than"):
        read_alibaba_2018(tmp_path, largest_memory=1)
    monkeypatch.setattr(trace_module, "MAX_LINE", 100)
    file.write_text(f"{HEADER}\n{NODE[:-1]}{' ' * 100}}}\n")
    with pytest.raises(TraceError, match="gz:2: a line of more than 100 bytes"):
        read_trace(file)


def alibaba(directory, machines="m_1,0,3,7,96,100,USING\n", tasks="", containers=""):
    (directory / "machine_meta.csv").write_text(machines)
    (directory / "container_meta.csv").write_text(containers)
    (directory / "batch_task.csv").write_text(tasks)
    return read_alibaba_2018(directory, largest_memory=512 << 30)


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ({"machines": "m_1,0,3,7,nan,100,USING\n"}, "machine_meta.csv:1: cpu_num is 'nan'"),
        ({"machines": "m_1,0,3,7,96,inf,USING\n"}, "machine_meta.csv:1: mem_size is 'inf'"),
        ({"machines": "m_1,0,3,7,1e300,100,USING\n"}, "machine_meta.csv:1: cpu_num is '1e300'"),
        ({"machines": "m_1,0,3,7,1e17,100,USING\n"}, "machine_meta.csv:1: cpu_num is '1e17'"),
        ({"machines": "m_1,0,3,7,-1,100,USING\n"}, "machine_meta.csv:1: cpu_num is '-1'"),
        ({"machines": ",0,3,7,1,100,USING\n"}, "machine_meta.csv:1: machine_id is empty"),
        ({"machines": "machine_id,cpu_num\nm_1,4\n"}, "machine_meta.csv:2: there is no column failure_domain_2"),
        ({"containers": "c,m,0,a,started,400,800,-2\n"}, "container_meta.csv:1: mem_size is '-2'"),
        ({"containers": "c,m,1e17,a,started,400,800,2\n"}, "container_meta.csv:1: time_stamp is '1e17'"),
        ({"tasks": "M1,3000000,j_1,1,Terminated,100,160,100,0.5\n"}, "batch_task.csv:1: instance_num is '3000000'"),
        ({"tasks": "M1,-3,j_1,1,Terminated,100,160,100,0.5\n"}, "batch_task.csv:1: instance_num is '-3'"),
        ({"tasks": "M1,nan,j_1,1,Terminated,100,160,100,0.5\n"}, "batch_task.csv:1: instance_num is 'nan'"),
        ({"tasks": "M1,3,j_1,1,Terminated,100,1e16,100,0.5\n"}, "batch_task.csv:1: end_time is '1e16'"),
        ({"tasks": "M1,3,j_1,1,Terminated,100,160,inf,0.5\n"}, "batch_task.csv:1: plan_cpu is 'inf'"),
    ],
)
def test_numbers_that_cannot_be_are_told_with_file_and_line(tmp_path, tables, problem):
    with pytest.raises(TraceError) as told:
        alibaba(tmp_path, **tables)
    assert str(told.value).startswith(f"{tmp_path}/{problem}")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('{"time":"0","collection_id":1,"priority":3e9}', "priority is 3000000000.0"),
        ('{"time":"0","collection_id":1,"instance_index":"inf"}', "instance_index is 'inf'"),
        ('{"time":"0","collection_id":1,"resource_request":{"cpus":-1}}', "resource_request.cpus is -1"),
        ('{"time":"5e17","collection_id":1}', "time is '5e17'"),
    ],
)
def test_googles_numbers_too(tmp_path, row, problem):
    (tmp_path / "machine_events.json").write_text('{"time":"0","machine_id":1,"type":1}')
    (tmp_path / "instance_events.json").write_text(row)
    with pytest.raises(TraceError) as told:
        read_google_2019(tmp_path, largest_cpu=64_000, largest_memory=512 << 30)
    assert str(told.value).startswith(f"{tmp_path}/instance_events.json:1: {problem}")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pods", 10**12), ("nodes", 10**7), ("teams", 10**6), ("services", 10**9), ("services", 301),
        ("nodeCpu", 10**9),
        ("nodeMemoryGib", 10**9), ("load", float("nan")), ("seconds", float("inf")), ("failing", 2.0), ("pods", 0),
    ],
)  # fmt: skip
def test_a_pattern_that_is_too_large_is_refused_before_it_is_drawn(field, value):
    pattern = msgspec.convert({"pods": 300, "services": 3, field: value}, DailyPattern)
    with pytest.raises(ValueError, match=f"^{field}: "):
        daily_pattern(pattern)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--hours", "inf"], "'--hours': 'inf' is not a finite number"),
        (["--hours", "1e9"], "'--hours': "),
        (["--load", "nan"], "'--load': 'nan' is not a finite number"),
        (["--pods", "1000000000000"], "'--pods': "),
        (["--pods", "10", "--services", "60"], "'--services': "),
        (["--node-memory-gib", "1000000000"], "'--node-memory-gib': "),
    ],
)
def test_the_option_is_named_as_it_was_typed(tmp_path, args, problem):
    told = CliRunner().invoke(main, ["trace", "generate", "-o", str(tmp_path / "x"), *args])
    assert told.exit_code == 2
    assert problem in told.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["simulate", "x", "--sample", "nan"],
        ["simulate", "x", "--sample", "inf"],
        ["trace", "import", ".", "--format", "google-2019", "-o", "x", "--sample", "nan"],
        ["trace", "import", ".", "--format", "google-2019", "-o", "x", "--begin", "nan"],
        ["trace", "import", ".", "--format", "google-2019", "-o", "x", "--end", "inf"],
        ["rebalance", "--cluster", "x", "--effort", "nan"],
    ],
)
def test_what_is_not_finite_is_no_number_for_an_option(args):
    told = CliRunner().invoke(main, args)
    assert told.exit_code == 2
    assert "is not a finite number" in told.stderr


def test_simulate_tells_an_impossible_pod_in_one_line(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_text(f"{HEADER}\n{NODE}\n" + job('{"spec":{"nodeSelector":5}}'))
    told = CliRunner().invoke(main, ["simulate", str(file)])
    assert (told.exit_code, len(told.stderr.splitlines())) == (1, 1)
    assert f"{file}:3: job j: " in told.stderr
