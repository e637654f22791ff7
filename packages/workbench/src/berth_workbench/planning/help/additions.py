"""What could be added to the cluster: one more node like those there are, or an object that is missing."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

from berth.api.codec import decode
from berth.api.node import Node
from berth.api.pod_resources import CPU, MEMORY, PODS
from berth.api.pools import HOSTNAME
from berth.api.storage import StorageClass
from berth.api.taints import Taint
from berth.decisions.named_in_vain import NamedInVain, named_in_vain
from berth_workbench.planning.help.findings import HelpFindings
from berth_workbench.planning.help.needs import PodQuestion
from berth_workbench.planning.help.patches import document_of
from berth_workbench.planning.help.proposals import Proposal, of_new_nodes, of_new_object
from berth_workbench.planning.help.result import Change
from berth_workbench.planning.help.sources.resources import amount_of, quantity_of, words_of
from berth_workbench.planning.help.sources.taints import OF_THE_CONTROLLER
from berth_workbench.simulation.budgets import follows_its_node

Json = dict[str, Any]

MAX_SHAPES = 40
FITTED_TRIED = 6
PARTS_TRIED = 12
"""In so many parts of the cluster it is tried how many more nodes a gang takes that keeps to one of them."""
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


def add_nodes(findings: HelpFindings) -> None:
    """Find the smallest nodes that would do: like one that is there, or else like one but larger."""
    question, shapes = findings.question, shapes_of(findings.question)
    cluster = question.filters.cluster
    if len(shapes) > MAX_SHAPES:
        # Shapes of one size differ in their labels only; of each size one is tried before any second one.
        turns = [turn for _, alike in groupby(shapes, lambda shape: shape.size) for turn, _ in enumerate(alike)]
        chosen = sorted(range(len(shapes)), key=turns.__getitem__)[:MAX_SHAPES]
        shapes = [shapes[place] for place in sorted(chosen)]
        findings.is_complete = False
    models: list[Node] = [cluster.objects["Node", each.like] for each in shapes]
    gang = findings.question.group.gang
    if gang is not None and gang.topology:
        best = _fewest(findings, models)
        if best is not None:
            findings.changes.append(best)
            return
        models = []
    for model in models:
        propose = partial(of_new_nodes, cluster, model, _like(findings, model))
        if findings.add_least(propose, MOST_NODES, is_each=True) is not None:
            return
    fitted = [_made_to_measure(findings, cluster.objects["Node", each.like]) for each in reversed(shapes)]
    differing = [each for each in fitted if each.differences]  # of those that differ as little, the larger come first
    for each in sorted(differing, key=lambda each: len(each.differences))[:FITTED_TRIED]:
        propose = partial(of_new_nodes, cluster, each.model, each.words)
        change = findings.least(propose, MOST_NODES, is_each=True)
        if change is not None:
            findings.changes.append(_one_instead(findings, each.like, change) or change)
            return


def _fewest(findings: HelpFindings, models: Iterable[Node]) -> Change | None:
    """Return the fewest nodes of one kind that help a gang which keeps to one part: in which part is what matters.

    A node more takes no more of the gang than an empty one has room for; so parts that would need more nodes than
    another has shown to be enough are not tried.
    """
    group, cluster = findings.question.group, findings.question.filters.cluster
    assert group.gang is not None, "asked of a gang"
    places = {part.name: part.places for part in group.parts}
    least: list[tuple[int, Node]] = []
    for model in models:
        part = model.metadata.labels.get(group.gang.topology, "")
        each = _most_on(findings, model)
        if part and each and not (group.running and part not in places):
            least.append((-(-(len(group.waiting) - places.get(part, 0)) // each), model))
    best: Change | None = None
    fewest = MOST_NODES + 1
    for count, model in sorted(least, key=lambda one: one[0])[:PARTS_TRIED]:
        if max(count, 1) < fewest:
            below = max(count, 1) - 1
            propose = partial(_beyond, below, partial(of_new_nodes, cluster, model, _like(findings, model)))
            found = findings.least(propose, fewest - 1 - below, is_each=True)
            if found is not None:
                best, fewest = found, sum(made["kind"] == "Node" for made in found.patch["manifests"])
    findings.is_complete &= len(least) <= PARTS_TRIED or fewest == 1
    return best


def _beyond(below: int, propose: Callable[[int], Proposal], number: int) -> Proposal:
    return propose(below + number)


def _most_on(findings: HelpFindings, model: Node) -> int:
    """Return the most pods like the one asked about that an empty node like a model has room for."""
    has = model.status.allocatable
    rooms = [
        amount_of(name, has.get(name, 0)) // requested
        for name, requested in findings.question.info.requests.items()
        if requested
    ]
    return min([*rooms, amount_of(PODS, has.get(PODS, 0))])


def _like(findings: HelpFindings, model: Node) -> str:
    gang = findings.question.group.gang
    part = model.metadata.labels.get(gang.topology, "") if gang is not None and gang.topology else ""
    return f"like {model.metadata.name} ({_words(model)})" + (f" in {gang.topology} {part}" if gang and part else "")


class FittedNode(NamedTuple):
    """A node that is made to measure."""

    like: Node
    model: Node
    differences: tuple[str, ...]

    @property
    def words(self) -> str:
        """What it is like."""
        return f"like {self.like.metadata.name}, but {' and '.join(self.differences)}"


def _one_instead(findings: HelpFindings, like: Node, change: Change) -> Change | None:
    """Return the change of a single node with room for those as well who would take that of the pod.

    They wait too, and several nodes made to measure were needed only since they come first.
    """
    filters, made = findings.question.filters, change.patch["manifests"]
    if sum(each["kind"] == "Node" for each in made) < 2 or len(findings.question.group.waiting) > 1:
        return None
    others: Counter[str] = Counter()
    for key in change.gains:
        others.update(filters.info(filters.cluster.objects["Pod", key]).requests)
    fitted = _made_to_measure(findings, like, others)
    return findings.helping(of_new_nodes(filters.cluster, fitted.model, fitted.words, 1))


def _made_to_measure(findings: HelpFindings, like: Node, others: Mapping[str, int] = NOBODY) -> FittedNode:
    """Return a node that would do: what is short is raised to what the pod and the daemons need.

    `others` is what pods request that come there first.
    """
    question, name = findings.question, like.metadata.name
    row, document = question.table.row_of[name], document_of(like)
    daemons = [pod for pod in question.table.pods[row].values() if follows_its_node(pod.pod) and not pod.is_terminating]
    differences = []
    allocatable = document["status"].setdefault("allocatable", {})
    for resource, amount in question.info.requests.items():
        needed = amount + others.get(resource, 0) + sum(pod.requests.get(resource, 0) for pod in daemons)
        if needed > amount_of(resource, allocatable.get(resource, 0)):
            allocatable[resource] = quantity_of(resource, needed)
            document["status"].setdefault("capacity", {})[resource] = allocatable[resource]
            differences.append(f"with {words_of(resource, needed)}")
    for need in findings.needs:
        # A new node is not cordoned, but has the labels and the lasting taints of the node that it is like.
        edit = need.node_edit(like) if need.node_edit and need.failing[row] and need.key != ("cordon",) else None
        if edit is not None:
            edit.edit(document)
            differences.append(edit.as_new)
    return FittedNode(like, decode("Node", document), tuple(dict.fromkeys(differences)))


def _words(node: Node) -> str:
    has = node.status.allocatable
    return ", ".join(words_of(name, amount_of(name, has[name])) for name in has if name != PODS)


# --- objects that are missing -----------------------------------------------------------------------------------------


def add_missing_objects(findings: HelpFindings) -> None:
    """Find manifests of what a pod names and the cluster lacks; what none helps with is noted as missing."""
    question = findings.question
    findings.in_vain = tuple(named_in_vain(question.filters.core, question.info))
    if not len(question.table):
        findings.notes.append("the cluster has no nodes")
    for missing in findings.in_vain:
        manifest = _manifest(question, missing)
        helps = manifest is not None and findings.add_first([of_new_object(*manifest)]) is not None
        if not helps and missing.kind != "label":  # to give a node the label is a change of its own
            findings.notes.append(missing.sentence)


def _manifest(question: PodQuestion, missing: NamedInVain) -> tuple[Json, str] | None:
    """Return what could be made of the name, and what of it has to be looked at; None where nobody could guess it."""
    store, namespace = question.filters.core.objects, question.info.namespace
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
