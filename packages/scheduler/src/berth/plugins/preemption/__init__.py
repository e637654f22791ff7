"""DefaultPreemption: when a pod fits nowhere, which pods of lower priority could be evicted so that it fits?

Upstream plugin `DefaultPreemption`, v1.36. Takes the diagnosis of a search that found nothing; returns the node to free
and the pods that must leave it, or one sentence about all nodes that says why there is none. `eligibility.py` says who
may preempt and which nodes are worth trying, `dry_run.py` tries one node through the plain filters, `columns.py` many
at once, `choice.py` picks among the nodes that can be freed. The core evicts (`berth.cycle.eviction`). `by_rules.py`
does the same for plugins with their own rules about which pods may preempt which.

Deviations: the latest nomination counts, whether or not the API server has it yet; of equally good nodes
the first after a random offset is taken, where upstream's order is that of a map.
"""

from berth.plugins.preemption.plugin import DefaultPreemption, DefaultPreemptionArgs

__all__ = ["DefaultPreemption", "DefaultPreemptionArgs"]
