"""What a simulated day costs where all pods fit, and where some have to wait: CPU of `berth simulate` by load.

    python benchmarks/days.py [--pods 100000] [--nodes 1000] [--seed 1] [--runs 1] [LOAD ...]

Each load is a day of `berth trace generate`, 0.9 and 1.0 unless others are named: requests are such that the highest
demand is that share of all CPUs. From about 1 on pods have to wait, and each pod that ends wakes those that do, so that
the day costs more attempts; how many times as much it costs is what is looked at. Each day runs in a process of its
own, in turn with the others, and its CPU is that of the whole process, user and system, reading the trace included.

Prints a table in Markdown, medians where there are several runs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def berth(*arguments: object) -> bytes:
    command = [sys.executable, "-m", "berth", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True).stdout


def lived(trace: Path) -> tuple[float, dict[str, Any]]:
    """Live through a trace; return the CPU seconds that took, and the result."""
    before = os.times()
    result = json.loads(berth("simulate", trace, "-o", "json"))
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu_s, result


def main() -> None:
    """Generate the days, live through them in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loads", nargs="*", type=float, default=[0.9, 1.0], metavar="LOAD")
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    asked = parser.parse_args()
    cpu_s: dict[float, list[float]] = {load: [] for load in asked.loads}
    results: dict[float, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for number in range(asked.runs):
            for load in cpu_s:
                trace = Path(directory) / f"{load}.jsonl"
                if not number:
                    size = ("--pods", asked.pods, "--nodes", asked.nodes)
                    berth("trace", "generate", *size, "--seed", asked.seed, "--load", load, "-o", trace)
                taken, results[load] = lived(trace)
                cpu_s[load].append(taken)
    print(f"{asked.pods} pods on {asked.nodes} nodes, seed {asked.seed}")
    print("\n| load | CPU | ms a binding | times the first | most waiting at a sample | longest wait |")
    print("| --- | --- | --- | --- | --- | --- |")
    first = statistics.median(next(iter(cpu_s.values())))
    for load, taken in cpu_s.items():
        median, result = statistics.median(taken), results[load]
        most = max((sample["waiting"] for sample in result["samples"]), default=0)
        print(
            f"| {load:g} | {median:.1f} s | {1000 * median / max(1, result['bound']):.2f} | {median / first:.2f} "
            f"| {most} | {result['waits']['max']:.0f} s |"
        )


if __name__ == "__main__":
    main()
