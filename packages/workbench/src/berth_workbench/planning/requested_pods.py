"""The pods that a question about room names by manifests: of each, as many as fit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from berth.api.meta import Struct
from berth.api.pod import Pod
from berth_workbench.simulation.changes import ChangeError
from berth_workbench.simulation.claims import ClaimTemplate, has_own_claims, made_claims
from berth_workbench.simulation.workloads import (
    MAX_PODS,
    POD_MAKERS,
    WorkloadManifest,
    bare_pod,
    expand,
    missing_groups,
)
from berth_workbench.snapshot.documents import Document

NewPod = tuple[Pod, tuple[Struct, ...]]
"""A pod, and the claims that are made for it alone."""


class RequestedShape:
    """The pods of one manifest: their template, and how many of them make a set."""

    __slots__ = ("_manifest", "_pod", "_templates", "name", "per_set")

    def __init__(self, made_of: Pod | WorkloadManifest, per_set: int, templates: dict[str, ClaimTemplate]) -> None:
        self._manifest = made_of if isinstance(made_of, WorkloadManifest) else None
        self._pod = made_of if isinstance(made_of, Pod) else None
        self._templates = templates
        self.name = made_of.key
        """`namespace/name` of the pod or workload."""
        self.per_set = per_set

    @property
    def template(self) -> Pod:
        """A pod like all of them, admitted except for its priority."""
        if self._manifest is not None:
            return self._manifest.template
        assert self._pod is not None, "a shape is made of one of the two"
        return self._pod

    @property
    def has_own_claims(self) -> bool:
        """Whether each pod gets claims of its own."""
        makes = self._manifest is not None and self._manifest.has_claim_templates
        return makes or has_own_claims(self.template)

    def pods(self, taken: Iterable[str]) -> Iterator[NewPod]:
        """Yield pods for as long as the caller takes them, under names that are not `taken` (`namespace/name`)."""
        for pod, claims in self._plain(set(taken)):
            complete, own = made_claims(pod, self._templates)
            yield complete, (*claims, *own)

    def _plain(self, taken: set[str]) -> Iterator[NewPod]:
        if self._manifest is not None:
            replicas = self._manifest.pods(MAX_PODS, taken=() if self._manifest.kind == "StatefulSet" else taken)
            yield from ((pod, claims) for pod, claims in replicas if pod.key not in taken)
            return
        pod = self.template
        for number in range(MAX_PODS):
            name = pod.metadata.name if not number else f"{pod.metadata.name}-{number}"
            key = f"{pod.metadata.namespace}/{name}"
            if key not in taken:
                metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"Pod/{key}")
                yield msgspec.structs.replace(pod, metadata=metadata), ()


class RequestedPods(msgspec.Struct, frozen=True):
    """The pods of some manifests, and what they need besides."""

    shapes: tuple[RequestedShape, ...]
    objects: tuple[Struct, ...]
    """What has to be in the cluster for it: priority classes, claims, services and the like."""
    passed_over: tuple[str, ...]


def requested_pods(
    documents: Iterable[Document],
    *,
    templates: dict[str, ClaimTemplate] | None = None,
    groups: Sequence[str] = (),
    namespace: str = "default",
    replicas: Mapping[tuple[str, str], int] | None = None,
) -> RequestedPods:
    """Return the pods of manifests. `templates`, `groups` and `replicas` are as in `expand`.

    A set has as many pods of each workload as that has replicas, and one of each bare pod. Raises `ManifestError`,
    `ChangeError`.
    """
    documents = list(documents)
    if not any(each.kind in (*POD_MAKERS, "Pod") for each in documents):
        raise ChangeError("-f: nothing that makes pods; give a Pod, a Deployment, a StatefulSet, a Job or the like")
    others = expand(
        [each for each in documents if each.kind not in (*POD_MAKERS, "Pod")], templates=templates, namespace=namespace
    )
    known = {**(templates or {}), **others.templates}
    shapes: list[RequestedShape] = []
    objects = list(others.objects)
    for document in documents:
        if document.kind == "Pod":
            shapes.append(RequestedShape(_without_node(bare_pod(document, namespace)), 1, known))
        elif document.kind in POD_MAKERS:
            workload = WorkloadManifest(document, namespace)
            if workload.replicas is None:
                raise ChangeError(f"{workload.where}: has one pod on each node; `berth whatif` says where it fits")
            wanted = (replicas or {}).get((workload.kind, workload.key), workload.replicas)
            shapes.append(RequestedShape(workload, max(wanted, 1), known))
            objects += workload.objects()
    objects += missing_groups([shape.template for shape in shapes], objects, set(groups))
    return RequestedPods(tuple(shapes), tuple(objects), others.passed_over)


def _without_node(pod: Pod) -> Pod:
    """Return a pod without its node: one that already runs is asked about as one yet to be placed."""
    return Pod(
        metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=None, uid=f"Pod/{pod.key}"),
        spec=msgspec.structs.replace(pod.spec, node_name=""),
    )
