"""`/metrics/resources`: what each pod asks for and may use at most, as scheduler and kubelet count it.

Read from the pods that the scheduler follows when somebody scrapes; pods that have finished are left out. Names, labels
and units: pkg/scheduler/metrics/resources/resources.go of v1.36.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.api.pod import Container, Pod
from berth.api.pod_resources import CPU, EPHEMERAL_STORAGE, MEMORY, Requests, pod_requests
from berth.state.pod_info import PodInfo

LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")


class PodResources(Collector):
    """Two gauges for each pod and resource."""

    def __init__(self, pods: Callable[[], Iterable[PodInfo]]) -> None:
        self._pods = pods
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Requests and limits, by pod."""
        request = GaugeMetricFamily(
            "kube_pod_resource_request",
            "[STABLE] What a pod asks for of a resource, with the unit of the resource if it has one.",
            labels=LABELS,
        )
        limit = GaugeMetricFamily(
            "kube_pod_resource_limit",
            "[STABLE] What a pod may use of a resource at most, with the unit of the resource if it has one.",
            labels=LABELS,
        )
        for pod in self._pods():
            _add(request, pod, pod.requests)
            _add(limit, pod, pod_limits(pod.pod))
        yield request
        yield limit


def pod_limits(pod: Pod) -> Requests:
    """Return the most that a pod may use: CPU in milli-units, everything else in whole units.

    Containers add up as their requests do; overhead counts only for resources that are limited.
    """
    spec = pod.spec
    resources = spec.resources
    limited = msgspec.structs.replace(
        spec,
        containers=tuple(map(_limits_as_requests, spec.containers)),
        init_containers=tuple(map(_limits_as_requests, spec.init_containers)),
        resources=None if resources is None else msgspec.structs.replace(resources, requests=resources.limits),
        overhead={},
    )
    limits = pod_requests(msgspec.structs.replace(pod, spec=limited), use_status=False)
    if limits and spec.overhead:
        alone = msgspec.structs.replace(limited, containers=(), init_containers=(), resources=None)
        overhead = pod_requests(
            msgspec.structs.replace(pod, spec=msgspec.structs.replace(alone, overhead=spec.overhead)), use_status=False
        )
        limits = {name: amount + overhead.get(name, 0) for name, amount in limits.items()}
    return limits


def unit_of(resource: str) -> str:
    """Return the unit that a resource is given in; empty for what has none."""
    if resource == CPU:
        return "cores"
    if resource in (MEMORY, EPHEMERAL_STORAGE, "storage") or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""


def _limits_as_requests(container: Container) -> Container:
    resources = container.resources
    return msgspec.structs.replace(container, resources=msgspec.structs.replace(resources, requests=resources.limits))


def _add(family: GaugeMetricFamily, pod: PodInfo, amounts: Requests) -> None:
    spec = pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    for resource, amount in sorted(amounts.items()):
        if amount:
            labels = (
                pod.namespace,
                pod.name,
                spec.node_name,
                spec.scheduler_name,
                priority,
                resource,
                unit_of(resource),
            )
            family.add_metric(labels, amount / 1000 if resource == CPU else amount)
