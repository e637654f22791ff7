"""What must be placed together: pods of which none is bound before enough of them have a place.

A PodGroup of Kubernetes says so where the plugin GangScheduling is in the pod's profile, and one of scheduling.x-k8s.io
where Coscheduling is. Whoever asks about such a pod asks `gang_of` first, and then about the whole.
"""

from typing import NamedTuple

from berth.api.pod import Pod
from berth.core.questions import profile_of
from berth.state.pod_groups import POD_GROUP
from berth_workbench.simulation.budgets import is_active
from berth_workbench.simulation.cluster import SimulatedCluster

COSCHEDULING_GROUP = "scheduling.x-k8s.io"
COSCHEDULING_LABEL = f"{COSCHEDULING_GROUP}/pod-group"


class Gang(NamedTuple):
    """Pods that are placed together or not at all."""

    kind: str
    """What its declaration is called among the objects of a cluster."""
    key: str
    """`namespace/name` of the declaration."""
    needed: int
    """So many have to have a place before any is bound."""
    members: tuple[Pod, ...]
    """Those that run or may yet run, in the order in which they came."""

    def has(self, pod: Pod) -> bool:
        """Say whether a pod is one of it."""
        return f"{pod.metadata.namespace}/{_name_in(self.kind, pod)}" == self.key

    @property
    def field(self) -> str:
        """What the number that is needed is called in the declaration."""
        return "minCount" if self.kind == POD_GROUP else "minMember"

    @property
    def placed(self) -> int:
        """How many of them have a node."""
        return sum(bool(pod.spec.node_name) for pod in self.members)


def gang_of(cluster: SimulatedCluster, pod: Pod) -> Gang | None:
    """Return what a pod is placed together with; None where its scheduler places it alone."""
    found = declared_gang(cluster, pod)
    if found is None:
        return None
    return found._replace(members=tuple(each for each in cluster.of(Pod) if is_active(each) and found.has(each)))


def gangs_of(cluster: SimulatedCluster) -> list[Gang]:
    """Return all gangs of a cluster, by name."""
    members: dict[Gang, list[Pod]] = {}
    known: dict[tuple[str, str, str, str], Gang | None] = {}
    for pod in filter(is_active, cluster.of(Pod)):
        core, guest = _name_in(POD_GROUP, pod), pod.metadata.labels.get(COSCHEDULING_LABEL, "")
        if not core and not guest:
            continue
        key = pod.metadata.namespace, pod.spec.scheduler_name, core, guest
        if key not in known:
            known[key] = declared_gang(cluster, pod)
        if (gang := known[key]) is not None:
            members.setdefault(gang, []).append(pod)
    return [gang._replace(members=tuple(pods)) for gang, pods in sorted(members.items(), key=lambda each: each[0][:2])]


def declared_gang(cluster: SimulatedCluster, pod: Pod) -> Gang | None:
    """Return the same without its members, for those who only want to know that there is one."""
    plugins = {plugin.name for plugin in profile_of(cluster.core, pod).plugins}
    namespace = pod.metadata.namespace
    if "GangScheduling" in plugins and (name := _name_in(POD_GROUP, pod)):
        group = cluster.objects.get((POD_GROUP, f"{namespace}/{name}"))
        policy = None if group is None else group.spec.scheduling_policy.gang
        return None if policy is None else Gang(POD_GROUP, f"{namespace}/{name}", policy.min_count, ())
    if "Coscheduling" in plugins and (name := pod.metadata.labels.get(COSCHEDULING_LABEL, "")):
        for resource in cluster.core.resources:
            if (resource.group, resource.kind) == (COSCHEDULING_GROUP, "PodGroup"):
                group = cluster.objects.get((resource.name, f"{namespace}/{name}"))
                return None if group is None else Gang(resource.name, f"{namespace}/{name}", group.spec.min_member, ())
    return None


def _name_in(kind: str, pod: Pod) -> str:
    if kind == POD_GROUP:
        return "" if pod.spec.scheduling_group is None else pod.spec.scheduling_group.pod_group_name
    return pod.metadata.labels.get(COSCHEDULING_LABEL, "")
