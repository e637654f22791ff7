"""Taints and cordoned nodes."""

from collections.abc import Callable, Iterable
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.api.node import Node
from berth.api.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE_KEY, Taint, tolerated
from berth_workbench.planning.help.needs import NODE_COST, POD_COST, REPAIR_COST, Need, NodeEdit, PodEdit, PodQuestion
from berth_workbench.planning.help.sources.node_selection import REQUIRED

Json = dict[str, Any]
Mask = NDArray[np.bool_]

MAX_TAINTS = 24
"""So many different taints are looked at, those on most nodes first; the others cannot be given up."""
CHOSEN_COST = POD_COST / 2
"""A pod that asks for tainted nodes wants to be there, and would rather tolerate their taint than go elsewhere."""
OF_THE_CONTROLLER = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that tell how a node is: who takes them off finds them there again."""


class TaintNeeds:
    """TaintToleration and NodeUnschedulable."""

    plugins = frozenset({"TaintToleration", "NodeUnschedulable"})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for cordoned nodes, and one for each taint that is not tolerated."""
        parts = {"tolerations": question.spec.get("tolerations") or []}
        rejecting = question.ask_part(parts).rejecting
        nothing = np.zeros_like(question.valid)
        cordoned = rejecting.get("NodeUnschedulable", nothing).copy()
        by_taint = self._rows_by_taint(question, rejecting.get("TaintToleration", nothing))
        for taint in [taint for taint in by_taint if taint.key == UNSCHEDULABLE_KEY]:
            cordoned |= by_taint.pop(taint)
        if cordoned.any():
            yield Need(("cordon",), "NodeUnschedulable", cordoned, node_edit=_uncordon)
        chosen = _chosen(question)
        ordered = sorted(by_taint.items(), key=lambda item: (-int(item[1].sum()), item[0].key, item[0].value))
        for taint, failing in ordered[:MAX_TAINTS]:
            edits, off = (_toleration(taint, is_chosen=bool((failing & chosen).any())),), _taint_off(taint)
            yield Need(("taint", taint), "TaintToleration", failing, pod_edits=edits, node_edit=off)
        if len(ordered) > MAX_TAINTS:
            rest = np.logical_or.reduce([failing for _, failing in ordered[MAX_TAINTS:]])
            yield Need(("taints",), "TaintToleration", rest, is_cut=True)

    def _rows_by_taint(self, question: PodQuestion, rejected: Mask) -> dict[Taint, Mask]:
        table, tolerations = question.table, question.info.spec.tolerations
        found: dict[Taint, Mask] = {}
        for taint_set in np.unique(table.taint_set_ids[rejected]).tolist():
            rows = rejected & (table.taint_set_ids == taint_set)
            for taint in table.taint_sets[taint_set]:
                if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerated(taint, tolerations):
                    found[taint] = found.get(taint, np.zeros_like(rejected)) | rows
        return found


def text_of(taint: Taint) -> str:
    """Return a taint as kubectl writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _is_repaired_by_hand(taint: Taint) -> bool:
    return taint.key.startswith(OF_THE_CONTROLLER)


def _chosen(question: PodQuestion) -> Mask:
    """Return the nodes that a pod asks for by their labels; none where it asks for none."""
    selector = question.spec.get("nodeSelector")
    required = ((question.spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if not selector and not required:
        return np.zeros_like(question.valid)
    affinity = {"nodeAffinity": {REQUIRED: required}} if required else {}
    return question.valid & ~question.bare & ~question.failing({"nodeSelector": selector or {}, "affinity": affinity})


def _toleration(taint: Taint, *, is_chosen: bool) -> PodEdit:
    """Return the edit that tolerates a taint; of nodes that the pod asks for, it is the least that can be done."""
    toleration = {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
    if not taint.value:
        toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect}

    def edit(document: Json) -> None:
        document["spec"]["tolerations"] = [*document["spec"].get("tolerations", ()), toleration]

    cost = REPAIR_COST if _is_repaired_by_hand(taint) else CHOSEN_COST if is_chosen else POD_COST
    return PodEdit("toleration", f"tolerate the taint {text_of(taint)}", edit, cost)


def _taint_off(taint: Taint) -> Callable[[Node], NodeEdit]:
    text, is_repair = text_of(taint), _is_repaired_by_hand(taint)
    repair = " (set by the node controller: repair the node, and it goes)" if is_repair else ""
    off = NodeEdit(
        "taint",
        f"take the taint {text} off {{node}}{repair}",
        lambda document: _drop_taint(document, taint),
        REPAIR_COST if is_repair else NODE_COST,
        "" if is_repair else f"kubectl taint nodes {{node}} {quote(f'{text}-')}",
        f"without the taint {text}",
    )
    return lambda _node: off


def _drop_taint(document: Json, taint: Taint) -> None:
    spec = document["spec"]
    spec["taints"] = [
        each
        for each in spec.get("taints", ())
        if (each.get("key", ""), each.get("value", ""), each.get("effect", ""))
        != (taint.key, taint.value, taint.effect)
    ]


def _uncordon(_node: Node) -> NodeEdit:
    def edit(document: Json) -> None:
        spec = document["spec"]
        spec["unschedulable"] = False
        if any(each.get("key") == UNSCHEDULABLE_KEY for each in spec.get("taints", ())):
            spec["taints"] = [each for each in spec["taints"] if each.get("key") != UNSCHEDULABLE_KEY]

    return NodeEdit("uncordon", "uncordon {node}", edit, NODE_COST, "kubectl uncordon {node}", "not cordoned")
