"""AppGroups: the workloads of an application, and which of them depend on which.

Kind AppGroup of appgroup.diktyo.x-k8s.io, v1alpha1. A pod names its group and its workload by labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from berth.plugin import CustomObjects, CustomResource, ObjectMeta, PodInfo, Quantity

GROUP_LABEL = "appgroup.diktyo.x-k8s.io"
WORKLOAD_LABEL = "appgroup.diktyo.x-k8s.io.workload"

NO_ORDER = -1
"""The place of a workload that the topology order does not have, or not where it is looked for."""


class Workload(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A workload, named by the value of its pods' label. What else is said of it counts for no decision."""

    selector: str = ""
    kind: str = ""
    name: str = ""
    api_version: str = ""
    namespace: str = ""


class WorkloadDependency(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A workload that another needs, and how far away its pods may be. The bandwidth counts for no decision here."""

    workload: Workload = Workload()
    max_network_cost: int = 0
    min_bandwidth: Quantity | None = None


class GroupWorkload(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workload of a group, and what it depends on."""

    workload: Workload = Workload()
    dependencies: tuple[WorkloadDependency, ...] = ()


class AppGroupSpec(msgspec.Struct, frozen=True):
    """The workloads of a group."""

    workloads: tuple[GroupWorkload, ...] = ()


class OrderedWorkload(msgspec.Struct, frozen=True):
    """A workload's place in the order in which a group starts."""

    workload: Workload = Workload()
    index: int = 0


class AppGroupStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The order in which a group starts, by the names of workloads, as its controller has worked it out."""

    topology_order: tuple[OrderedWorkload, ...] | None = None


class AppGroup(msgspec.Struct, frozen=True):
    """An AppGroup of appgroup.diktyo.x-k8s.io."""

    metadata: ObjectMeta
    spec: AppGroupSpec = AppGroupSpec()
    status: AppGroupStatus = AppGroupStatus()


APP_GROUPS = CustomResource("appgroup.diktyo.x-k8s.io", "v1alpha1", "appgroups", "AppGroup", struct=AppGroup)


def group_named_by(pod: PodInfo) -> str:
    """Return the name of the group that a pod belongs to; "" for none."""
    return pod.labels.get(GROUP_LABEL, "")


def workload_of(pod: PodInfo) -> str:
    """Return which workload a pod belongs to."""
    return pod.labels.get(WORKLOAD_LABEL, "")


def found_in(namespaces: Sequence[str], objects: CustomObjects, name: str) -> object | None:
    """Return the object of a name from the first of these namespaces that has one."""
    return next((found for each in namespaces if (found := objects.get(name, each)) is not None), None)


def dependencies_of(group: AppGroup, workload: str) -> list[WorkloadDependency]:
    """Return what a workload of a group depends on."""
    listed = (each.dependencies for each in group.spec.workloads if each.workload.selector == workload)
    return [dependency for dependencies in listed for dependency in dependencies]


def place_in_order(group: AppGroup, workload: str) -> int:
    """Return a workload's place in the group's order, which is looked up as a sorted list is."""
    order = group.status.topology_order or ()
    low, high = 0, len(order)
    while low < high:
        middle = (low + high - 1) // 2
        name = order[middle].workload.selector
        if name == workload:
            return order[middle].index
        low, high = (middle + 1, high) if name < workload else (low, middle)
    return NO_ORDER


def with_costs(group: AppGroup, needing: str, costs: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the workloads of a group as JSON, where one lets its dependencies be so far away, by their selectors."""
    found: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(group.spec.workloads))
    for each in found:
        for dependency in each.get("dependencies", ()) if each["workload"].get("selector", "") == needing else ():
            selector = dependency["workload"].get("selector", "")
            if selector in costs:
                dependency["maxNetworkCost"] = costs[selector]
    return found
