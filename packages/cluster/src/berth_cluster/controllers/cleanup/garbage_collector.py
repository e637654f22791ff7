"""The garbage collector: deletes objects whose owners are all gone, and releases owners that wait for their dependents.

Driven by every change. With background deletion the dependents go after their owner. With foreground deletion the owner
stays, held by the finalizer `foregroundDeletion`, until the dependents that block its deletion are gone. With orphaning
the dependents lose the reference and stay. Upstream: pkg/controller/garbagecollector.

Owners are looked up by uid and never by name: a new object under the name of a deleted owner is another owner. The
index is never behind the store, so an owner that it does not hold does not exist, and upstream's graph of "virtual"
owners with its look-ups at the API server is not needed. In a cluster that was restored from a part of another, owners
that are not in that part are `elsewhere`, and count as living.
"""

from collections.abc import Container

from berth_cluster.apimachinery.meta import (
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    Object,
    is_being_deleted,
    key_of,
    owner_references,
    uid_of,
    with_metadata,
    without_finalizer,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import IGNORED_KINDS, ObjectChange


class GarbageCollector(KeyedController):
    """Deletes by owner reference. A queue key is `Kind namespace/name`."""

    __slots__ = ("_elsewhere",)

    name = "garbage-collector-controller"

    def __init__(self, client: Client, elsewhere: Container[str] = ()) -> None:
        """`elsewhere` are the uids of owners that are not in this cluster, and count as living."""
        super().__init__(client)
        self._elsewhere = elsewhere

    def handle(self, change: ObjectChange) -> None:
        """Look at objects that get owners, at owners that wait, and at the dependents of what is gone."""
        if change.kind in IGNORED_KINDS:
            return
        if change.type == "DELETED":
            self._wake_dependents(uid_of(change.obj))
            self._wake_owners(change.obj)
            return
        if is_being_deleted(change.obj):
            if _waits(change.obj):
                self.look_up(change.kind, key_of(change.obj))
                return
            self._wake_owners(change.obj)
        owners = owner_references(change.obj)
        are_new = change.old is None or owner_references(change.old) != owners
        if are_new and any(self._is_gone(reference, change.obj) for reference in owners):
            self.look_up(change.kind, key_of(change.obj))

    def _wake_dependents(self, uid: str) -> None:
        for kind, dependent in self.index.dependents(uid):
            self.look_up(kind, key_of(dependent))

    def _wake_owners(self, obj: Object) -> None:
        for reference in owner_references(obj):
            found = self.index.by_uid(reference["uid"])
            if found is not None and is_being_deleted(found[1]) and _waits(found[1]):
                self.look_up(found[0], key_of(found[1]))

    def sync(self, obj: Object, now_s: float) -> None:
        """Collect one object, or release it if it waits for its dependents."""
        kind = self.index.kind_of(obj)
        if is_being_deleted(obj):
            self._release_owner(kind, obj)
        elif owner_references(obj):
            self._collect(kind, obj)

    def _collect(self, kind: str, obj: Object) -> None:
        """Delete an object whose owners are all gone; drop the references to those that are, if others live."""
        living = [ref for ref in owner_references(obj) if not self._is_gone(ref, obj)]
        if len(living) == len(owner_references(obj)):
            return
        if living:
            self.client.update(kind, with_metadata(obj, ownerReferences=living))
        else:
            self.client.delete(kind, obj)

    def _is_gone(self, reference: Object, dependent: Object) -> bool:
        """The owner does not exist, or lives in another namespace, where no reference reaches."""
        found = self.index.by_uid(reference["uid"])
        if found is None:
            return reference["uid"] not in self._elsewhere
        namespace = found[1]["metadata"].get("namespace")
        return namespace is not None and namespace != dependent["metadata"].get("namespace")

    def _stays(self, reference: Object, dependent: Object) -> bool:
        """The owner lives, and does not wait for its dependents to go."""
        found = self.index.by_uid(reference["uid"])
        is_going = found is not None and is_being_deleted(found[1])
        return not self._is_gone(reference, dependent) and not (
            is_going and found is not None and FOREGROUND_FINALIZER in (found[1]["metadata"].get("finalizers") or [])
        )

    def _release_owner(self, kind: str, obj: Object) -> None:
        """One step of a foreground deletion, or all of an orphaning.

        The owner's finalizer is removed last: a collector that is interrupted before that finds the owner still waiting
        and does the rest.
        """
        finalizers = obj["metadata"].get("finalizers") or []
        if ORPHAN_FINALIZER in finalizers:
            self._orphan(obj)
            self.client.update(kind, without_finalizer(obj, ORPHAN_FINALIZER))
        elif FOREGROUND_FINALIZER in finalizers and not self._delete_dependents(obj):
            self.client.update(kind, without_finalizer(obj, FOREGROUND_FINALIZER))

    def _orphan(self, owner: Object) -> None:
        for kind, dependent in self.index.dependents(uid_of(owner)):
            kept = [ref for ref in owner_references(dependent) if ref["uid"] != uid_of(owner)]
            self.client.update(kind, with_metadata(dependent, ownerReferences=kept))

    def _delete_dependents(self, owner: Object) -> bool:
        """Delete what depends on the owner alone, and release the rest; True while something blocks its deletion."""
        for kind, dependent in self.index.dependents(uid_of(owner)):
            if not is_being_deleted(dependent):
                if staying := [ref for ref in owner_references(dependent) if self._stays(ref, dependent)]:
                    self.client.update(kind, with_metadata(dependent, ownerReferences=staying))
                    continue
                below = [found for _, found in self.index.dependents(uid_of(dependent))]
                if any(is_being_deleted(one) and _waits(one) for one in below):
                    # In a circle each would wait for the next, so that this one lets its owners go.
                    freed = [{**ref, "blockOwnerDeletion": False} for ref in owner_references(dependent)]
                    dependent = self.client.update(kind, with_metadata(dependent, ownerReferences=freed))
                self.client.delete(kind, dependent, policy="Foreground" if below else "Background")
        return any(_blocks(dependent, owner) for _, dependent in self.index.dependents(uid_of(owner)))


def _waits(obj: Object) -> bool:
    finalizers = obj["metadata"].get("finalizers") or []
    return FOREGROUND_FINALIZER in finalizers or ORPHAN_FINALIZER in finalizers


def _blocks(dependent: Object, owner: Object) -> bool:
    return any(
        reference["uid"] == uid_of(owner) and reference.get("blockOwnerDeletion")
        for reference in owner_references(dependent)
    )
