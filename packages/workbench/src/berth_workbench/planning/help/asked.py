"""Which pods somebody means who asks what would help: those of a name, of a whole, of a manifest, or all that wait.

What is named becomes pods of the cluster, each of which stands for its workload or its gang; or a `Help` at once, where
there is nothing to look for.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from berth.api.near_names import KnownPods, nearest
from berth.api.pod import Pod
from berth.api.typed_names import PODGROUP, NamedWhole, object_named, whole_named
from berth.api.user_error import UserError
from berth_workbench.planning.help.group import groups_of
from berth_workbench.planning.help.result import Help
from berth_workbench.planning.whatif import NO_GROUPS
from berth_workbench.simulation.admission import AdmissionGate
from berth_workbench.simulation.budgets import is_active, owner_of, workload_of
from berth_workbench.simulation.gangs import group_keys, group_named, groups_of_workload
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.workloads import WorkloadManifest, claim_templates, expand
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workloads.jobs import JobBounds, wanted_pods


class NotThereError(UserError):
    """There is no such pod, workload or group, or it has no pods."""


class AskedPods:
    """Finds what is meant in one cluster, and keeps what is to be said beside the answers."""

    __slots__ = ("_cluster", "_namespace", "_site", "_snapshot", "notes")

    def __init__(self, site: Site, snapshot: Snapshot, namespace: str) -> None:
        self._site = site
        self._cluster = site.cluster
        self._snapshot = snapshot
        self._namespace = namespace
        self.notes: list[str] = []

    def named(self, name: str) -> Sequence[Pod | Help]:
        """Return who is meant by `POD`, `NAMESPACE/POD`, `deploy/NAME`, `podgroup/NAME` and the like.

        Raises `NotThereError`.
        """
        whole = whole_named(name, self._namespace)
        if whole is not None:
            return self._of_whole(whole)
        resource, namespace, name = object_named(name, self._namespace)
        if resource.kind != "Pod":
            return [self._of_workload(resource.kind, f"{namespace}/{name}")]
        cluster = self._cluster
        found: Pod | None = cluster.objects.get(("Pod", f"{namespace}/{name}"))
        if found is None:
            pending = sorted(pod.key for pod in cluster.pods.values() if not pod.spec.node_name)
            few = f"{', '.join(pending[:5])}{' …' if len(pending) > 5 else ''}"
            few = f"; its pending pods are {few}" if pending else ""
            hint = KnownPods(tuple(cluster.pods)).hint(f"{namespace}/{name}") or few
            raise NotThereError(f"there is no pod {namespace}/{name} in the cluster{hint}")
        return [found]

    def _of_whole(self, whole: NamedWhole) -> list[Pod | Help]:
        """Return, of each PodGroup that is meant, a pending pod, or what is to be said where none is helped."""
        if whole.kind == PODGROUP:
            return [self._of_group(whole.key)]
        keys = groups_of_workload(self._cluster, self._snapshot.of(PODGROUP), whole.key)
        if keys is None:
            hint = nearest(whole.key, [key for kind, key in self._cluster.objects if kind == whole.kind])
            raise NotThereError(f"there is no {whole.kind} {whole.key} in the cluster{hint}")
        if not keys:
            raise NotThereError(f"no PodGroup has been made of {whole.kind} {whole.key}, so nothing is placed")
        return [self._of_group(key) for key in keys]

    def _of_group(self, key: str) -> Pod | Help:
        cluster = self._cluster
        found, title = group_named(cluster, key), f"{PODGROUP}/{key}"
        if found is None:
            known = {each for pod in cluster.of(Pod) for each in group_keys(pod)}
            known |= {name for kind, name in cluster.objects if kind == PODGROUP}
            few = f"; there are {', '.join(sorted(known)[:5])}" if known else ""
            raise NotThereError(f"there is no PodGroup {key}{nearest(key, known) or few}")
        if not found.pods:
            return Help("", "pending", "none of its pods is there yet", group=title, replicas=0)
        if found.gang is None and found.is_declared:
            why = "it is no gang by its policy" if cluster.core.schedules_groups else NO_GROUPS
            self.notes.append(f"PodGroup {key}: {why}, so its pods are placed one by one")
        pending = next((pod for pod in found.pods if not pod.spec.node_name), None)
        if pending is not None:
            return pending
        gang = found.gang
        needed, count = (None, len(found.pods)) if gang is None else (gang.needed, gang.placed)
        message = "all of its pods run, and need no help"
        return Help(found.pods[0].key, "runs", message, group=title, replicas=count, needed=needed, have_place=count)

    def _of_workload(self, kind: str, key: str) -> Pod | Help:
        """Return a pending pod of a workload, or what is to be said where it has none."""
        site, pods = self._site, _pods_by_owner(self._site)
        made = pods.get((kind, key), ())
        refusal = str(lacking_of(site, kind, key, len(made)))
        if not made and refusal:
            raise NotThereError(f"{kind} {key} has no pods: {refusal}")
        if not made:
            hint = nearest(key, [name for of_kind, name in pods if of_kind == kind])
            raise NotThereError(f"{kind} {key} has no pods in the cluster{hint or '; its manifest may be asked about'}")
        pending = next((pod for pod in made if not pod.spec.node_name), None)
        if pending is not None:
            if refusal:
                self.notes.append(f"{kind} {key}: {refusal}")
            return pending
        manifest = site.manifest(kind, key)
        wanted = 0 if manifest is None else _wanted(manifest, len(made))
        message = "all that its controller has made run, and need no help"
        if refusal:
            message = f"{refusal}; {message}"
        elif wanted > len(made):
            message += f"; it has made {len(made)} of {wanted}, and its events say why not more"
        return Help(made[0].key, "runs", message, workload=f"{kind}/{key}", replicas=len(made))

    def of_manifests(self, documents: Sequence[Document]) -> Iterator[Pod]:
        """Yield a pod for each pod and each workload of manifests; what goes with them is put into the cluster.

        Raises `NotThereError`, `ManifestError`, `ObjectError`.
        """
        cluster = self._cluster
        templates = claim_templates(self._snapshot.of("ResourceClaimTemplate"))
        nodes = tuple(cluster.nodes.values())
        expansion = expand(documents, nodes=nodes, templates=templates, namespace=self._namespace)
        cluster.add(expansion.objects)
        for name in expansion.passed_over:
            self.notes.append(f"{name} does not matter to decisions, and is passed over")
        if not expansion.pods:
            raise NotThereError("no pod and no workload in it")
        known = set(groups_of(cluster, cluster.pods.values()))
        for owner, pods in groups_of(cluster, expansion.pods).items():
            if owner not in known:  # of one that the cluster has, a pod more is asked about
                cluster.create(pods)
            refused = [pod for pod in pods if pod.key in cluster.refused]
            if refused:
                which = f"{len(refused)} of the {len(pods)} pods, of which {refused[0].key}"
                what = f"the API server refuses {which}: {cluster.refused[refused[0].key].why}"
                if len(refused) == len(pods):
                    raise NotThereError(what)
                self.notes.append(what)
            yield next(pod for pod in pods if pod.key not in cluster.refused)


class LackingPods(NamedTuple):
    """How many of its pods a workload wants and lacks, and why the API server refuses them; empty where it may not."""

    wanted: int
    lacking: int
    why: str

    def __str__(self) -> str:
        return f"the API server refuses {self.lacking} of its {self.wanted} pods: {self.why}" if self.why else ""


def lacking_of(site: Site, kind: str, key: str, made: int | None = None) -> LackingPods:
    """Return what a workload lacks that has made so many pods which have not ended; those of the site by default."""
    manifest = site.manifest(kind, key)
    if made is None:
        made = len(_pods_by_owner(site).get((kind, key), ()))
    wanted = 0 if manifest is None else _wanted(manifest, made)
    if manifest is None or wanted <= made:
        return LackingPods(wanted, 0, "")
    _, why = AdmissionGate(site.cluster.admission).let_in(manifest.template)
    return LackingPods(wanted, wanted - made, why)


def _wanted(manifest: WorkloadManifest, made: int) -> int:
    """Return how many pods a workload wants now: a Job none that have succeeded, and none at all once it has ended."""
    replicas = manifest.replicas or 0
    if manifest.kind != "Job":
        return replicas
    status = manifest.document.manifest.get("status") or {}
    ended = {each.get("type") for each in status.get("conditions") or () if each.get("status") == "True"}
    if ended & {"Complete", "Failed"}:
        return 0
    return wanted_pods(JobBounds(replicas, manifest.spec.get("completions")), made, status.get("succeeded") or 0)


def _pods_by_owner(site: Site) -> dict[tuple[str, str], list[Pod]]:
    """Return the pods that have not ended, by what owns them: a Deployment's also by that."""
    pods = dict[tuple[str, str], list[Pod]]()
    for pod in filter(is_active, site.cluster.pods.values()):
        for owner in {owner_of(pod), workload_of(pod, site.cluster.objects)}:
            if owner is not None:
                pods.setdefault(owner, []).append(pod)
    return pods
