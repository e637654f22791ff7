"""Clusters that tests share: each process of xdist starts one of a sort, when a test asks for it first.

A test that shares one has a namespace of its own, takes back what it does to nodes and to kube-system, and counts only
what is its own. What is about how a cluster begins or ends, or about all that a cluster holds, has one of its own.
`conftest.py` makes the fixtures known to all tests.
"""

import fcntl
import itertools
import tempfile
from pathlib import Path

import pytest

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def default_port():
    """The scheduler's own port for a module that types commands as people do; another process's module waits for it."""
    with (Path(tempfile.gettempdir()) / "berth-tests-default-port").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def api_server(tmp_path_factory):
    """The kubeconfig of a `berth apiserver`: no nodes, and nobody at work."""
    yield from kubeconfig_of(tmp_path_factory.mktemp("api-server"), "apiserver")


@pytest.fixture(scope="session")
def scheduled_cluster(tmp_path_factory):
    """The kubeconfig of a `berth up` of three nodes, with its scheduler."""
    yield from kubeconfig_of(tmp_path_factory.mktemp("scheduled"), "up", "--nodes", 3, "--scheduler-port", 0)


@pytest.fixture(scope="session")
def unscheduled_cluster(tmp_path_factory):
    """The kubeconfig of a `berth up` of three nodes, for tests that start a scheduler themselves."""
    yield from kubeconfig_of(tmp_path_factory.mktemp("unscheduled"), "up", "--nodes", 3, "--no-scheduler")


def kubeconfig_of(directory, *arguments):
    from tests.e2e.processes import Process  # here, so that tests without a cluster begin sooner

    process = Process(directory / "log", *arguments, "--dir", directory)
    try:
        process.wait_until_it_says("Ctrl-C")
        yield directory / "kubeconfig"
    finally:
        code = process.end()
    assert code == 0 and "Traceback" not in process.said(), process.said()


@pytest.fixture
def namespace_name():
    """The name of a namespace that nobody else has."""
    return f"own-{next(_numbers)}"
