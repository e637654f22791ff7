"""`berth mcp` as a client starts it: a process that talks over standard input and output, and ends with its input."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from berth.cli import main
from packages.workbench.tests.mcp.asking import answer
from packages.workbench.tests.questions.every import crowded

HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}  # fmt: skip
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
RUBBISH = (
    b"", b"{", b"null", b"[]", b"\x00\xff\xfe", b'{"jsonrpc": "1.0"}', b'{"jsonrpc": "2.0", "id": {}, "method": 3}',
    b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": []}', b"[" * 20_000, b'{"a": NaN}',
    b'"' + b"x" * 99_999,
    b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": 4, "arguments": "x"}}',
    b'{"jsonrpc": "2.0", "id": 9, "method": "no/such"}', b'{"jsonrpc": "2.0", "id": 10, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 11, "method": "tools/call", "params": {"name": "wait", "arguments": {"within": 1e999}}}',
    b'{"jsonrpc": "2.0", "id": 12, "method": "tools/call", "params": {"name": "wait", "arguments": {"a": "\\ud800"}}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}',
)  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_bytes(b"\n".join(each.json() for each in crowded().documents))
    return path


async def test_the_sdks_client_starts_it_and_asks(file, tmp_path):
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "berth", "mcp", "--cluster", str(file)], env=dict(os.environ), cwd=tmp_path
    )
    for mode in ("legacy", "auto"):
        async with Client(stdio_client(started), mode=mode) as client:
            found = await answer(client, "survive", kinds=["zone"])
    assert found.structured_content["state"]["source"] == "the cluster in cluster.json"
    assert [each.name for each in tmp_path.iterdir()] == ["cluster.json"], "nothing is written"


def test_rubbish_is_passed_over_and_takes_no_memory_and_the_end_of_the_input_ends_it(file):
    process = subprocess.Popen(
        [sys.executable, "-m", "berth", "mcp", "--cluster", str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def send(line):
        process.stdin.write(line + b"\n")

    def ask(number):
        call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
        send(json.dumps(call).encode())
        process.stdin.flush()
        while (line := json.loads(process.stdout.readline())).get("id") != number:
            assert line.get("jsonrpc") == "2.0", "nothing else is on the wire"
        return line["result"]["structuredContent"]["verdict"]

    def resident():
        fields = Path(f"/proc/{process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    rng = random.Random(4)
    send(json.dumps(HELLO).encode())
    send(json.dumps(READY).encode())
    first = ask(1000)
    for round_ in range(2):
        for _ in range(250):
            send(rng.choice(RUBBISH))
        assert ask(2000 + round_) == first
        if not round_:
            held = resident()
    assert resident() - held < 16 << 20
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--cluster", "none.gz"], "no such file"),
        (["--cluster", "-"], "standard input is the client's"),
        (["--cluster", "x", "--token", "t"], "--token has no effect without --http"),
        (["--skill", "--http"], "leave one of them out"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_is(typed, said):
    found = CliRunner().invoke(main, ["mcp", *typed])
    assert found.exit_code in (1, 2) and said in found.output and "Traceback" not in found.output


def test_the_skill_file_names_every_question():
    from berth_workbench.questions.table import all_questions

    found = CliRunner().invoke(main, ["mcp", "--skill"]).output
    assert found.startswith("---\nname: berth\n")
    assert all(f"`{each.name}`" in found for each in all_questions())


def test_without_the_sdk_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setattr("berth_workbench.cli.mcp.find_spec", lambda name: None)
    found = CliRunner().invoke(main, ["mcp", "--cluster", "x"])
    assert found.exit_code == 1 and "berth-scheduler[mcp]" in found.output
