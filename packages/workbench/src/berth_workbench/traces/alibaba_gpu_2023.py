"""Reads Alibaba's cluster-trace-gpu-v2023: the openb nodes, and the pods that asked for GPUs or shares of one.

CPU is in thousandths, memory in MiB. A pod that asks for whole GPUs asks for `num_gpu` of them, one that shares a GPU
for `gpu_milli` thousandths of it. Every pod asks for thousandths here, and whole GPUs besides, so that both kinds of
pods count against each other; on which GPU of a node a share lies no extended resource can say. `gpu_spec` names the
models that will do. A pod comes when it was created, and runs as long as it did once it had been scheduled. Beside the
list of what ran, its authors keep lists with other shares of GPUs, one of which may be named instead of the directory.
"""

from collections.abc import Iterator
from pathlib import Path

from berth_workbench.traces.tables import amount_in, files_of, is_sampled, name_in, number_in, rows_of, things_of
from berth_workbench.traces.trace import (
    LONGEST_S,
    AnyRecord,
    JobStarts,
    NodeComes,
    PodShapeGiven,
    TimedWorkload,
    TraceError,
    TraceHeader,
    by_time,
)

NODE = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time",
    "deletion_time", "scheduled_time",
)  # fmt: skip
GPU, GPU_MILLI, MODEL = "nvidia.com/gpu", "alibabacloud.com/gpu-milli", "nvidia.com/gpu.product"
MIB = 2**20
MOST_GPUS = 1024


def read_alibaba_gpu_2023(
    path: Path, *, begin_s: float = 0.0, end_s: float = float("inf"), sample: float = 1.0
) -> TimedWorkload:
    """Return the trace in a directory with openb_node_list and openb_pod_list, or of a list of pods beside the nodes.

    Raises `TraceError`.
    """
    files = files_of(path, "openb_pod_list") if path.is_dir() else [path]
    records: list[AnyRecord] = list(_nodes(path if path.is_dir() else path.parent, sample))
    pods = list(_pods(files, begin_s, end_s, sample))
    longest = max((pod.at + max(pod.runs) for pod in pods), default=0.0)
    seconds = longest if end_s == float("inf") else end_s - begin_s
    source = "Alibaba cluster-trace-gpu-v2023"
    return TimedWorkload(TraceHeader(source=source, seconds=seconds), tuple(by_time([*records, *pods])))


def _nodes(directory: Path, sample: float) -> Iterator[NodeComes]:
    for where, name, row in things_of(directory, "openb_node_list", NODE, sample):
        gpus, model = int(number_in(row, "gpu", where, least=0, most=MOST_GPUS) or 0), row.get("model")
        labels = {"kubernetes.io/hostname": name} | ({MODEL: str(model)} if gpus and model else {})
        cpu, memory = amount_in(row, "cpu_milli", where, 1), amount_in(row, "memory_mib", where, MIB)
        resources = gpus_of(gpus)
        yield NodeComes(at=0.0, name=name, cpu=cpu, memory=memory, pods=1000, resources=resources, labels=labels)


def _pods(files: list[Path], begin_s: float, end_s: float, sample: float) -> Iterator[JobStarts]:
    found_in: dict[str, Path] = {}
    for file in files:
        for number, row in rows_of(file, POD):
            where = f"{file}:{number}"
            name = name_in(row, "name", where)
            if missing := [column for column in POD if column not in row]:
                raise TraceError(f"{where}: there is no column {', '.join(missing)}")
            if (other := found_in.setdefault(name, file)) != file:
                raise TraceError(f"{where}: {name} is in {other.name} too, so these are two workloads: name one file")
            created, deleted, scheduled = (
                number_in(row, column, where, least=0, most=LONGEST_S)
                for column in ("creation_time", "deletion_time", "scheduled_time")
            )
            if created is None or deleted is None or not begin_s <= created < end_s or not is_sampled(name, sample):
                continue
            began = created if scheduled is None else scheduled  # one that never ran would have run while it waited
            if deleted < began:
                raise TraceError(f"{where}: deletion_time {deleted:g} is before {began:g}, when the pod began")
            gpus = int(number_in(row, "num_gpu", where, least=0, most=MOST_GPUS) or 0)
            share = amount_in(row, "gpu_milli", where, 1)
            if gpus == 1 and share > 1000:
                raise TraceError(f"{where}: gpu_milli is {share}; a GPU has 1000")
            resources = {GPU_MILLI: share} if gpus == 1 and 0 < share < 1000 else gpus_of(gpus)
            models = [model for model in str(row.get("gpu_spec") or "").split("|") if model]
            qos = str(row.get("qos") or "")
            yield JobStarts(
                at=created - begin_s,
                name=name,
                namespace="openb",
                runs=(deleted - began,),
                shape=PodShapeGiven(
                    cpu=amount_in(row, "cpu_milli", where, 1),
                    memory=amount_in(row, "memory_mib", where, MIB),
                    resources=resources,
                    labels={"qos": qos} if qos else {},
                    spec=of_models(models),
                ),
            )


def gpus_of(count: int) -> dict[str, int]:
    """Return what whole GPUs are as resources."""
    return {GPU: count, GPU_MILLI: 1000 * count} if count else {}


def of_models(models: list[str]) -> dict[str, object]:
    """Return the part of a pod's spec that asks for a GPU of one of these models."""
    if not models:
        return {}
    term = {"matchExpressions": [{"key": MODEL, "operator": "In", "values": models}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
