"""Carries changes out on a simulated cluster, as an administrator, a cloud and the controllers would together.

`carry_out` takes a `Site`, which is a cluster with the manifests of its workloads, and one change. What leaves because
of the change, and what breaks by it, is noted on the site; where everything goes is the cluster's own business, since
every change ends with the scheduler placing what it can.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from berth.api.pod import Pod
from berth_workbench.simulation.budgets import is_daemon, is_mirror
from berth_workbench.simulation.changes import ChangeError, ClusterChange, Evict
from berth_workbench.simulation.node_changes import NODE_CHANGES
from berth_workbench.simulation.scale import WORKLOAD_CHANGES
from berth_workbench.simulation.site import EVICTION_REFUSED, Broken, Departure, Site


def _evict(site: Site, change: Evict) -> None:
    pods: list[Pod] = [site.cluster.objects["Pod", key] for key in change.chosen(site.cluster.pods)]
    site.cluster.publish_budgets()
    for pod in pods:
        if is_mirror(pod):
            raise ChangeError(f"{change}: {pod.key} cannot be evicted: the kubelet of {pod.spec.node_name} runs it")
        budget, why = site.cluster.budgets.refusal(pod)
        if why:
            message = f"pod {pod.key} is not evicted: {why}"
            site.broken.append(Broken("PodDisruptionBudget", budget, EVICTION_REFUSED, message))
        elif is_daemon(pod):  # unlike one that is drained it comes back, since its node does not go
            site.departures.append(Departure(pod.key, pod.spec.node_name, "eviction"))
            site.cluster.send_back(pod.key)
        else:
            site.send_away(pod, "eviction")


_CHANGES: Final[Mapping[type[ClusterChange], Callable[[Site, Any], object]]] = MappingProxyType(
    {**NODE_CHANGES, **WORKLOAD_CHANGES, Evict: _evict}
)


def carry_out(site: Site, change: ClusterChange) -> None:
    """Carry a change out. Raises `ChangeError` where it cannot be made at all."""
    _CHANGES[type(change)](site, change)
    site.settle()
