"""Writes differing decisions as cases that `berth decide` reads: the cluster in the state in question, and the pod.

One line of JSON each, which anybody can decide again, with any configuration, without the cluster.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec

from berth.config.dump import dump_config
from berth.config.types import SchedulerConfiguration
from berth.core.core import Core
from berth.framework.registry import Registry
from berth.state.cache import on_node
from berth.state.pod_info import PodInfo

MOST_CASES: Final = 100
"""A case contains the whole cluster, so no more than this are written."""


class CaseWriter:
    """Writes cases to a file, up to a number of them."""

    __slots__ = ("_config", "_file", "written")

    def __init__(self, file: BinaryIO, config: SchedulerConfiguration, registry: Registry) -> None:
        self._file = file
        self._config = {} if config.generation != "v1.36" else {"config": dump_config(config, registry.args_types())}
        self.written = 0

    def __call__(self, core: Core, pod: PodInfo) -> None:
        """Write a case about a pod in the cluster that a core has now."""
        if self.written >= MOST_CASES:
            return
        self.written += 1
        case = {
            "name": pod.key,
            "generation": core.generation.name,
            **self._config,
            "objects": list(_objects(core, pod)),
            "pods": [_plain("Pod", pod.pod)],
        }
        self._file.write(msgspec.json.encode(case) + b"\n")
        self._file.flush()


def _objects(core: Core, asked: PodInfo) -> Iterator[dict[str, Any]]:
    """Yield the nodes, the pods on them, those that are nominated, and whatever else decisions depend on."""
    for kind in core.objects.kinds:
        for obj in core.objects.list(kind):
            yield _plain(kind, obj)
    for node in core.cache.table.nodes:
        if node is not None:
            yield _plain("Node", node)
    for state in core.cache.states().values():
        yield _plain("Pod", on_node(state.pod, core.cache.table.names[state.row]).pod)
    for name in core.nominator.nodes():
        for pod in core.nominator.pods_on(name):
            if pod.uid != asked.uid:
                status = msgspec.structs.replace(pod.pod.status, nominated_node_name=name)
                yield _plain("Pod", msgspec.structs.replace(pod.pod, status=status))


def _plain(kind: str, obj: Any) -> dict[str, Any]:
    return {"kind": kind, **msgspec.to_builtins(obj, enc_hook=dict)}
