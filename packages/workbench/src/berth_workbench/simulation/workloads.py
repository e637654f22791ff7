"""Manifests of workloads, and the pods that their controllers would make of them.

`expand` takes documents as `berth_workbench.snapshot` reads them. What decisions depend on goes into a cluster as it
is, and Deployments, StatefulSets, Jobs and the like become pods with the names, labels, owners and claims that their
controllers would give them; nothing of it is random. A Deployment's pods are `web-<hash of its template>-0`, `-1`, …; a
StatefulSet's `web-0`, …; a DaemonSet's `web-<node>`. Sources: the controllers of kube-controller-manager v1.36.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from berth.api.codec import ObjectError
from berth.api.meta import LabelSelector, ObjectMeta, OwnerReference, Struct
from berth.api.node import Node, PodDisruptionBudget, ReplicaSet, ReplicaSetSpec
from berth.api.pod import PersistentVolumeClaimVolume, Pod, PodSpec, Volume
from berth.api.scheduling import PodGroup, PodGroupSpec, Workload
from berth.api.selectors import SelectorError, compile_selector, selector_from_map
from berth.api.user_error import UserError
from berth_workbench.simulation.admission import admitted, completed
from berth_workbench.simulation.budgets import SCALED_KINDS, TEMPLATE_HASH, budget_problem
from berth_workbench.simulation.claims import ClaimTemplate, claim_template, made_claims
from berth_workbench.simulation.daemons import as_daemon, may_run, pinned
from berth_workbench.snapshot.documents import Document
from berth_workloads.jobs import COMPLETION_INDEX, JobBounds, wanted_pods
from berth_workloads.stateful_sets import REVISION_LABEL, claim_name, identity_labels

Json = dict[str, Any]

REPLICATED = ("ReplicationController", "ReplicaSet", "Deployment", "StatefulSet")
"""Kinds that have `spec.replicas`."""
POD_MAKERS = (*REPLICATED, "Job", "CronJob", "DaemonSet")
"""Kinds whose controllers make pods."""
MAX_PODS = 1_000_000
"""More pods than this, of one workload or of all manifests, are refused: that is a slip of the keyboard, and would
take all memory."""

_API_VERSIONS = {"ReplicationController": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of made-up parts of names, as in Kubernetes: no word can come of them."""


class ManifestError(UserError, ValueError):
    """A manifest that cannot be used; the message is one line that says which file, object and field, and why."""


class WorkloadManifest:
    """A workload as its manifest describes it: how many pods it wants, and what each of them looks like."""

    __slots__ = ("_claims", "_pod", "_set_uid", "document", "kind", "name", "namespace", "replicas", "selector",
                 "spec", "template_hash", "uid", "where")  # fmt: skip

    def __init__(self, document: Document, namespace: str = "default") -> None:
        """Check a manifest. `namespace` is that of objects that name none. Raises `ManifestError`."""
        self.document = document
        manifest = document.manifest
        self.kind = document.kind
        metadata = manifest.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        self.name = str(metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-"))
        self.namespace = str(metadata.get("namespace") or namespace)
        self.where = f"{document.where}: {self.kind} {self.namespace}/{self.name or '(without a name)'}"
        if not self.name:
            raise self._wrong("metadata.name", "is missing")
        self.uid = str(metadata.get("uid") or f"{self.kind}/{self.key}")
        """The uid that its manifest gives, or one made of kind and name."""
        spec, path = manifest.get("spec"), "spec"
        if not isinstance(spec, Mapping):
            raise self._wrong("spec", "is missing")
        if self.kind == "CronJob":
            job, path = spec.get("jobTemplate"), "spec.jobTemplate.spec"
            spec = (job.get("spec") if isinstance(job, Mapping) else None) or {}
        self.spec: Mapping[str, Any] = spec
        self._pod = self._read_template(f"{path}.template")
        self.template_hash = short_hash(msgspec.json.encode(self.spec.get("template"), order="deterministic"))
        """A short text that changes with the template."""
        self._set_uid = ""
        """The uid of the ReplicaSet that a Deployment's pods belong to; empty where it is made of its name."""
        self.selector = self._read_selector()
        self._claims = self._read_claims()
        self.replicas = self._read_replicas(path)
        """How many pods it wants; None where it wants one on each node."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def template(self) -> Pod:
        """A pod of the template, without a name, admitted but for its priority."""
        return self._pod

    @property
    def has_claim_templates(self) -> bool:
        """Say whether each pod gets claims that outlive it, as those of a StatefulSet may."""
        return bool(self._claims)

    def objects(self, count: int | None = None) -> Iterator[Struct]:
        """Yield the objects beside the pods that decisions depend on: what a Deployment's pods are selected by.

        `count` stands in for `replicas`.
        """
        replicas = self.replicas if count is None else count
        if self.kind == "Deployment":
            labels = {**self._pod.metadata.labels, TEMPLATE_HASH: self.template_hash}
            selector = self.selector or LabelSelector()
            yield ReplicaSet(
                metadata=ObjectMeta(
                    name=f"{self.name}-{self.template_hash}",
                    namespace=self.namespace,
                    uid=f"ReplicaSet/{self.key}-{self.template_hash}",
                    labels=labels,
                    owner_references=(self._owner(self.kind, self.name, self.uid),),
                ),
                spec=ReplicaSetSpec(
                    replicas=replicas,
                    selector=LabelSelector(
                        match_labels={**selector.match_labels, TEMPLATE_HASH: labels[TEMPLATE_HASH]},
                        match_expressions=selector.match_expressions,
                    ),
                ),
            )
        elif self.document.is_read_by_scheduler:
            own = decoded(self.document, self.namespace)
            yield own if count is None else scaled(own, count)

    def go_on_with(self, replica_set: ReplicaSet) -> None:
        """Let pods that are made from now on be those of a ReplicaSet that a Deployment has already."""
        self.template_hash = replica_set.metadata.name.removeprefix(f"{self.name}-")
        self._set_uid = replica_set.metadata.uid

    def pods(
        self, count: int | None = None, *, taken: Iterable[str] = (), nodes: Iterable[Node] = ()
    ) -> Iterator[tuple[Pod, tuple[Struct, ...]]]:
        """Yield the pods in the order in which they are made, each with the claims that are made for it alone.

        `count` stands in for `replicas`. Names among `taken` (`namespace/name`) are passed over, but for a StatefulSet
        and an indexed Job, whose pods of these names are there already. A DaemonSet has a pod on each of the `nodes`
        that it may run on.
        """
        known = taken if isinstance(taken, set | frozenset | dict) else set(taken)
        if self.kind == "DaemonSet":
            for node in nodes:
                pod = self.daemon_pod(node)
                if pod is not None and pod.key not in known:
                    yield pod, ()
            return
        wanted = self.replicas if count is None else count
        assert wanted is not None, "only a DaemonSet has no number of replicas"
        is_numbered = self.kind == "StatefulSet" or self._is_indexed
        number, made = self.first_ordinal, 0
        while made < wanted:
            pod = self.numbered(number)
            number += 1
            if pod.key in known:
                made += is_numbered
                continue
            made += 1
            yield pod, self._claims_of(pod)

    def daemon_pod(self, node: Node) -> Pod | None:
        """Return a DaemonSet's pod for a node, or None where it is not to run there."""
        return self._daemon_pod(node) if may_run(self._pod, node) else None

    def _daemon_pod(self, node: Node) -> Pod:
        labels = {**self._pod.metadata.labels, REVISION_LABEL: self.template_hash, "pod-template-generation": "1"}
        return pinned(self._made(f"{self.name}-{node.metadata.name}", labels), node.metadata.name)

    def numbered(self, number: int) -> Pod:
        """Return the pod of a number: a StatefulSet's ordinal, an indexed Job's index, for others part of its name."""
        labels = dict(self._pod.metadata.labels)
        annotations = None
        if self.kind == "Deployment":
            labels[TEMPLATE_HASH] = self.template_hash
            return self._made(f"{self.name}-{self.template_hash}-{number}", labels)
        name = f"{self.name}-{number}"
        if self.kind == "StatefulSet":
            labels |= identity_labels(name, number, self.template_hash)
        elif self.kind in ("Job", "CronJob"):
            labels |= {"job-name": self.name, "batch.kubernetes.io/job-name": self.name}
            if self._is_indexed:
                labels[COMPLETION_INDEX] = str(number)
                annotations = {**self._pod.metadata.annotations, COMPLETION_INDEX: str(number)}
        return self._made(name, labels, annotations)

    def _made(self, name: str, labels: dict[str, str], annotations: dict[str, str] | None = None) -> Pod:
        owner = self._owner(self.kind, self.name, self.uid)
        if self.kind == "Deployment":
            set_name = f"{self.name}-{self.template_hash}"
            owner = self._owner("ReplicaSet", set_name, self._set_uid or f"ReplicaSet/{self.namespace}/{set_name}")
        metadata = ObjectMeta(
            name=name,
            namespace=self.namespace,
            uid=f"Pod/{self.namespace}/{name}",
            labels=labels,
            annotations=self._pod.metadata.annotations if annotations is None else annotations,
            owner_references=(owner,),
        )
        return Pod(metadata=metadata, spec=self._spec_of(name))

    def _spec_of(self, name: str) -> PodSpec:
        if not self._claims:
            return self._pod.spec
        ours = {claim.name for claim in self._claims}
        volumes = tuple(each for each in self._pod.spec.volumes if each.name not in ours)
        added = tuple(
            Volume(claim.name, PersistentVolumeClaimVolume(claim_name(claim.name, name))) for claim in self._claims
        )
        return msgspec.structs.replace(self._pod.spec, volumes=(*volumes, *added))

    def _claims_of(self, pod: Pod) -> tuple[Struct, ...]:
        """A StatefulSet's claims outlive their pod, so that they belong to nobody."""
        return tuple(
            claim.made(claim_name(claim.name, pod.metadata.name), pod.metadata.namespace) for claim in self._claims
        )

    def _owner(self, kind: str, name: str, uid: str) -> OwnerReference:
        kind = "Job" if kind == "CronJob" else kind
        return OwnerReference(
            api_version=_API_VERSIONS.get(kind, "apps/v1"), kind=kind, name=name, uid=uid, controller=True
        )

    @property
    def _is_indexed(self) -> bool:
        return self.spec.get("completionMode") == "Indexed"

    @property
    def first_ordinal(self) -> int:
        """The number of the first pod."""
        ordinals = self.spec.get("ordinals")
        start = ordinals.get("start") if isinstance(ordinals, Mapping) and self.kind == "StatefulSet" else 0
        return self._number(start, "spec.ordinals.start", 0)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _wrong(self, field: str, problem: str) -> ManifestError:
        return ManifestError(f"{self.where}: {field} {problem}")

    def _number(self, given: Any, field: str, default: int) -> int:
        if given is None:
            return default
        if not isinstance(given, int) or isinstance(given, bool) or given < 0:
            raise self._wrong(field, f"must be a whole number, not negative; it is {given!r}")
        if given > MAX_PODS:
            raise self._wrong(field, f"asks for {given} pods; more than {MAX_PODS} are not tried")
        return given

    def _read_template(self, path: str) -> Pod:
        template = self.spec.get("template")
        if not isinstance(template, Mapping):
            raise self._wrong(path, "is missing")
        spec = template.get("spec")
        if not isinstance(spec, Mapping) or not isinstance(spec.get("containers"), list) or not spec["containers"]:
            raise self._wrong(f"{path}.spec.containers", "is missing or empty")
        metadata = template.get("metadata") or {}
        if not isinstance(metadata, Mapping):
            raise self._wrong(f"{path}.metadata", "must be an object")
        of_template = {**metadata, "name": self.name, "namespace": self.namespace, "uid": "template"}
        try:
            pod = admitted({"kind": "Pod", "metadata": of_template, "spec": spec})
        except ObjectError as error:
            raise ManifestError(f"{self.where}: {path}: {error.reason}") from None
        assert isinstance(pod, Pod), "the template was given as a pod"
        return as_daemon(pod) if self.kind == "DaemonSet" else pod

    def _read_selector(self) -> LabelSelector | None:
        given = self.spec.get("selector")
        if self.kind not in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"):
            return None
        labels = self._pod.metadata.labels
        try:
            if self.kind == "ReplicationController":
                found = LabelSelector(match_labels=msgspec.convert(given or labels, dict[str, str]))
                selector = selector_from_map(found.match_labels)
            else:
                found = msgspec.convert(given, LabelSelector) if given is not None else LabelSelector()
                selector = compile_selector(found)
        except (msgspec.ValidationError, SelectorError) as error:
            raise self._wrong("spec.selector", f"cannot be read: {error}") from None
        if not selector.requirements:
            raise self._wrong("spec.selector", "is missing")
        if not selector.matches(labels):
            raise self._wrong("spec.selector", "does not match spec.template.metadata.labels")
        return found

    def _read_claims(self) -> tuple[ClaimTemplate, ...]:
        given = self.spec.get("volumeClaimTemplates") if self.kind == "StatefulSet" else None
        if given is None:
            return ()
        if not isinstance(given, list):
            raise self._wrong("spec.volumeClaimTemplates", "must be a list")
        found = []
        for number, each in enumerate(given):
            try:
                found.append(claim_template("PersistentVolumeClaim", each))
            except ValueError as error:
                raise self._wrong(f"spec.volumeClaimTemplates[{number}]:", str(error)) from None
        return tuple(found)

    def _read_replicas(self, path: str) -> int | None:
        if self.kind == "DaemonSet":
            return None
        if self.kind not in ("Job", "CronJob"):
            return self._number(self.spec.get("replicas"), "spec.replicas", 1)
        parallelism = self._number(self.spec.get("parallelism"), f"{path}.parallelism", 1)
        completions = self._number(self.spec.get("completions"), f"{path}.completions", MAX_PODS)
        return wanted_pods(JobBounds(parallelism, completions, self.spec.get("suspend") is True))


def scaled(controller: Any, replicas: int) -> Any:
    """Return an object that asks for pods with another number of them; other objects are returned as they are."""
    if not isinstance(controller, SCALED_KINDS):
        return controller
    return msgspec.structs.replace(controller, spec=msgspec.structs.replace(controller.spec, replicas=replicas))


class Expansion(msgspec.Struct, frozen=True):
    """What manifests come to."""

    objects: tuple[Struct, ...] = ()
    """Everything but pods, to be put into the cluster before them."""
    pods: tuple[Pod, ...] = ()
    """In the order of the manifests; admitted but for their priority, which depends on the cluster's classes."""
    workloads: tuple[WorkloadManifest, ...] = ()
    passed_over: tuple[str, ...] = ()
    """Objects that make no pods and that decisions do not depend on, as `kind name`."""
    templates: dict[str, ClaimTemplate] = {}
    """The ResourceClaimTemplates among the manifests, by `namespace/name`."""


def expand(
    documents: Iterable[Document],
    *,
    nodes: Sequence[Node] = (),
    templates: Mapping[str, ClaimTemplate] | None = None,
    taken: Iterable[str] = (),
    replicas: Mapping[tuple[str, str], int] | None = None,
    groups: Iterable[str] = (),
    namespace: str = "default",
) -> Expansion:
    """Return the objects and pods of manifests.

    `nodes` are the cluster's, for DaemonSets; nodes among the manifests count as well. `templates` are its
    ResourceClaimTemplates by `namespace/name` (see `claim_templates`), `taken` the names of its pods, `groups` those of
    its PodGroups, all `namespace/name`. `replicas` stands in for what a workload (kind, `namespace/name`) asks for.
    Raises `ManifestError`.
    """
    documents = list(documents)
    own_templates = claim_templates(documents, namespace)
    known_templates = {**(templates or {}), **own_templates}
    objects: list[Struct] = []
    bare: list[Pod] = []
    workloads: list[WorkloadManifest] = []
    passed_over: list[str] = []
    for document in documents:
        if document.kind in POD_MAKERS:
            workloads.append(WorkloadManifest(document, namespace))
            objects += workloads[-1].objects((replicas or {}).get((document.kind, workloads[-1].key)))
        elif document.kind == "Pod":
            bare.append(bare_pod(document, namespace))
        elif document.is_read_by_scheduler:
            objects.append(decoded(document, namespace))
        elif document.kind != "ResourceClaimTemplate":
            passed_over.append(f"{document.kind} {_name_of(document) or '(without a name)'}")
    all_nodes = {node.metadata.name: node for node in nodes}
    all_nodes |= {obj.metadata.name: obj for obj in objects if isinstance(obj, Node)}
    _refuse_too_many(workloads, len(bare), len(all_nodes), replicas or {})
    names, pods = set(taken), []
    for pod, claims in _all_pods(bare, workloads, names, all_nodes.values(), replicas or {}):
        names.add(pod.key)
        complete, made = made_claims(pod, known_templates)
        pods.append(complete)
        objects += (*claims, *made)
    objects += missing_groups(pods, objects, set(groups))
    return Expansion(tuple(objects), tuple(pods), tuple(workloads), tuple(passed_over), own_templates)


def _refuse_too_many(
    workloads: Iterable[WorkloadManifest], count: int, nodes: int, replicas: Mapping[tuple[str, str], int]
) -> None:
    """Raise `ManifestError` where workloads come to more than `MAX_PODS`, with a `count` of pods beside them."""
    for workload in workloads:
        wanted = nodes if workload.replicas is None else workload.replicas
        wanted = replicas.get((workload.kind, workload.key), wanted)
        count += wanted
        if count > MAX_PODS:
            problem = f"asks for {wanted} pods; with those before it that is {count}, and more than {MAX_PODS}"
            raise ManifestError(f"{workload.where}: {problem} are not tried")


def _all_pods(
    bare: Sequence[Pod],
    workloads: Sequence[WorkloadManifest],
    names: set[str],
    nodes: Iterable[Node],
    replicas: Mapping[tuple[str, str], int],
) -> Iterator[tuple[Pod, tuple[Struct, ...]]]:
    yield from ((pod, ()) for pod in bare)
    for workload in workloads:
        yield from workload.pods(replicas.get((workload.kind, workload.key)), taken=names, nodes=nodes)


def claim_templates(documents: Iterable[Document], namespace: str = "default") -> dict[str, ClaimTemplate]:
    """Return the ResourceClaimTemplates among some documents by `namespace/name`. Raises `ManifestError`."""
    found = {}
    for document in documents:
        if document.kind != "ResourceClaimTemplate":
            continue
        manifest = document.manifest
        metadata = manifest.get("metadata") or {}
        key = f"{metadata.get('namespace') or namespace}/{metadata.get('name')}"
        try:
            found[key] = claim_template("ResourceClaim", manifest.get("spec"), str(metadata.get("name")))
        except ValueError as error:
            raise ManifestError(f"{document.where}: ResourceClaimTemplate {key}: spec: {error}") from None
    return found


def decoded(document: Document, namespace: str = "default") -> Struct:
    """Return a manifest of a kind that the scheduler reads, completed as when it is stored. Raises `ManifestError`."""
    try:
        found = admitted({**document.manifest, "kind": document.kind}, namespace)
    except ObjectError as error:
        raise ManifestError(f"{document.where}: {error}") from None
    if isinstance(found, PodDisruptionBudget) and (problem := budget_problem(found)):
        key = f"{found.metadata.namespace}/{found.metadata.name}"
        raise ManifestError(f"{document.where}: PodDisruptionBudget {key}: {problem}")
    return found


def bare_pod(document: Document, namespace: str) -> Pod:
    """Return the pod of a manifest of kind Pod, admitted but for its priority. Raises `ManifestError`."""
    manifest = document.manifest
    metadata = manifest.get("metadata")
    if isinstance(metadata, Mapping) and not metadata.get("name") and metadata.get("generateName"):
        manifest = {**manifest, "metadata": {**metadata, "name": f"{metadata['generateName']}0"}}
    pod = decoded(Document(document.kind, completed("Pod", manifest, namespace), document.where), namespace)
    assert isinstance(pod, Pod), "the document's kind is Pod"
    if not pod.metadata.name:
        raise ManifestError(f"{document.where}: Pod (without a name): metadata.name is missing")
    if not pod.spec.containers:
        raise ManifestError(f"{document.where}: Pod {pod.key}: spec.containers is missing or empty")
    return pod


def _name_of(document: Document) -> str:
    metadata = document.manifest.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def missing_groups(pods: Iterable[Pod], objects: Iterable[Struct], known: set[str]) -> list[PodGroup]:
    """Return the pod groups that pods name, that are not known, and for which some Workload has a template.

    A group is made of the template `T` of the Workload `W` where it is named `T` or `W-T`.
    """
    objects = list(objects)
    known |= {f"{obj.metadata.namespace}/{obj.metadata.name}" for obj in objects if isinstance(obj, PodGroup)}
    templates = {}
    for workload in (obj for obj in objects if isinstance(obj, Workload)):
        for template in workload.spec.pod_group_templates:
            for name in (template.name, f"{workload.metadata.name}-{template.name}"):
                templates[f"{workload.metadata.namespace}/{name}"] = template
    found = {}
    for pod in pods:
        if pod.spec.scheduling_group is None:
            continue
        name = pod.spec.scheduling_group.pod_group_name
        key = f"{pod.metadata.namespace}/{name}"
        if key in known or key in found or key not in templates:
            continue
        template = templates[key]
        found[key] = PodGroup(
            metadata=ObjectMeta(name=name, namespace=pod.metadata.namespace, uid=f"PodGroup/{key}"),
            spec=PodGroupSpec(
                scheduling_policy=template.scheduling_policy, scheduling_constraints=template.scheduling_constraints
            ),
        )
    return list(found.values())


def short_hash(content: bytes) -> str:
    """Return five characters that depend on some content, of those that names are made of."""
    number = int.from_bytes(hashlib.sha256(content).digest()[:8])
    letters = []
    for _ in range(5):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)
