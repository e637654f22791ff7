"""All objects of one resource: by namespace and name, with the recent changes and the open watches.

Used by the store alone. The history is what lets a watch start in the past, and all pages of a list show one state: the
changes after a revision, undone one by one from the present backwards, give the objects as they were at that revision.
That works for every revision from `forgotten` on; for older ones clients are told to list again (410).

The history is bounded twice, by the number of changes and by their size as JSON: twenty thousand changes of small
objects are worth keeping, twenty thousand versions of an object of a megabyte are not. A change is sized by the version
that it wrote; the version before it has been paid for by the change that wrote that one.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from berth_cluster.apimachinery.errors import StoreError, expired, too_old
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.selection import Matcher
from berth_cluster.storage.watch import Entry, EntryView, StoreChange, Watch, WatchLimits

Place = tuple[str, str]
"""Namespace (empty for cluster-wide objects) and name."""

MAX_HISTORY_BYTES = 16 * 1024 * 1024  # of each resource, counted as JSON
FRESH_CHANGES = 100  # more than anybody who keeps up has not looked at yet


@dataclass(slots=True, eq=False, repr=False)
class Collection:
    """The objects of one resource, the changes that led to them, and the watches on them."""

    resource: ResourceType
    _max_changes: int
    _max_history_bytes: int = MAX_HISTORY_BYTES
    watches: dict[Watch, None] = field(default_factory=dict, init=False)
    """In the order in which they were opened."""
    forgotten: int = field(default=0, init=False)
    """The newest revision whose change is no longer in the history."""
    _count: int = field(default=0, init=False)
    _history: deque[StoreChange] = field(default_factory=deque, init=False)
    _history_bytes: int = field(default=0, init=False)
    _fresh: deque[StoreChange] = field(default_factory=deque, init=False)
    """The last changes of the history, whose objects are still decoded."""
    _namespaces: dict[str, "_Namespace"] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return self._count

    @property
    def history_bytes(self) -> int:
        """The size of the kept changes as JSON."""
        return self._history_bytes

    def find(self, namespace: str, name: str) -> Entry | None:
        """One object, if it is there."""
        space = self._namespaces.get(namespace)
        return None if space is None else space.objects.get(name)

    def entries(self, namespace: str = "") -> Iterator[Entry]:
        """All objects, or those of a namespace, in no particular order."""
        if namespace:
            space = self._namespaces.get(namespace)
            if space is not None:
                yield from space.objects.values()
            return
        for space in self._namespaces.values():
            yield from space.objects.values()

    def sorted_entries(self, namespace: str = "", after: Place | None = None) -> list[Entry]:
        """All objects in the order in which a list shows them, by namespace, then name; those behind a place only."""
        listed: list[Entry] = []
        for space_name in [namespace] if namespace else sorted(self._namespaces):
            space = self._namespaces.get(space_name)
            if space is not None:
                objects = space.objects
                listed.extend([objects[name] for name in _behind(space.sorted_names(), space_name, after)])
        return listed

    def entries_at(self, revision: int, namespace: str = "", after: Place | None = None) -> list[Entry]:
        """The sorted list as it was at a past revision; 410 when the history does not reach back so far."""
        if revision < self.forgotten:
            raise _forgotten_list(is_page=after is not None)
        undone = self._undone(revision, namespace)
        if not undone:
            return self.sorted_entries(namespace, after)
        now = self.sorted_entries(namespace, after)
        kept = [entry for entry in now if entry.place not in undone]
        back = [entry for place, entry in undone.items() if entry is not None and (after is None or place > after)]
        # Two sorted runs, which Python's sort merges in linear time.
        back.sort(key=_place)
        return sorted([*kept, *back], key=_place)

    def _undone(self, revision: int, namespace: str) -> dict[Place, Entry | None]:
        """What was at the places that have changed since a revision; None where there was nothing."""
        changes = ((change.entry.place, change.old) for change in self._newest_first(revision))
        # An older change of the same place overrules a newer one.
        return {place: old for place, old in changes if not namespace or place[0] == namespace}

    def _newest_first(self, revision: int) -> Iterator[StoreChange]:
        """The changes after a revision."""
        return takewhile(lambda change: change.entry.revision > revision, reversed(self._history))

    def apply(self, change: StoreChange) -> None:
        """Carry out a change, remember it, and offer it to the watches."""
        namespace, name = change.entry.place
        if change.type == "DELETED":
            space = self._namespaces[namespace]
            space.drop(name)
            self._count -= 1
            if not space.objects:
                del self._namespaces[namespace]
        else:
            self.put(change.entry)
        self._remember(change)
        for watch in tuple(self.watches):
            watch.offer(change)

    def put(self, entry: Entry) -> None:
        """Put an object in its place, and tell nobody."""
        namespace, name = entry.place
        self._count += self._namespaces.setdefault(namespace, _Namespace()).put(name, entry)

    def _remember(self, change: StoreChange) -> None:
        self._history.append(change)
        self._history_bytes += change.entry.size
        self._fresh.append(change)
        if len(self._fresh) > FRESH_CHANGES:
            self._fresh.popleft().lay_away()
        # What was before a change that is dropped can no longer be restored, but the state right after it still can,
        # so `forgotten` is the revision of that change itself.
        while len(self._history) > self._max_changes or self._history_bytes > self._max_history_bytes:
            oldest = self._history.popleft()
            self._history_bytes -= oldest.entry.size
            self.forgotten = oldest.entry.revision

    def watch(
        self,
        namespace: str,
        matches: Matcher | None,
        since: int | None,
        now: int,
        limits: WatchLimits,
        view: EntryView | None = None,
    ) -> Watch:
        """Open a watch of the changes after revision `since`; None means the objects at `now` first, as ADDED."""
        watch = Watch(namespace, matches, limits, self._closed, now, view)
        if since is None:
            watch.begin_with(self.sorted_entries(namespace))
        else:
            if since < self.forgotten:
                raise too_old(since, self.forgotten)
            watch.catch_up([*self._newest_first(since)][::-1])
        if not watch.overflowed:
            self.watches[watch] = None
        return watch

    def end_watches(self) -> None:
        """Have all watches begin again."""
        for watch in tuple(self.watches):
            watch.end()

    def _closed(self, watch: Watch) -> None:
        self.watches.pop(watch, None)


class _Namespace:
    """The objects of one namespace. Their names are sorted when a list asks, not at every write.

    New names wait behind the sorted ones. The sort that follows finds one long sorted run and a short tail, which takes
    time in proportion to the number of names and no more.
    """

    __slots__ = ("_has_gone", "_has_new", "_names", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, Entry] = {}
        self._names: list[str] = []
        self._has_new = False
        self._has_gone = False

    def put(self, name: str, entry: Entry) -> bool:
        """Put an object in its place; whether the place was empty."""
        is_new = name not in self.objects
        if is_new:
            self._names.append(name)
            self._has_new = True
        self.objects[name] = entry
        return is_new

    def drop(self, name: str) -> None:
        del self.objects[name]
        self._has_gone = True
        # Names that come and go without ever being listed must not pile up.
        if len(self._names) > 2 * len(self.objects) + 1000:
            self._tidy()

    def sorted_names(self) -> list[str]:
        self._tidy()
        return self._names

    def _tidy(self) -> None:
        if self._has_gone:
            # A name may be here twice, if it went and came again.
            objects = self.objects
            self._names = [name for name in dict.fromkeys(self._names) if name in objects]
            self._has_gone = False
        if self._has_new:
            self._names.sort()
            self._has_new = False


def _behind(names: list[str], namespace: str, after: Place | None) -> Iterable[str]:
    """Of the sorted names of a namespace those behind a place."""
    if after is None or namespace > after[0]:
        return names
    return names[bisect_right(names, after[1]) :] if namespace == after[0] else ()


def _place(entry: Entry) -> Place:
    return entry.place


def _forgotten_list(*, is_page: bool) -> StoreError:
    if not is_page:
        return expired("The resourceVersion for the provided list is too old.")
    return expired(
        "The provided continue parameter is too old to display a consistent list result. "
        "You can start a new list without the continue parameter."
    )
