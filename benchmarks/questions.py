"""What the questions of the workbench cost on a cluster of a file: CPU, wall time and memory of the whole command.

    python benchmarks/questions.py SNAPSHOT [SNAPSHOT ...] [--only NAME ...] [--limit 300] [--beside PYTHON]

A question is a command in a process of its own, with the processes that it starts, its reading of the file included.
One that has not ended after `--limit` seconds of wall time is interrupted as a user would, by Ctrl-C, and given ten
more seconds to say what it has found. `--beside` is the interpreter of another checkout, whose commands are run in
turn with ours. `python -m benchmarks.gen_workload` writes workloads; `berth snapshot -f` makes a file of one.

Prints a table in Markdown: a row for each question and file.
"""

import argparse
import math
import os
import resource
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
GROUPS = """\
groups:
- {name: more, template: {metadata: {labels: {pool: more}}, status: {allocatable: {cpu: 32, memory: 128Gi, pods: 110}}}}
"""
GOALS = ("place-pending", "empty-nodes", "even-out", "repair-spread")
QUESTIONS: dict[str, tuple[str, ...]] = {
    "explain --what-would-help": ("explain", "--cluster", "{file}", "-f", "{pod}", "--what-would-help"),
    "capacity": ("capacity", "--cluster", "{file}", "-f", "{pod}"),
    "whatif --drain": ("whatif", "--cluster", "{file}", "--drain", "{node}"),
    "whatif --lose-zone": ("whatif", "--cluster", "{file}", "--lose-zone", "{zone}"),
    "survive": ("survive", "--cluster", "{file}"),
    "survive --pairs": ("survive", "--cluster", "{file}", "--pairs"),
    "autoscale": ("autoscale", "--cluster", "{file}", "--groups", "{groups}"),
    "wait": ("wait", "--cluster", "{file}"),
    "upgrade-plan": ("upgrade-plan", "--cluster", "{file}"),
    **{f"rebalance {goal}": ("rebalance", "--cluster", "{file}", "--goal", goal) for goal in GOALS},
    "compare": ("compare", "default", "{config}", "--cluster", "{file}"),
}


PATIENCE_S = 10.0
"""So long a command has to end after Ctrl-C."""


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
    # An installation's modules are compiled; so are those of a checkout after its first command.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=said, env=environment, start_new_session=True
        )
        end = ""
        ended = _wait(process.pid, limit_s)
        if ended is None:
            end = f"not done after {limit_s:.0f} s"
            os.killpg(process.pid, signal.SIGINT)
            ended = _wait(process.pid, PATIENCE_S)
        if ended is None:
            end += ", deaf to Ctrl-C"
            os.killpg(process.pid, signal.SIGKILL)
            ended = _wait(process.pid, math.inf)
        assert ended is not None, "what is killed ends"
        status, used = ended
        process.returncode = status  # it was waited for here, where its resources are told as well
        said.seek(0)
        lines = said.read().strip().splitlines()
    if not end and status:
        end = f"exit {os.waitstatus_to_exitcode(status)}: {lines[-1] if lines else ''}"
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024, end)


def _wait(pid: int, limit_s: float) -> tuple[int, resource.struct_rusage] | None:
    """Return how a process has ended, and what it and its children have used; None where it has not."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            return status, used
        time.sleep(0.02)
    return None


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
        written = {"pod": POD, "config": CHANGED, "groups": GROUPS}
        paths = {name: Path(directory) / f"{name}.yaml" for name in written}
        for name, text in written.items():
            paths[name].write_text(text)
        for name in asked.only:
            for file in asked.files:
                for which, python in pythons.items():
                    words = {"file": file, "node": asked.node, "zone": asked.zone, **paths}
                    command = [each.format(**words) for each in QUESTIONS[name]]
                    cost = measured([python, "-m", "berth", *command], asked.limit)
                    print(
                        f"| {name}{which} | {file.name} | {cost.cpu_s:.1f} | {cost.wall_s:.1f} "
                        f"| {cost.peak_mb:.0f} | {cost.end} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
