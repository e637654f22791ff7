"""What holds for every test: hypothesis is deterministic and knows no deadlines, since machines are shared.

`HYPOTHESIS_PROFILE=all` (what `make test-all` sets) has them look at three times as much, and
`HYPOTHESIS_PROFILE=soak` (what `make soak` sets) looks further, and somewhere else each time. Histories of faults
have fresh seeds there alone: `BERTH_FAULTS_SEED` repeats those of another run, and `--seed` lives one by itself.
Random what-ifs are the same in each run; `--questions 1000` asks more of them, and `--seed` asks one alone.
"""

import gc
import os
import random
import resource
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from tests.clusters import api_server, default_port, namespace_name, scheduled_cluster, unscheduled_cluster
from tests.effort import LONG_ROOMS, examples
from tests.paths import ROOT

__all__ = ["api_server", "default_port", "namespace_name", "scheduled_cluster", "unscheduled_cluster"]

for name in ("berth", "all"):
    settings.register_profile(
        name,
        deadline=None,
        derandomize=True,
        max_examples=examples(100),
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.register_profile("soak", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "berth"))


def pytest_addoption(parser):
    """Options of histories of faults (tests/faults), and of random what-ifs (packages/workbench/tests/planning)."""
    parser.addoption("--seed", type=int, default=None, help="live this one history of faults again")
    parser.addoption("--histories", type=int, default=30, help="how many histories of faults to live")
    parser.addoption("--questions", type=int, default=20, help="how many random what-ifs to hold against the oracle")


def pytest_configure(config):
    """Choose where the fresh seeds of `make soak` begin; the processes of xdist inherit the choice."""
    fresh = os.environ.setdefault("BERTH_FAULTS_SEED", str(random.randrange(10_000, 1_000_000_000)))
    config.fresh_seed = int(fresh)
    # Schedulers that tests start keep their decision logs where they are in nobody's way.
    config.state_home = tempfile.TemporaryDirectory(prefix="berth-tests-")
    os.environ["XDG_STATE_HOME"] = config.state_home.name


def pytest_collection_modifyitems(items):
    """Mark the tests of long rooms."""
    places = tuple(f"{ROOT}/{room}" for room in LONG_ROOMS)
    for item in items:
        if str(item.path).startswith(places):
            item.add_marker(pytest.mark.long)


@pytest.fixture(autouse=True)
def _garbage_is_collected():
    """Look for garbage whenever the process has grown by 100 MB.

    What reads a cluster freezes and unfreezes all objects, and so moves garbage to where Python hardly ever looks.
    """
    yield
    gc.unfreeze()
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if peak_kib > _grown_to["KiB"] + 100 * 1024:
        gc.collect()
        _grown_to["KiB"] = peak_kib


_grown_to = {"KiB": 0}


@pytest.fixture(params=["libcurl", "aiohttp"])
def each_way(request, monkeypatch):
    """Live a test twice, with short requests by libcurl and by aiohttp."""
    from berth.kube.http import curl

    if request.param == "aiohttp":
        monkeypatch.setattr(curl, "is_available", lambda: False)
    elif not curl.is_available():
        pytest.skip("no libcurl here that can do it")


def pytest_unconfigure(config):
    """Remove what was kept for the length of the tests."""
    config.state_home.cleanup()


def pytest_terminal_summary(terminalreporter, config):
    """Say which seeds were chosen, so that the run can be repeated."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    if any("test_long_faults" in report.nodeid for report in reports):
        terminalreporter.write_line(f"histories of faults: fresh seeds from BERTH_FAULTS_SEED={config.fresh_seed}")
