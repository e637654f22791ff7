"""The embedded cluster's object store: what etcd and the API server's registry do, in memory and synchronous.

The HTTP server, the in-process transport, controllers, hollow nodes and simulations all come here with JSON objects;
they get the stored objects back, or a `StoreError` in the API server's words.

Invariants:

- One counter for the whole store, `revision`, is raised by every write, and the object written carries it as its
  resourceVersion. So resourceVersions order all writes, and "everything up to revision N" is one state of the cluster.
- A write is offered to the open watches before the call returns. Subscribers are told of all writes in the order of
  revisions, of one that a subscriber makes after the one that it is being told of.
- An object that is in the store is never edited, only replaced. What the store hands out is therefore shared without
  copying: callers must not edit it, but make a new object of what they want to change and write that. What callers hand
  in is copied, so that they may go on using it; only what the server has decoded for a `writer` is the store's to keep.

Events are kept for an hour after they were last written, as upstream, and are not kept for ever by anybody else either:
every write of an event lets some go whose time has come, and the server that runs a store in real time calls
`expire_events`.

Nothing here sleeps, opens sockets or reads the wall clock: the clock, the uids and the name suffixes are passed in.
"""

import random
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from berth.api.untrusted import shortened
from berth_cluster.apimachinery.errors import (
    StoreError,
    already_exists,
    bad_request,
    no_such_path,
    not_found,
    too_large,
)
from berth_cluster.apimachinery.field_checks import check_patched, check_types
from berth_cluster.apimachinery.meta import Object, is_being_deleted, is_condition_true, timestamp, without_finalizer
from berth_cluster.apimachinery.patches import PATCH_TYPES, apply_patch
from berth_cluster.apimachinery.resource_types import (
    DEFINITIONS,
    DISRUPTION_BUDGETS,
    EVENTS,
    NAMESPACES,
    NEW_EVENTS,
    PODS,
    RESOURCE_TYPES,
    Addressed,
    ResourceKey,
    ResourceType,
    resource_type,
)
from berth_cluster.apimachinery.selection import Matcher, make_matcher
from berth_cluster.custom.version import CustomType
from berth_cluster.storage import binding, bootstrap, custom_kinds, deletion, eviction, metadata, quotas, scale
from berth_cluster.storage.api_versions import ApiView, addressed_type, view_of
from berth_cluster.storage.collection import MAX_HISTORY_BYTES, Collection, Place
from berth_cluster.storage.custom_kinds import CustomKinds
from berth_cluster.storage.event_expiry import EVENT_TTL_S, MAX_EVENTS, EventExpiry
from berth_cluster.storage.field_managers import FieldManagers, Permit, Writer
from berth_cluster.storage.object_file import ObjectFile, SavedObject
from berth_cluster.storage.watch import ChangeType, Entry, StoreChange, Watch, WatchLimits
from berth_cluster.strategies.registry import strategy_of

Objects = list[Object]  # named here because `list` is a method inside the class
Entries = list[Entry]
BindingLog = deque[binding.BindingRecord]
Subscriber = Callable[[ChangeType, ResourceType, Object, Object | None], None]

MAX_OBJECT_BYTES = 1536 * 1024  # as JSON; what etcd takes in one request
MAX_BINDINGS = 50_000  # records of bindings that are kept
DEFAULT_HISTORY = 20_000  # changes kept of each resource, for watches that resume

_encode = msgspec.json.encode
_decode = msgspec.json.decode


class Store:
    """All objects of a cluster."""

    __slots__ = ("_collections", "_dispatching", "_expiry", "_new_collection", "_subscribers", "_undelivered",
                 "_watch_limits", "bindings", "clock", "custom", "idle", "kept", "managers", "new_suffix", "new_uid",
                 "revision", "service_accounts")  # fmt: skip

    def __init__(
        self,
        clock: Callable[[], datetime],
        *,
        uid_factory: Callable[[], str] | None = None,
        rng: random.Random | None = None,
        history: int = DEFAULT_HISTORY,
        history_bytes: int = MAX_HISTORY_BYTES,
        watch_limits: WatchLimits | None = None,
        event_ttl_s: float = EVENT_TTL_S,
        max_events: int = MAX_EVENTS,
        system_objects: bool = True,
        service_accounts: bool = False,
        kept: ObjectFile | None = None,
    ) -> None:
        """A store with the objects that are `kept`; `system_objects` adds to an empty one those of every cluster.

        With `service_accounts`, pods without an account get the one that `NamespaceContents` makes. An API server alone
        does neither.
        """
        self.clock = clock
        self.new_uid = uid_factory or _random_uid
        self.new_suffix = metadata.suffixes(rng or random.Random())
        self.revision = 0
        self.bindings: BindingLog = deque(maxlen=MAX_BINDINGS)
        self._new_collection = partial(Collection, _max_changes=history, _max_history_bytes=history_bytes)
        self._collections: dict[ResourceKey, Collection] = {
            kind.key: self._new_collection(kind) for kind in RESOURCE_TYPES if kind is not NEW_EVENTS
        }
        self._collections[NEW_EVENTS.key] = self._collections["", "events"]
        self._watch_limits = watch_limits or WatchLimits()
        self._expiry = EventExpiry(event_ttl_s, max_events)
        self._subscribers: list[Subscriber] = [self._on_declared]
        self._undelivered: deque[StoreChange] = deque()
        self._dispatching = False
        self.custom = CustomKinds()
        self.idle: dict[ResourceKey, tuple[str, ...]] = {}
        """What clients are warned of who make objects of kinds that nothing acts on, as this cluster is set up."""
        self.managers = FieldManagers(self.custom.message_of)
        self.service_accounts = service_accounts
        self.kept = kept
        if kept is not None:
            self._begin_with(kept)
        if system_objects and not self.revision:
            for kind, obj in bootstrap.system_objects():
                self.create(kind, "", obj)

    # --- reading -------------------------------------------------------------------------------------------------

    def get(self, resource: Addressed, namespace: str, name: str, subresource: str = "") -> Object:
        """One object, or its `scale`; NotFound when it is not there."""
        kind = resource_type(resource)
        obj = self.entry(kind, namespace, name).obj
        return scale.scale_of(kind, obj) if subresource == "scale" else _shown(kind, obj)

    def shown_entry(self, kind: ResourceType, namespace: str, name: str) -> Entry:
        """The present state of an object in the API version of its resource, with its shared encoding."""
        entry = self.entry(kind, namespace, name)
        view = view_of(kind)
        return entry if view is None else view.entry(entry)

    def find(self, resource: Addressed, namespace: str, name: str) -> Object | None:
        """One object, or None."""
        kind = resource_type(resource)
        entry = self.collection(kind).find(namespace if kind.namespaced else "", name)
        return None if entry is None else _shown(kind, entry.obj)

    def list(
        self, resource: Addressed, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> tuple[Objects, str]:
        """The matching objects by namespace and name, and the resourceVersion of this view."""
        kind = resource_type(resource)
        entries = self.entries(kind, namespace, label_selector, field_selector)
        return [entry.obj for entry in entries], str(self.revision)

    def objects(self, resource: Addressed, namespace: str = "") -> Objects:
        """All objects of a resource in no particular order; cheaper than `list`, for those inside the cluster."""
        return [entry.obj for entry in self.collection(resource_type(resource)).entries(namespace)]

    def entries(
        self,
        kind: ResourceType,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        revision: int | None = None,
    ) -> Entries:
        """As `list`, but with the shared encodings, and as of a past revision if one is given."""
        matches = make_matcher(kind, label_selector, field_selector)
        found = self.snapshot(kind, namespace, revision)
        view = view_of(kind)
        if view is not None:
            found = [view.entry(entry) for entry in found]
        return found if matches is None else [entry for entry in found if matches(entry.obj)]

    def snapshot(
        self, kind: ResourceType, namespace: str = "", revision: int | None = None, after: Place | None = None
    ) -> Entries:
        """The stored entries in order, as of a revision, those behind a place only; they are not filtered.

        This is the part of a list that has to be done in one go. The entries never change, so that a reader may filter
        and encode them at leisure.
        """
        if revision is None or revision >= self.revision:
            return self.collection(kind).sorted_entries(namespace, after)
        return self.collection(kind).entries_at(revision, namespace, after)

    def watch(
        self,
        resource: Addressed,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
    ) -> Watch:
        """Changes after a resourceVersion; if that is empty or "0", the present objects come first, as ADDED."""
        kind = resource_type(resource)
        matches = make_matcher(kind, label_selector, field_selector)
        since = metadata.parse_revision(resource_version) or None
        view = view_of(kind)
        if view is not None and matches is not None:
            matches = _through(view, matches)
        shown = None if view is None else view.entry
        return self.collection(kind).watch(namespace, matches, since, self.revision, self._watch_limits, shown)

    def subscribe(self, callback: Subscriber) -> None:
        """Call back after each change with (type, resource, object, the object before it or None).

        A callback may write. The change that it makes is delivered after the one being delivered, so that all
        subscribers see all changes in the order of their revisions.
        """
        self._subscribers.append(callback)

    # --- writing -------------------------------------------------------------------------------------------------

    def create(
        self,
        resource: Addressed,
        namespace: str,
        obj: Object,
        *,
        dry_run: bool = False,
        writer: Writer | None = None,
    ) -> Object:
        """Add an object, after filling in what the API server fills in, for the client `writer`."""
        kind = resource_type(resource)
        new = own(obj) if writer is None or writer.is_apply else obj
        if writer is None:  # else the server has checked the body
            check_types(kind, new)
        new = _stored(kind, new)
        namespace = metadata.check_namespace(kind, namespace, new)
        metadata.refuse_missing_namespace(self.find(NAMESPACES, "", namespace), kind, namespace, new)
        collection = self.collection(kind)
        metadata.complete(collection.resource, namespace, new, self.now(), self.new_uid, self.new_suffix)
        strategy = strategy_of(kind)
        strategy.prepare_create(new, self)
        if writer is not None and writer.permit is not None:
            writer.permit(kind, new, None)
        strategy.validate_create(kind, new, None if writer is None else writer.empties)
        strategy.admit(new, self)
        if writer is not None:
            writer.warnings.extend((*strategy.warnings(new), *self.idle.get(kind.key, ())))
        if not metadata.has_free_name(new, partial(collection.find, namespace), self.new_suffix):
            raise already_exists(kind.plural, kind.group, new["metadata"]["name"])
        self._charge(kind, new, None, dry_run)
        if writer is not None and not dry_run:
            self.managers.created(new, writer, obj if writer.is_apply else None)
        return _shown(kind, self.commit(kind, "ADDED", new, None, dry_run=dry_run))

    def update(
        self,
        resource: Addressed,
        namespace: str,
        name: str,
        obj: Object,
        subresource: str = "",
        *,
        dry_run: bool = False,
        writer: Writer | None = None,
    ) -> Object:
        """Replace an object, or its `status`, `scale`, `resize` or `finalize` part."""
        kind = resource_type(resource)
        entry = self.entry(kind, namespace, name)
        if subresource == "scale":
            scaled = self._write(kind, entry, scale.with_scale(kind, entry.obj, obj), "", dry_run, writer)
            return scale.scale_of(kind, scaled)
        new = own(obj) if writer is None else obj
        if writer is None and not subresource:  # the status is written by controllers, which know its types
            check_types(kind, new)
        return _shown(kind, self._write(kind, entry, _stored(kind, new), subresource, dry_run, writer))

    def patch(
        self,
        resource: Addressed,
        namespace: str,
        name: str,
        patch: Any,
        content_type: str,
        subresource: str = "",
        *,
        dry_run: bool = False,
        writer: Writer | None = None,
    ) -> Object:
        """Change an object by a JSON, merge or strategic-merge patch (decoded, not bytes)."""
        kind = resource_type(resource)
        entry = self.entry(kind, namespace, name)
        if subresource == "scale":
            scaled = apply_patch(scale.scale_of(kind, entry.obj), patch, content_type)
            check_patched(scale.SCALE, scaled)
            return self.update(kind, namespace, name, scaled, "scale", dry_run=dry_run, writer=writer)
        current = _shown(kind, entry.obj)
        accepted = kind.custom.patch_types if isinstance(kind, CustomType) else PATCH_TYPES
        mine = _decode(_encode(patch)) if writer is None else patch  # parts of it become parts of the stored object
        patched = apply_patch(own(current), mine, content_type, accepted)
        unknown = check_patched(kind, patched, None if writer is None else writer.empties)
        if writer is not None and isinstance(patch, list):  # other patches are checked for fields where they come in
            writer.warnings.extend(unknown)
        return _shown(kind, self._write(kind, entry, _stored(kind, patched), subresource, dry_run, writer))

    def apply(
        self,
        resource: Addressed,
        namespace: str,
        name: str,
        applied: Object,
        writer: Writer,
        subresource: str = "",
        *,
        dry_run: bool = False,
    ) -> Object:
        """Change an object by server-side apply: 409 where another client owns a field that would change."""
        kind = resource_type(resource)
        entry = self.entry(kind, namespace, name)
        live, applied = _shown(kind, entry.obj), own(applied)
        applied.pop("status" if not subresource else "", None)
        merged, owners = self.managers.apply(live, applied, writer)
        merged = own(merged)
        check_types(kind, merged)
        written = self._write(kind, entry, _stored(kind, merged), subresource, dry_run, permit=writer.permit)
        left = None if dry_run else self.collection(kind).find(*entry.place)
        if left is not None:
            self.managers.keep(written["metadata"]["uid"], owners)
            if self.kept is not None:  # once more, now that it is known who owns what
                self.kept.note(self.collection(kind).resource.key, left, is_gone=False)
        return _shown(kind, written)

    def delete(
        self,
        resource: Addressed,
        namespace: str,
        name: str,
        options: Object | None = None,
        *,
        dry_run: bool = False,
    ) -> Object:
        """Delete an object, or mark it as being deleted; returns its last state, or the one in which it waits."""
        kind = resource_type(resource)
        entry = self.entry(kind, namespace, name)
        new, is_gone = deletion.deleted(kind, entry.obj, options or {}, self.clock())
        if new == entry.obj and not is_gone:
            return _shown(kind, entry.obj)
        return _shown(kind, self.commit(kind, "DELETED" if is_gone else "MODIFIED", new, entry, dry_run=dry_run))

    def bind(self, namespace: str, name: str, body: Object, *, dry_run: bool = False) -> None:
        """Assign a pod to a node; every call is recorded in `bindings`."""
        node = binding.target_node(body)
        pod = self.find(PODS, namespace, name)
        asked = (body.get("metadata") or {}).get("uid")  # another pod than the one of that name by now, perhaps
        uid = str(asked or ("" if pod is None else pod["metadata"]["uid"]))
        try:
            entry = self.entry(PODS, namespace, name)
            self.commit(PODS, "MODIFIED", binding.bound(entry.obj, node, body, self.now()), entry, dry_run=dry_run)
        except StoreError as error:
            why, now = error.message, self.now()
            self.bindings.append(binding.BindingRecord(uid, namespace, name, node, False, why, self.revision, now))
            raise
        if not dry_run:
            self.bindings.append(binding.BindingRecord(uid, namespace, name, node, True, "", self.revision, self.now()))

    def evict(self, namespace: str, name: str, body: Object | None = None, *, dry_run: bool = False) -> None:
        """Delete a pod if its disruption budget allows that; 429 if it does not."""
        pod = self.entry(PODS, namespace, name).obj
        options = eviction.delete_options(pod, name, body or {})
        budget = eviction.budget_to_spend(pod, self.objects(DISRUPTION_BUDGETS, namespace))
        if budget is not None:
            spent = eviction.spent(budget, name, self.now())
            self.update(DISRUPTION_BUDGETS, namespace, budget["metadata"]["name"], spent, "status", dry_run=dry_run)
        target = eviction.disruption_target(pod, self.now())
        self.update(PODS, namespace, name, target, "status", dry_run=dry_run)
        self.delete(PODS, namespace, name, options, dry_run=dry_run)

    # --- for those inside the cluster ----------------------------------------------------------------------------

    def now(self) -> str:
        """The time as a `metav1.Time`."""
        return timestamp(self.clock())

    def collection(self, kind: ResourceType) -> Collection:
        """Where a resource's objects are kept."""
        found = self._collections.get(kind.key)
        if found is None:  # a custom resource that is no longer there
            raise no_such_path()
        return found

    def addressed(self, resource: Addressed) -> ResourceType:
        """What `resource` names, in its version if it says one; raises `StoreError` (404) where there is none."""
        return self.custom.addressed(resource) or addressed_type(resource)

    def entry(self, kind: ResourceType, namespace: str, name: str) -> Entry:
        """The present version of an object; NotFound when it is not there."""
        entry = self.collection(kind).find(namespace if kind.namespaced else "", name)
        if entry is None:
            raise not_found(kind.plural, kind.group, name)
        return entry

    def commit(
        self, kind: ResourceType, change_type: ChangeType, obj: Object, old: Entry | None, *, dry_run: bool = False
    ) -> Object:
        """Store a complete object under the next resourceVersion and tell everybody.

        From here on the object is shared and must not be edited. This is the only place that changes what is stored.
        """
        if not dry_run:
            obj["metadata"]["resourceVersion"] = str(self.revision + 1)
        entry = Entry(obj, self.revision + 1)
        if entry.size > MAX_OBJECT_BYTES and (old is None or entry.size > old.size):
            raise too_large(f"the object has {entry.size} bytes as JSON; at most {MAX_OBJECT_BYTES} are stored")
        if dry_run:
            return obj
        self.revision += 1
        collection = self.collection(kind)
        change = StoreChange(collection.resource, change_type, entry, old)
        collection.apply(change)
        if change_type == "DELETED":
            self.managers.gone(obj["metadata"]["uid"])
        if self.kept is not None:
            self.kept.note(collection.resource.key, entry, is_gone=change_type == "DELETED")
        self._tell_subscribers(change)
        if collection.resource is EVENTS and change_type != "DELETED":
            self._expiry.written(entry, self.clock().timestamp())
            self.expire_events(at_most=2)  # more than one is written, so that the old ones cannot pile up
        return obj

    @property
    def is_ahead(self) -> bool:
        """Whether there is a file, and it does not hold the present state."""
        return self.kept is not None and self.kept.is_behind

    def flush(self) -> None:
        """Have the file, if there is one, hold the present state: to be called before anything of it is told.

        Raises `ObjectFileError` when that cannot be written; then nothing of it may be told.
        """
        if self.kept is not None:
            self.kept.write(self.revision, self.clock().timestamp(), self.managers.saved)

    def close(self) -> None:
        """Flush for the last time, and let go of the file."""
        if self.kept is not None:
            with suppress(StoreError):  # which is known where it matters
                self.flush()
            self.kept.close()

    def _begin_with(self, kept: ObjectFile) -> None:
        """Take over the objects of a file. The history begins here; watches of what was before are refused (410)."""
        self.revision = kept.found_revision
        for collection in self._collections.values():
            collection.forgotten = self.revision
        for saved in kept.read():
            found = self._collections.get(saved.key)
            if found is None:
                raise kept.unreadable(f"it holds {'.'.join(reversed(saved.key))}, which nothing declares")
            try:
                self._take(found, saved)
            except (msgspec.MsgspecError, ValueError, LookupError, TypeError, AttributeError, StoreError) as error:
                name = f"{'/'.join(saved.key)} {saved.namespace}/{saved.name}"
                raise kept.unreadable(f"{name} is damaged ({shortened(str(error))})") from None

    def _take(self, collection: Collection, saved: SavedObject) -> None:
        entry = Entry(_decode(saved.encoded), saved.revision, saved.encoded)
        if entry.place != (saved.namespace, saved.name):
            raise ValueError("it has another name")
        uid = entry.obj["metadata"]["uid"]
        if saved.owners is not None:
            self.managers.load(uid, saved.owners)
        collection.put(entry)
        if collection.resource is DEFINITIONS:
            self._declare(entry.obj)
        elif collection.resource is EVENTS:
            self._expiry.written(entry, saved.written_s)

    def expire_events(self, at_most: int = 1000) -> int:
        """Let events go whose time has come; the number of those that went."""
        collection, now_s = self.collection(EVENTS), self.clock().timestamp()
        gone = self._expiry.due(collection, now_s, at_most)
        for entry in gone:
            last = {**entry.obj, "metadata": dict(entry.obj["metadata"])}
            self.commit(EVENTS, "DELETED", last, entry)
        return len(gone)

    def _write(
        self,
        kind: ResourceType,
        entry: Entry,
        new: Object,
        subresource: str,
        dry_run: bool,
        writer: Writer | None = None,
        permit: Permit | None = None,
    ) -> Object:
        permit = permit if writer is None else writer.permit
        metadata.check_update(kind, entry, new)
        new = metadata.carry_over(self.collection(kind).resource, entry, new, subresource)
        strategy = strategy_of(kind)
        strategy.prepare_update(new, entry.obj, subresource, self)
        if permit is not None:
            permit(kind, new, entry.obj)
        strategy.validate_update(kind, new, entry.obj, subresource, None if writer is None else writer.empties)
        if strategy.change_admission is not None and not subresource:
            strategy.change_admission(new, entry.obj, self)
        # A write that changes nothing is no write, as upstream: no new resourceVersion, no event. The caller may have
        # left the resourceVersion out (which means "whatever the present one is"), so it must not count as a
        # difference.
        new["metadata"]["resourceVersion"] = entry.obj["metadata"]["resourceVersion"]
        if new == entry.obj:
            return entry.obj
        if subresource != "status":
            self._charge(kind, new, entry.obj, dry_run)
        metadata.count_generation(kind, entry, new)
        if writer is not None and not dry_run:
            self.managers.updated(entry.obj, new, writer)
        if writer is not None and not subresource:
            writer.warnings.extend(strategy.change_warnings(new, entry.obj))
            if new["metadata"].get("generation") != entry.obj["metadata"].get("generation"):
                writer.warnings.extend(self.idle.get(kind.key, ()))
        change_type: ChangeType = "DELETED" if deletion.is_finished(kind, new) else "MODIFIED"
        return self.commit(kind, change_type, new, entry, dry_run=dry_run)

    def _charge(self, kind: ResourceType, new: Object, old: Object | None, dry_run: bool) -> None:
        charged = quotas.charged(self, self.custom.stored(), kind, new, old)
        for quota in () if dry_run else charged:
            self.update(quotas.QUOTAS, quota["metadata"]["namespace"], quota["metadata"]["name"], quota, "status")

    def _on_declared(self, change_type: str, kind: ResourceType, obj: Object, _old: Object | None) -> None:
        # The first to be told of a change, so that nobody sees one before the kinds have followed it.
        if isinstance(kind, CustomType) and change_type == "DELETED":
            self._settle(kind.custom.definition)
        elif kind is DEFINITIONS:
            self._settle(obj["metadata"]["name"])
            if change_type == "DELETED" or is_condition_true(obj, "Established"):
                for other in self.objects(DEFINITIONS):  # which may have waited for a name
                    if not is_condition_true(other, "NamesAccepted"):
                        self._settle(other["metadata"]["name"])

    def _settle(self, name: str) -> None:
        """Bring everything about a definition up to date with it."""
        definition = self.find(DEFINITIONS, "", name)
        if definition is None:
            gone = self.custom.drop(name)
            if gone is not None:
                self._collections.pop(gone.key).end_watches()
            return
        status = custom_kinds.status_of(definition, self.objects(DEFINITIONS), self.now())
        if status == definition["status"]:
            self._declare(definition)
            if not is_being_deleted(definition):
                return
            kind = self.custom.declared_by(name)
            if kind is not None:
                for entry in list(self.collection(kind).entries()):
                    if not is_being_deleted(entry.obj):
                        self.delete(kind, *entry.place)
            if kind is None or not len(self.collection(kind)):
                definition = without_finalizer(self.entry(DEFINITIONS, "", name).obj, deletion.CLEANUP_FINALIZER)
                self.update(DEFINITIONS, "", name, definition)
                return
            status = custom_kinds.waiting_for_objects(status, self.now())
        self.update(DEFINITIONS, "", name, {**definition, "status": status}, "status")  # which comes here again

    def _declare(self, definition: Object) -> None:
        """Keep objects of what a definition declares, or keep them as those of a resource that has changed."""
        declared = self.custom.declare(definition)
        if declared is None:
            return
        kind, is_another = declared
        known = self._collections.get(kind.key)
        if known is None:
            self._collections[kind.key] = known = self._new_collection(kind)
            known.forgotten = self.revision  # there may have been one of that name before
        known.resource = kind
        if is_another:
            known.end_watches()

    def _tell_subscribers(self, change: StoreChange) -> None:
        # A subscriber that writes comes here again while the loop below is running; its change waits in the queue, so
        # that no subscriber hears of it before it has heard of the change that caused it.
        self._undelivered.append(change)
        if self._dispatching:
            return
        self._dispatching = True
        try:
            while self._undelivered:
                told = self._undelivered.popleft()
                before = None if told.old is None else told.old.obj
                for callback in tuple(self._subscribers):
                    callback(told.type, told.resource, told.entry.obj, before)
        finally:
            self._dispatching = False


def own(obj: Object) -> Object:
    """A private copy of a JSON object; refuses what is not one. Encoding and decoding is faster than deepcopy."""
    try:
        copy = _decode(_encode(obj))
    except (TypeError, ValueError) as error:
        raise bad_request(f"the object is not JSON: {error}") from None
    if not isinstance(copy, dict):
        raise bad_request(f"expected a JSON object, not {type(obj).__name__}")
    return copy


def _shown(kind: ResourceType, obj: Object) -> Object:
    view = view_of(kind)
    return obj if view is None else view.from_stored(obj)


def _stored(kind: ResourceType, obj: Object) -> Object:
    view = view_of(kind)
    return obj if view is None else view.to_stored(obj)


def _through(view: ApiView, matches: Matcher) -> Matcher:
    return lambda obj: matches(view.from_stored(obj))


def _random_uid() -> str:
    return str(uuid.uuid4())
