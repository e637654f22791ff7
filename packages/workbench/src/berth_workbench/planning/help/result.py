"""What would help a pod, as a value."""

from typing import Any, Literal

import msgspec

Json = dict[str, Any]
SMALLER = "minCount"
"""The kind of change by which a gang does with fewer pods than it has asked for."""
Target = Literal["pod", "node", "cluster"]
PatchType = Literal["strategic", "merge", "json", "create", "delete"]


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """One object that changes, in a change of several."""

    on: Target
    what: str
    patch_type: PatchType
    patch: Any
    target: str
    command: str


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """A change after which all pods of the workload have a place: it was carried out, and taken back."""

    on: Target
    what: str
    """In words, a phrase without a full stop."""
    patch: Any
    """What to do, in the form that `patch_type` names."""
    fits_on: tuple[str, ...]
    """The nodes on which the pod fits afterwards, sorted; for a higher priority, the node that is freed for it."""
    patch_type: PatchType
    """`strategic`, `merge` and `json` are patches of `target` as kubectl takes them; `create` has `{"manifests": […]}`,
    `delete` has `{"pods": ["namespace/name"]}`."""
    target: str
    """`Kind/name` or `Kind/namespace/name` of the object to patch; empty where there is none."""
    kind: str
    """`toleration`, `requests`, `podsGone`, …"""
    cost: float
    """How much is to be touched; changes are sorted by it."""
    command: str
    """A command that does it, or where to edit."""
    also_on: tuple[str, ...] = ()
    """Other nodes where the same change was tried and does as well."""
    untried: int = 0
    """How many further nodes look the same but were not tried."""
    with_: tuple[Part, ...] = msgspec.field(default=(), name="with")
    """What has to be done besides: the same on more nodes, or what lets a rollout go on."""
    replaces: int = 0
    """How many running pods of the pod's own workload are made anew."""
    moves: tuple[str, ...] = ()
    """Pods of others that are made anew and find a place, as `namespace/name`."""
    leaves: tuple[str, ...] = ()
    """Pods of others, all less important, that have no place afterwards."""
    gains: tuple[str, ...] = ()
    """Pods of others that have a place by it, too."""
    still_pending: int = 0
    """How many pods of the workload have no place even then; only where nothing was found that places all of them."""
    like: str = ""
    """The node of the cluster that new ones are like; empty where none are added, or they are made to measure."""


class Awaited(msgspec.Struct, frozen=True, rename="camel"):
    """Something that may happen by itself and let the pod in."""

    what: str
    plugin: str = ""
    """The plugin that has the pod tried again then; empty where room is meant."""
    pods: tuple[str, ...] = ()
    """Pods that would leave, as `namespace/name`."""
    is_enough: bool = False
    """Whether the pod fits once this has happened, as the filters have confirmed."""


class Lack(msgspec.Struct, frozen=True, rename="camel"):
    """Why some nodes do not take a pod; each node counts once, by what the scheduler says of it first."""

    nodes: int
    reason: str
    """In the words of the pod's condition."""
    plugin: str
    """The plugin that says so; empty for nodes outside of the part where the others have their places."""
    resource: str = ""
    """The resource that is short, where the reason is that."""
    needs: str = ""
    """With `resource`, how much the pod asks for."""
    most_free: str = ""
    """With `resource`, the most that one of these nodes has left, and `node` is which."""
    node: str = ""


class PartPlaces(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the cluster to which a gang may go as a whole."""

    part: str
    nodes: int
    have_place: int
    """For how many of the gang there is room, those that run among them."""


class HeldAtPermit(msgspec.Struct, frozen=True, rename="camel"):
    """Members of a gang that have a node and wait there for the others."""

    pods: tuple[str, ...]
    """As `namespace/name`."""
    holds: dict[str, str]
    """What they hold meanwhile, by resource."""
    until: str
    """When the first of them is turned away unless it is let go."""


State = Literal["pending", "fits", "runs", "waits"]


class Help(msgspec.Struct, frozen=True, rename="camel"):
    """What would help a pod, and the others of its workload with it."""

    pod: str
    state: State
    """`fits` and `runs` need no help; `waits` has a node but Permit would hold it back."""
    message: str
    """One sentence on how things are, in the words of the pod's condition where it fits nowhere."""
    changes: tuple[Change, ...] = ()
    """The cheapest first."""
    never: bool = False
    """Whether no node would take the pod even if all pods that may be evicted were gone."""
    waits_for: tuple[Awaited, ...] = ()
    fits_on: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    """What plugins said that no change to the pod is known for."""
    notes: tuple[str, ...] = ()
    trials: int = 0
    """How often the filters were asked."""
    is_complete: bool = True
    """Whether the search ended by itself; otherwise it used up its trials, and there may be other changes."""
    workload: str = ""
    """`Kind/namespace/name` of what makes the pod; empty for a pod alone."""
    pods: tuple[str, ...] = ()
    """All pods of the workload that have no place, this one among them."""
    replicas: int = 1
    """How many pods the workload or the gang has, with and without a place."""
    most: int | None = None
    """Where `never` is said of a workload because not all of its pods have a place at once: no more than these have."""
    group: str = ""
    """`PodGroup/namespace/name` of what has the pods placed together; empty where nothing has."""
    needed: int | None = None
    """Of a gang, how many have to have a place before any of its pods is bound."""
    needs_field: str = ""
    """Of a gang, what its declaration calls that number: `minCount` or `minMember`."""
    have_place: int | None = None
    """Of a gang, for how many there is room at the same time, those that run among them."""
    too_few: str = ""
    """The places of which there are too few for `most` to be more, such as `3 zones`, where pods keep apart."""
    together_in: str = ""
    """Of a gang that has to go to one part of the cluster as a whole, the label whose value its nodes share."""
    part: str = ""
    """The value with room for most of the gang; `have_place` and `lacks` are about the nodes that have it."""
    parts: tuple[PartPlaces, ...] = ()
    """With `together_in`, the parts of the cluster, that with most places first."""
    lacks: tuple[Lack, ...] = ()
    """Of a gang below the number that it needs, why the next member has no place beside the others, node by node."""
    held: HeldAtPermit | None = None
    """Of a gang of a live cluster, the members that the scheduler holds at Permit."""
    since: str = ""
    """When the oldest of the gang's pending members was created; empty where that is not known."""
    missing: tuple[str, ...] = ()
    """What the pod names and the cluster does not have, a clause each: more than `message` says of it."""
