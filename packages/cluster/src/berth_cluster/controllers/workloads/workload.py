"""What controllers of workloads have in common: what they hear of, whose an object is, making and deleting it.

Workloads adopt what they select and nobody controls, and release what they no longer select; each controller asks for
`claim` before it counts what it has. Upstream: ControllerRefManager and RealPodControl in pkg/controller.
"""

from collections.abc import Callable, Iterable, Iterator

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    controller_reference,
    generation_of,
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
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.selecting import SelectorBook


class WorkloadController(KeyedController):
    """A controller of workloads of one kind, which own children of another."""

    __slots__ = ("_adopters", "_selectors")

    kind = ""
    child = "Pod"
    finalizer = ""
    """What is owned is kept by this finalizer, if there is one, even where no workloads are left."""
    also_hears: tuple[str, ...] = ()
    created, refused, deleted = "Created pod: {name}", "Error creating: {error}", "Deleted pod: {name}"
    """The words of events on a workload whose children come and go."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._adopters: set[str] = set()  # keys of workloads for which there may be orphans
        self._selectors = SelectorBook()

    @property
    def kinds(self) -> frozenset[str]:  # type: ignore[override]
        """The workloads, what they own, and what else the controller follows."""
        return frozenset({self.kind, self.child, *self.also_hears})

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Look at changed workloads, at the owners of what has changed, and at those that might adopt an orphan."""
        if change.kind == self.kind:
            self._note(change)
            if change.type == "DELETED":
                self.forget(change.obj)
            else:
                self.look_at(change.obj)
        elif change.kind == self.child and (self.finalizer or self.index.all_of(self.kind)):
            for key, uid in _controllers_of(change, self.kind):
                self.look_at_owner(key, uid, change.obj)
            if change.type != "DELETED" and _may_be_adopted_now(change):
                for key in self._selectors.selecting(change.obj):
                    self._adopters.add(key)
                    self.look_up(self.kind, key)

    def forget(self, workload: Object) -> None:
        """Drop what is known of a workload that is gone."""

    def look_at_owner(self, key: str, _uid: str, _child: Object) -> None:
        """Have the workload looked at that controls what has changed, or did so before."""
        self.look_up(self.kind, key)

    def _note(self, change: ObjectChange) -> None:
        if change.type == "DELETED":
            self._adopters.discard(key_of(change.obj))
            self._selectors.drop(change.obj)
        elif change.old is None or generation_of(change.old) != generation_of(change.obj):
            self._adopters.add(key_of(change.obj))
            self._selectors.put(change.obj, selector_of(change.obj))

    # --- whose an object is ----------------------------------------------------------------------------------

    def owned(self, workload: Object) -> list[Object]:
        """What a workload controls."""
        return self.index.controlled(uid_of(workload), self.child)

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
                released = without_finalizer(with_metadata(child, ownerReferences=kept), self.finalizer)
                self.client.update(self.child, released)
        if key_of(owner) not in self._adopters:
            return
        self._adopters.discard(key_of(owner))
        for child in self.index.orphans(self.child, owner["metadata"]["namespace"]):
            if selector.matches(labels_of(child)) and not is_being_deleted(child) and fits(child):
                owners = [*owner_references(child), new_controller_reference(owner)]
                held = [*(child["metadata"].get("finalizers") or []), *filter(None, [self.finalizer])]
                self.client.update(self.child, with_metadata(child, ownerReferences=owners, finalizers=held))

    # --- making and deleting ---------------------------------------------------------------------------------

    def create_children(self, owner: Object, children: Iterable[Object], now_s: float) -> list[Object]:
        """Create children until one is refused, which is raised."""
        made = []
        for child in children:
            try:
                made.append(self.client.create(self.child, child))
            except StoreError as error:
                self._say(self.refused, owner, child, "FailedCreate", now_s, error=error)
                raise
            self._say(self.created, owner, made[-1], "SuccessfulCreate", now_s)
        return made

    def delete_children(self, owner: Object, children: Iterable[Object], now_s: float) -> None:
        """Delete children."""
        for child in children:
            self.client.delete(self.child, child)
            self._say(self.deleted, owner, child, "SuccessfulDelete", now_s)

    def _say(
        self, words: str, owner: Object, child: Object, reason: str, now_s: float, error: StoreError | None = None
    ) -> None:
        names = {"name": child["metadata"].get("name", ""), "owner": owner["metadata"]["name"]}
        self.tell(owner, reason, words.format(error=error, **names), now_s, warns=error is not None)


def _controllers_of(change: ObjectChange, kind: str) -> Iterator[tuple[str, str]]:
    """Key and uid of the owners of that kind that control what has changed, or did so before."""
    for obj in (change.obj, change.old):
        reference = controller_reference(obj) if obj is not None else None
        if reference is not None and reference["kind"] == kind:
            yield f"{change.obj['metadata']['namespace']}/{reference['name']}", reference["uid"]
        if change.old is None or owner_references(change.old) == owner_references(change.obj):
            return


def _may_be_adopted_now(change: ObjectChange) -> bool:
    """An object without a controller came up, or lost its controller, or got other labels."""
    if controller_reference(change.obj) is not None or not labels_of(change.obj):
        return False
    old = change.old
    return old is None or controller_reference(old) is not None or labels_of(old) != labels_of(change.obj)
