"""Plays the API server for requests that plugins make while a pod is on its way to a node (`ApiCall`).

A call is carried out on the objects of a cluster in memory, as merge patches, and the core is told of the changes
before the answer, as by a watch. Objects of kinds that the scheduler does not read, such as ConfigMaps, are kept as
`CustomObject`. Used by `VirtualCluster`, and so by tests of plugins and by `berth.Scheduler`; simulations add
controllers that react to what is written.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.custom import CustomObject, CustomResource
from berth.api.resources import RESOURCES
from berth.framework.custom_resources import CustomResources
from berth.framework.effects import Answer, ApiCall

Json = dict[str, Any]

NOT_FOUND = 'not found (NotFound): {kind} "{key}"'
EXISTS = 'conflict (AlreadyExists): {kind} "{key}" already exists'


class HasResources(Protocol):
    """The part of a core that knows which resources its plugins follow."""

    @property
    def resources(self) -> CustomResources: ...


class StoredObjects(Protocol):
    """The cluster whose objects are read and written."""

    @property
    def core(self) -> HasResources: ...

    @property
    def objects(self) -> Mapping[tuple[str, str], Any]:
        """The objects by kind and `namespace/name` or name."""

    def put(self, obj: Any) -> None:
        """Create or replace an object."""

    def delete(self, kind: str, key: str) -> None:
        """Delete an object by `namespace/name` or name."""


class ObjectCalls:
    """Carries out calls on the objects of a cluster."""

    __slots__ = ("_cluster", "made")

    def __init__(self, cluster: StoredObjects) -> None:
        self._cluster = cluster
        self.made = 0
        """How many objects were made; generated names use it."""

    def __call__(self, call: ApiCall) -> Answer:
        """Return what an API server would answer: the object as JSON values."""
        try:
            return self._answer(call)
        except ObjectError as error:
            return Answer(0, error=str(error))

    def written(self, obj: Any) -> None:
        """Hook for acting on what a call has written, as a controller would; does nothing here."""

    def _answer(self, call: ApiCall) -> Answer:
        resources = self._cluster.core.resources
        resource = resources.resource_of(call.kind)
        if resource is None:
            return Answer(0, error=resources.unknown(call.kind))
        kind = resource.kind
        if call.verb == "create" and not call.subresource:
            return self._create(call, kind)
        key = f"{call.namespace}/{call.name}" if resource.namespaced else call.name
        known = self._cluster.objects.get((kind, key))
        if known is None:
            return Answer(0, error=NOT_FOUND.format(kind=call.kind, key=key))
        if call.verb == "delete":
            self._cluster.delete(kind, key)
            return Answer(0)
        if call.verb in ("patch", "update"):
            # Each write makes a new version. Without a number, a version equals none but itself, so that whoever waits
            # to see a write does not mistake the state before for it.
            before = plain(known)
            said = merged(before, call.body) if call.verb == "patch" else {**call.body}
            uid = before.get("metadata", {}).get("uid", "")
            written = merged(said, {"metadata": {"resourceVersion": None, "uid": uid}})
            self._put(kind, written)
        return Answer(0, plain(self._cluster.objects[kind, key]))

    def _create(self, call: ApiCall, kind: str) -> Answer:
        self.made += 1
        metadata = dict(call.body.get("metadata") or {})
        name = metadata.get("name") or call.name or f"{metadata.get('generateName', '')}{self.made}"
        key = f"{call.namespace}/{name}" if call.namespace else name
        if (kind, key) in self._cluster.objects:
            return Answer(0, error=EXISTS.format(kind=call.kind, key=key))
        metadata |= {"name": name, "namespace": call.namespace, "uid": f"{call.kind}/{call.namespace}/{name}"}
        self._put(kind, {**call.body, "metadata": metadata})
        return Answer(0, plain(self._cluster.objects[kind, key]))

    def _put(self, kind: str, document: Json) -> None:
        obj = self._read(kind, document)
        self._cluster.put(obj)
        self.written(obj)

    def _read(self, kind: str, document: Json) -> Any:
        custom = next((each for each in self._cluster.core.resources if each.name == kind), None)
        if custom is not None:
            return custom.read(document)
        if kind in KINDS:
            return decode(kind, document)
        place = RESOURCES[kind]
        read = CustomResource(place.group, place.version, place.plural, kind, place.namespaced).read(document)
        return msgspec.structs.replace(read, resource=kind)


def merged(target: Any, patch: Any) -> Any:
    """Return a JSON value with a merge patch applied (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    found: Json = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def plain(obj: Any) -> Json:
    """Return an object as JSON values that the caller may change."""
    content = obj.content if isinstance(obj, CustomObject) else obj
    found: Json = msgspec.json.decode(msgspec.json.encode(content, enc_hook=dict))
    return found
