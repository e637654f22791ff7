"""Fragmentation gradient descent against packing, spreading and chance: how much of a cluster's GPUs can be given away.

The experiment of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), section 6: pods are drawn from a workload
and come one after the other until together they have asked for more GPUs than there are; none leaves, one that fits
nowhere is dropped. The figure is the share of all GPUs that is allocated at the end.

    python run.py --seeds 20

The pods are not openb's: they are drawn, GPU requests in proportions that are meant to be openb's and were not checked
against it, CPU and memory made up. The plugin of `one_gpu.py` sees to it that a share lies on one GPU.
"""

import argparse
import math
import random
from pathlib import Path

import numpy as np
import yaml
from one_gpu import OneGpu

import berth
from berth_plugins.gpu_fragmentation import GpuFragmentation

HERE = Path(__file__).parent
GPU, MILLI = "nvidia.com/gpu", "alibabacloud.com/gpu-milli"
REQUESTS = {"none": 13.3, "share": 37.8, 1: 48.0, 2: 0.2, 4: 0.2, 8: 0.5}
"""How many GPUs pods ask for, and how many percent of all pods do."""
NODES = [(8, 96, 768)] * 20 + [(4, 64, 384)] * 10 + [(2, 64, 256)] * 20 + [(0, 32, 128)] * 10
"""GPUs, CPUs, and GiB of memory."""
ASKED = 1.3
"""The pods together ask for so much of all GPUs."""
POLICIES = ("fgd", "pack-gpus", "best-fit", "default", "random")


def nodes():
    """Return the nodes as manifests."""
    for number, (gpus, cpu, memory) in enumerate(NODES):
        capacity = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110"}
        capacity |= {GPU: str(gpus), MILLI: str(1000 * gpus)} if gpus else {}
        yield {"kind": "Node", "metadata": {"name": f"n{number:03}"}, "status": {"capacity": capacity}}


def pods(seed):
    """Yield pods as manifests, each with the thousandths of a GPU that it asks for."""
    lots, asked, number = random.Random(seed), 0, 0
    while asked < ASKED * 1000 * sum(gpus for gpus, _, _ in NODES):
        kind = lots.choices(list(REQUESTS), list(REQUESTS.values()))[0]
        milli = {"none": 0, "share": 10 * lots.randrange(10, 90)}.get(kind) if isinstance(kind, str) else 1000 * kind
        cpu = lots.choice((2, 4, 6, 8, 12)) * max(1, milli // 1000)
        requests = {"cpu": str(min(cpu, 64)), "memory": f"{min(4 * cpu, 256)}Gi"}
        requests |= {MILLI: str(milli)} if milli else {}
        requests |= {GPU: str(milli // 1000)} if milli >= 1000 else {}
        container = {"name": "c", "image": "x", "resources": {"requests": requests}}
        yield {"kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": {"containers": [container]}}, milli
        asked, number = asked + milli, number + 1


def allocated(policy, seed):
    """Return the share of all GPUs that is allocated in the end."""
    config = yaml.safe_load((HERE / "policies" / f"{policy}.yaml").read_text())
    scheduler = berth.Scheduler(config, plugins=[GpuFragmentation, OneGpu], seed=seed)
    scheduler.add(*nodes())
    given = 0
    for pod, milli in pods(seed):
        if scheduler.schedule(pod).node is None:
            scheduler.remove("Pod", pod["metadata"]["name"])
        else:
            given += milli
    return given / (1000 * sum(gpus for gpus, _, _ in NODES))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many workloads are drawn")
    count = parser.parse_args().seeds
    found = {policy: [allocated(policy, seed) for seed in range(count)] for policy in POLICIES}
    print(f"| policy | GPUs allocated | better than fgd by | ({count} workloads, 95 % confidence)\n| --- | --- | --- |")
    for policy, shares in found.items():
        more = np.subtract(shares, found["fgd"])
        (mean, reach), (better, better_reach) = (
            (100 * np.mean(each), 196 * np.std(each, ddof=1) / math.sqrt(count)) for each in (shares, more)
        )
        told = "" if policy == "fgd" else f"{better:.2f} ± {better_reach:.2f} points"
        print(f"| {policy} | {mean:.2f} ± {reach:.2f} % | {told} |")


if __name__ == "__main__":
    main()
