"""Gangs with and without backfilling: how much of a machine parallel jobs use, and how long they wait.

Jobs of many pods, all of which run at the same time, come faster than the machine can run them. They begin in their
order; in their order, with EASY backfilling; or whichever fits when room is made, as gangs do without a plugin.

    python run.py --seeds 10
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import arguments, better, draw, swept, table, told

from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.traces.trace import (
    JobStarts,
    NodeComes,
    ObjectComes,
    PodShapeGiven,
    TimedWorkload,
    TraceHeader,
    by_time,
)

HERE = Path(__file__).parent
NODES, NODE_CPUS, JOBS, HOURS = 8, 8, 80, 3.0
LOAD = 1.5
"""The jobs together ask for so much of the machine in that time."""
SIZES = (1, 2, 4, 8, 16, 32, 64)
GATES = "GenericWorkload=true,GangScheduling=true"


def workload(seed: int) -> TimedWorkload:
    """Return jobs whose sizes are powers of two and whose durations are spread evenly over orders of magnitude."""
    lots = random.Random(seed)
    nodes = [
        NodeComes(at=0.0, name=f"n{number}", cpu=1000 * NODE_CPUS, memory=2**36, pods=110) for number in range(NODES)
    ]
    drawn = [(lots.uniform(0, HOURS), lots.choice(SIZES), 10 ** lots.uniform(0, 1.5)) for _ in range(JOBS)]
    scale = LOAD * NODES * NODE_CPUS * HOURS * 3600 / sum(pods * runs for _, pods, runs in drawn)
    records: list[ObjectComes | JobStarts] = []
    for number, (hour, pods, runs) in enumerate(sorted(drawn)):
        name, seconds = f"job-{number:03}", round(scale * runs, 1)
        group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
        group |= {"metadata": {"name": name, "namespace": "default"}}
        group |= {"spec": {"schedulingPolicy": {"gang": {"minCount": pods}}}}
        records.append(ObjectComes(at=3600 * hour, manifest=group))
        labels = {"job": name, "pods": str(pods), "runs": str(seconds)}
        shape = PodShapeGiven(cpu=1000, labels=labels, spec={"schedulingGroup": {"podGroupName": name}})
        records.append(JobStarts(at=3600 * hour, name=name, pods=pods, runs=(seconds,), shape=shape))
    return TimedWorkload(TraceHeader(seconds=3600 * HOURS, sample_s=60.0), (*nodes, *by_time(records)))


def main() -> None:
    """Print the table."""
    asked = arguments(__doc__, 10).parse_args()
    plugin = [f"{HERE / 'in_order.py'}:InOrder"]
    sources = [
        ConfigurationSource.of_file(HERE / f"{name}.yaml", plugin, GATES, name=told_as)
        for name, told_as in (("in-order", "in order"), ("easy", "EASY backfilling"))
    ]
    sources.append(ConfigurationSource("whichever fits", feature_gates=GATES))
    found = swept([workload(seed) for seed in range(asked.seeds)], sources)
    used = {name: [100 * each for each in values["utilisation.cpu"]] for name, values in found.items()}
    rows = [
        (
            name,
            told(used[name], 1),
            better(used[name], used["in order"], 1),
            told([each / 60 for each in values["waiting.mean"]], 1),
            told(values["neverPlaced"], 0),
        )
        for name, values in found.items()
    ]
    heads = ("jobs begin", "CPUs used, %", "more than in order", "mean wait of a pod, min", "pods that never began")
    print(table(heads, rows), f"\n\n{asked.seeds} workloads, 95 % confidence", sep="")
    if asked.figure:
        draw(asked.figure, "CPUs used, %", {"": used})


if __name__ == "__main__":
    main()
