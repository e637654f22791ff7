"""What the controllers know of the store: every object by key, by uid and by owner, and those without a controller.

The index takes in each change while the store makes it, so it is never behind: a controller that has created a pod
finds it here on the next line. That is why no controller here needs the "expectations" with which upstream's
controllers bridge the delay of their caches. All lookups cost as much as they return, not as much as the cluster is
large, except where their docstrings say otherwise.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeVar

from berth_cluster.apimachinery.meta import Object, controller_reference, key_of, owner_references, uid_of

Key = TypeVar("Key")
Member = TypeVar("Member")
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
IGNORED_KINDS = frozenset({"Event"})


class ObjectChange(NamedTuple):
    """One change in the store: `obj` is the state after it (or the last one, when deleted), `old` before it."""

    type: str
    kind: str
    obj: Object
    old: Object | None


class ObjectIndex:
    """The objects of the cluster, and how to get from one to those that belong to it."""

    __slots__ = ("_dependents", "_kinds", "_on_node", "_orphans", "_uids")

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, Object]] = {}
        self._uids: dict[str, tuple[str, str]] = {}
        self._dependents: dict[str, dict[tuple[str, str], None]] = {}
        self._orphans: dict[tuple[str, str], dict[str, None]] = {}
        self._on_node: dict[str, dict[str, None]] = {}

    def apply(self, change: ObjectChange) -> None:
        """Bring the index up to date with one change."""
        if change.kind in IGNORED_KINDS:
            return
        known = self._kinds.setdefault(change.kind, {})
        key = key_of(change.obj)
        before = known.get(key)
        if change.type == "DELETED":
            known.pop(key, None)
            self._uids.pop(uid_of(change.obj), None)
            self._unlink(change.kind, key, before)
            if change.kind == "Pod":
                _drop(self._on_node, change.obj["spec"].get("nodeName") or "", key)
            return
        known[key] = change.obj
        if change.kind == "Pod" and (node_name := change.obj["spec"].get("nodeName")):
            self._on_node.setdefault(node_name, {})[key] = None
        self._uids[uid_of(change.obj)] = (change.kind, key)
        if before is None or before["metadata"].get("ownerReferences") != change.obj["metadata"].get("ownerReferences"):
            self._unlink(change.kind, key, before)
            self._link(change.kind, key, change.obj)

    def everything(self) -> Iterator[ObjectChange]:
        """Everything there is, as if it were being created now."""
        for kind, known in self._kinds.items():
            for obj in list(known.values()):
                yield ObjectChange("ADDED", kind, obj, None)

    def get(self, kind: str, key: str) -> Object | None:
        """The object of that kind and key."""
        return self._kinds.get(kind, {}).get(key)

    def all_of(self, kind: str) -> Iterable[Object]:
        """Every object of a kind, in order of creation."""
        return self._kinds.get(kind, {}).values()

    def in_namespace(self, kind: str, namespace: str) -> list[Object]:
        """The objects of a kind in a namespace; looks at every object of the kind."""
        return [obj for obj in self.all_of(kind) if _namespace_of(obj) == namespace]

    def holds_uid(self, uid: str) -> bool:
        """Whether an object with that uid exists."""
        return uid in self._uids

    def kind_of(self, obj: Object) -> str:
        """The kind under which an object is held, which for a custom resource has its group."""
        return self._uids.get(uid_of(obj), (obj["kind"],))[0]

    def by_uid(self, uid: str) -> tuple[str, Object] | None:
        """Kind and object of that uid."""
        found = self._uids.get(uid)
        return (found[0], self._kinds[found[0]][found[1]]) if found else None

    def controller_of(self, obj: Object) -> Object | None:
        """The object that controls this one."""
        reference = controller_reference(obj)
        found = self.by_uid(reference["uid"]) if reference is not None else None
        return found[1] if found is not None else None

    def dependents(self, owner_uid: str) -> Iterator[tuple[str, Object]]:
        """Kind and object of everything that names `owner_uid` among its owners."""
        for kind, key in list(self._dependents.get(owner_uid, ())):
            obj = self._kinds[kind].get(key)
            if obj is not None:
                yield kind, obj

    def controlled(self, owner_uid: str, kind: str) -> list[Object]:
        """The objects of a kind whose controller is `owner_uid`."""
        known = self._kinds.get(kind, {})
        found = [known[key] for held, key in self._dependents.get(owner_uid, ()) if held == kind]
        return [obj for obj in found if _is_controlled_by(obj, owner_uid)]

    def orphans(self, kind: str, namespace: str) -> list[Object]:
        """The objects of a kind in a namespace that have no controller (they may be adopted)."""
        known = self._kinds.get(kind, {})
        return [known[key] for key in self._orphans.get((kind, namespace), ())]

    def on_node(self, node_name: str) -> list[Object]:
        """The pods bound to a node, finished ones included."""
        pods = self._kinds.get("Pod", {})
        return [pods[key] for key in self._on_node.get(node_name, ())]

    def _link(self, kind: str, key: str, obj: Object) -> None:
        for reference in owner_references(obj):
            self._dependents.setdefault(reference["uid"], {})[(kind, key)] = None
        if controller_reference(obj) is None:
            self._orphans.setdefault((kind, _namespace_of(obj)), {})[key] = None

    def _unlink(self, kind: str, key: str, obj: Object | None) -> None:
        if obj is None:
            return
        for reference in owner_references(obj):
            _drop(self._dependents, reference["uid"], (kind, key))
        _drop(self._orphans, (kind, _namespace_of(obj)), key)


def _drop(groups: dict[Key, dict[Member, None]], group: Key, member: Member) -> None:
    """Take a member out of its group, and the group out when nobody is left in it."""
    held = groups.get(group)
    if held is not None:
        held.pop(member, None)
        if not held:
            del groups[group]


def _namespace_of(obj: Object) -> Any:
    return obj["metadata"].get("namespace", "")


def _is_controlled_by(obj: Object, owner_uid: str) -> bool:
    reference = controller_reference(obj)
    return reference is not None and reference["uid"] == owner_uid
