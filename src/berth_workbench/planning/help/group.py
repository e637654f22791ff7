"""Whom a question is about: a pod alone, or a workload with all of its pods.

A controller makes what it has lost again, and makes all of its pods of one template. So what is done to one pod of a
workload is done to all of them, and only what lets all of them run helps.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from berth.api.pod import Pod
from berth_workbench.simulation.budgets import TEMPLATE_HASH, Owner, is_active, workload_of
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.scale import find_by_key, scale
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.workloads import REPLICATED, WorkloadManifest
from berth_workbench.snapshot.documents import Document
from berth_workloads.stateful_sets import REVISION_LABEL, identity_labels, ordinal_of

Json = dict[str, Any]

OF_ONE_POD = frozenset({TEMPLATE_HASH, "pod-template-generation", REVISION_LABEL, *identity_labels("", 0, "")})
"""Labels that controllers give their pods, beside those of the template."""


class Group(NamedTuple):
    """The pods that a question is about."""

    pod: Pod
    """The one that the filters are asked about; it has no node."""
    owner: Owner | None = None
    """Kind, and `namespace/name`, of the workload; None for a pod alone."""
    waiting: tuple[Pod, ...] = ()
    """All pods without a node, this one among them."""
    running: tuple[Pod, ...] = ()
    manifest: WorkloadManifest | None = None
    """The workload's own, where it is known."""
    missing: frozenset[str] = frozenset()
    """Those that wait and do not exist yet, by `namespace/name`."""
    is_there: bool = True
    """Whether the cluster has them, and not only somebody's manifest."""

    @property
    def size(self) -> int:
        """How many pods there are."""
        return len(self.waiting) + len(self.running)

    @property
    def is_rolled_out(self) -> bool:
        """Say whether the workload's controller replaces all pods by itself where the template changes."""
        if self.owner is None or self.owner[0] not in ("Deployment", "StatefulSet", "DaemonSet"):
            return False
        if self.owner[0] == "DaemonSet" and self.manifest is None:
            return False  # a pod does not say which other nodes its template is for
        strategy = self._spec.get("updateStrategy")
        return not (isinstance(strategy, Mapping) and strategy.get("type") == "OnDelete")

    @property
    def waits_for_each(self) -> bool:
        """Say whether pending pods have to be deleted by hand before those of a changed template are made.

        A StatefulSet in its default order waits for a pod that is not ready before it replaces any, however long.
        """
        if self.owner is None or self.owner[0] not in REPLICATED or self.owner[0] == "Deployment":
            return False
        is_parallel = self._spec.get("podManagementPolicy") == "Parallel"
        return not (self.owner[0] == "StatefulSet" and self.is_rolled_out and is_parallel)

    @property
    def _spec(self) -> Mapping[str, Any]:
        return {} if self.manifest is None else self.manifest.spec

    def with_template(self, document: Json, max_unavailable: int = 0) -> WorkloadManifest:
        """Return the workload with a template that makes pods like a document of one of its pods.

        With `max_unavailable`, so many may be missing while it is rolled out.
        Raises `ManifestError` where there is no such workload.
        """
        assert self.owner is not None, "a pod alone has no template"
        kind, (namespace, _, name) = self.owner[0], self.owner[1].partition("/")
        template = _template(document)
        spec = {**self._spec, "template": template}
        spec.setdefault("replicas", self.size)
        spec.setdefault("selector", {"matchLabels": template["metadata"]["labels"]})
        if max_unavailable:
            strategy = spec.get("strategy") or {}
            bounds = {**(strategy.get("rollingUpdate") or {}), "maxUnavailable": max_unavailable}
            spec["strategy"] = {**strategy, "rollingUpdate": bounds}
        if kind == "DaemonSet" and self.manifest is not None:
            of_nodes = ((self.manifest.spec["template"]["spec"].get("affinity")) or {}).get("nodeAffinity")
            template["spec"]["affinity"] = {**(template["spec"].get("affinity") or {}), "nodeAffinity": of_nodes}
        if kind == "StatefulSet":
            claims = _claims_of_its_own(document)
            spec.setdefault("volumeClaimTemplates", [{"metadata": {"name": each}, "spec": {}} for each in claims])
            names = {each["metadata"]["name"] for each in spec["volumeClaimTemplates"]}
            if self.manifest is None:
                pods = (*self.waiting, *self.running)
                spec["ordinals"] = {"start": min(ordinal_of(pod.metadata.name, name) or 0 for pod in pods)}
            template["spec"]["volumes"] = [each for each in template["spec"]["volumes"] if each["name"] not in names]
        uid = next((each.uid for each in self.pod.metadata.owner_references if each.controller), "")
        metadata = {"name": name, "namespace": namespace, "uid": uid if kind != "Deployment" else f"{kind}/{name}"}
        return WorkloadManifest(Document(kind, {"kind": kind, "metadata": metadata, "spec": spec}, "the workload"))


def group_of(site: Site, pod: Pod, *, is_there: bool) -> Group:
    """Return a pod with all those that its controller treats alike."""
    owner = workload_of(pod, site.cluster.objects)
    if owner is None or pod.spec.scheduling_group is not None or owner[0] == "Node":
        return Group(pod, None, (pod,), is_there=is_there)  # a pod group is looked at as a whole by itself
    found = find_by_key(site, *owner)
    pods = [each for each in (found.pods if found is not None else ()) if is_active(each)]
    others = [each for each in pods if each.key != pod.key]
    # What keeps a DaemonSet's pod from its node says nothing about the other nodes.
    alike = [each for each in others if not each.spec.node_name and owner[0] != "DaemonSet"]
    running = tuple(each for each in others if each.spec.node_name)
    manifest = found.manifest if found is not None else None
    return Group(pod, owner, (pod, *alike), running, manifest, is_there=is_there)


def make_missing(site: Site, pod: Pod) -> frozenset[str]:
    """Make the pods of a StatefulSet that its controller makes only once those before them run; return their keys."""
    owner = workload_of(pod, site.cluster.objects)
    found = None if owner is None or ("Pod", pod.key) not in site.cluster.objects else find_by_key(site, *owner)
    if found is None or found.kind != "StatefulSet" or found.manifest is None:
        return frozenset()
    known, wanted = {each.key for each in found.pods}, found.manifest.replicas or 0
    if wanted > len(known):
        scale(site, found, wanted, "its controller")
    return frozenset(f"{found.key}-{number}" for number in range(found.manifest.first_ordinal + wanted)) - known


def groups_of(cluster: SimulatedCluster, pods: Iterable[Pod]) -> dict[Owner, list[Pod]]:
    """Return pods by what makes them, or by the pod group that they wait for; others are by themselves."""
    found: dict[Owner, list[Pod]] = {}
    for pod in pods:
        group = pod.spec.scheduling_group
        owner = workload_of(pod, cluster.objects) or ("Pod", pod.key)
        if group is not None:
            owner = "PodGroup", f"{pod.metadata.namespace}/{group.pod_group_name}"
        found.setdefault(owner, []).append(pod)
    return found


def _template(document: Json) -> Json:
    metadata, spec = document["metadata"], {**document["spec"]}
    for field in ("nodeName", "hostname"):
        spec.pop(field, None)
    if spec.get("priorityClassName"):  # admission fills these in from the class
        spec.pop("priority", None)
        spec.pop("preemptionPolicy", None)
    spec["volumes"] = list(spec.get("volumes") or ())
    labels = {key: each for key, each in (metadata.get("labels") or {}).items() if key not in OF_ONE_POD}
    return {"metadata": {"labels": labels, "annotations": metadata.get("annotations") or {}}, "spec": spec}


def _claims_of_its_own(document: Json) -> list[str]:
    """Return the volumes of a StatefulSet's pod that are claims made for it, going by their names."""
    found = []
    for volume in document["spec"].get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim == f"{volume['name']}-{document['metadata']['name']}":
            found.append(volume["name"])
    return found
