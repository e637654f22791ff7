"""What could be added to the cluster: one more node like those there are, or an object that is missing."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, groupby, islice
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth.api.codec import decode
from berth.api.node import Node
from berth.api.pod_resources import CPU, MEMORY, PODS
from berth.api.pools import HOSTNAME, kubelet_labels
from berth.api.storage import StorageClass
from berth.api.taints import Taint
from berth.decisions.named_in_vain import NamedInVain, named_in_vain
from berth.state.pod_info import PodInfo
from berth_workbench.planning.help.findings import HelpFindings
from berth_workbench.planning.help.needs import PodQuestion
from berth_workbench.planning.help.proof import Proposal, document_of
from berth_workbench.planning.help.proposals import Newcomer, of_new_nodes, of_new_object
from berth_workbench.planning.help.result import Change
from berth_workbench.planning.help.sources.resources import amount_of, quantity_of, words_of
from berth_workbench.planning.help.sources.taints import OF_THE_CONTROLLER
from berth_workbench.simulation.budgets import follows_its_node

Json = dict[str, Any]

MAX_SHAPES = 40
FITTED_TRIED = 6
MOST_NODES = 100
"""No more nodes than these are proposed for one workload."""
NOBODY: Mapping[str, int] = MappingProxyType({})
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class NodeShape(NamedTuple):
    """Nodes that are alike but for their names, by the first of them."""

    size: tuple[int, ...]
    like: str


def shapes_of(question: PodQuestion) -> list[NodeShape]:
    """Return the shapes of the cluster's nodes, the smallest first."""
    nodes = [question.table.node(row) for row in question.table.rows().tolist()]
    told = _telling_labels(nodes)
    found: dict[Hashable, Node] = {}
    for node in nodes:
        labels = frozenset((key, value) for key, value in node.metadata.labels.items() if key in told)
        size = tuple(sorted(node.status.allocatable.items(), key=str))
        found.setdefault((size, labels, _lasting(node.spec.taints)), node)
    return sorted(NodeShape(_size(node), node.metadata.name) for node in found.values())


def _telling_labels(nodes: Sequence[Node]) -> frozenset[str]:
    """Return the labels that tell kinds of nodes apart: not those of which every node has a value of its own."""
    values: dict[str, set[str]] = {}
    holders: Counter[str] = Counter()
    for node in nodes:
        for key, value in node.metadata.labels.items():
            values.setdefault(key, set()).add(value)
            holders[key] += 1
    is_name = {key for key in values if holders[key] > 1 and len(values[key]) == holders[key]}
    return frozenset(values) - is_name - {HOSTNAME}


def _lasting(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    return tuple(taint for taint in taints if not taint.key.startswith(OF_THE_CONTROLLER))


def _size(node: Node) -> tuple[int, ...]:
    has = node.status.allocatable
    others = sorted(name for name in has if name not in (CPU, MEMORY, PODS))
    return (*(amount_of(name, has.get(name, 0)) for name in (CPU, MEMORY)), len(others),
            *(amount_of(name, has[name]) for name in others))  # fmt: skip


class Adding:
    """The search for a node that would do."""

    __slots__ = ("_findings", "_question")

    def __init__(self, findings: HelpFindings) -> None:
        self._findings = findings
        self._question = findings.question

    def run(self) -> None:
        """Find the smallest node that would do: like one that is there, or else like one but larger."""
        shapes = shapes_of(self._question)
        if len(shapes) > MAX_SHAPES:
            # Shapes of one size differ in their labels only; of each size one is tried before any second one.
            turns = [turn for _, alike in groupby(shapes, lambda shape: shape.size) for turn, _ in enumerate(alike)]
            chosen = sorted(range(len(shapes)), key=turns.__getitem__)[:MAX_SHAPES]
            shapes = [shapes[place] for place in sorted(chosen)]
            self._findings.is_complete = False
        for propose in self._alike(shapes):
            change = self._findings.on_enough(propose, MOST_NODES)
            if change is not None:
                self._findings.changes.append(change)
                return
        for like, differences in self._larger(shapes):
            propose = partial(self._proposal, partial(self._made_to_measure, like, {}), _but(like, differences))
            change = self._findings.on_enough(propose, MOST_NODES)
            if change is not None:
                self._findings.changes.append(self._one_instead(like, change) or change)
                return

    def _one_instead(self, like: str, change: Change) -> Change | None:
        """Return the change of a single node with room for those as well who would take that of the pod.

        They wait too, and several nodes made to measure were needed only since they come first.
        """
        if (
            sum(each["kind"] == "Node" for each in change.patch["manifests"]) < 2
            or len(self._question.group.waiting) > 1
        ):
            return None
        pods = self._question.prover.cluster.objects
        others: Counter[str] = Counter()
        for key in change.gains:
            others.update(self._question.prover.info(pods["Pod", key]).requests)
        _, differences = self._fitted(like, 1, others)
        make = partial(self._made_to_measure, like, others)
        return self._findings.helping(self._proposal(make, _but(like, differences), 1))

    def _alike(self, shapes: Sequence[NodeShape]) -> Iterator[Callable[[int], Proposal]]:
        for shape in shapes:
            words = f"like {shape.like} ({_words(self._question.table.node(self._question.table.row_of[shape.like]))})"
            yield partial(self._proposal, partial(self._like, shape.like), words)

    def _larger(self, shapes: Sequence[NodeShape]) -> Iterator[tuple[str, list[str]]]:
        """Yield nodes to make others like but to measure, and how these differ, those that differ least first."""
        fitted = [(shape.like, self._fitted(shape.like, 1)[1]) for shape in reversed(shapes)]
        differing = [each for each in fitted if each[1]]  # of those that differ as little, the larger come first
        yield from sorted(differing, key=lambda each: len(each[1]))[:FITTED_TRIED]

    def _made_to_measure(self, like: str, others: Mapping[str, int], number: int) -> Newcomer:
        return self._fitted(like, number, others)[0]

    @staticmethod
    def _proposal(make: Callable[[int], Newcomer], words: str, count: int) -> Proposal:
        return of_new_nodes([make(number) for number in range(1, count + 1)], words)

    def _like(self, like: str, number: int) -> Newcomer:
        """Return a copy of a node without what is wrong with that one, with its daemons' pods."""
        question, store = self._question, self._question.prover.core.objects
        row = question.table.row_of[like]
        name = self._new_name(like, number)
        document = document_of(question.table.node(row))
        labels = {k: _renamed(v, like, name) for k, v in document["metadata"].get("labels", {}).items()}
        document["metadata"] = {"name": name, "uid": f"Node/{name}",
                                "labels": kubelet_labels(name, labels) | {HOSTNAME: name}}  # fmt: skip
        spec = document.get("spec", {})
        taints = [taint for taint in spec.get("taints", ()) if not taint["key"].startswith(OF_THE_CONTROLLER)]
        document["spec"] = {"taints": taints} if taints else {}
        status = document["status"]
        document["status"] = {field: status[field] for field in ("allocatable", "capacity", "declaredFeatures")
                              if status.get(field)}  # fmt: skip
        daemons = tuple(
            _elsewhere(pod, name)
            for pod in question.table.pods[row].values()
            if follows_its_node(pod.pod) and not pod.is_terminating
        )
        beside = tuple(self._beside(store, like, name))
        return Newcomer(decode("Node", document), beside, daemons)

    def _new_name(self, like: str, number: int) -> str:
        """Return a name that no node has, for the first, second, … of the new ones."""
        free = (name for each in count(1) if (name := f"{like}-new{each}") not in self._question.table.row_of)
        return next(islice(free, number - 1, None))

    def _beside(self, store: Any, like: str, name: str) -> Iterator[Any]:
        """Yield what drivers would publish for the node."""
        csi_node = store.get("CSINode", like)
        if csi_node is not None:
            yield _named(csi_node, name)
        for published in store.list("ResourceSlice"):
            if published.spec.node_name == like:
                pool = msgspec.structs.replace(published.spec.pool, name=_renamed(published.spec.pool.name, like, name))
                spec = msgspec.structs.replace(published.spec, node_name=name, pool=pool)
                renamed = _named(published, f"{published.metadata.name}-{name}")
                yield msgspec.structs.replace(renamed, spec=spec)

    def _fitted(self, like: str, number: int, others: Mapping[str, int] = NOBODY) -> tuple[Newcomer, list[str]]:
        """Return a node made to measure, and how it differs: what is short is raised to what pod and daemons need.

        `others` is what pods request that come there first.
        """
        newcomer = self._like(like, number)
        question, document = self._question, document_of(newcomer.node)
        differences = []
        allocatable = document["status"].setdefault("allocatable", {})
        for resource, amount in question.info.requests.items():
            needed = amount + others.get(resource, 0) + sum(pod.requests.get(resource, 0) for pod in newcomer.daemons)
            if needed > amount_of(resource, allocatable.get(resource, 0)):
                allocatable[resource] = quantity_of(resource, needed)
                document["status"].setdefault("capacity", {})[resource] = allocatable[resource]
                differences.append(f"with {words_of(resource, needed)}")
        row = question.table.row_of[like]
        for need in self._findings.needs:
            # The newcomer is not cordoned, but has the labels and the lasting taints of the node that it is like.
            make = need.node_edit if need.failing[row] and need.key != ("cordon",) else None
            edit = None if make is None else make(question.table.node(row))
            if edit is not None:
                edit.edit(document)
                differences.append(edit.as_new)
        return Newcomer(decode("Node", document), newcomer.beside, newcomer.daemons), differences


def _but(like: str, differences: Sequence[str]) -> str:
    return f"like {like}, but {' and '.join(differences)}"


def _renamed(text: str, like: str, name: str) -> str:
    return text.replace(like, name) if like in text else text


def _named(obj: Any, name: str) -> Any:
    metadata = msgspec.structs.replace(obj.metadata, name=name, uid=f"{type(obj).__name__}/{name}")
    return msgspec.structs.replace(obj, metadata=metadata)


def _elsewhere(pod: PodInfo, node_name: str) -> PodInfo:
    metadata = msgspec.structs.replace(
        pod.metadata, name=f"{pod.name}-{node_name}", uid=f"{pod.uid}/{node_name}", annotations={}
    )
    return PodInfo.of(msgspec.structs.replace(pod.pod, metadata=metadata), pod.shape)


def _words(node: Node) -> str:
    has = node.status.allocatable
    return ", ".join(words_of(name, amount_of(name, has[name])) for name in has if name != PODS)


# --- objects that are missing -----------------------------------------------------------------------------------------


def add_missing_objects(findings: HelpFindings) -> None:
    """Find manifests of what a pod names and the cluster lacks; what none helps with is noted as missing."""
    question = findings.question
    findings.in_vain = tuple(named_in_vain(question.prover.core, question.info))
    if not len(question.table):
        findings.notes.append("the cluster has no nodes")
    for missing in findings.in_vain:
        manifest = _manifest(question, missing)
        change = None if manifest is None else findings.first([of_new_object(*manifest)])
        if change is not None:
            findings.changes.append(change)
        elif missing.kind != "label":  # to give a node the label is a change of its own
            findings.notes.append(missing.sentence)


def _manifest(question: PodQuestion, missing: NamedInVain) -> tuple[Json, str] | None:
    """Return what could be made of the name, and what of it has to be looked at; None where nobody could guess it."""
    store, namespace = question.prover.core.objects, question.info.namespace
    metadata: Json = {"name": missing.name, "namespace": namespace}
    if missing.kind == "PodGroup":
        return _object("scheduling.k8s.io/v1alpha2", "PodGroup", metadata, schedulingPolicy={"basic": {}}), ""
    if missing.kind == "ResourceClaim":
        classes = sorted(each.metadata.name for each in store.list("DeviceClass"))
        if not classes:
            return None
        request = {"name": "device", "exactly": {"deviceClassName": classes[0]}}
        made = _object("resource.k8s.io/v1", "ResourceClaim", metadata, devices={"requests": [request]})
        return made, "put in the devices that are wanted"
    chosen = _usual_class(store.list("StorageClass"))
    if chosen is None:
        return None
    if missing.kind == "PersistentVolumeClaim":
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": chosen.metadata.name}  # fmt: skip
        return _object("v1", "PersistentVolumeClaim", metadata, **spec), "put in the size that is wanted"
    if missing.kind == "StorageClass":
        made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": missing.name},
                "provisioner": chosen.provisioner, "volumeBindingMode": chosen.volume_binding_mode}  # fmt: skip
        return made, f"here with what provisions {chosen.metadata.name}"
    return None


def _object(api_version: str, kind: str, metadata: Json, **spec: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _usual_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the default class, else one whose volumes are made where the pod goes."""
    return min(
        classes,
        key=lambda each: (
            each.metadata.annotations.get(DEFAULT_CLASS) != "true",
            each.volume_binding_mode != "WaitForFirstConsumer",
            each.metadata.name,
        ),
        default=None,
    )
