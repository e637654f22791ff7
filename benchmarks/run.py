"""Run every workload through `berth bench` and print a table: what `make bench` does.

    python benchmarks/run.py [NODES] [PODS] [SCENARIO …]

Each scenario runs in a process of its own, three times; the median is shown. Timings on shared machines are noisy:
compare two things in one run.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SCENARIOS = ("basic", "unique", "anti", "affinity", "prefanti", "spread", "prefspread", "mixed", "preempt")
RUNS = 3


def figures(workload: Path, check: int) -> dict[str, float]:
    berth = Path(sys.executable).with_name("berth")
    command = [berth, "bench", str(workload), "--json", "--check", str(check)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(scenario: str, nodes: str, pods: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        workload = Path(directory) / f"{scenario}.jsonl"
        with workload.open("w") as out:
            generator = [sys.executable, HERE / "gen_workload.py", scenario, nodes, pods]
            subprocess.run(generator, check=True, stdout=out)
        runs = [figures(workload, 50 if number == 0 else 0) for number in range(RUNS)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def main() -> None:
    nodes, pods = (sys.argv[1:3] + ["5000", "2000"][len(sys.argv[1:3]) :])[:2]
    print(f"{nodes} nodes, {pods} pods, every node scored; median of {RUNS} runs, 50 decisions checked in the first")
    print(f"{'scenario':12} {'pods/s':>9} {'ms/pod':>9} {'failed':>7} {'nodes used':>11} {'rss MB':>8}")
    for scenario in sys.argv[3:] or SCENARIOS:
        found = measure(scenario, nodes, pods)
        print(
            f"{scenario:12} {found['pods_per_s']:9.0f} {found['ms_per_pod']:9.3f} {found['failed']:7.0f}"
            f" {found['nodes_used']:11.0f} {found['rss_mb']:8.0f}",
            flush=True,
        )


main()
