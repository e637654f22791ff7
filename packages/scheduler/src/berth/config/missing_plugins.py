"""Plugins that are not installed: where the one that a configuration names comes from, or which one may be meant.

The guests are a distribution of their own, which nothing here imports. What is known of them here is their names, and
how to get them.
"""

from collections.abc import Iterable

from berth.api.near_names import alike, meant

DISTRIBUTION = "berth-scheduler-plugins"
FROM_GUESTS = f"comes with {DISTRIBUTION}: pip install {DISTRIBUTION}, or ./packages/plugins in a clone of Berth"
GUESTS = frozenset(
    {
        "BudgetSafePreemption", "CapacityScheduling", "Coscheduling", "FairShares", "GpuFragmentation",
        "LoadVariationRiskBalancing", "LowRiskOverCommitment", "ModelScore", "NetworkOverhead",
        "NodeResourceTopologyMatch", "NodeResourcesAllocatable", "Peaks", "PodState", "PoolsInOrder",
        "PreemptionToleration", "QOSSort", "SySched", "TargetLoadPacking", "TopologicalSort", "WorkloadLimit",
    }
)  # fmt: skip


def not_there(name: str, known: Iterable[str]) -> str:
    """Say of a plugin that it is none of those known, and what to do about it."""
    said = f'plugin "{name}" does not exist'
    if name in GUESTS:
        return f"{said}; it {FROM_GUESTS}"
    if near := alike(name, known):
        return said + meant(near)
    if guests := alike(name, GUESTS):
        return f"{said}{meant(guests)} It {FROM_GUESTS}"
    return f"{said}; `berth plugins` lists those that do"
