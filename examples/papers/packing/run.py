"""Packing heuristics against CP-SAT: how many pods get a node when there is hardly room for all of them.

After Christensen, Giallorenzo and Mauro, "Priority Matters: Optimising Kubernetes Clusters Usage with Constraint-Based
Pod Packing" (2025): small clusters, pods that ask for about as much as there is, and a solver that is given a second.
Here all pods have the same priority, and what the solver has found is bound with the scheduler's filters asked.

    python run.py --seeds 20
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path

from ortools.sat.python import cp_model

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import arguments, better, draw, table, told

import berth

MOST_ALLOCATED = Path(__file__).parent / "most-allocated.yaml"
NODES, CPU, MEMORY, USAGE = 8, 8000, 16_384, 1.0
"""Nodes, what each has (thousandths of a CPU, MiB), and how much of all CPUs and memory pods ask for."""
PODS_A_NODE = 4
Pod = tuple[int, int]
"""CPU and memory."""


def pods_of(seed: int) -> list[Pod]:
    """Return pods of all sizes, as many as ask for `USAGE` of the CPUs or memory."""
    lots, found = random.Random(seed), list[Pod]()
    while True:
        cpu, memory = (round(lots.uniform(0.2, 1.8) * whole / PODS_A_NODE) for whole in (CPU, MEMORY))
        found.append((cpu, memory))
        asked = [sum(pod[part] for pod in found) for part in (0, 1)]
        if asked[0] > USAGE * NODES * CPU or asked[1] > USAGE * NODES * MEMORY:
            return found[:-1]


def scheduler_with_nodes(config: Path | None = None, seed: int = 0) -> berth.Scheduler:
    """Return a scheduler that has the nodes."""
    scheduler = berth.Scheduler(config, seed=seed)
    capacity = {"cpu": f"{CPU}m", "memory": f"{MEMORY}Mi", "pods": "110"}
    for number in range(NODES):
        scheduler.add({"kind": "Node", "metadata": {"name": f"n{number}"}, "status": {"capacity": capacity}})
    return scheduler


def manifest(number: int, pod: Pod) -> dict[str, object]:
    """Return a pod as a manifest."""
    requests = {"cpu": f"{pod[0]}m", "memory": f"{pod[1]}Mi"}
    spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]}
    return {"kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}


def scheduled(pods: Sequence[Pod], config: Path | None, seed: int, *, smallest_first: bool = False) -> dict[int, int]:
    """Return the nodes of pods, both by number, as the scheduler places one after the other."""
    scheduler = scheduler_with_nodes(config, seed)
    order = sorted(range(len(pods)), key=lambda at: max(pods[at][0] / CPU, pods[at][1] / MEMORY))
    found = {}
    for number in order if smallest_first else range(len(pods)):
        node = scheduler.schedule(manifest(number, pods[number])).node
        if node is None:
            scheduler.remove("Pod", f"p{number}")
        else:
            found[number] = int(node[1:])
    return found


def solved(pods: Sequence[Pod], hint: dict[int, int], seconds: float) -> tuple[dict[int, int], bool]:
    """Return the nodes of the most pods that CP-SAT can place, and whether it proves that there is nothing better.

    Seconds are the solver's own, deterministic ones. It begins with a placement that is known.
    """
    model = cp_model.CpModel()
    at = {(pod, node): model.new_bool_var("") for pod in range(len(pods)) for node in range(NODES)}
    for pod in range(len(pods)):
        model.add_at_most_one(at[pod, node] for node in range(NODES))
    for node in range(NODES):
        for part, capacity in ((0, CPU), (1, MEMORY)):
            model.add(sum(pods[pod][part] * at[pod, node] for pod in range(len(pods))) <= capacity)
    for (pod, node), variable in at.items():
        model.add_hint(variable, hint.get(pod) == node)
    model.maximize(sum(at.values()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_deterministic_time = 1, seconds
    status = solver.solve(model)
    found = {pod: node for (pod, node), variable in at.items() if solver.boolean_value(variable)}
    return found, status == cp_model.OPTIMAL


def bound(pods: Sequence[Pod], placement: dict[int, int]) -> int:
    """Bind every pod where the solver puts it, if the scheduler's filters agree; return how many are bound."""
    scheduler = scheduler_with_nodes()
    for number, node in placement.items():
        pod = manifest(number, pods[number])
        if not scheduler.feasible(pod)[scheduler.node_names.index(f"n{node}")]:
            raise SystemExit(f"pod {number} does not fit on n{node}, which the solver's model does not know")
        scheduler.bind(pod, f"n{node}")
    return len(scheduler.placements)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, 20)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long CP-SAT may take, in its own seconds")
    asked = parser.parse_args()
    shares: dict[str, list[float]] = {}
    failing = improved = certified = 0
    for seed in range(asked.seeds):
        pods = pods_of(seed)
        default = scheduled(pods, None, seed)
        solution, is_proven = solved(pods, default, asked.seconds)
        placed = {
            "default": len(default),
            "most allocated": len(scheduled(pods, MOST_ALLOCATED, seed)),
            "most allocated, smallest first": len(scheduled(pods, MOST_ALLOCATED, seed, smallest_first=True)),
            "CP-SAT": bound(pods, solution),
        }
        for name, count in placed.items():
            shares.setdefault(name, []).append(100 * count / len(pods))
        failing += len(default) < len(pods)
        improved += len(solution) > len(default)
        certified += len(default) < len(pods) and is_proven and len(solution) == len(default)
    rows = [(name, told(each, 1), better(each, shares["default"], 1)) for name, each in shares.items()]
    print(table(("who packs", "pods with a node, %", "more than default"), rows), "\n")
    if failing:
        rows = [
            ("CP-SAT places more, % of these", "over 44 (1 s), over 73 (10 s)", f"{100 * improved / failing:.0f}"),
            ("the default is proven optimal, % of these", "over 19", f"{100 * certified / failing:.0f}"),
        ]
        print(table((f"clusters where the default leaves pods: {failing} of {asked.seeds}", "paper", "here"), rows))
    print(f"\n{asked.seeds} clusters, 95 % confidence, CP-SAT has {asked.seconds:g} s")
    if asked.figure:
        draw(asked.figure, "pods with a node, %", {"": shares})


if __name__ == "__main__":
    main()
