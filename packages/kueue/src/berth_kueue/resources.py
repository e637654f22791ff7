"""Kueue's kinds, as far as its scheduler decides by them, and where an API server has them.

Every snapshot keeps them (the entry point `berth.resources`), so that questions about queues can be asked of it.
"""

from berth.api.custom import CustomResource

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"

RESOURCES = tuple(
    CustomResource(GROUP, VERSION, plural, kind, namespaced=kind in ("LocalQueue", "Workload"))
    for plural, kind in (
        ("topologies", "Topology"),
        ("resourceflavors", "ResourceFlavor"),
        ("cohorts", "Cohort"),
        ("clusterqueues", "ClusterQueue"),
        ("localqueues", "LocalQueue"),
        ("workloadpriorityclasses", "WorkloadPriorityClass"),
        ("workloads", "Workload"),
    )
)
KINDS = tuple(each.kind for each in RESOURCES)
