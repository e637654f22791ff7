"""How far tests look (`make test` less far than `make test-all`, which sets `HYPOTHESIS_PROFILE=all`), and how much
work something is, on whatever machine: counted, or beside the same work in another size."""

import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

SHARE = 3

LONG_ROOMS = (
    "packages/cluster/tests/storage/test_object_file.py",
    "packages/cluster/tests/suite/",
    "packages/cluster/tests/test_apiserver_command.py",
    "packages/cluster/tests/test_chaos.py",
    "packages/cluster/tests/test_demo.py",
    "packages/cluster/tests/test_durability.py",
    "packages/cluster/tests/test_kubectl.py",
    "packages/cluster/tests/test_kubectl_custom_resources.py",
    "packages/cluster/tests/test_manifests.py",
    "packages/cluster/tests/test_up.py",
    "packages/plugins/tests/test_kept_preemption.py",
    "packages/plugins/tests/test_numa_contract.py",
    "packages/scheduler/tests/cycle/test_crowds.py",
    "packages/scheduler/tests/kube/credentials/test_fuzz.py",
    "packages/scheduler/tests/kube/http/test_curl.py",
    "packages/scheduler/tests/kube/test_two_writers.py",
    "packages/scheduler/tests/testing/test_blind_spots.py",
    "packages/workbench/tests/cli/test_bad_input.py",
    "packages/workbench/tests/comparison/test_tune.py",
    "packages/workbench/tests/lab/test_notebooks.py",
    "packages/workbench/tests/planning/test_autoscale_oracle.py",
    "packages/workbench/tests/planning/test_survival_oracle.py",
    "packages/workbench/tests/planning/test_whatif_brute_force.py",
    "packages/workbench/tests/mcp/test_malformed.py",
    "packages/workbench/tests/mcp/test_process.py",
    "packages/workbench/tests/planning/upgrade/test_each_alone.py",
    "packages/workbench/tests/planning/upgrade/test_remedies.py",
    "packages/workbench/tests/planning/upgrade/test_search.py",
    "packages/workbench/tests/questions/test_ending_early.py",
    "packages/workbench/tests/questions/test_several_processes.py",
    "packages/workbench/tests/scheduler_perf/",
    "packages/workbench/tests/simulation/test_at_once.py",
    "packages/workbench/tests/snapshot/test_anonymized_answers.py",
    "packages/workbench/tests/snapshot/test_room.py",
    "packages/workbench/tests/test_bench.py",
    "packages/workbench/tests/test_one_cluster_every_tool.py",
    "tests/benchmarks/",
    "tests/cli/test_plugins.py",
    "tests/cli/test_wrong_configurations.py",
    "tests/conformance/test_plugin_decisions.py",
    "tests/deploy/test_chart.py",
    "tests/deploy/test_operations.py",
    "tests/e2e/",
    "tests/fuzz/",
    "tests/growth/",
    "tests/liveness/",
    "tests/workbench/cli/test_rebalance_live.py",
    "tests/workbench/cli/test_replay.py",
)
"""Where every test is `long`: processes, real clocks, random worlds beside directed tests (docs/testing.md)."""


WITH_AND_WITHOUT_MEMOS = pytest.mark.parametrize(
    "memos", [pytest.param(True, id="memos"), pytest.param(False, id="no-memos", marks=pytest.mark.long)]
)
"""Recorded cases are decided with what is remembered in every run of the tests, and with nothing kept in a long one."""


def looks_everywhere():
    return os.environ.get("HYPOTHESIS_PROFILE", "") in ("all", "soak")


def worlds_of(count, in_all):
    """So many random worlds with `HYPOTHESIS_PROFILE=soak`, for hours, and fewer in `make test-all`."""
    return count if os.environ.get("HYPOTHESIS_PROFILE", "") == "soak" else in_all


def examples(count):
    """So many examples in `make test-all`, and a third of them in `make test`."""
    return count if looks_everywhere() else max(1, count // SHARE)


def instructions(does: Callable[[], object]) -> int:
    """How many bytecode instructions a function makes, which are the same on every machine."""
    counted = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal counted
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        does()
    finally:
        sys.settrace(before)
    return counted


def calls(does: Callable[[], object]) -> int:
    """How often a function calls others and returns from them, those that are written in C among them."""
    counted = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal counted
        counted += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        does()
    finally:
        sys.setprofile(before)
    return counted


def times_as_long(large: Callable[[], object], small: Callable[[], object], tries: int = 3) -> float:
    """How many times as much processor time one thing takes as another, each at its best of several tries in turn.

    For what is done in C, where nothing can be counted. The garbage collector is off, since it looks at all that other
    tests have left behind.
    """
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        best = [min(each) for each in zip(*((_seconds(large), _seconds(small)) for _ in range(tries)), strict=True)]
    finally:
        if was_on:
            gc.enable()
    return best[0] / max(best[1], 1e-9)


def _seconds(does: Callable[[], object]) -> float:
    began = time.process_time()
    does()
    return time.process_time() - began
