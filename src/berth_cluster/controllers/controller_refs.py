"""Whose an object is: workloads adopt what they select and nobody controls, and release what they no longer select.

Used by the controllers of workloads; each asks for `claim` before it counts what it has. Upstream: ControllerRefManager
in pkg/controller.
"""

from collections.abc import Callable, Iterable, Iterator

from berth.api.selectors import Selector
from berth_cluster.apimachinery.meta import (
    Object,
    controller_reference,
    int_of,
    is_being_deleted,
    key_of,
    labels_of,
    new_controller_reference,
    owner_references,
    uid_of,
    with_metadata,
    without_finalizer,
)
from berth_cluster.apimachinery.selection import selector_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.index import ObjectChange


class ControllerRefManager:
    """Adopts and releases for all owners of one kind; what is adopted also gets `finalizer`, if there is one."""

    __slots__ = ("_adopters", "_api_version", "_child", "_client", "_finalizer", "_index", "_kind", "_selectors")

    def __init__(self, client: Client, api_version: str, kind: str, child: str = "Pod", finalizer: str = "") -> None:
        self._client = client
        self._index = client.index
        self._api_version = api_version
        self._kind = kind
        self._child = child
        self._finalizer = finalizer
        self._adopters: set[str] = set()  # keys of owners for which there may be orphans
        self._selectors: dict[str, dict[str, Selector]] = {}  # of all owners, by namespace and key

    def note(self, change: ObjectChange) -> Iterator[str]:
        """Keep in mind a change of an owner or of an orphan; yields the keys of owners that may adopt the orphan."""
        namespace = change.obj["metadata"].get("namespace", "")
        if change.kind == self._kind:
            self._note_owner(change, namespace)
        elif change.kind == self._child and change.type != "DELETED" and may_be_adopted_now(change):
            for owner, selector in self._selectors.get(namespace, {}).items():
                if selector.matches(labels_of(change.obj)):
                    self._adopters.add(owner)
                    yield owner

    def _note_owner(self, change: ObjectChange, namespace: str) -> None:
        key, selectors = key_of(change.obj), self._selectors.setdefault(namespace, {})
        if change.type == "DELETED":
            self._adopters.discard(key)
            selectors.pop(key, None)
            if not selectors:
                del self._selectors[namespace]
        elif change.old is None or _generation(change.old) != _generation(change.obj):
            self._adopters.add(key)
            selectors[key] = selector_of(change.obj)

    def claim(
        self, owner: Object, owned: Iterable[Object], fits: Callable[[Object], bool] = lambda _child: True
    ) -> None:
        """Release those of `owned` that the selector no longer matches, and adopt the orphans that it does.

        Only an orphan that `fits` is adopted. An owner that is being deleted claims nothing.
        """
        selector = selector_of(owner)
        for child in owned:
            if not selector.matches(labels_of(child)):
                kept = [one for one in owner_references(child) if one["uid"] != uid_of(owner)]
                self._client.update(
                    self._child, without_finalizer(with_metadata(child, ownerReferences=kept), self._finalizer)
                )
        if key_of(owner) not in self._adopters:
            return
        self._adopters.discard(key_of(owner))
        for child in self._index.orphans(self._child, owner["metadata"]["namespace"]):
            if selector.matches(labels_of(child)) and not is_being_deleted(child) and fits(child):
                owners = [*owner_references(child), new_controller_reference(owner, self._api_version, self._kind)]
                held = [*(child["metadata"].get("finalizers") or []), *filter(None, [self._finalizer])]
                self._client.update(self._child, with_metadata(child, ownerReferences=owners, finalizers=held))


def _generation(obj: Object) -> int:
    return int_of(obj["metadata"], "generation")


def controllers_of(change: ObjectChange, kind: str) -> Iterator[tuple[str, str]]:
    """Key and uid of the owners of that kind that control what has changed, or did so before."""
    for obj in (change.obj, change.old):
        reference = controller_reference(obj) if obj is not None else None
        if reference is not None and reference["kind"] == kind:
            yield f"{change.obj['metadata']['namespace']}/{reference['name']}", reference["uid"]
        if change.old is None or owner_references(change.old) == owner_references(change.obj):
            return


def may_be_adopted_now(change: ObjectChange) -> bool:
    """An object without a controller came up, or lost its controller, or got other labels."""
    if controller_reference(change.obj) is not None or not labels_of(change.obj):
        return False
    old = change.old
    return old is None or controller_reference(old) is not None or labels_of(old) != labels_of(change.obj)
