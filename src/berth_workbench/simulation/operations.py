"""Carries changes out on a simulated cluster, as an administrator, a cloud and the controllers would together.

`carry_out` takes a `Site`, which is a cluster with the manifests of its workloads, and one change. What leaves because
of the change, and what breaks by it, is noted on the site; where everything goes is the cluster's own business, since
every change ends with the scheduler placing what it can.
"""

from collections.abc import Callable
from typing import Any

from berth_workbench.simulation.changes import ClusterChange
from berth_workbench.simulation.node_changes import NODE_CHANGES
from berth_workbench.simulation.scale import WORKLOAD_CHANGES
from berth_workbench.simulation.site import Site


def carry_out(site: Site, change: ClusterChange) -> None:
    """Carry a change out. Raises `ChangeError` where it cannot be made at all."""
    perform: Callable[[Site, Any], None] = NODE_CHANGES.get(type(change)) or WORKLOAD_CHANGES[type(change)]
    perform(site, change)
    site.settle()
