"""Run every workload through `berth bench` and print a table: what `make bench` does.

    python benchmarks/run.py [NODES] [PODS] [SCENARIO …]

Each scenario runs in a process of its own, three times; the median is shown. Timings on shared machines are noisy:
compare two things in one run. Without numbers there are 5,000 nodes, or as many as `NODES` says, and 2,000 pods.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.scenarios import FEATURE_GATES, SCENARIOS, write  # noqa: E402 - runs from any directory

RUNS = 3
NODES = {"devices": 1000}
"""How many nodes a scenario has unless another number is given."""


def figures(workload: Path, scenario: str, check: int) -> dict[str, float]:
    command = [sys.executable, "-m", "berth", "bench", str(workload), "--json", "--check", str(check)]
    if scenario in FEATURE_GATES:
        command += ["--feature-gates", FEATURE_GATES[scenario]]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(scenario: str, nodes: int, pods: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        workload = Path(directory) / f"{scenario}.jsonl"
        with workload.open("w") as out:
            write(scenario, nodes, pods, out)
        runs = [figures(workload, scenario, 50 if number == 0 else 0) for number in range(RUNS)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def main() -> None:
    numbers = [int(text) for text in sys.argv[1:3]]
    pods = numbers[1] if len(numbers) > 1 else 2000
    print(f"{pods} pods, every node scored; median of {RUNS} runs, 50 decisions checked in the first")
    print(f"{'scenario':12} {'nodes':>7} {'pods/s':>9} {'ms/pod':>9} {'failed':>7} {'nodes used':>11} {'rss MB':>8}")
    for scenario in sys.argv[3:] or SCENARIOS:
        nodes = numbers[0] if numbers else NODES.get(scenario, 5000)
        found = measure(scenario, nodes, pods)
        print(
            f"{scenario:12} {nodes:7} {found['pods_per_s']:9.0f} {found['ms_per_pod']:9.3f} {found['failed']:7.0f}"
            f" {found['nodes_used']:11.0f} {found['rss_mb']:8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
