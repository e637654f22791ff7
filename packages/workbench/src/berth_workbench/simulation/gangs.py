"""What must be placed together: pods of which none is bound before enough of them have a place.

A PodGroup of Kubernetes says so where the plugin GangScheduling is in the pod's profile, and one of scheduling.x-k8s.io
where Coscheduling is. Whoever asks about such a pod asks `gang_of` first, and then about the whole. A PodGroup may be
one of several of a Workload: `group_named` and `groups_of_workload` find the groups by these names.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from berth.api.pod import Pod
from berth.core.questions import profile_of
from berth.decisions.shortfall import amount
from berth.plugins.topology_placement import topology_key
from berth.state.pod_groups import POD_GROUP
from berth_workbench.simulation.budgets import is_active
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.snapshot.documents import Document

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
    topology: str = ""
    """The label whose value the nodes of all of them must share; empty where there is no such constraint."""

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
    return gang_again(cluster, found)


def gang_again(cluster: SimulatedCluster, gang: Gang) -> Gang:
    """Return a gang with the members that it has by now."""
    return gang._replace(members=tuple(each for each in cluster.of(Pod) if is_active(each) and gang.has(each)))


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
    profile = profile_of(cluster.core, pod)
    plugins = {plugin.name for plugin in profile.plugins}
    namespace = pod.metadata.namespace
    if "GangScheduling" in plugins and (name := _name_in(POD_GROUP, pod)):
        group = cluster.objects.get((POD_GROUP, f"{namespace}/{name}"))
        policy = None if group is None else group.spec.scheduling_policy.gang
        if group is None or policy is None:
            return None
        is_placed = bool(profile.placement_generate)
        return Gang(POD_GROUP, f"{namespace}/{name}", policy.min_count, (), topology_key(group) if is_placed else "")
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


def held_by(cluster: SimulatedCluster, gang: Gang) -> dict[str, str]:
    """Return what the members of a gang that have a node hold there, as quantities by resource.

    Of a gang with too few of them that is held for nothing.
    """
    return requested_by(cluster, (pod.key for pod in gang.members if pod.spec.node_name))


def requested_by(cluster: SimulatedCluster, pods: Iterable[str]) -> dict[str, str]:
    """Return what pods request together, as quantities by resource."""
    requested: Counter[str] = Counter()
    for pod in pods:
        requested.update(cluster.core.intake.info(cluster.objects["Pod", pod]).requests)
    return {name: amount(name, count) for name, count in sorted(requested.items()) if count}


def held_in_words(held: Mapping[str, str]) -> str:
    """Return what is held, the scarce first: what Kubernetes does not define itself, else CPU and memory."""
    scarce = {name: count for name, count in held.items() if "/" in name} or held
    return ", ".join(f"{count} {name}" for name, count in scarce.items())


# --- by name ----------------------------------------------------------------------------------------------------------


class NamedGroup(NamedTuple):
    """A PodGroup that somebody has named, whether or not the scheduler looks at it."""

    key: str
    """`namespace/name`."""
    is_declared: bool
    """Whether there is such an object, and not only pods that name it."""
    pods: tuple[Pod, ...]
    """Those that name it and run or may yet run."""
    gang: Gang | None
    """None where it has no pods, or their scheduler places them one by one."""


def group_named(cluster: SimulatedCluster, key: str) -> NamedGroup | None:
    """Return a PodGroup of either API; None where there is neither one nor a pod that names it."""
    kinds = {POD_GROUP, *(each.name for each in cluster.core.resources if each.group == COSCHEDULING_GROUP)}
    is_declared = any((kind, key) in cluster.objects for kind in kinds)
    pods = tuple(pod for pod in cluster.of(Pod) if is_active(pod) and key in group_keys(pod))
    if not pods and not is_declared:
        return None
    return NamedGroup(key, is_declared, pods, gang_of(cluster, pods[0]) if pods else None)


def group_keys(pod: Pod) -> list[str]:
    """Return the PodGroups that a pod names, as `namespace/name`: that of Kubernetes first."""
    names = (_name_in(POD_GROUP, pod), _name_in("", pod))
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]


def groups_of_workload(cluster: SimulatedCluster, documents: Iterable[Document], key: str) -> list[str] | None:
    """Return the PodGroups that were made of a Workload's templates, by name; None where there is no such Workload.

    `documents` are the manifests of PodGroups, which say so; one that does not is known by its name, which is that of
    the template, or begins with the Workload's and that.
    """
    workload = cluster.objects.get(("Workload", key))
    if workload is None:
        return None
    namespace, _, name = key.partition("/")
    templates = [each.name for each in workload.spec.pod_group_templates]
    found = {f"{namespace}/{each}" for each in templates if (POD_GROUP, f"{namespace}/{each}") in cluster.objects}
    begins = tuple(f"{key}-{each}" for each in templates)
    found |= {of_kind for kind, of_kind in cluster.objects if kind == POD_GROUP and of_kind.startswith(begins)}
    for document in documents:
        metadata, spec = document.manifest.get("metadata") or {}, document.manifest.get("spec") or {}
        made_of = ((spec.get("podGroupTemplateRef") or {}).get("workload") or {}).get("workloadName")
        if document.kind == POD_GROUP and made_of and metadata.get("namespace", "default") == namespace:
            group = f"{namespace}/{metadata.get('name')}"
            found = found | {group} if made_of == name else found - {group}
    return sorted(found)
