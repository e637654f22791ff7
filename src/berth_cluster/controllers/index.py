"""What the controllers know of the store: every object by key, by uid and by owner, and those without a controller.

The index takes in each change while the store makes it, so it is never behind: a controller that has created a pod
finds it here on the next line. That is why no controller here needs the "expectations" with which upstream's
controllers bridge the delay of their caches. All lookups cost as much as they return, not as much as the cluster is
large, except where their docstrings say otherwise.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from berth_cluster.apimachinery.meta import Object, controller_reference, key_of, owner_references, uid_of

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Indexer = Callable[[Object], Iterable[Hashable]]
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

    __slots__ = ("_groups", "_indexers", "_kinds", "_uids")

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, Object]] = {}
        self._uids: dict[str, tuple[str, str]] = {}
        self._groups: dict[tuple[str, Hashable], dict[tuple[str, str], None]] = {}
        self._indexers: list[tuple[str, str, Indexer]] = [
            ("owner", "", _owners),
            ("orphan", "", _orphanage),
            ("node", "Pod", lambda pod: filter(None, [pod["spec"].get("nodeName")])),
        ]

    def add_indexer(self, name: str, kind: str, values_of: Indexer) -> None:
        """Group objects of a kind by values, from now on and those that are there."""
        self._indexers.append((name, kind, values_of))
        for key, obj in self._kinds.get(kind, {}).items():
            self._regroup(name, (kind, key), (), tuple(values_of(obj)))

    def apply(self, change: ObjectChange) -> None:
        """Bring the index up to date with one change."""
        if change.kind in IGNORED_KINDS:
            return
        known = self._kinds.setdefault(change.kind, {})
        key, is_there = key_of(change.obj), change.type != "DELETED"
        before = known.get(key)
        if is_there:
            known[key] = change.obj
            self._uids[uid_of(change.obj)] = (change.kind, key)
        else:
            known.pop(key, None)
            self._uids.pop(uid_of(change.obj), None)
        for name, kind, values_of in self._indexers:
            if kind in ("", change.kind):
                was = tuple(values_of(before)) if before is not None else ()
                now = tuple(values_of(change.obj)) if is_there else ()
                if was != now:
                    self._regroup(name, (change.kind, key), was, now)

    def _regroup(self, name: str, member: tuple[str, str], was: Iterable[Hashable], now: Iterable[Hashable]) -> None:
        for value in was:
            held = self._groups.get((name, value), {})
            held.pop(member, None)
            if not held:
                self._groups.pop((name, value), None)
        for value in now:
            self._groups.setdefault((name, value), {})[member] = None

    def grouped(self, name: str, value: Hashable) -> list[Object]:
        """The objects of which an indexer says that value."""
        return [self._kinds[kind][key] for kind, key in self._groups.get((name, value), ())]

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
        return self.grouped("orphan", (kind, namespace))

    def on_node(self, node_name: str) -> list[Object]:
        """The pods bound to a node, finished ones included."""
        return self.grouped("node", node_name)


def _owners(obj: Object) -> Iterator[str]:
    return (reference["uid"] for reference in owner_references(obj))


def _orphanage(obj: Object) -> Iterator[tuple[str, str]]:
    """Kind and namespace of an object that may be adopted."""
    if controller_reference(obj) is None:
        yield obj["kind"], _namespace_of(obj)


def _namespace_of(obj: Object) -> Any:
    return obj["metadata"].get("namespace", "")
