"""Which nodes a pod selects: nodeSelector label by label, required node affinity expression by expression."""

from collections.abc import Callable, Iterable, Iterator
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.api.near_names import alike
from berth.api.node import Node
from berth.state.label_index import values_at
from berth_workbench.planning.help.needs import (
    NODE_COST,
    POD_COST,
    Need,
    NodeEdit,
    PodEdit,
    PodQuestion,
    setting,
    without,
)

Json = dict[str, Any]
Mask = NDArray[np.bool_]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MAX_TERMS = 8
"""So many alternatives of required affinity are looked at, each with its own expressions."""
FACTS = (
    "kubernetes.io/",
    "beta.kubernetes.io/",
    "topology.kubernetes.io/",
    "failure-domain.beta.kubernetes.io/",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
)
"""Labels that say what a node is and where; nobody should write another value there."""
SLIP_COST = POD_COST / 2
"""To write what was meant costs less than to do without it."""
_ADDED = {"Exists": "true"}


class SelectingNeeds:
    """NodeAffinity."""

    plugins = frozenset({"NodeAffinity"})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield one need for each label of nodeSelector, one for required affinity, and one for what a profile adds."""
        for key, value in (question.spec.get("nodeSelector") or {}).items():
            failing = question.failing({"nodeSelector": {key: value}})
            yield Need(
                ("nodeSelector", key),
                "NodeAffinity",
                failing,
                pod_edits=(*_meant_labels(question, key, value), _without_label(key, value)),
                node_edit=_label_edit({"key": key, "operator": "In", "values": [value]}),
            )
        affinity = (question.spec.get("affinity") or {}).get("nodeAffinity") or {}
        terms = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms")
        if terms is not None:
            failing = question.failing({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})
            yield _affinity_need(question, terms, failing)


def _affinity_need(question: PodQuestion, terms: list[Json], failing: Mask) -> Need:
    by_term = [
        [(part, each, _requirement_mask(question, part, each)) for part, _, each in _requirements(term)]
        for term in terms[:MAX_TERMS]
    ]

    def node_edit(node: Node) -> NodeEdit | None:
        row = question.table.row_of.get(node.metadata.name)
        for requirements in by_term if row is not None else ():
            lacking = [(part, each) for part, each, failed in requirements if failed[row]]
            if len(lacking) == 1 and lacking[0][0] == "matchExpressions":
                edit = _label_edit(lacking[0][1])(node)
                if edit is not None:
                    return edit
        return None

    return Need(
        ("nodeAffinity",),
        "NodeAffinity",
        failing,
        pod_edits=tuple(_relaxed(terms)),
        node_edit=node_edit,
        is_cut=len(terms) > MAX_TERMS,
    )


def _requirements(term: Json) -> Iterable[tuple[str, int, Json]]:
    for part in ("matchExpressions", "matchFields"):
        for index, each in enumerate(term.get(part) or ()):
            yield part, index, each


def _requirement_mask(question: PodQuestion, part: str, requirement: Json) -> Mask:
    alone = {REQUIRED: {"nodeSelectorTerms": [{part: [requirement]}]}}
    return question.failing({"affinity": {"nodeAffinity": alone}})


def _relaxed(terms: list[Json]) -> Iterator[PodEdit]:
    """Yield the edits that take one requirement out of a term, where others are left in it, and all out of the pod."""
    counts = [sum(1 for _ in _requirements(term)) for term in terms]
    for number, term in enumerate(terms[:MAX_TERMS]):
        for part, index, each in _requirements(term) if counts[number] > 1 else ():
            place = f" of term {number + 1}" if len(terms) > 1 else ""
            path = ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms", number, part, index)
            yield PodEdit("nodeAffinity", f"drop {text_of(each)}{place} from the node affinity", without(*path))
    cost = POD_COST * max(min(counts, default=1), 1)
    drop = without("spec", "affinity", "nodeAffinity", REQUIRED)
    yield PodEdit("nodeAffinity", "drop the required node affinity", drop, cost, is_last_resort=True)


def text_of(requirement: Json) -> str:
    """Return an expression as people write it."""
    values = requirement.get("values") or ()
    operator = requirement.get("operator", "")
    return f"{requirement.get('key')} {operator}" + (f" [{', '.join(values)}]" if values else "")


def _meant_labels(question: PodQuestion, key: str, value: str) -> Iterator[PodEdit]:
    """Yield other values of a label that no node has, where they look as if one of them was meant."""
    if is_fact(key):
        return
    present = values_at(question.table.label(key), question.table.rows())
    for other in alike(value, present) if value not in present else ():
        what = f"ask for {key}={other} instead of {key}={value}"
        yield PodEdit("nodeSelector", what, setting("spec", "nodeSelector", key, to=other), SLIP_COST)


def _without_label(key: str, value: str) -> PodEdit:
    return PodEdit("nodeSelector", f"drop {key}={value} from the nodeSelector", without("spec", "nodeSelector", key))


def is_fact(key: str) -> bool:
    """Say whether a label says what a node is, so that it is not to be changed by hand."""
    return key.startswith(FACTS)


def _label_edit(requirement: Json) -> Callable[[Node], NodeEdit | None]:
    """Return what makes a node meet a requirement on one of its labels."""
    key, operator, values = requirement["key"], requirement.get("operator", "In"), requirement.get("values") or []

    def of(_node: Node) -> NodeEdit | None:
        if is_fact(key):
            return None
        if operator in ("NotIn", "DoesNotExist"):
            return _unlabelled(key)
        if operator in ("Gt", "Lt") and values and values[0].lstrip("-").isdigit():
            return labelled(key, str(int(values[0]) + (1 if operator == "Gt" else -1)))
        value = values[0] if operator == "In" and values else _ADDED.get(operator)
        return None if value is None else labelled(key, value)

    return of


def labelled(key: str, value: str) -> NodeEdit:
    """Return the edit that gives a node a label."""

    def edit(document: Json) -> None:
        document["metadata"].setdefault("labels", {})[key] = value

    what = f"label {{node}} with {key}={value}"
    return NodeEdit(
        "label",
        what,
        edit,
        NODE_COST,
        f"kubectl label nodes {{node}} {quote(f'{key}={value}')} --overwrite",
        f"with the label {key}={value}",
    )


def _unlabelled(key: str) -> NodeEdit:
    def edit(document: Json) -> None:
        document["metadata"].get("labels", {}).pop(key, None)

    command = f"kubectl label nodes {{node}} {quote(f'{key}-')}"
    return NodeEdit("label", f"take the label {key} off {{node}}", edit, NODE_COST, command, f"without the label {key}")
