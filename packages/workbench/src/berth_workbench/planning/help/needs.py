"""What a change is made of: a need of the pod that rules nodes out, and how the pod or a node could give way.

A source (`berth_workbench.planning.help.sources`) looks at what one group of plugins reads of a pod. For each single
thing that can rule nodes out, say one label that is asked for, it yields a `Need`: the rows where that thing alone is
not met, found by asking the filters about a pod that has nothing but it, with the edits that would take it away. So the
search for edits knows no plugin. Whatever comes out of it is still tried on the whole pod: plugins may look at several
things together.
"""

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from berth.api.codec import decode
from berth.api.node import Node
from berth.api.pod import Pod
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth_workbench.planning.help.filters import FilterAnswer, FilterQuestions
from berth_workbench.planning.help.group import Group
from berth_workbench.planning.help.patches import document_of

Json = dict[str, Any]
Mask = NDArray[np.bool_]

POD_COST = 1.0
NODE_COST = 2.0
REPAIR_COST = 20.0
"""What the node controller has set, and sets again until the node is repaired."""

BARE_FIELDS = ("schedulerName", "priority", "priorityClassName", "preemptionPolicy", "schedulingGroup")
"""What of a spec a bare pod keeps: nothing of it speaks of nodes."""


def setting(*path: str | int, to: Any) -> Callable[[Json], None]:
    """Return the edit that gives a field of a document, or an entry of a list, another value."""

    def edit(document: Json) -> None:
        _at(document, path[:-1])[path[-1]] = to

    return edit


def without(*path: str | int) -> Callable[[Json], None]:
    """Return the edit that takes a field out of a document, or an entry out of a list."""

    def edit(document: Json) -> None:
        del _at(document, path[:-1])[path[-1]]

    return edit


def _at(document: Any, path: Iterable[str | int]) -> Any:
    for part in path:
        document = document[part]
    return document


class PodEdit(NamedTuple):
    """One way in which the pod could ask for less."""

    kind: str
    what: str
    edit: Callable[[Json], None]
    """Changes a copy of the pod's document."""
    cost: float = POD_COST
    is_last_resort: bool = False
    """Whether it is not worth offering where another way to give up the same need helps."""
    numbers: "Numbers | None" = None
    """The edits that give up less and more of the same, where the smallest number that helps is to be found."""
    is_enough_for_one: bool = False
    """With `numbers`, whether this is the least for one pod."""


class Numbers(NamedTuple):
    """Edits that differ in a number."""

    most: int
    edit: Callable[[int], PodEdit]
    """Makes the edit that gives up so many steps, from 1 to `most`."""


class NodeEdit(NamedTuple):
    """One way in which a node could offer more."""

    kind: str
    what: str
    """In words, to go on with `on NODE`; `{node}` stands for the name."""
    edit: Callable[[Json], None]
    """Changes a copy of the node's document."""
    cost: float = NODE_COST
    command: str = ""
    """`{node}` stands for the name; empty where a patch has to do."""
    as_new: str = ""
    """What a new node like this one would be like: `with the label a=b`."""


@dataclass(slots=True, eq=False, repr=False)
class Need:
    """One thing of the pod that rules nodes out."""

    key: Hashable
    plugin: str
    failing: Mask
    """The rows where it is not met."""
    pod_edits: Sequence[PodEdit] = ()
    """Ways to give it up, the least first."""
    node_edit: Callable[[Node], NodeEdit | None] | None = None
    """How a node could meet it; None, or an answer of None, where it could not."""
    sized: Callable[[int], PodEdit | None] | None = None
    """Where what has to be given up depends on the node: the least edit for a row."""
    whole: PodEdit | None = None
    """With `sized`, the edit that gives up all of it: where the pod does not fit then, less is not enough."""
    may_be_freed: Mask | None = None
    """The rows where it would be met if pods left."""
    is_cut: bool = False
    """Whether it stands for more than was looked at, so that the search is not complete."""


class PodQuestion:
    """The pod that asks for help, and parts of it for sources to ask about."""

    __slots__ = ("_bare", "document", "filters", "group", "info", "pod")

    def __init__(self, filters: FilterQuestions, pod: Pod, group: Group | None = None) -> None:
        self.filters = filters
        self.pod = pod
        self.group = group or Group(pod, is_there=_is_in(filters, pod))
        """All pods that get what this one gets."""
        self.info: PodInfo = filters.info(pod)
        self.document = document_of(pod)
        self._bare: Mask | None = None

    @property
    def spec(self) -> Json:
        """The pod's spec as JSON values; not to be changed."""
        found: Json = self.document["spec"]
        return found

    @property
    def table(self) -> NodeTable:
        """The nodes."""
        return self.filters.table

    @property
    def valid(self) -> Mask:
        """The rows that hold nodes, of the part of the cluster to which the pods keep."""
        return self.filters.valid

    def bare_document(self, parts: Mapping[str, Any]) -> Json:
        """Return a pod that tolerates everything and asks for nothing, but for these parts of a spec."""
        spec = {field: self.spec[field] for field in BARE_FIELDS if self.spec.get(field) is not None}
        if spec["schedulerName"] not in self.filters.core.profiles:
            spec["schedulerName"] = next(iter(self.filters.core.profiles))
        spec |= {"containers": [{"name": "c"}], "tolerations": [{"operator": "Exists"}], **parts}
        status = {"resourceClaimStatuses": self.document["status"].get("resourceClaimStatuses") or []}
        return {"metadata": copy.deepcopy(self.document["metadata"]), "spec": spec, "status": status}

    def ask_part(self, parts: Mapping[str, Any]) -> FilterAnswer:
        """Ask about a pod that has only these parts of a spec."""
        return self.filters.ask(decode("Pod", self.bare_document(parts)), is_whole=False)

    @property
    def bare(self) -> Mask:
        """The rows that refuse the pod even where it asks for nothing."""
        if self._bare is None:
            self._bare = self.valid & ~self.ask_part({}).fits
        return self._bare

    def failing(self, parts: Mapping[str, Any], plugin: str = "") -> Mask:
        """Return the rows that these parts rule out; with `plugin`, those that this plugin rejects."""
        answer = self.ask_part(parts)
        if not plugin:
            return self.valid & ~answer.fits & ~self.bare
        return answer.rejecting.get(plugin, np.zeros_like(self.valid))

    def edited(self, edit: PodEdit) -> Json:
        """Return the pod's document with an edit made."""
        found = copy.deepcopy(self.document)
        edit.edit(found)
        return found


def _is_in(filters: FilterQuestions, pod: Pod) -> bool:
    """Say whether the cluster has a pod, and not only somebody's manifest."""
    known = filters.cluster.objects.get(("Pod", pod.key))
    return known is not None and bool(known.metadata.uid == pod.metadata.uid)


class NeedSource(Protocol):
    """Finds the needs that some plugins look at. New plugins can bring their own (`what_would_help(sources=…)`)."""

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins whose rejections it accounts for."""

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield what of the pod rules nodes out."""
