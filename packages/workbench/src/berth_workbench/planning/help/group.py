"""Whom a question is about: a pod alone, a workload with all of its pods, or all that must be placed together.

A controller makes what it has lost again, and makes all of its pods of one template. So what is done to one pod of a
workload is done to all of them, and only what lets all of them run helps. The members of a gang may be of several
workloads: a change of the pod is one of its own workload, and still helps only if it lets all members run.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth.api.pod import Pod
from berth_workbench.planning.help.standing import GangPart
from berth_workbench.simulation.budgets import TEMPLATE_HASH, Owner, is_active, workload_of
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.gangs import Gang, declared_gang, gang_of
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
    gang: Gang | None = None
    """What they have to be placed together for, if anything."""
    standing: Mapping[str, str] = MappingProxyType({})
    """Of those that wait for the rest of a gang, by `namespace/name`, the nodes where there is room for them by now."""
    parts: tuple[GangPart, ...] = ()
    """The parts of the cluster to which the gang might go as a whole, that with room for most of those that wait first.
    """
    others: frozenset[str] = frozenset()
    """The members of the gang that are not made of the same template as this pod, by `namespace/name`."""
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
    def alike(self) -> tuple[Pod, ...]:
        """The pods without a node that get whatever this one gets."""
        return tuple(pod for pod in self.waiting if pod.key not in self.others)

    @property
    def beside(self) -> tuple[Pod, ...]:
        """The pods that get whatever this one gets, and have a node or stand on one."""
        standing = (pod for pod in self.waiting if pod.key in self.standing)
        return tuple(pod for pod in (*self.running, *standing) if pod.key not in self.others)

    @property
    def own_size(self) -> int:
        """How many pods the workload has, without other members of its gang."""
        return sum(pod.key not in self.others for pod in (*self.waiting, *self.running))

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
        spec.setdefault("replicas", self.own_size)
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
                pods = [pod for pod in (*self.waiting, *self.running) if pod.key not in self.others]
                spec["ordinals"] = {"start": min(ordinal_of(pod.metadata.name, name) or 0 for pod in pods)}
            template["spec"]["volumes"] = [each for each in template["spec"]["volumes"] if each["name"] not in names]
        uid = next((each.uid for each in self.pod.metadata.owner_references if each.controller), "")
        metadata = {"name": name, "namespace": namespace, "uid": uid if kind != "Deployment" else f"{kind}/{name}"}
        return WorkloadManifest(Document(kind, {"kind": kind, "metadata": metadata, "spec": spec}, "the workload"))


def group_of(site: Site, pod: Pod, *, is_there: bool) -> Group:
    """Return a pod with all those that its controller treats alike, and with those that it is placed together with."""
    owner, gang = workload_of(pod, site.cluster.objects), gang_of(site.cluster, pod)
    if owner is not None and owner[0] == "Node":
        owner = None
    found = None if owner is None else find_by_key(site, *owner)
    own = {each.key: each for each in (found.pods if found is not None else ()) if is_active(each)}
    members = {each.key: each for each in (gang.members if gang is not None else ())}
    pods = [each for each in {**members, **own}.values() if each.key != pod.key]
    # What keeps a DaemonSet's pod from its node says nothing about the other nodes.
    waiting = [each for each in pods if not each.spec.node_name and (owner is None or owner[0] != "DaemonSet")]
    return Group(
        pod,
        owner,
        (pod, *waiting),
        tuple(each for each in pods if each.spec.node_name),
        gang,
        others=frozenset(each.key for each in pods if each.key not in own and not (owner is None and _like(each, pod))),
        manifest=found.manifest if found is not None else None,
        is_there=is_there,
    )


def _like(pod: Pod, other: Pod) -> bool:
    """Say whether two pods that nothing makes ask for the same."""
    plain = (msgspec.structs.replace(each.spec, node_name="", volumes=(), resource_claims=()) for each in (pod, other))
    return pod.metadata.labels == other.metadata.labels and len(set(map(repr, plain))) == 1


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
    """Return pods by the gang that they belong to, or by what makes them; others are by themselves."""
    found: dict[Owner, list[Pod]] = {}
    for pod in pods:
        gang = declared_gang(cluster, pod)
        owner = workload_of(pod, cluster.objects) or ("Pod", pod.key)
        found.setdefault(owner if gang is None else ("PodGroup", gang.key), []).append(pod)
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
