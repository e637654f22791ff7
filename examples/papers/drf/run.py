"""Dominant resource fairness: who gets how much when two users want different things, with FairShares and without.

The example of Ghodsi et al., "Dominant Resource Fairness" (NSDI 2011), section 4.1, and what becomes of its promise
while tasks end and others take their place: two users with long queues of tasks, of which one comes later.

    python run.py --seeds 10
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import arguments, better, draw, swept, table, told

import berth
from berth_plugins.fair_shares import FairShares
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.traces.trace import JobStarts, NodeComes, PodShapeGiven, TimedWorkload, TraceHeader

FAIR = Path(__file__).parent / "fair.yaml"
GIB = 2**30
CPUS, MEMORY = 9, 18
TASKS = {"a": (1, 4), "b": (3, 1)}
"""CPUs and GiB of a task of each user, in the paper's example."""
QUEUED = {"a": (1.0, 4.0), "b": (1.0, 0.25)}
"""In the queues, where tasks of three CPUs would wait for room that tasks of one take."""
NODES, MANY, LATER_S, RUNS_S, LASTS_S = 6, 150, 60.0, 60.0, 360.0
"""So many nodes of that size, and tasks of each user; when user b comes; how long a task runs on average, and all."""


def example(config: Path | None) -> dict[str, int]:
    """Return how many tasks of each user run on one machine, where each has more than fit and user a came first."""
    scheduler = berth.Scheduler(config, plugins=[FairShares] if config else [])
    capacity = {"cpu": str(CPUS), "memory": f"{MEMORY}Gi", "pods": "100"}
    scheduler.add({"kind": "Node", "metadata": {"name": "machine"}, "status": {"capacity": capacity}})
    for user, (cpu, memory) in TASKS.items():
        requests = {"cpu": str(cpu), "memory": f"{memory}Gi"}
        spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]}
        scheduler.add(
            *({"kind": "Pod", "metadata": {"name": f"t{n}", "namespace": user}, "spec": spec} for n in range(20))
        )
    placed = [result.pod for result in scheduler.schedule_all() if result.node]
    return {user: sum(pod.startswith(f"{user}/") for pod in placed) for user in TASKS}


def workload(seed: int) -> TimedWorkload:
    """Return two users' queues, b's a minute later than a's; how long tasks run is drawn."""
    lots = random.Random(seed)
    nodes = [
        NodeComes(at=0.0, name=f"n{number}", cpu=1000 * CPUS, memory=MEMORY * GIB, pods=100) for number in range(NODES)
    ]
    jobs = [
        JobStarts(
            at=at,
            name="tasks",
            namespace=user,
            pods=MANY,
            runs=tuple(lots.uniform(0.5, 1.5) * RUNS_S for _ in range(MANY)),
            shape=PodShapeGiven(cpu=int(1000 * QUEUED[user][0]), memory=int(QUEUED[user][1] * GIB)),
        )
        for user, at in (("a", 0.0), ("b", LATER_S))
    ]
    return TimedWorkload(TraceHeader(seconds=LASTS_S, sample_s=10.0), (*nodes, *jobs))


def main() -> None:
    """Print both tables."""
    asked = arguments(__doc__, 10).parse_args()
    ours = {"default": example(None), "FairShares": example(FAIR)}
    share = {user: max(cpu / CPUS, memory / MEMORY) for user, (cpu, memory) in TASKS.items()}
    rows = [
        (name, str(tasks["a"]), str(tasks["b"]), *(f"{100 * tasks[user] * share[user]:.0f} %" for user in TASKS))
        for name, tasks in {"paper": {"a": 3, "b": 2}, **ours}.items()
    ]
    print(table(("", "tasks of a", "tasks of b", "dominant share of a", "of b"), rows), "\n")
    sources = [ConfigurationSource("default")]
    sources.append(ConfigurationSource.of_file(FAIR, ["berth_plugins.fair_shares:FairShares"], name="FairShares"))
    found = swept([workload(seed) for seed in range(asked.seeds)], sources)
    measures = {"fairness": "Jain's index of dominant shares", "utilisation.cpu": "CPUs requested"}
    fairness = found["default"]["fairness"]
    rows = [
        (name, *(told(values[measure]) for measure in measures), better(values["fairness"], fairness))
        for name, values in found.items()
    ]
    print(table(("", *measures.values(), "fairer by"), rows), f"\n\n{asked.seeds} workloads, 95 % confidence", sep="")
    if asked.figure:
        draw(asked.figure, "Jain's index", {"": {name: values["fairness"] for name, values in found.items()}})


if __name__ == "__main__":
    main()
