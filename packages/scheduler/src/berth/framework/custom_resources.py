"""The resources that plugins follow besides those that the scheduler reads anyway, and how plugins look at them.

A plugin calls `Handle.follow`, or `Handle.poll` for a document from elsewhere, when it is made. Whatever feeds the core
then follows the resource: the live scheduler with an informer or by polling, `VirtualCluster` and `berth.Scheduler`
with what they are given.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from berth.api.custom import CustomObject, CustomResource
from berth.api.resources import RESOURCES, Resource
from berth.api.web import DOCUMENT, WebResource
from berth.state.objects import ObjectStore, key_of

KeysOf = Callable[[Any], Iterable[str]]
NodeOf = Callable[[Any], str]
"""Returns the name of the node that an object is about; empty for none."""


class CustomObjects:
    """The known objects of one resource. Plugins only read them; nothing here may be changed."""

    __slots__ = ("_indexes", "_objects", "name")

    def __init__(self, name: str, objects: ObjectStore) -> None:
        self.name = name
        self._objects = objects
        self._indexes: dict[str, _Index] = {}

    def get(self, name: str, namespace: str = "") -> Any | None:
        """Return an object, or None."""
        return self._objects.get(self.name, name, namespace)

    def list(self, namespace: str | None = None) -> Iterator[Any]:
        """Return the objects of one namespace, or of all."""
        return self._objects.list(self.name, namespace)

    @property
    def version(self) -> int:
        """How often objects have changed; answers may be kept while it stays the same."""
        return self._objects.version(self.name)

    def changed_since(self, version: int) -> Sequence[str] | None:
        """Return which objects have changed since a version, as `namespace/name`; None if that is too long ago.

        Those without a namespace are given by name alone; one that has changed twice may occur twice.
        """
        return self._objects.changed_since(self.name, version)

    def add_index(self, index: str, keys_of: KeysOf) -> None:
        """Index objects by the keys that a function gives for each."""
        if index in self._indexes:
            raise ValueError(f"{self.name} has an index {index!r} already")
        self._indexes[index] = _Index(keys_of)

    def by_index(self, index: str, key: str) -> Iterator[Any]:
        """Return the objects that have this key, in the order of their names; raises KeyError for an unknown index."""
        found = self._indexes[index].find(self.name, self._objects, key)
        return iter([obj for each in sorted(found) if (obj := self._objects.get(self.name, each)) is not None])


class WebDocument:
    """One document from outside the API server. Plugins only read it."""

    __slots__ = ("_name", "_objects")

    def __init__(self, name: str, objects: ObjectStore) -> None:
        self._name = name
        self._objects = objects

    @property
    def content(self) -> Mapping[str, Any] | None:
        """The latest answer, read-only; None before there was one."""
        found: CustomObject | None = self._objects.get(self._name, DOCUMENT)
        return None if found is None else found.content

    @property
    def version(self) -> int:
        """How often it has changed; answers may be kept while it stays the same."""
        return self._objects.version(self._name)


class _Index:
    """Names of objects by key, brought up to date on demand."""

    __slots__ = ("_keys", "_keys_of", "_names", "_version")

    def __init__(self, keys_of: KeysOf) -> None:
        self._keys_of = keys_of
        self._names: dict[str, set[str]] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._version = 0

    def find(self, kind: str, objects: ObjectStore, key: str) -> Iterable[str]:
        changed = objects.changed_since(kind, self._version)
        if changed is None:
            self._names, self._keys = {}, {}
            changed = [key_of(obj) for obj in objects.list(kind)]
        self._version = objects.version(kind)
        for name in dict.fromkeys(changed):
            self._put(name, objects.get(kind, name))
        return self._names.get(key, ())

    def _put(self, name: str, obj: Any | None) -> None:
        for key in self._keys.pop(name, ()):
            self._names[key].discard(name)
            if not self._names[key]:
                del self._names[key]
        if obj is not None:
            self._keys[name] = keys = tuple(self._keys_of(obj))
            for key in keys:
                self._names.setdefault(key, set()).add(name)


class CustomResources:
    """Everything that plugins have asked for, by name."""

    __slots__ = ("_declared", "_name_of", "_node_changed", "_objects", "_polled")

    def __init__(self, objects: ObjectStore, node_changed: Callable[[str], None] = lambda _node_name: None) -> None:
        """`node_changed` is called with nodes about which something other than their objects and pods has changed."""
        self._objects = objects
        self._node_changed = node_changed
        self._declared: dict[str, CustomResource] = {}
        self._name_of: dict[type, str] = {}
        """The name in events of each followed struct."""
        self._polled: dict[str, WebResource] = {}

    def __iter__(self) -> Iterator[CustomResource]:
        return iter(self._declared.values())

    def declare(self, resource: CustomResource, node_of: NodeOf | None = None) -> CustomObjects:
        """Follow a resource; several plugins may ask for the same, each for a view of its own with its own indexes.

        `node_of` is for objects that are each about one node: when one changes, answers that depend on its node's pods
        are recomputed (`Dependency.PODS_ON_NODE`), and nothing else. Raises ValueError if two plugins follow a resource
        differently.
        """
        name = resource.name
        if self._declared.setdefault(name, resource) != resource:
            raise ValueError(f"two plugins follow {name} in different ways: agree on one CustomResource")
        if resource.struct is not None:
            self._name_of[resource.struct] = name
        if node_of is not None:
            self._objects.heed(name, partial(self._tell_of, node_of))
        return CustomObjects(name, self._objects)

    def _tell_of(self, node_of: NodeOf, *objects: Any) -> None:
        for node_name in dict.fromkeys(node_of(obj) for obj in objects if obj is not None):
            self._node_changed(node_name)

    def poll(self, resource: WebResource) -> WebDocument:
        """Ask for a document; several plugins may ask for the same. Raises ValueError if they differ."""
        if self._polled.setdefault(resource.name, resource) != resource:
            raise ValueError(f"two plugins want {resource.name} from different places: agree on one WebResource")
        return WebDocument(resource.name, self._objects)

    @property
    def polled(self) -> Iterable[WebResource]:
        """The documents that plugins have asked for."""
        return self._polled.values()

    def name_of(self, obj: Any) -> str:
        """Return an object's name in events: that of its custom resource, or its kind."""
        if isinstance(obj, CustomObject):
            return obj.resource
        return self._name_of.get(type(obj)) or type(obj).__name__

    def resource_of(self, kind: str) -> Resource | None:
        """Return the resource that API calls mean by a kind: one of Kubernetes' own, or one that a plugin follows.

        The latter goes by its name, as in events, or by its kind if that is unambiguous. None if there is none.
        """
        if kind in RESOURCES:
            return RESOURCES[kind]
        found = [each for each in self if kind in (each.name, each.kind)]
        return found[0].resource if len(found) == 1 else None

    def unknown(self, kind: str) -> str:
        """Say what to do about a kind that `resource_of` does not find."""
        followed = ", ".join(each.name for each in self)
        return (
            f"an ApiCall names the kind {kind!r}, which is none of the scheduler's, nor of a resource that a plugin "
            f"follows ({followed or 'none is'}): follow it with handle.follow(CustomResource(...)), and use its name"
        )

    def of_manifest(self, manifest: Mapping[str, Any]) -> CustomResource | None:
        """Return the resource of a manifest, by its apiVersion and kind."""
        said = manifest.get("apiVersion"), manifest.get("kind")
        return next((each for each in self if said == (each.resource.api_version, each.kind)), None)
