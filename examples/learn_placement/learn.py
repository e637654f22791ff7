"""Learns where to put pods on a GPU cluster, on one core in minutes, and says whether that was worth it.

    pip install -r requirements.txt  # beside Berth with its extra gym
    python learn.py --generations 40

A policy is a small network that scores each node on which a pod fits; the best one gets the pod. CMA-ES (the library
`cma`) changes its weights so that pods wait less, over generated days that it has not seen before in each generation.
Then it is judged on other days, beside random choices, the scheduler's default, and a configuration that packs GPUs,
each on the same days: the table has the mean hours that all pods together waited, and 95 % confidence intervals of the
differences. What it finds is written as an ONNX model for the plugin ModelScore, with a configuration for `berth run`,
`simulate` and `compare`, and `--curve` draws how it was learned.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np

from berth_workbench.lab.gym import NodeShares, TraceEnv
from berth_workbench.traces.generator import DailyPattern, daily_pattern

GPU, MILLI = "nvidia.com/gpu", "alibabacloud.com/gpu-milli"
RESOURCES = ("cpu", "memory", GPU, MILLI)
PATTERN = DailyPattern(
    pods=300, nodes=16, services=4, seconds=4 * 3600.0, node_cpu=32, gpu_nodes=8, node_gpus=8, load=0.95
)
INPUTS, HIDDEN = 2 * len(RESOURCES), 6
SIZE = (INPUTS + 1) * HIDDEN + HIDDEN
GPUS_MOST_ALLOCATED = {
    "scoringStrategy": {
        "type": "MostAllocated",
        "resources": [{"name": MILLI, "weight": 2}, {"name": "cpu", "weight": 1}],
    }
}
PACKED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": GPUS_MOST_ALLOCATED}]}],
}
"""Fills nodes one after the other, by GPUs above all: what one line of configuration does."""
JUDGED_FROM = 1_000_000
"""The first seed of the days on which policies are judged; those of learning are below."""


def day(seed):
    """Return a workload."""
    return daily_pattern(PATTERN, seed)


def weights(vector):
    """Return the layers of a policy: a matrix and a bias, and the weights of what comes out of them."""
    first = np.asarray(vector[: INPUTS * HIDDEN]).reshape(INPUTS, HIDDEN)
    bias, last = np.split(np.asarray(vector[INPUTS * HIDDEN :]), 2)
    return first, bias, last


def policy(vector):
    """Return what chooses by a network: an action for what is observed."""
    first, bias, last = weights(vector)

    def choose(_env, seen):
        scores = np.tanh(seen[:, 1:] @ first + bias) @ last
        return int(np.argmax(np.where(seen[:, 0] > 0, scores, -np.inf)))

    return choose


def lived(choose, seed, config=None):
    """Return how many hours all pods together waited on a day."""
    env = TraceEnv(day, observation=NodeShares(GPU, MILLI), config=config)
    seen, _ = env.reset(seed=seed)
    while env.pod is not None:
        seen, *_ = env.step(choose(env, seen))
    return env.total_waited_s / 3600


def at_random(seed):
    """Return what chooses among the nodes that fit, with equal chances."""
    lots = np.random.default_rng(seed)
    return lambda _env, seen: int(lots.choice(np.flatnonzero(seen[:, 0])))


def by_default(env, _seen):
    """Choose as the scheduler does, by its configuration."""
    return env.default_action()


def interval(values):
    """Return the mean of values, and how far its 95 % confidence interval reaches to each side."""
    return float(np.mean(values)), 1.96 * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def learn(generations, seed=1):
    """Return the weights that were best on average, and the curve: seconds, and the mean of each generation.

    The budget is in generations, so that what is learned does not depend on how fast the machine is.
    """
    import cma  # only learning needs it

    search = cma.CMAEvolutionStrategy(np.zeros(SIZE), 0.5, {"seed": seed, "verbose": -9, "popsize": 12})
    began, curve = time.process_time(), []
    for generation in range(generations):
        tried = search.ask()
        days = (2 * generation + 1, 2 * generation + 2)  # new days each time, the same for all that are compared
        costs = [sum(lived(policy(each), day) for day in days) for each in tried]
        search.tell(tried, costs)
        curve.append((time.process_time() - began, float(np.mean(costs)) / len(days)))
        print(f"generation {generation + 1}: {curve[-1][1]:.1f} hours waited", flush=True)
    return search.result.xfavorite, curve


def judge(vector, days):
    """Print how the policy fares beside others on days that none has seen."""
    seeds = range(JUDGED_FROM, JUDGED_FROM + days)
    hours = {
        "random": [lived(at_random(seed), seed) for seed in seeds],
        "default": [lived(by_default, seed) for seed in seeds],
        "packed GPUs": [lived(by_default, seed, PACKED) for seed in seeds],
        "learned": [lived(policy(vector), seed) for seed in seeds],
    }
    print(f"{'':12}{'hours waited':>14}{'learned is better by':>24}")
    for name, each in hours.items():
        mean, _ = interval(each)
        better, reach = interval(np.subtract(each, hours["learned"]))
        print(f"{name:12}{mean:14.1f}" + ("" if name == "learned" else f"{better:16.1f} ± {reach:.1f}"))
    for name in ("random", "default", "packed GPUs"):
        better, reach = interval(np.subtract(hours[name], hours["learned"]))
        verdict = "beats" if better - reach > 0 else "loses to" if better + reach < 0 else "cannot be told from"
        print(f"On {days} days the learned policy {verdict} {name}.")


def draw_curve(curve, file):
    """Draw the hours waited on the days of each generation, and their mean over ten generations."""
    from matplotlib.figure import Figure

    seconds, hours = np.array(curve).T
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(seconds, hours, ".", label="a generation, on days of its own")
    width = min(10, len(hours))
    axes.plot(seconds[width - 1 :], np.convolve(hours, np.full(width, 1 / width), "valid"), label=f"mean of {width}")
    axes.set_xlabel("seconds of CPU")
    axes.set_ylabel("hours waited on a day")
    axes.legend()
    figure.savefig(file)


def write_model(vector, folder):
    """Write the policy for ModelScore, whose features are in cores, GiB and units, and a configuration for it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    first, bias, last = weights(vector)
    node = next(record for record in day(0).records if getattr(record, "resources", None))
    largest = (node.cpu / 1000, node.memory / 2**30, *(node.resources[name] for name in RESOURCES[2:]))
    scaled = first / np.repeat(largest, 2)[:, None]
    tensors = {"first": scaled, "bias": bias, "last": last[:, None]}
    initial = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in tensors.items()]
    nodes = [
        helper.make_node("MatMul", ["features", "first"], ["a"]),
        helper.make_node("Add", ["a", "bias"], ["b"]),
        helper.make_node("Tanh", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "last"], ["score"]),
    ]
    taken = helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, INPUTS])
    given = helper.make_tensor_value_info("score", TensorProto.FLOAT, [None, 1])
    graph = helper.make_graph(nodes, "policy", [taken], [given], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "policy.onnx"))
    names = [f"{what}/{name}" for name in RESOURCES for what in ("node.free", "pod.requests")]
    features = "".join(f"      - {name}\n" for name in names)
    (folder / "learned.yaml").write_text(CONFIG.format(path=(folder / "policy.onnx").resolve(), features=features))


CONFIG = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      disabled: [{{name: "*"}}]
      enabled: [{{name: ModelScore}}]
  pluginConfig:
  - name: ModelScore
    args:
      path: {path}
      features:
{features}"""


def main():
    """Learn, judge, and write what was learned."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generations", type=int, default=40, help="how long it learns: 24 days are lived in each")
    parser.add_argument("--days", type=int, default=60, help="days on which policies are judged")
    parser.add_argument("--curve", type=Path, help="draw how it was learned into this file, .svg or .png")
    parser.add_argument("--out", type=Path, default=Path())
    given = parser.parse_args()
    vector, curve = learn(given.generations)
    if given.curve:
        draw_curve(curve, given.curve)
    judge(vector, given.days)
    write_model(vector, given.out)


if __name__ == "__main__":
    main()
