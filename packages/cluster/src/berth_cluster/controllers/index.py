"""What the controllers know of the store: every object by key, by uid and by owner, and those without a controller.

The index takes in each change while the store makes it, so it is never behind: a controller that has created a pod
finds it here on the next line. That is why no controller here needs the "expectations" with which upstream's
controllers bridge the delay of their caches. All lookups cost as much as they return, not as much as the cluster is
large, except where their docstrings say otherwise.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from berth_cluster.apimachinery.meta import Object, controller_reference, key_of, owner_references, uid_of

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Group = tuple[str, ...]
"""What kind of group it is, and which one."""
Indexer = Callable[[Object], tuple[Group, ...]]
IGNORED_KINDS = frozenset({"Event"})


class ObjectChange(NamedTuple):
    """One change in the store: `obj` is the state after it (or the last one, when deleted), `old` before it."""

    type: str
    kind: str
    obj: Object
    old: Object | None


class ObjectIndex:
    """The objects of the cluster, and how to get from one to those that belong to it.

    Objects are grouped by what indexers say of them: by owner, by node, and by what controllers add.
    """

    __slots__ = ("_groups", "_indexers", "_kinds", "_placed", "_uids")

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, Object]] = {}
        self._uids: dict[str, tuple[str, str]] = {}
        self._groups: dict[Group, dict[tuple[str, str], None]] = {}
        self._placed: dict[tuple[str, str], tuple[Group, ...]] = {}  # the groups of each object
        self._indexers: list[tuple[str, Indexer]] = [("", _owners), ("Pod", _node)]

    def add_indexer(self, kind: str, groups_of: Indexer) -> None:
        """Group objects of a kind, from now on and those that are there."""
        self._indexers.append((kind, groups_of))
        for key, obj in self._kinds.get(kind, {}).items():
            self._place((kind, key), (*self._placed.get((kind, key), ()), *groups_of(obj)))

    def apply(self, change: ObjectChange) -> None:
        """Bring the index up to date with one change."""
        if change.kind in IGNORED_KINDS:
            return
        known, key, obj = self._kinds.setdefault(change.kind, {}), key_of(change.obj), change.obj
        if change.type == "DELETED":
            known.pop(key, None)
            self._uids.pop(uid_of(obj), None)
            self._place((change.kind, key), ())
            return
        known[key] = obj
        self._uids[uid_of(obj)] = (change.kind, key)
        groups = [one for kind, groups_of in self._indexers if kind in ("", change.kind) for one in groups_of(obj)]
        self._place((change.kind, key), tuple(groups))

    def _place(self, member: tuple[str, str], groups: tuple[Group, ...]) -> None:
        """Put an object into these groups, and into no others."""
        before = self._placed.get(member, ())
        if before == groups:
            return
        for group in before:
            held = self._groups[group]
            held.pop(member, None)
            if not held:
                del self._groups[group]
        for group in groups:
            self._groups.setdefault(group, {})[member] = None
        self._placed[member] = groups
        if not groups:
            del self._placed[member]

    def grouped(self, *group: str) -> list[Object]:
        """The objects that an indexer puts into that group."""
        return [self._kinds[kind][key] for kind, key in self._groups.get(group, ())]

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
        """Kind and object of everything that names `owner_uid` among its owners, while it is still there."""
        for kind, key in list(self._groups.get(("owner", owner_uid), ())):
            obj = self._kinds[kind].get(key)
            if obj is not None:
                yield kind, obj

    def controlled(self, owner_uid: str, kind: str) -> list[Object]:
        """The objects of a kind whose controller is `owner_uid`."""
        found = (obj for held, obj in self.dependents(owner_uid) if held == kind)
        return [obj for obj in found if (controller_reference(obj) or {}).get("uid") == owner_uid]

    def orphans(self, kind: str, namespace: str) -> list[Object]:
        """The objects of a kind in a namespace that have no controller (they may be adopted)."""
        return self.grouped("orphan", kind, namespace)

    def on_node(self, node_name: str) -> list[Object]:
        """The pods bound to a node, finished ones included."""
        return self.grouped("node", node_name)


def _owners(obj: Object) -> tuple[Group, ...]:
    """A group for each of an object's owners, and that of the orphans of a namespace if nobody controls it."""
    groups: tuple[Group, ...] = tuple([("owner", reference["uid"]) for reference in owner_references(obj)])
    return groups if controller_reference(obj) is not None else (*groups, ("orphan", obj["kind"], _namespace_of(obj)))


def _node(pod: Object) -> tuple[Group, ...]:
    name = pod["spec"].get("nodeName")
    return (("node", name),) if name else ()


def _namespace_of(obj: Object) -> Any:
    return obj["metadata"].get("namespace", "")
