"""Changes before they are proven: what is put on the cluster to try one, and how it is told once it has helped.

Each function makes the proposals of one kind: of the pod, of a node, of both, of an object beside them, of what is to
be added. Their words, costs and commands are here and in `words`, those of single edits with the sources of needs.
"""

import copy
from collections.abc import Callable, Sequence
from shlex import quote
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth.api.codec import ObjectError, decode
from berth.api.dra import ResourceClaim
from berth.api.node import Node
from berth.api.pod import Pod
from berth.state.objects import key_of
from berth.state.pod_info import PodInfo
from berth_workbench.planning.help.needs import NodeEdit, PodEdit, PodQuestion
from berth_workbench.planning.help.patches import patch_of
from berth_workbench.planning.help.proof import Proposal, document_of
from berth_workbench.planning.help.result import Change, Part
from berth_workbench.planning.help.words import (
    made_anew_command,
    names_in_words,
    node_command,
    pod_command,
    shell_quoted,
)
from berth_workbench.planning.room_by_moving import PodMoved
from berth_workbench.simulation.admission import completed
from berth_workbench.simulation.budgets import Owner

Json = dict[str, Any]

NEW_NODE_COST = 10.0
NEW_OBJECT_COST = 2.0
OTHER_COST = 2.5
MOVING_COST = 3.5
LEAVING_COST = 4.0
PRIORITY_COST = 5.0
_CLAIM = " (make it anew: claims cannot be changed)"
IMMUTABLE = MappingProxyType(
    {
        "PersistentVolumeClaim": _CLAIM,
        "ResourceClaim": _CLAIM,
        "PodGroup": " (make it anew: it cannot be changed)",
    }
)
"""What is said of the kinds whose objects cannot be changed. Of a PodGroup `ValidatePodGroupUpdate` of v1.36 refuses
another schedulingPolicy, and pods that name it keep it by a finalizer; that of scheduling.x-k8s.io can be patched."""
API_VERSIONS = {"CSINode": "storage.k8s.io/v1", "ResourceSlice": "resource.k8s.io/v1"}


def of_pod(question: PodQuestion, edit: PodEdit) -> Proposal | None:
    """Return the proposal of an edit of the pod; None where what comes of it is no pod."""
    return of_pod_document(question, question.edited(edit), edit.what, edit.kind, edit.cost)


def of_pod_document(question: PodQuestion, after: Json, what: str, kind: str, cost: float) -> Proposal | None:
    """Return the proposal of another document of the pod."""
    try:
        pod = decode("Pod", after)
    except ObjectError:
        return None
    patch_type, patch = patch_of(question.document, after)
    change = Change(
        on="pod",
        what=what,
        patch=patch,
        fits_on=(),
        patch_type=patch_type,
        target=f"Pod/{question.pod.key}",
        kind=kind,
        cost=round(cost, 6),
        command=pod_command(question.group, kind, patch_type, patch),
    )
    return Proposal(change, pod=pod)


def of_node(node: Node, edit: NodeEdit) -> Proposal:
    """Return the proposal of an edit of a node."""
    name = node.metadata.name
    before, after = document_of(node), document_of(node)
    edit.edit(after)
    patch_type, patch = patch_of(before, after)
    # Only the first: a label or a taint that comes after it may have the same characters in its name, between quotes.
    command = edit.command.replace("{node}", quote(name), 1) or node_command(name, patch_type, patch)
    change = Change(
        on="node",
        what=edit.what.replace("{node}", name),
        patch=patch,
        fits_on=(),
        patch_type=patch_type,
        target=f"Node/{name}",
        kind=edit.kind,
        cost=edit.cost,
        command=command,
    )
    return Proposal(change, node=decode("Node", after))


def of_object(obj: Any, what: str, edit: Callable[[Json], None], kind: str) -> Proposal | None:
    """Return the proposal of an edit of another object; None where what comes of it is none."""
    of_kind, key = type(obj).__name__, key_of(obj)
    before = document_of(obj)
    after = copy.deepcopy(before)
    edit(after)
    try:
        made = decode(of_kind, after)
    except ObjectError:
        return None
    patch_type, patch = patch_of(before, after)
    why_anew = IMMUTABLE.get(of_kind, "")
    namespace, name = quote(obj.metadata.namespace), quote(obj.metadata.name)
    command = f"kubectl -n {namespace} patch {of_kind.lower()} {name} --type {patch_type} -p {shell_quoted(patch)}"
    if why_anew:
        is_protected = of_kind == "PodGroup"
        command = made_anew_command(of_kind.lower(), namespace, name, patch_type, patch, is_protected=is_protected)
    change = Change(
        on="cluster",
        what=f"{what} of the {of_kind} {key}{why_anew}",
        patch=patch,
        fits_on=(),
        patch_type=patch_type,
        target=f"{of_kind}/{key}",
        kind=kind,
        cost=OTHER_COST,
        command=command,
    )
    return Proposal(change, objects=(made,))


def of_device_claims(
    claims: Sequence[ResourceClaim],
    template: str,
    pods: Sequence[Pod],
    what: str,
    edit: Callable[[Json], None],
) -> Proposal | None:
    """Return the proposal to ask for fewer devices: in the one claim, or in the template that these were made of.

    Neither can be changed, so they are made anew; those of a template with `pods`, whose claims they are.
    None where what comes of the edit is no claim.
    """
    made = []
    for claim in claims:
        after = document_of(claim)
        after["metadata"]["uid"] += "~"
        edit(after)
        try:
            made.append(decode("ResourceClaim", after))
        except ObjectError:
            return None
    before, after = _spec_of(claims[0]), _spec_of(made[0])
    if template:
        before, after = {"spec": before}, {"spec": after}
    patch_type, patch = patch_of(before, after)
    of_kind, namespace = "ResourceClaimTemplate" if template else "ResourceClaim", claims[0].metadata.namespace
    name = template or claims[0].metadata.name
    command = made_anew_command(of_kind.lower(), quote(namespace), quote(name), patch_type, patch)
    if template:
        names = " ".join(quote(each.metadata.name) for each in pods)
        command += f" && kubectl -n {quote(namespace)} delete pod {names}"
    also = ", and the pods that wait" if template else ""
    change = Change(
        on="cluster",
        what=f"{what} of the {of_kind} {namespace}/{name} (make it anew{also}: it cannot be changed)",
        patch=patch,
        fits_on=(),
        patch_type=patch_type,
        target=f"{of_kind}/{namespace}/{name}",
        kind="deviceCount",
        cost=OTHER_COST,
        command=command,
    )
    return Proposal(change, objects=tuple(made))


def _spec_of(claim: ResourceClaim) -> Json:
    """Return what a claim's manifest says: a request's only form has no name of its own there."""
    spec: Json = document_of(claim)["spec"]
    for request in spec["devices"]["requests"]:
        request.get("exactly", {}).pop("name", None)
    return {"spec": spec}


def of_new_object(manifest: Json, remark: str = "") -> Proposal | None:
    """Return the proposal to create what a manifest says, and what to look at first; None where it is of no use."""
    try:
        made = decode(manifest["kind"], completed(manifest["kind"], copy.deepcopy(manifest)))
    except ObjectError:
        return None
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    change = Change(
        on="cluster",
        what=f"create the {kind} {name}, which does not exist{f' ({remark})' if remark else ''}",
        patch={"manifests": [manifest]},
        fits_on=(),
        patch_type="create",
        target="",
        kind="missing",
        cost=NEW_OBJECT_COST,
        command=f"kubectl create -f - <<< {shell_quoted(manifest)}",
    )
    return Proposal(change, objects=(made,))


class Newcomer(NamedTuple):
    """A node that might be added, what belongs to it, and the pods that would run on it at once."""

    node: Node
    beside: tuple[Any, ...]
    daemons: tuple[PodInfo, ...]


def of_new_nodes(newcomers: Sequence[Newcomer], like: str) -> Proposal:
    """Return the proposal to add nodes, with what belongs to them and the pods that would run on them at once."""
    count = len(newcomers)
    manifests = [_manifest_of(each) for newcomer in newcomers for each in (newcomer.node, *newcomer.beside)]
    change = Change(
        on="cluster",
        what=f"add {'a node' if count == 1 else f'{count} nodes'} {like}",
        patch={"manifests": manifests},
        fits_on=(),
        patch_type="create",
        target="",
        kind="node",
        cost=NEW_NODE_COST * count,
        command="",
    )
    first, *rest = (Proposal(change, node=each.node, objects=each.beside, pods=each.daemons) for each in newcomers)
    return first._replace(also=tuple(rest))


def on_all(proposals: Sequence[Proposal]) -> Proposal:
    """Return proposals for several nodes, each of which changes one in the same way, as one."""
    first, *rest = proposals
    if not rest:
        return first
    parts = tuple(Part("node", each.what, each.patch_type, each.patch, each.target, each.command)
                  for each in (proposal.change for proposal in rest))  # fmt: skip
    names = names_in_words([proposal.node.metadata.name for proposal in rest if proposal.node is not None])
    what = f"{first.change.what}, and the same on {names}"
    cost = round(sum(proposal.change.cost for proposal in proposals), 6)
    return first._replace(
        change=msgspec.structs.replace(first.change, what=what, cost=cost, with_=parts), also=(*rest,)
    )


def _manifest_of(obj: Any) -> Json:
    kind, document = type(obj).__name__, document_of(obj)
    document["metadata"] = {field: value for field, value in document["metadata"].items()
                            if field in ("name", "namespace", "labels", "annotations") and value}  # fmt: skip
    return {"apiVersion": API_VERSIONS.get(kind, "v1"), "kind": kind, **document}


def pods_deleted(keys: Sequence[str]) -> Part:
    """Return, as a part of a rollout, that pods are deleted by hand, one when the one before it runs again."""
    what = f"delete {names_in_words(keys)}{', one after the other' if len(keys) > 1 else ''}"
    return Part("cluster", what, "delete", {"pods": list(keys)}, "", _deletion(keys))


def more_unavailable(deployment: Owner, count: int) -> Part:
    """Return, as a part of a rollout, that so many pods of a Deployment may be unavailable."""
    namespace, _, name = deployment[1].partition("/")
    patch = {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": count}}}}
    command = f"kubectl -n {quote(namespace)} patch deployment {quote(name)} --type merge -p {shell_quoted(patch)}"
    return Part("cluster", f"let {count} be unavailable", "merge", patch, f"Deployment/{deployment[1]}", command)


def _deletion(keys: Sequence[str]) -> str:
    by_namespace: dict[str, list[str]] = {}
    for key in keys:
        namespace, _, name = key.partition("/")
        by_namespace.setdefault(namespace, []).append(quote(name))
    return "; ".join(f"kubectl -n {quote(ns)} delete pod {' '.join(names)}" for ns, names in by_namespace.items())


def pods_moved(moves: Sequence[PodMoved]) -> Change:
    """Return the change, made already, that pods go to other nodes; what is freed is kept for who waits."""
    told = [f"{each.pod} from {each.before} to {each.after}" for each in moves]
    return Change(
        on="cluster",
        what=f"move {names_in_words(told)}",
        patch={"pods": [each.pod for each in moves]},
        fits_on=(),
        patch_type="delete",
        target="",
        kind="podsMoved",
        cost=MOVING_COST + len(moves),
        command="berth rebalance --goal place-pending",
    )


def pod_gone(pod: PodInfo, fits_on: tuple[str, ...]) -> Change:
    """Return the change, proven already, that a pod leaves."""
    return Change(
        on="cluster",
        what=f"have the pod {pod.key} gone",
        patch={"pods": [pod.key]},
        fits_on=fits_on,
        patch_type="delete",
        target="",
        kind="podsGone",
        cost=LEAVING_COST + 1,
        command=_deletion([pod.key]),
    )
