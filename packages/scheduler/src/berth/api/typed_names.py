"""What people type for a pod, a workload, a group or a claim: kubectl's words for the kinds, and what a name is of."""

from types import MappingProxyType
from typing import NamedTuple

from berth.api.resources import RESOURCES, Resource

POD_WORDS = ("po", "pod", "pods")
_WORDS = {
    ("deploy", "deployment", "deployments"): Resource("apps", "v1", "deployments", "Deployment", True),
    ("sts", "statefulset", "statefulsets"): RESOURCES["StatefulSet"],
    ("ds", "daemonset", "daemonsets"): Resource("apps", "v1", "daemonsets", "DaemonSet", True),
    ("rs", "replicaset", "replicasets"): RESOURCES["ReplicaSet"],
    ("job", "jobs"): Resource("batch", "v1", "jobs", "Job", True),
}
WORKLOADS = MappingProxyType({word: resource for words, resource in _WORDS.items() for word in words})
"""The kinds whose pods can be asked for, by the words that kubectl takes for them."""

PODGROUP, WORKLOAD, CLAIM = "PodGroup", "Workload", "ResourceClaim"
_WHOLES = {
    ("podgroup", "podgroups", "pg"): PODGROUP,
    ("workload", "workloads", "wl"): WORKLOAD,
    ("claim", "claims", "resourceclaim", "resourceclaims"): CLAIM,
}
WHOLES = MappingProxyType({word: kind for words, kind in _WHOLES.items() for word in words})
"""What is explained as a whole, by the workbench and on a cluster in memory, by the words for it."""


class NamedWhole(NamedTuple):
    """A group of pods, or a claim, to tell about."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def whole_named(typed: str, namespace: str) -> NamedWhole | None:
    """Return what `podgroup/NAME`, `workload/NAME` or `claim/NAME` names; None for anything else."""
    before, slash, name = typed.partition("/")
    kind = WHOLES.get(before.partition(".")[0].lower()) if slash else None
    return None if kind is None else NamedWhole(kind, namespace or "default", name)


def object_named(typed: str, namespace: str) -> tuple[Resource, str, str]:
    """Return kind, namespace and name of what NAME, NAMESPACE/NAME, pod/NAME or KIND/NAME of a workload names."""
    before, slash, name = typed.partition("/")
    kind = before.partition(".")[0].lower()
    if not slash:
        return RESOURCES["Pod"], namespace or "default", typed
    if kind in POD_WORDS:
        return RESOURCES["Pod"], namespace or "default", name
    if kind in WORKLOADS:
        return WORKLOADS[kind], namespace or "default", name
    return RESOURCES["Pod"], before, name
