"""Lists: which state of the store a request means, which of its objects, and how many of them at a time.

Both faces of the store, HTTP and the in-process transport, ask here. The rules are those of upstream's watch cache:
without a resourceVersion a list shows the present; "0" asks for whatever the server has at hand, and a `limit` is then
ignored; a version together with a limit, or with `resourceVersionMatch=Exact`, means exactly that version.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.selection import Matcher, make_matcher
from berth_cluster.serving import continuation
from berth_cluster.serving.requests import ListOptions
from berth_cluster.storage.api_versions import view_of
from berth_cluster.storage.metadata import parse_revision
from berth_cluster.storage.store import Store
from berth_cluster.storage.watch import Entry

SLICE = 2000  # entries that a list looks at before it lets others have their turn
_TOO_LARGE_RETRY_S = 1


class Page(NamedTuple):
    """One page of a list."""

    entries: list[Entry]
    revision: int
    continue_token: str  # empty at the end
    remaining: int | None  # how many objects follow; None where that is not known


class Listing:
    """One list being made: `slices` does the work bit by bit, and `page` is there when it is done."""

    __slots__ = ("_after", "_candidates", "_kind", "_limit", "_matches", "page", "revision")

    def __init__(self, store: Store, kind: ResourceType, namespace: str, options: ListOptions) -> None:
        """Take the snapshot; refused where the options are, or the version is too old or not there yet."""
        after = continuation.decode_token(options.continue_token) if options.continue_token else None
        self._matches: Matcher | None = make_matcher(kind, options.label_selector, options.field_selector)
        self._kind = kind
        self._limit = 0 if options.resource_version == "0" and after is None else options.limit
        self._after = after
        self.revision = after.revision if after else list_revision(store.revision, options)
        place = (after.namespace, after.name) if after else None
        self._candidates = store.snapshot(kind, namespace, self.revision, place)
        self.page: Page | None = None

    def slices(self) -> Iterator[None]:
        """Filter the snapshot; yields between two slices of work."""
        found: list[Entry] = []
        candidates, matches, limit = self._candidates, self._matches, self._limit
        view = view_of(self._kind)
        if matches is None and view is None:
            found = candidates[: limit + 1] if limit else candidates
        else:
            for start in range(0, len(candidates), SLICE):
                part: Iterable[Entry] = candidates[start : start + SLICE]
                if view is not None:
                    part = map(view.entry, part)
                found.extend(part if matches is None else [entry for entry in part if matches(entry.obj)])
                if limit and len(found) > limit:
                    break
                yield
        self.page = self._cut(found)

    def _cut(self, found: list[Entry]) -> Page:
        if not self._limit or len(found) <= self._limit:
            return Page(found, self.revision, "", None)
        entries = found[: self._limit]
        token = continuation.encode_token(continuation.Position(self.revision, *entries[-1].place))
        # Upstream says how many objects remain only if no selector is in use.
        remaining = len(self._candidates) - self._limit if self._matches is None else None
        return Page(entries, self.revision, token, remaining)

    def whole(self) -> Page:
        """The page, made in one go."""
        for _ in self.slices():
            pass
        assert self.page is not None
        return self.page


def list_revision(current: int, options: ListOptions) -> int:
    """The revision that a list without a continue token shows."""
    asked = parse_revision(options.resource_version)
    refuse_future(current, asked)
    is_exact = options.resource_version_match == "Exact" or (not options.resource_version_match and options.limit > 0)
    return asked if asked and is_exact else current


def refuse_future(current: int, asked: int) -> None:
    """504 for a version that this server has not reached yet."""
    if asked <= current:
        return
    message = f"Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    raise StoreError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": _TOO_LARGE_RETRY_S})
