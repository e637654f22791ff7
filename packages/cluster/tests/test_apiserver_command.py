"""`berth apiserver`: how it starts, what it says, how it ends."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

BERTH = Path(sys.executable).with_name("berth")
END_S = 20


def start(*arguments):
    return subprocess.Popen(
        [BERTH, "apiserver", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_the_kubeconfig_is_and_ends_cleanly(tmp_path, number):
    process = start("--dir", tmp_path / "here", "--token", "let-me-in")
    said = [process.stdout.readline() for _ in range(3)]
    config = yaml.safe_load((tmp_path / "here" / "kubeconfig").read_text())
    process.send_signal(number)
    rest, _ = process.communicate(timeout=END_S)
    assert said[0].startswith("API server ready at https://127.0.0.1:")
    assert said[1].strip() == f"export KUBECONFIG={tmp_path / 'here' / 'kubeconfig'}"
    assert config["users"][0]["user"]["token"] == "let-me-in"
    assert config["clusters"][0]["cluster"]["server"] == said[0].split()[-1]
    assert (process.returncode, rest) == (0, "")


def test_a_port_that_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start("--dir", tmp_path, "--port", str(port))
        said, _ = process.communicate(timeout=END_S)
    assert process.returncode == 1
    assert f"cannot serve on 127.0.0.1:{port}" in said and "Traceback" not in said


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    process = start("--dir", tmp_path / "file" / "below")
    said, _ = process.communicate(timeout=END_S)
    assert process.returncode == 1
    assert "choose another --host, --port or --dir" in said and "Traceback" not in said


def test_a_second_server_in_one_directory_is_refused_in_one_line(tmp_path):
    first = start("--dir", tmp_path)
    try:
        assert first.stdout.readline().startswith("API server ready")
        before = (tmp_path / "kubeconfig").read_bytes()
        for command in (["apiserver"], ["up", "--nodes", "1"]):
            second = subprocess.run(
                [BERTH, *command, "--dir", tmp_path], capture_output=True, text=True, timeout=END_S, check=False
            )
            assert second.returncode == 1
            assert f"{tmp_path} is in use: process {first.pid} runs a server there" in second.stderr
            assert "Traceback" not in second.stderr
        assert (tmp_path / "kubeconfig").read_bytes() == before
    finally:
        first.terminate()
        first.communicate(timeout=END_S)
