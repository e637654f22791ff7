"""Controllers that write the status of a custom resource's objects by the pods that belong to each of them.

A package of plugins that decide by objects of its own brings such a controller along (`berth.controller`). It is
arithmetic only: which pods are whose, and which status follows. `FollowedStatuses` keeps the objects and pods of one
controller and says what is to be written; it knows no API server, so that a live process and a test feed it alike.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from berth.api.custom import CustomObject, CustomResource
from berth.api.meta import ObjectMeta
from berth.api.pod import Pod

logger = logging.getLogger(__name__)

Json = Mapping[str, Any]


class StatusController(Protocol):
    """What a package brings: made without arguments, asked by one thread, and without any state of its own."""

    name: str
    """What logs call it."""
    resource: CustomResource
    """Of whose objects it writes the status; without a struct, since a status is read as it is."""

    def group_of(self, obj: CustomObject) -> str:
        """Return what the object has in common with its pods, such as its namespace."""

    def group_of_pod(self, pod: Pod) -> str | None:
        """Return the same of a pod; None for a pod that belongs to nothing."""

    def reconcile(self, obj: CustomObject, pods: Sequence[Pod]) -> Json:
        """Return the fields of the status that it should have, given all pods of its group, by name.

        A field is replaced as a whole, None takes one away, and those that are not named stay. It is asked again after
        every change of the object or its pods, its own included, so it may go one step at a time; where it returns
        what is there already, nothing is written.
        """


class Place(NamedTuple):
    """Where an object is; the namespace is empty for one of the cluster's."""

    namespace: str
    name: str

    @classmethod
    def of(cls, metadata: ObjectMeta) -> "Place":
        """Return an object's place."""
        return cls(metadata.namespace, metadata.name)


class FollowedStatuses:
    """The objects of one controller with their pods, and which of them have to be looked at."""

    __slots__ = ("_by_group", "_groups", "_members", "_objects", "_pods", "controller", "due")

    def __init__(self, controller: StatusController) -> None:
        self.controller = controller
        self.due: dict[Place, None] = {}
        """The objects to look at, in the order in which something happened to them."""
        self._objects: dict[Place, CustomObject] = {}
        self._groups: dict[Place, str] = {}
        """The group of each object."""
        self._by_group: dict[str, dict[Place, None]] = {}
        """The objects of each group."""
        self._members: dict[str, dict[Place, Pod]] = {}
        """The pods of each group."""
        self._pods: dict[Place, str] = {}
        """The group of each pod that has one."""

    def take(self, obj: CustomObject) -> None:
        """Take in an object, new or changed."""
        place = Place.of(obj.metadata)
        self.drop(obj)
        group = self.controller.group_of(obj)
        self._objects[place], self._groups[place] = obj, group
        self._by_group.setdefault(group, {})[place] = None
        self.due[place] = None

    def drop(self, obj: CustomObject) -> None:
        """Forget an object; nothing happens where it is not known."""
        place = Place.of(obj.metadata)
        self._objects.pop(place, None)
        self.due.pop(place, None)
        if (group := self._groups.pop(place, None)) is not None:
            _discard(self._by_group, group, place)

    def take_pod(self, pod: Pod) -> None:
        """Take in a pod, new or changed."""
        place, group = Place.of(pod.metadata), self.controller.group_of_pod(pod)
        if self._pods.get(place) != group:
            self.drop_pod(pod)
        if group is not None:
            self._pods[place] = group
            self._members.setdefault(group, {})[place] = pod
            self.due.update(self._by_group.get(group, {}))

    def drop_pod(self, pod: Pod) -> None:
        """Forget a pod; nothing happens where it is not known."""
        place = Place.of(pod.metadata)
        if (group := self._pods.pop(place, None)) is not None:
            _discard(self._members, group, place)
            self.due.update(self._by_group.get(group, {}))

    def has(self, place: Place) -> bool:
        """Say whether there is such an object."""
        return place in self._objects

    def next_patch(self, place: Place) -> dict[str, Any] | None:
        """Return the merge patch that gives an object the status that it should have; None where it has it.

        It names the version that it was made of, so that of two controllers at work only one changes it. An exception
        of the controller is logged, and leaves the object as it is until the next change.
        """
        obj = self._objects.get(place)
        if obj is None:
            return None
        members = self._members.get(self._groups[place], {})
        try:
            wanted = self.controller.reconcile(obj, [members[each] for each in sorted(members)])
        except Exception:  # a stranger's code
            logger.exception("%s failed on %s/%s", self.controller.name, *place)
            return None
        # Both as plain JSON: what is read-only has tuples, which equal no lists.
        before, wanted = (msgspec.json.decode(msgspec.json.encode(each)) for each in (obj.get("status") or {}, wanted))
        after = {name: each for name, each in {**before, **wanted}.items() if each is not None}
        changes = merge_patch(before, after)
        return {"metadata": {"resourceVersion": obj.metadata.resource_version}, "status": changes} if changes else None


def merge_patch(before: Json, after: Json) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) from one object to another; empty where they are equal."""
    changes: dict[str, Any] = dict.fromkeys(name for name in before if name not in after)
    for name, value in after.items():
        known = before.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            if deeper := merge_patch(known, value):
                changes[name] = deeper
        elif name not in before or known != value:
            changes[name] = value
    return changes


def _discard(groups: dict[str, dict[Place, Any]], group: str, place: Place) -> None:
    held = groups[group]
    held.pop(place, None)
    if not held:
        del groups[group]
