"""Fragmentation gradient descent against best fit, dot product, packing, chance: how many GPUs are allocated.

The experiment of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), figure 9a: pods of a workload come one after
the other until together they have asked for 130 % of all GPUs; none leaves, one that fits nowhere is dropped. Counted
is the share of all GPUs that is allocated in the end.

    python run.py --openb DIRECTORY   # the authors' workload: openb_node_list_gpu_node.csv, openb_pod_list_default.csv
    python run.py --seeds 20          # one like it, on a smaller cluster
"""

import random
import sys
from collections import Counter
from pathlib import Path

import msgspec
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import arguments, better, draw, table, told
from one_gpu import MILLI, OneGpu

import berth
from berth_plugins.gpu_fragmentation import GpuFragmentation
from berth_workbench.traces.alibaba_gpu_2023 import gpus_of, read_alibaba_gpu_2023
from berth_workbench.traces.trace import JobStarts, NodeComes, PodShapeGiven

HERE = Path(__file__).parent
PAPER = {"fgd": 95.39, "best-fit": 93.08, "packing": 92.00, "dot-product": 90.85, "random": 87.47}
"""What the authors publish with their simulator for ten seeds (analysis_allo_discrete.csv, openb_pod_list_default)."""
BY_SCORE = ("fgd", "best-fit", "packing", "dot-product")
"""Of these the simulator takes the first name among equals."""
POLICIES = (*PAPER, "default", "pack-gpus", "fragmentation")
GIB = 2**30
NODES = [(8, 96, 384)] * 22 + [(2, 104, 512)] * 15 + [(2, 16, 120)] * 5 + [(4, 32, 128)]
"""GPUs, CPUs, and GiB of memory: openb's most frequent nodes, one of about 25."""
REQUESTS = {"none": 13.3, "share": 37.8, 1: 48.0, 2: 0.2, 4: 0.2, 8: 0.5}
"""How many GPUs openb's pods ask for, and how many percent of them do."""
ASKED = 1.3
TYPICAL = 0.95
"""The most frequent kinds of pods that are so many of all are those that FGD expects."""


class Workload(msgspec.Struct):
    """Nodes, and all pods in the order in which they come."""

    nodes: list[NodeComes]
    pods: list[PodShapeGiven]

    def typical(self) -> list[tuple[int, int, int]]:
        """Return the kinds of pods that are expected: CPU, thousandths of a GPU, how many of them there are."""
        kinds = Counter((pod.cpu, pod.resources.get(MILLI, 0)) for pod in self.pods)
        found: list[tuple[int, int, int]] = []
        for (cpu, milli), count in kinds.most_common():
            if sum(each[2] for each in found) < TYPICAL * len(self.pods):
                found.append((cpu, milli, count))
        return found

    @property
    def gpus(self) -> int:
        """How many GPUs there are, in thousandths."""
        return sum(node.resources[MILLI] for node in self.nodes)


def openb(directory: Path, seed: int) -> Workload:
    """Return openb's pods and as many more, drawn from them, as it takes, shuffled; nodes are those with GPUs."""
    records = read_alibaba_gpu_2023(directory / "openb_pod_list_default.csv").records
    nodes = [each for each in records if isinstance(each, NodeComes) and each.resources]
    pods = [each.shape for each in records if isinstance(each, JobStarts)]
    workload, lots = Workload(nodes, list(pods)), random.Random(seed)
    left = ASKED * workload.gpus - sum(pod.resources.get(MILLI, 0) for pod in pods)
    while left > 0:
        workload.pods.append(lots.choice(pods))
        left -= workload.pods[-1].resources.get(MILLI, 0)
    lots.shuffle(workload.pods)
    return workload


def drawn(seed: int) -> Workload:
    """Return pods that ask for GPUs as openb's do, with CPU and memory made up, on a smaller cluster."""
    lots, asked = random.Random(seed), 0
    nodes = [
        NodeComes(at=0, name=f"n{number:03}", cpu=1000 * cpu, memory=memory * GIB, pods=1000, resources=gpus_of(gpus))
        for number, (gpus, cpu, memory) in enumerate(NODES)
    ]
    workload = Workload(nodes, [])
    while asked < ASKED * workload.gpus:
        kind = lots.choices(list(REQUESTS), list(REQUESTS.values()))[0]
        share = 10 * lots.randrange(10, 90)
        resources = gpus_of(kind) if isinstance(kind, int) else {MILLI: share} if kind == "share" else {}
        cpu = min(lots.choice((2, 4, 6, 8, 12)) * max(1, kind if isinstance(kind, int) else 1), 64)
        workload.pods.append(PodShapeGiven(cpu=1000 * cpu, memory=min(4 * cpu, 256) * GIB, resources=resources))
        asked += resources.get(MILLI, 0)
    return workload


def configuration(policy: str, ties: str, seed: int, typical: list[tuple[int, int, int]]):
    """Return a policy's configuration, with the pods that are typical."""
    config = yaml.safe_load((HERE / "policies" / f"{policy}.yaml").read_text())
    plugins = {each["name"]: each["args"] for each in config["profiles"][0]["pluginConfig"]}
    plugins["OneGpu"] |= {"ties": ties, "seed": seed, "typical": typical}
    if "GpuFragmentation" in plugins:
        plugins["GpuFragmentation"]["typicalPods"] = [
            {"requests": {"cpu": f"{cpu}m"} | ({MILLI: str(milli)} if milli else {}), "weight": count}
            for cpu, milli, count in typical
        ]
    return config


def allocated(workload: Workload, policy: str, ties: str = "lot", seed: int = 0) -> float:
    """Return what percentage of all GPUs is allocated in the end."""
    config = configuration(policy, ties, seed, workload.typical())
    scheduler = berth.Scheduler(config, plugins=[GpuFragmentation, OneGpu], seed=seed)
    scheduler.add(*(node.node() for node in workload.nodes))
    given = 0
    for number, pod in enumerate(workload.pods):
        requests = {"cpu": f"{pod.cpu}m", "memory": str(pod.memory)}
        requests |= {name: str(amount) for name, amount in pod.resources.items()}
        spec = {**pod.spec, "containers": [{"name": "c", "resources": {"requests": requests}}]}
        if scheduler.schedule({"kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}).node is None:
            scheduler.remove("Pod", f"p{number}")
        else:
            given += pod.resources.get(MILLI, 0)
    return 100 * given / workload.gpus


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, 20)
    parser.add_argument("--openb", type=Path, help="a directory with openb's lists of nodes and pods")
    parser.add_argument("--policies", nargs="+", default=POLICIES, choices=POLICIES)
    asked = parser.parse_args()
    shares: dict[str, dict[str, list[float]]] = {"lot": {}, "name": {}}
    for seed in range(asked.seeds):
        workload = drawn(seed) if asked.openb is None else openb(asked.openb, seed)
        for ties, found in shares.items():
            for policy in asked.policies if ties == "lot" else [each for each in asked.policies if each in BY_SCORE]:
                found.setdefault(policy, []).append(allocated(workload, policy, ties, seed))
                print(f"seed {seed}, {policy}, ties by {ties}: {found[policy][-1]:.2f} %", file=sys.stderr)
    lot, name = shares.values()
    rows = [
        (
            policy,
            f"{PAPER[policy]:.2f}" if policy in PAPER else "",
            told(name[policy]) if policy in name else "",
            told(lot[policy]),
            better(lot[policy], lot["fgd"]) if policy != "fgd" and "fgd" in lot else "",
        )
        for policy in asked.policies
    ]
    heads = ("policy", "paper, %", "ties by name, %", "ties by lot, %", "better than fgd by")
    print(table(heads, rows), f"\n\n{asked.seeds} workloads, 95 % confidence", sep="")
    if asked.figure:
        draw(asked.figure, "GPUs allocated, %", {f"ties by {ties}": found for ties, found in shares.items()})


if __name__ == "__main__":
    main()
