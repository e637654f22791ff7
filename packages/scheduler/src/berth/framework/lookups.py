"""Records what a plugin looks at while it answers: lookups through the views and the handle that it was given.

If promises are checked (`berth.engine.promise_check`), a plugin gets a handle that records lookups, and nodes as
`WatchedView`. Nothing is recorded outside a check. What a plugin has stored itself, or reads from columns, is not seen
here.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import msgspec

from berth.framework.promises import Dependencies, Dependency, Objects
from berth.state.node_view import NodeView

Fact = Dependency | Objects

COVERING = MappingProxyType(
    {Dependency.PODS_ON_NODE: (Dependency.PODS_ON_NODE, Dependency.PODS_ANYWHERE), Dependency.NODE: tuple(Dependency)}
)
"""Which declared dependencies cover a lookup, besides the same one. Node objects are always covered."""


class Lookups:
    """What one plugin has looked up since `noting` began: facts, each with a description of the lookup."""

    __slots__ = ("_found", "_is_noting")

    def __init__(self) -> None:
        self._found: dict[Fact, str] = {}
        self._is_noting = False

    def note(self, fact: Fact, words: str) -> None:
        """Record a lookup."""
        if self._is_noting:
            self._found.setdefault(fact, words)

    @contextmanager
    def noting(self) -> Iterator[dict[Fact, str]]:
        """Record lookups from here on in the yielded map."""
        self._found, self._is_noting = {}, True
        try:
            yield self._found
        finally:
            self._is_noting = False


def covered(fact: Fact, promised: Dependencies) -> bool:
    """Say whether the declared dependencies cover something that was looked up."""
    if isinstance(fact, Objects):
        return any(isinstance(each, Objects) and set(fact.kinds) <= set(each.kinds) for each in promised)
    return any(each in promised for each in COVERING.get(fact, (fact,))) or fact is Dependency.NODE


class WatchedView(NodeView, frozen=True, eq=False, kw_only=True):
    """A node that records whether its pods are looked at, singly or by what they request together."""

    lookups: Lookups

    def __getattribute__(self, name: str) -> Any:
        if name in ("pods", "pod_count", "requested", "scoring_requested"):
            object.__getattribute__(self, "lookups").note(Dependency.PODS_ON_NODE, f"node.{name}")
        return object.__getattribute__(self, name)

    @classmethod
    def of(cls, view: NodeView, lookups: Lookups) -> "WatchedView":
        """Return a view that records what is read."""
        return cls(**msgspec.structs.asdict(view), lookups=lookups)


class _Watched:
    """A part of a handle; whatever is read or called is recorded first."""

    __slots__ = ("_note", "_of")

    def __init__(self, of: Any, note: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._of = of
        self._note = note

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if not callable(value):
            self._note(name, ())
            return value

        def call(*arguments: Any, **more: Any) -> Any:
            self._note(name, (*arguments, *more.values()))
            return value(*arguments, **more)

        return call

    def __len__(self) -> int:
        self._note("", ())
        return len(self._of)

    def __iter__(self) -> Iterator[Any]:
        self._note("", ())
        return iter(self._of)


class WatchedHandle:
    """A handle that records its owner's lookups."""

    __slots__ = ("_lookups", "_of", "_seen")

    def __init__(self, of: Any, lookups: Lookups) -> None:
        self._of = of
        self._lookups = lookups
        self._seen: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if name not in _WATCHED and name not in ("follow", "poll", "nodes", "objects", "now", "wall_clock"):
            return value
        if name not in self._seen:
            self._seen[name] = self._watched(name, value)
        return self._seen[name]

    def _watched(self, name: str, value: Any) -> Any:
        note = self._lookups.note
        if name in ("follow", "poll"):
            return lambda *asked, **more: self._followed(value(*asked, **more), *asked, **more)
        if name in ("nodes", "now", "wall_clock"):
            fact = _ANYWHERE if name == "nodes" else Dependency.UNKNOWN
            return lambda: (note(fact, f"handle.{name}"), value())[1]
        if name == "objects":
            return _Watched(value, lambda what, asked: self._note_objects(what, asked))
        whole, facts = _WATCHED[name]

        def noted(what: str, _asked: tuple[Any, ...]) -> None:
            fact = facts.get(what, whole)
            if fact is not None:
                note(fact, f"handle.{name}.{what}".rstrip("."))

        return _Watched(value, noted)

    def _followed(self, of: Any, resource: Any, node_of: Any = None) -> _Watched:
        # Objects about one node are treated like the pods there.
        fact = _kind(resource.name) if node_of is None else Dependency.PODS_ON_NODE
        return _Watched(of, lambda _what, _asked: self._lookups.note(fact, resource.name))

    def _note_objects(self, what: str, asked: tuple[Any, ...]) -> None:
        kinds: Iterable[str] = asked[:1] if asked and isinstance(asked[0], str) else asked[0] if asked else ()
        for kind in kinds:
            self._lookups.note(_kind(kind), f"handle.objects.{what}({kind!r})")


def _kind(name: str) -> Objects:
    return Objects((name,))


_ANYWHERE = Dependency.PODS_ANYWHERE
_WATCHED: dict[str, tuple[Fact | None, dict[str, Fact]]] = {
    "cache": (None, dict.fromkeys(("index", "state_of", "states"), _ANYWHERE)),
    "pod_groups": (_ANYWHERE, {}),
    **dict.fromkeys(("nominator", "evictions", "waiting", "rng"), (Dependency.UNKNOWN, {})),
}
"""What is looked up through the parts of a handle: whatever is read, and by single names. Columns are not distinguished
by what is read, so the table is no fact of its own.
"""
