"""What the questions of the workbench cost on a cluster of a file: CPU, wall time and memory of the whole command.

    python benchmarks/questions.py SNAPSHOT [SNAPSHOT ...] [--only NAME ...] [--limit 300] [--beside PYTHON]

A question is a command in a process of its own, with the processes that it starts, its reading of the file included.
One that has not ended after `--limit` seconds of wall time is interrupted as a user would, by Ctrl-C, and given ten
more seconds to say what it has found. `--beside` is the interpreter of another checkout, whose commands are run in
turn with ours. `python -m benchmarks.gen_workload` and the like write workloads; `berth snapshot -f` makes files.

Prints a table in Markdown: a row for each question and file.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: asked, namespace: default, labels: {app: asked}}
spec:
  containers: [{name: main, image: asked, resources: {requests: {cpu: "2", memory: 4Gi}}}]
"""
CHANGED = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
"""
GOALS = ("place-pending", "empty-nodes", "even-out", "repair-spread")
QUESTIONS: dict[str, tuple[str, ...]] = {
    "explain -f": ("explain", "--cluster", "{file}", "-f", "{pod}"),
    "explain --what-would-help": ("explain", "--cluster", "{file}", "-f", "{pod}", "--what-would-help"),
    "capacity": ("capacity", "--cluster", "{file}", "-f", "{pod}"),
    "whatif --drain": ("whatif", "--cluster", "{file}", "--drain", "{node}"),
    "whatif --lose-zone": ("whatif", "--cluster", "{file}", "--lose-zone", "{zone}"),
    "survive": ("survive", "--cluster", "{file}"),
    "survive --pairs": ("survive", "--cluster", "{file}", "--pairs"),
    "autoscale": ("autoscale", "--cluster", "{file}"),
    "wait": ("wait", "--cluster", "{file}"),
    "shrink": ("shrink", "--cluster", "{file}"),
    "upgrade-plan": ("upgrade-plan", "--cluster", "{file}"),
    **{f"rebalance {goal}": ("rebalance", "--cluster", "{file}", "--goal", goal) for goal in GOALS},
    "compare": ("compare", "default", "{config}", "--cluster", "{file}"),
}


class Cost(NamedTuple):
    """What a command took."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    end: str
    """Empty where it ended by itself and well."""


def measured(command: Sequence[str], limit_s: float) -> Cost:
    """Run a command, interrupt it when it takes too long, and return what it took."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True
    )
    end = ""
    try:
        _, said = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        end = f"not done after {limit_s:.0f} s"
        os.killpg(process.pid, signal.SIGINT)
        try:
            _, said = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            end += ", deaf to Ctrl-C"
            os.killpg(process.pid, signal.SIGKILL)
            _, said = process.communicate()
    if not end and process.returncode:
        end = f"exit {process.returncode}: {said.strip().splitlines()[-1] if said.strip() else ''}"
    used = _used(said)
    return Cost(used[0], time.monotonic() - began, used[1], end)


def _used(said: str) -> tuple[float, float]:
    """Return the CPU seconds and the peak of memory that the shim has written as its last line."""
    for line in reversed(said.splitlines()):
        if line.startswith(SHIM_MARK):
            cpu_s, peak_kb = line.removeprefix(SHIM_MARK).split()
            return float(cpu_s), float(peak_kb) / 1024
    return float("nan"), float("nan")


SHIM_MARK = "used:"
SHIM = f"""\
import resource, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
code = subprocess.Popen(sys.argv[1:], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)).wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print("{SHIM_MARK}", used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
sys.exit(code if code >= 0 else 128 - code)
"""


def main() -> None:
    """Ask the questions, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="SNAPSHOT")
    parser.add_argument("--only", nargs="*", default=list(QUESTIONS), metavar="NAME")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of wall time for each")
    parser.add_argument("--beside", default=None, metavar="PYTHON")
    parser.add_argument("--node", default="node-00001")
    parser.add_argument("--zone", default="zone-1")
    asked = parser.parse_args()
    pythons = {"": sys.executable, **({" beside": asked.beside} if asked.beside else {})}
    print("| question | file | CPU s | wall s | MB | |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as directory:
        pod, config = Path(directory) / "pod.yaml", Path(directory) / "changed.yaml"
        pod.write_text(POD)
        config.write_text(CHANGED)
        for name in asked.only:
            for file in asked.files:
                for which, python in pythons.items():
                    words = {"file": file, "pod": pod, "config": config, "node": asked.node, "zone": asked.zone}
                    command = [each.format(**words) for each in QUESTIONS[name]]
                    cost = measured([python, "-c", SHIM, python, "-m", "berth", *command], asked.limit)
                    print(
                        f"| {name}{which} | {file.name} | {cost.cpu_s:.1f} | {cost.wall_s:.1f} "
                        f"| {cost.peak_mb:.0f} | {cost.end} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
