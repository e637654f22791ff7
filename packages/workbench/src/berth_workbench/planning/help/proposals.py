"""What may help, before it is tried: a list of changes, how each is told, and what the objects would be then.

Each function makes the proposals of one kind. Their costs are here; the words of edits are those of the sources.
"""

from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth.api.codec import ObjectError, decode
from berth.api.dra import ResourceClaim
from berth.api.node import Node
from berth.api.pod import Pod
from berth.state.objects import key_of
from berth_workbench.planning.help.needs import NodeEdit, PodEdit, PodQuestion
from berth_workbench.planning.help.patches import document_of, patch_of
from berth_workbench.planning.help.result import Change, Part, PatchType
from berth_workbench.planning.help.words import (
    made_anew_command,
    names_in_words,
    node_command,
    pod_command,
    pods_deleted_command,
    shell_quoted,
)
from berth_workbench.planning.room_by_moving import PodMoved
from berth_workbench.simulation.admission import completed
from berth_workbench.simulation.budgets import Owner
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.node_changes import nodes_like

Json = dict[str, Any]

NEW_NODE_COST = 10.0
NEW_OBJECT_COST = 2.0
OTHER_COST = 2.5
FEWER_COST = 3.0
MOVING_COST = 3.5
LEAVING_COST = 4.0
PRIORITY_COST = 5.0
_CLAIM = " (make it anew: claims cannot be changed)"
_IMMUTABLE: Mapping[str, str] = MappingProxyType(
    {
        "PersistentVolumeClaim": _CLAIM,
        "ResourceClaim": _CLAIM,
        "PodGroup": " (make it anew: it cannot be changed)",
    }
)
"""What is said of the kinds whose objects cannot be changed. Of a PodGroup `ValidatePodGroupUpdate` of v1.36 refuses
another schedulingPolicy, and pods that name it keep it by a finalizer; that of scheduling.x-k8s.io can be patched."""
API_VERSIONS: Mapping[str, str] = MappingProxyType(
    {"CSINode": "storage.k8s.io/v1", "ResourceSlice": "resource.k8s.io/v1"}
)


class ProposedStep(NamedTuple):
    """One thing to do. What its fields do not say, its patch does: pods that are deleted, a number of replicas."""

    told: Part
    objects: tuple[Any, ...] = ()
    """Objects as they would be; a pod as all pods of its workload would be that are like it."""
    like: tuple[Node, int] | None = None
    """A node, and how many more like it there would be."""
    moves: tuple[PodMoved, ...] = ()
    """Pods that go to other nodes."""


class Proposal(NamedTuple):
    """Changes that may help together."""

    kind: str
    cost: float
    steps: tuple[ProposedStep, ...]
    what: str = ""
    """All of them in words, where those of the first step do not say it."""
    like: str = ""
    """The node of the cluster that new ones are like; empty for nodes that are made to measure."""

    @property
    def pod(self) -> Pod | None:
        """The pod as it would be, where it changes."""
        first = self.steps[0]
        return first.objects[0] if first.told.on == "pod" else None

    def as_change(self) -> Change:
        """Return it as it is told, without what comes of it."""
        first, *rest = (step.told for step in self.steps)
        return Change(
            on=first.on,
            what=self.what or first.what,
            patch=first.patch,
            fits_on=(),
            patch_type=first.patch_type,
            target=first.target,
            kind=self.kind,
            cost=round(self.cost, 6),
            command=first.command,
            with_=tuple(rest),
            like=self.like,
        )


def _one(kind: str, cost: float, told: Part, *objects: Any) -> Proposal:
    return Proposal(kind, cost, (ProposedStep(told, objects),))


def on_cluster(what: str, patch: Any, command: str = "", target: str = "", patch_type: PatchType = "merge") -> Part:
    """Return what is told of a change of anything but pod and node."""
    return Part("cluster", what, patch_type, patch, target, command)


# --- pods and nodes ---------------------------------------------------------------------------------------------------


def of_pod(question: PodQuestion, edit: PodEdit) -> Proposal | None:
    """Return the proposal of an edit of the pod; None where what comes of it is no pod."""
    after = question.edited(edit)
    try:
        pod = decode("Pod", after)
    except ObjectError:
        return None
    patch_type, patch = patch_of(question.document, after)
    command = pod_command(question.group, edit.kind, patch_type, patch)
    return _one(
        edit.kind, edit.cost, Part("pod", edit.what, patch_type, patch, f"Pod/{question.pod.key}", command), pod
    )


def of_node(node: Node, edit: NodeEdit) -> Proposal:
    """Return the proposal of an edit of a node."""
    name = node.metadata.name
    before, after = document_of(node), document_of(node)
    edit.edit(after)
    patch_type, patch = patch_of(before, after)
    # Only the first: a label or a taint that comes after it may have the same characters in its name, between quotes.
    command = edit.command.replace("{node}", quote(name), 1) or node_command(name, patch_type, patch)
    what = edit.what.replace("{node}", name)
    told = Part("node", what, patch_type, patch, f"Node/{name}", command)
    return _one(edit.kind, edit.cost, told, decode("Node", after))


def on_all(proposals: Sequence[Proposal]) -> Proposal:
    """Return proposals for several nodes, each of which changes one in the same way, as one."""
    steps = tuple(step for each in proposals for step in each.steps)
    rest = [step.told.target.removeprefix("Node/") for step in steps[1:]]
    what = f"{steps[0].told.what}, and the same on {names_in_words(rest)}" if rest else ""
    return Proposal(proposals[0].kind, sum(each.cost for each in proposals), steps, what)


def of_new_nodes(cluster: SimulatedCluster, model: Node, what: str, count: int) -> Proposal:
    """Return the proposal to add so many nodes like a model, whose name one that is there has."""
    made = [each for found in nodes_like(cluster, model, count) for each in found]
    what = f"add {'a node' if count == 1 else f'{count} nodes'} {what}"
    told = on_cluster(what, {"manifests": [_manifest_of(each) for each in made]}, patch_type="create")
    name = model.metadata.name
    like = name if cluster.objects.get(("Node", name)) == model else ""
    return Proposal("node", NEW_NODE_COST * count, (ProposedStep(told, like=(model, count)),), like=like)


def _manifest_of(obj: Any) -> Json:
    kind, document = type(obj).__name__, document_of(obj)
    document["metadata"] = {field: value for field, value in document["metadata"].items()
                            if field in ("name", "namespace", "labels", "annotations") and value}  # fmt: skip
    if kind == "Node":
        document["status"] = {field: value for field, value in document["status"].items()
                              if field in ("allocatable", "capacity", "declaredFeatures")}  # fmt: skip
    return {"apiVersion": API_VERSIONS.get(kind, "v1"), "kind": kind, **document}


def pod_gone(key: str) -> Proposal:
    """Return the proposal that a pod leaves."""
    told = on_cluster(f"have the pod {key} gone", {"pods": [key]}, pods_deleted_command([key]), patch_type="delete")
    return _one("podsGone", LEAVING_COST + 1, told)


def pods_moved(moves: Sequence[PodMoved]) -> Proposal:
    """Return the proposal that pods go to other nodes; what is freed is kept for who waits."""
    what = f"move {names_in_words([f'{each.pod} from {each.before} to {each.after}' for each in moves])}"
    command = "berth rebalance --goal place-pending"
    told = on_cluster(what, {"pods": [each.pod for each in moves]}, command, patch_type="delete")
    return Proposal("podsMoved", MOVING_COST + len(moves), (ProposedStep(told, moves=tuple(moves)),))


# --- what a rollout takes besides -------------------------------------------------------------------------------------


def pods_deleted(keys: Sequence[str]) -> Part:
    """Return, as a part of a rollout, that pods are deleted by hand, one when the one before it runs again."""
    what = f"delete {names_in_words(keys)}{', one after the other' if len(keys) > 1 else ''}"
    return on_cluster(what, {"pods": list(keys)}, pods_deleted_command(keys), patch_type="delete")


def more_unavailable(deployment: Owner, count: int) -> Part:
    """Return, as a part of a rollout, that so many pods of a Deployment may be unavailable."""
    patch = {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": count}}}}
    return _patch(f"let {count} be unavailable", patch, "Deployment", deployment[1])


# --- other objects ----------------------------------------------------------------------------------------------------


def _patch(what: str, patch: Json, kind: str, key: str, resource: str = "", patch_type: PatchType = "merge") -> Part:
    namespace, _, name = key.rpartition("/")
    within = f"-n {quote(namespace)} " if namespace else ""
    patched = f"{resource or kind.lower()} {quote(name)} --type {patch_type} -p {shell_quoted(patch)}"
    return on_cluster(what, patch, f"kubectl {within}patch {patched}", f"{kind}/{key}", patch_type)


def of_object(obj: Any, what: str, edit: Callable[[Json], None], kind: str) -> Proposal | None:
    """Return the proposal of an edit of another object; None where what comes of it is none."""
    of_kind, key = type(obj).__name__, key_of(obj)
    before, after = document_of(obj), document_of(obj)
    edit(after)
    try:
        made = decode(of_kind, after)
    except ObjectError:
        return None
    patch_type, patch = patch_of(before, after)
    told = _patch(f"{what} of the {of_kind} {key}", patch, of_kind, key, patch_type=patch_type)
    if why_anew := _IMMUTABLE.get(of_kind, ""):
        namespace, name = quote(obj.metadata.namespace), quote(obj.metadata.name)
        command = made_anew_command(
            of_kind.lower(), namespace, name, patch_type, patch, is_protected=of_kind == "PodGroup"
        )
        told = msgspec.structs.replace(told, what=f"{told.what}{why_anew}", command=command)
    return _one(kind, OTHER_COST, told, made)


def of_followed_object(resource: Any, key: str, what: str, patch: Json, after: Any) -> Proposal:
    """Return the proposal to patch an object that a plugin follows."""
    full = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    told = _patch(f"{what} of the {resource.kind} {key}", patch, resource.kind, key, full)
    return _one("object", OTHER_COST, told, after)


def of_device_claims(
    claims: Sequence[ResourceClaim], template: str, pods: Sequence[Pod], what: str, edit: Callable[[Json], None]
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
    specs = [_spec_of(claims[0]), _spec_of(made[0])]
    patch_type, patch = patch_of(*([{"spec": each} for each in specs] if template else specs))
    of_kind, namespace = "ResourceClaimTemplate" if template else "ResourceClaim", claims[0].metadata.namespace
    name = template or claims[0].metadata.name
    command = made_anew_command(of_kind.lower(), quote(namespace), quote(name), patch_type, patch)
    if template:
        command += f" && {pods_deleted_command([pod.key for pod in pods])}"
    also = ", and the pods that wait" if template else ""
    what = f"{what} of the {of_kind} {namespace}/{name} (make it anew{also}: it cannot be changed)"
    told = on_cluster(what, patch, command, f"{of_kind}/{namespace}/{name}", patch_type)
    return _one("deviceCount", OTHER_COST, told, *made)


def _spec_of(claim: ResourceClaim) -> Json:
    """Return what a claim's manifest says: a request's only form has no name of its own there."""
    spec: Json = document_of(claim)["spec"]
    for request in spec["devices"]["requests"]:
        request.get("exactly", {}).pop("name", None)
    return {"spec": spec}


def of_new_object(manifest: Json, remark: str = "") -> Proposal | None:
    """Return the proposal to create what a manifest says, and what to look at first; None where it is of no use."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    try:
        made = decode(kind, completed(kind, msgspec.json.decode(msgspec.json.encode(manifest))))
    except ObjectError:
        return None
    what = f"create the {kind} {name}, which does not exist{f' ({remark})' if remark else ''}"
    command = f"kubectl create -f - <<< {shell_quoted(manifest)}"
    told = on_cluster(what, {"manifests": [manifest]}, command, patch_type="create")
    return _one("missing", NEW_OBJECT_COST, told, made)


def of_replicas(owner: Owner, total: int, number: int, why: str) -> Proposal:
    """Return the proposal to run another number of replicas."""
    kind, (namespace, _, name) = owner[0], owner[1].partition("/")
    what = f"run {number} replica{'' if number == 1 else 's'} instead of {total}{why}"
    command = f"kubectl -n {quote(namespace)} scale {kind.lower()} {quote(name)} --replicas {number}"
    told = on_cluster(what, {"spec": {"replicas": number}}, command, f"{kind}/{owner[1]}")
    return _one("replicas", FEWER_COST + abs(total - number) / total, told)
