"""All objects of one resource: by namespace and name, with the recent changes and the open watches.

Used by the store alone. The history is what lets a watch start in the past, and all pages of a list show one state: the
changes after a revision, undone one by one from the present backwards, give the objects as they were at that revision.
That works for every revision from `forgotten` on; for older ones clients are told to list again (410).
"""

from collections import deque
from collections.abc import Iterator

from berth_cluster.apimachinery.errors import expired, too_old
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.selection import Matcher
from berth_cluster.storage.watch import Entry, EntryView, StoreChange, Watch, WatchEvent

WATCH_QUEUE_LIMIT = 200_000  # events a watcher may lag behind before it has to list again


class Collection:
    """The objects of one resource, the changes that led to them, and the watches on them."""

    __slots__ = ("_history", "_namespaces", "forgotten", "resource", "watches")

    def __init__(self, resource: ResourceType, history: int) -> None:
        self.resource = resource
        self.watches: list[Watch] = []
        self.forgotten = 0  # the newest revision whose change is no longer in the history
        self._history: deque[StoreChange] = deque(maxlen=history)
        self._namespaces: dict[str, dict[str, Entry]] = {}

    def find(self, namespace: str, name: str) -> Entry | None:
        """One object, if it is there."""
        objects = self._namespaces.get(namespace)
        return None if objects is None else objects.get(name)

    def holds(self, namespace: str, name: str) -> bool:
        """Whether an object has that name."""
        return self.find(namespace, name) is not None

    def entries(self, namespace: str = "") -> Iterator[Entry]:
        """All objects, or those of a namespace, in no particular order."""
        if namespace:
            yield from self._namespaces.get(namespace, {}).values()
            return
        for objects in self._namespaces.values():
            yield from objects.values()

    def sorted_entries(self, namespace: str = "") -> list[Entry]:
        """All objects in the order in which a list shows them: by namespace, then name."""
        spaces = [namespace] if namespace else sorted(self._namespaces)
        listed: list[Entry] = []
        for space in spaces:
            objects = self._namespaces.get(space, {})
            listed.extend(objects[name] for name in sorted(objects))
        return listed

    def entries_at(self, revision: int, namespace: str = "") -> list[Entry]:
        """The sorted list as it was at a past revision; 410 when the history does not reach back so far."""
        if revision < self.forgotten:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter."
            )
        then = {_place(entry): entry for entry in self.entries(namespace)}
        for change in reversed(self._history):
            if change.entry.revision <= revision:
                break
            place = _place(change.entry)
            if namespace and place[0] != namespace:
                continue
            if change.old is None:
                then.pop(place, None)
            else:
                then[place] = change.old
        return [then[place] for place in sorted(then)]

    def apply(self, change: StoreChange) -> None:
        """Carry out a change, remember it, and offer it to the watches."""
        namespace, name = _place(change.entry)
        if change.type == "DELETED":
            del self._namespaces[namespace][name]
        else:
            self._namespaces.setdefault(namespace, {})[name] = change.entry
        # The deque is about to drop its oldest change. What was before that change can no longer be restored, but the
        # state right after it still can, so `forgotten` is the revision of that change itself.
        if len(self._history) == self._history.maxlen:
            self.forgotten = self._history[0].entry.revision
        self._history.append(change)
        for watch in tuple(self.watches):
            watch.offer(change)

    def watch(self, namespace: str, matches: Matcher | None, since: int | None, view: EntryView | None = None) -> Watch:
        """Open a watch of the changes after revision `since`; None means the present objects first, as ADDED."""
        watch = Watch(namespace, matches, WATCH_QUEUE_LIMIT, self._closed, view)
        if since is None:
            for entry in self.sorted_entries(namespace):
                if matches is None or matches(entry.obj):
                    watch.push(WatchEvent("ADDED", entry))
        else:
            self._replay(watch, since)
        self.watches.append(watch)
        return watch

    def _replay(self, watch: Watch, since: int) -> None:
        if since < self.forgotten:
            raise too_old(since, self.forgotten)
        missed: list[StoreChange] = []
        for change in reversed(self._history):
            if change.entry.revision <= since:
                break
            missed.append(change)
        for change in reversed(missed):
            watch.offer(change)

    def _closed(self, watch: Watch) -> None:
        if watch in self.watches:
            self.watches.remove(watch)


def _place(entry: Entry) -> tuple[str, str]:
    meta = entry.obj["metadata"]
    return (meta.get("namespace", ""), meta["name"])
