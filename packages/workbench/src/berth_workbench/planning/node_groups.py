"""Node groups as an autoscaler has them, from a file: how large each may be, what its nodes are like and cost.

groups:
  - {name: std, max: 20, price: 0.4}
  - {name: gpu, nodes: "pool=gpu", min: 1, max: 4, price: 3.2}
  - {name: cheap, like: std-1, max: 10, price: 0.1, spot: true}
  - {name: new, template: {metadata: {labels: {pool: new}}, status: {allocatable: {cpu: 16, pods: 110}}}}
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from berth.api.node import Node
from berth.api.pools import ARCH, OS, pool_of
from berth.api.strict import mistakes_in, told
from berth.api.user_error import UserError
from berth_workbench.planning.more_nodes import NodeKind
from berth_workbench.simulation.changes import ChangeError, node_filter
from berth_workbench.simulation.prices import Prices
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.text import SnapshotError

GROUPS_AT_MOST = 200
_EXPECTED = "an object with `groups`, a list of node groups, is expected"


class NodeGroupError(UserError, ValueError):
    """Node groups that cannot be used; the message says which."""


class NodeGroupSpec(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A node group as the file has it."""

    name: str
    like: str = ""
    """A node that its nodes are like; by default the first of them."""
    template: dict[str, Any] | None = None
    """What a node of it is like, as a manifest, where the cluster has none."""
    nodes: str = ""
    """Which nodes are of the group: names, a pattern or a label selector; by default those of the pool of its name."""
    min: int = 0
    max: int = 1000
    price: float | None = None
    """What a node costs; else the prices given say so."""
    spot: bool = False
    """Whether all of its nodes may be taken away at once."""


class NodeGroup(msgspec.Struct, frozen=True):
    """A node group and its nodes."""

    spec: NodeGroupSpec
    members: tuple[str, ...]
    model: Node
    price: float | None

    @property
    def kind(self) -> NodeKind:
        """The kind of node that may be added."""
        most = max(self.spec.max - len(self.members), 0)
        return NodeKind(self.spec.name, self.model, self.price, most)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    groups: list[NodeGroupSpec]


def read_groups(document: Any) -> list[NodeGroupSpec]:
    """Return the groups of a document. Raises `NodeGroupError`."""
    try:
        groups = msgspec.convert(document, _File).groups
    except msgspec.ValidationError as error:
        raise NodeGroupError(f"{error}; {_EXPECTED}") from None
    if not groups or len(groups) > GROUPS_AT_MOST:
        raise NodeGroupError(f"groups: there are {len(groups)}; 1 to {GROUPS_AT_MOST} are expected")
    seen: set[str] = set()
    for group in groups:
        where = f"group {group.name!r}"
        if not group.name or group.name in seen:
            raise NodeGroupError(f"{where}: a name that no other group has is expected")
        seen.add(group.name)
        if not 0 <= group.min <= group.max:
            raise NodeGroupError(f"{where}: min {group.min} and max {group.max}: 0 or more, and no more than max")
        if group.price is not None and not 0 <= group.price < float("inf"):
            raise NodeGroupError(f"{where}: price {group.price}: a number of 0 or more is expected")
        if group.like and group.template is not None:
            raise NodeGroupError(f"{where}: give `like` or `template`, not both")
    return groups


def groups_in(specs: Iterable[NodeGroupSpec], nodes: Iterable[Node], prices: Prices | None = None) -> list[NodeGroup]:
    """Return the groups with those of the nodes that are in them; the first group that claims a node has it.

    Raises `NodeGroupError` if nothing says what a node of a group is like.
    """
    by_name = {node.metadata.name: node for node in nodes}
    free = dict(by_name)
    found = []
    for spec in specs:
        members = _members(spec, free.values())
        for name in members:
            del free[name]
        model = _model(spec, members, by_name)
        own = spec.price if spec.price is not None or prices is None else prices.of(model)
        found.append(NodeGroup(spec, tuple(members), model, own))
    return found


def _members(spec: NodeGroupSpec, nodes: Iterable[Node]) -> list[str]:
    if not spec.nodes:
        return [node.metadata.name for node in nodes if pool_of(node.metadata.labels) == spec.name]
    try:
        is_meant = node_filter(spec.nodes)
    except ChangeError as error:
        raise NodeGroupError(f"group {spec.name!r}: nodes: {error}") from None
    return [node.metadata.name for node in nodes if is_meant(node)]


def _model(spec: NodeGroupSpec, members: list[str], nodes: Mapping[str, Node]) -> Node:
    where = f"group {spec.name!r}"
    if spec.template is not None:
        manifest = {"apiVersion": "v1", **spec.template, "kind": "Node"}
        metadata = manifest.get("metadata")
        manifest["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), "name": spec.name}
        if mistakes := mistakes_in("Node", "v1", spec.template):
            raise NodeGroupError(f"{where}: template: {told(mistakes)}")
        try:
            made = Document("Node", msgspec.json.encode(manifest), where).struct()
        except SnapshotError as error:
            raise NodeGroupError(f"{where}: template: {error}") from None
        assert isinstance(made, Node), "a document of kind Node is a Node"
        if not made.status.allocatable:
            raise NodeGroupError(f"{where}: template: status.allocatable is missing: what has a node of it?")
        labels = {**_usual_platform(nodes.values()), **made.metadata.labels}
        return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels))
    name = spec.like or next(iter(members), "")
    if not name:
        raise NodeGroupError(f"{where}: no node is in it; say with `like` or `template` what its nodes are like")
    if name not in nodes:
        raise NodeGroupError(f"{where}: no node {name!r} that its nodes could be like")
    return nodes[name]


def _usual_platform(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the operating system and the architecture of most nodes, as far as their labels say."""
    platforms = Counter(tuple(node.metadata.labels.get(key, "") for key in (OS, ARCH)) for node in nodes)
    usual = max(platforms, key=platforms.__getitem__, default=("", ""))
    return {key: value for key, value in zip((OS, ARCH), usual, strict=True) if value}
