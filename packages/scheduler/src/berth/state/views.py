"""What is remembered of a cluster: views, and the memory that keeps them.

A view is something derived from the rows of a node table, from counters, and from other views. One operation brings it
up to date, and nothing else decides what is stale:

    node log, pod log, ─→ columns, by plugin and ─→ mask of what passes ─┐
    nominations,          what it reads of the      weighted total      ─┴→ ranking, whole or by domain ─→ best rows
    counters              pod                       rejections

    up to date?   neither a log nor a counter has moved since the view was last verified
    rows          its inputs, brought up to date first, have their epochs, and its counters stand where they stood:
                  then only the rows that the logs name since may have changed, and only these are worked out again
    all           anything else

What that takes to be right is on one page, docs/memory.md, with the test of each sentence. Decisions never depend on
what is remembered: with `enabled` off every view is a new one, and is computed as a whole.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.api.recent import Recent
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.table import NodeTable

NEVER = -1
"""The moment at which a view was verified that holds nothing, or that must be computed anew each time."""

NODES, PODS, NOMINATIONS = range(3)
"""What names the rows that have changed: the log of nodes, that of pods besides, that of nominations besides."""

Positions = tuple[int, int, int]
"""Where these logs stand."""

NOWHERE: Positions = (NEVER, NEVER, NEVER)

REPAIR_AT_MOST = 4
"""Rows are worked out one by one while fewer than one in this many has changed, and all of them otherwise."""

FEW_ROWS = 8
"""Up to this many rows are worked out as single numbers: arrays have a fixed cost."""

VIEW_BYTES = 1 << 10
"""What a view takes up besides its arrays and what is said in its key."""

MAX_BYTES = 96 << 20
"""What is remembered may take up so much."""

YOUNG_BYTES = 1 << 20
"""What was asked for in a single turn may take up so much of it: pods that are all different would fill the rest with
what is never used again, and new memory costs more than what has just been given back.
"""

KNOWN_AT_MOST = 1 << 13
"""Of so many views that were asked for in a single turn it is remembered that they were."""

MAX_POSITIONS = 16
"""For how many positions the rows changed since are kept."""

V = TypeVar("V", bound="View")


class ChangedRows:
    """Rows that have changed, each once, ascending."""

    __slots__ = ("_array", "rows")

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        self._array: NDArray[np.intp] | None = None

    def array(self) -> NDArray[np.intp]:
        """Return them as an array, always the same one: plugins cache what they have read for the rows of an array."""
        if self._array is None:
            self._array = np.array(self.rows, dtype=np.intp)
        return self._array


class View:
    """Something derived from rows, counters and other views, its inputs.

    Subclasses say how all of it is computed, and how some rows are; what they compute follows from the rows' contents,
    their inputs, their counters, and what the view is about (`asking` only carries the pod to ask plugins with, and all
    pods that get to a view are alike in what its plugins read).
    """

    __slots__ = (
        "_compared_at", "_positions", "_sources", "_steady", "born", "epoch", "follows", "held", "inputs", "key",
        "key_bytes", "used", "verified",
    )  # fmt: skip

    follows: int

    def __init__(self, inputs: "Sequence[View]" = (), follows: int = NODES) -> None:
        """`follows` says which logs name rows that have changed, besides those that the inputs follow."""
        self.inputs = inputs
        self.follows = max([follows, *[view.follows for view in inputs]]) if inputs else follows
        self.key: Hashable = None
        """Its key in the memory; None if it is not kept there."""
        self.key_bytes = 0
        """How much its key says, in bytes of JSON."""
        self.held = 0
        """How many bytes the memory counts for it; 0 while it is not kept."""
        self.born = self.used = 0
        """The turns in which it was first computed and kept, and last asked for."""
        self._forget()

    def _forget(self) -> None:
        self.epoch = 0
        """Grows whenever all of it is computed, over all views; 0 while nothing is."""
        self.verified = self._steady = self._compared_at = NEVER
        self._positions = NOWHERE
        self._sources: list[Hashable] | None = None

    def bring_up_to_date(self, memory: "Memory", asking: Any) -> None:
        """Make it what computing it as a whole would give; where logs and counters stand has been read.

        Where a plugin raises, it stays stale, and the same rows are worked out again next time.
        """
        self.used = memory.turn
        moment, steady = memory.moments[self.follows], memory.steady
        if self.verified == moment:
            return
        is_steady = self._steady == steady  # then so are the inputs that follow nothing but nodes
        for view in self.inputs:
            if view.follows or not is_steady:
                view.bring_up_to_date(memory, asking)
        rows, sources = None, None
        # While the sum of all counters and epochs has not grown, none of them has; only else are they compared.
        if self._compared_at != steady + memory.epochs:
            sources = self._present_sources(memory)
        if sources is None or sources == self._sources:
            rows = memory.changed_rows(self._positions, self.follows)
        if rows is None or (rows.rows and not self.compute_rows(memory, asking, rows)):
            sources = sources or self._present_sources(memory)
            self.compute_all(memory, asking)
            self._sources = sources
            self.changed_as_a_whole(memory)
            if not self.lasts():
                self.verified = self._steady = self._compared_at = NEVER
                self._sources = None
                return
        self._positions = memory.at
        self._steady = steady
        self._compared_at = steady + memory.epochs
        self.verified = moment

    def changed_as_a_whole(self, memory: "Memory") -> None:
        """Let what is made of it be computed as a whole, and count what it takes up."""
        memory.epochs += 1
        self.epoch = memory.epochs
        if self.key is not None:
            memory.keep(self)

    def _present_sources(self, memory: "Memory") -> list[Hashable]:
        return [memory.table.capacity, *[view.epoch for view in self.inputs], *self.counters(memory)]

    def drop(self) -> None:
        """Let go of all that was computed; whoever still holds the view has it computed again."""
        self._forget()
        self.release()

    @property
    def height(self) -> int:
        """How many views lie one below the other, itself the uppermost."""
        return 1 + max([view.height for view in self.inputs], default=0)

    # -- what a subclass says --

    def counters(self, memory: "Memory") -> Iterable[Hashable]:
        """Return what makes all of it stale when it has changed, besides the inputs and the size of the table."""
        return ()

    def compute_all(self, memory: "Memory", asking: Any) -> None:
        """Compute all of it."""
        raise NotImplementedError

    def compute_rows(self, memory: "Memory", asking: Any, rows: ChangedRows) -> bool:
        """Work out some rows again; return False if all has to be computed instead."""
        raise NotImplementedError

    def lasts(self) -> bool:
        """Say whether it may be taken for up to date later; False if it, or what it is made of, must be asked anew."""
        return all([view.verified != NEVER for view in self.inputs])  # noqa: C419 (a list is faster)

    def release(self) -> None:
        """Let go of the arrays."""
        raise NotImplementedError

    def nbytes(self) -> int:
        """Return how many bytes the arrays take up."""
        raise NotImplementedError


class Memory:
    """The logs and counters that views follow, and a bounded store of views."""

    def __init__(
        self,
        cache: Cache,
        objects: ObjectStore,
        nominator: Nominator,
        *,
        enabled: bool = True,
        max_bytes: int | None = None,
    ) -> None:
        self.enabled = enabled
        self.max_bytes = MAX_BYTES if max_bytes is None else max_bytes
        self.table: NodeTable = cache.table
        """The table that the views are over."""
        self._cache = cache
        self._objects = objects
        self._named = nominator.changes
        self._reservations: dict[str, int] = {}
        self._reserved = 0
        self._views: dict[Hashable, View] = {}
        self._kept: dict[View, None] = {}
        """As in `_young`, views come after what they are made of: that is kept before them, and goes after them."""
        self._bytes = 0
        self._known: Recent[View, View] = Recent(KNOWN_AT_MOST)
        self._young: list[View] = []
        self._young_bytes = 0
        self.turn = 1
        """How many attempts have begun."""
        self.epochs = 0
        """How often a view was computed as a whole."""
        self.moments: Positions = NOWHERE
        self._changed: tuple[dict[Positions, ChangedRows | None], ...] = ()
        self.read()

    def __len__(self) -> int:
        return len(self._kept)

    # -- what views follow --

    def read(self) -> None:
        """Read where logs and counters stand.

        All of them only ever grow, so their sum stands for all of them: while it is the same, each is.
        """
        table = self.table
        nodes, pods, nominations = table.node_log.position, table.pod_log.position, self._named.position
        counters = table.capacity + self._reserved + self._objects.changes + self._cache.index.terms_version
        moment = nodes + counters + pods + nominations
        if moment == self.moments[NOMINATIONS]:
            return
        self.at = nodes, pods, nominations
        self.steady = steady = nodes + counters
        """Stands for everything that may have changed but pods and nominations."""
        self.moments = steady, steady + pods, moment
        """For each of the logs that are followed, what stands for everything that may have changed."""
        self._changed = {}, {}, {}

    def changed_rows(self, since: Positions, follows: int) -> ChangedRows | None:
        """Return the rows that the logs that are followed name since some positions; None if all are better
        computed.
        """
        # What was brought up to date together stands at the same positions, so one answer serves all of it.
        known = self._changed[follows]
        if since not in known:
            if len(known) > MAX_POSITIONS:
                known.clear()
            known[since] = self._rows_since(since, follows)
        return known[since]

    def _rows_since(self, since: Positions, follows: int) -> ChangedRows | None:
        table = self.table
        by_nodes: list[int] | None = table.node_log.since(since[NODES])
        by_pods: list[int] | None = table.pod_log.since(since[PODS]) if follows else []
        names: list[str] | None = self._named.since(since[NOMINATIONS]) if follows == NOMINATIONS else []
        if by_nodes is None or by_pods is None or names is None:
            return None
        rows = by_nodes or by_pods
        if names or (by_nodes and by_pods):
            row_of = table.row_of
            rows = sorted({*by_nodes, *by_pods, *(row_of[name] for name in names if name in row_of)})
        return ChangedRows(rows) if len(rows) * REPAIR_AT_MOST <= table.capacity else None

    @property
    def version_beside_rows(self) -> int:
        """Grows with each change that no row log names: of objects, of namespace labels, of running pods' terms."""
        return self._objects.changes + self._cache.index.terms_version

    def note_reservation(self, plugin: str) -> None:
        """Note that a plugin's own reservations have changed."""
        self._reserved += 1
        self._reservations[plugin] = self._reservations.get(plugin, 0) + 1

    def reservations(self, plugin: str) -> int:
        """Return how often a plugin's own reservations have changed."""
        return self._reservations.get(plugin, 0)

    def version_of(self, kind: str) -> int:
        """Return how often objects of a kind have changed."""
        return self._objects.version(kind)

    @property
    def nodes(self) -> int:
        """How often nodes have changed."""
        return self.at[NODES]

    @property
    def pods_anywhere(self) -> int:
        """How often pods have come, gone or changed, wherever that was."""
        return self._cache.index.version

    # -- what is kept --

    def get(self, key: Hashable) -> Any:
        """Return the view that is kept under a key, or None; with `enabled` off, always None."""
        return self._views.get(key) if self.enabled else None

    def add(self, key: Hashable, view: V, key_bytes: int = 0) -> V:
        """Let a new view be kept under a key once it has been computed; return it."""
        if self.enabled:
            view.key, view.key_bytes = key, key_bytes
        return view

    def view(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the view of a key, a new one if none is kept."""
        found: V | None = self.get(key)
        return self.add(key, make()) if found is None else found

    def bring(self, view: V, asking: Any = None) -> V:
        """Bring a view up to date, and return it."""
        self.read()
        view.bring_up_to_date(self, asking)
        return view

    def keep(self, view: View) -> None:
        """Keep a view that was computed as a whole, until there is no room for it."""
        size = VIEW_BYTES + view.key_bytes + view.nbytes()
        self._bytes += size - view.held
        if not view.held:
            # Where another was made under its key while this one was forgotten, both are right, and both may go.
            self._kept[view] = None
            self._views[view.key] = view
            if not view.born:
                view.born = self.turn
                self._young.append(view)
                self._young_bytes += size
        view.held = size

    def begin_turn(self) -> None:
        """Begin an attempt: arrays that were brought up to date before are not read any more, so views may go."""
        self.turn += 1
        if self._young_bytes > YOUNG_BYTES:
            self._drop_once_used()
        if self._bytes > self.max_bytes:
            self._make_room()

    def _drop_once_used(self) -> None:
        """Drop what was asked for in the turn in which it came and never again; the younger half has time left.

        Once it is asked for after all, it is kept like any other. As everywhere, what a view that is kept is made of is
        kept: an input counts as asked for when the view is.
        """
        youngest = self._young[len(self._young) // 2].born
        old = [view for view in self._young if view.born <= youngest]
        self._young = [view for view in self._young if view.born > youngest]
        self._young_bytes = sum([view.held for view in self._young])
        for view in reversed(old):
            if view.held and view.used == view.born:
                self._forget(view)
                if not view.inputs:
                    self._note_known(view)
            else:
                self._use_inputs(view)

    def _note_known(self, view: View) -> None:
        """Remember that a view was asked for: what is made of it is made again."""
        self._views[view.key] = view
        for other in self._known.put(view, view, view.key_bytes):
            if not other.held and self._views.get(other.key) is other:
                del self._views[other.key]

    def _make_room(self) -> None:
        """Drop the views that were asked for least recently, until a quarter of the room is free.

        What a view that is kept is made of is kept: inputs count as asked for with it, and go after it.
        """
        for view in reversed(self._kept):
            self._use_inputs(view)
        for view in sorted(self._kept, key=lambda view: (view.used, -view.height)):
            if self._bytes <= self.max_bytes * 3 // 4:
                break
            self._forget(view)

    def _use_inputs(self, view: View) -> None:
        for source in view.inputs:
            source.used = max(source.used, view.used)

    def clear(self) -> None:
        """Forget everything."""
        for view in [*self._kept]:
            self._forget(view)

    def _forget(self, view: View) -> None:
        del self._kept[view]
        if self._views.get(view.key) is view:
            del self._views[view.key]
        self._bytes -= view.held
        view.held = 0
        view.drop()

    @contextmanager
    def switched(self, *, on: bool) -> Iterator[None]:
        """Turn remembering on or off for the length of a `with` block; what is kept stays."""
        before, self.enabled = self.enabled, on
        try:
            yield
        finally:
            self.enabled = before
