"""Drives the controllers: passes every change on to them, and lets them work until there is nothing left to do.

The manager subscribes to a store and is then driven from outside, which also tells it the time: in a live process by
`pump`, in simulations and tests by a loop in virtual time. It has no timer and no thread; `next_deadline` says when to
come back.
"""

from collections.abc import Sequence

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import Controller
from berth_cluster.controllers.index import ObjectChange, ObjectIndex
from berth_cluster.storage.store import Store

MAX_STEPS = 10_000_000


class ControllerManager:
    """The controllers of one cluster and the index they share."""

    __slots__ = ("_controllers", "_hearing", "_left", "_turn", "client", "index")

    def __init__(self, store: Store) -> None:
        self.index = ObjectIndex()
        self.client = Client(store, self.index)
        self._controllers: list[Controller] = []
        self._hearing: dict[str, list[Controller]] = {}  # by kind, filled as kinds come up
        self._turn = -1
        self._left = 0
        for resource in store.custom.all_types():
            for obj in store.objects(resource):
                self.index.apply(ObjectChange("ADDED", resource.unique_kind, obj, None))
        store.subscribe(self._on_change)

    def add(self, controllers: Sequence[Controller]) -> None:
        """Add controllers, and show them everything that is there already."""
        self._controllers.extend(controllers)
        self._hearing.clear()
        for change in self.index.everything():
            for controller in controllers:
                if _hears_of(controller, change.kind):
                    controller.handle(change)

    def step(self, now_s: float) -> bool:
        """Do one piece of work; False when nobody has any.

        Controllers take turns. A turn lasts for as many pieces of work as the controller had when it began; what comes
        up meanwhile waits for its next turn. So a burst of changes is worked off together, and no controller gets far
        ahead of the others, whose changes it would only have to look at again.
        """
        for _ in range(len(self._controllers) + 1):
            if self._left > 0 and self._controllers[self._turn].step(now_s):
                self._left -= 1
                return True
            self._turn = (self._turn + 1) % len(self._controllers)
            self._left = self._controllers[self._turn].pending(now_s)
        return False

    def run_until_quiet(self, now_s: float) -> int:
        """Work until there is nothing left to do at this time; returns the number of steps."""
        steps = 0
        while self.step(now_s):
            steps += 1
            if steps >= MAX_STEPS:
                raise RuntimeError(f"the controllers did not come to rest within {MAX_STEPS} steps at one instant")
        return steps

    def next_deadline(self) -> float | None:
        """When there will be work, in seconds since the epoch (0.0 means now); None if not before the next change."""
        deadlines = [controller.next_deadline() for controller in self._controllers]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _on_change(self, change_type: str, resource: ResourceType, obj: Object, old: Object | None) -> None:
        change = ObjectChange(change_type, resource.unique_kind, obj, old)
        self.index.apply(change)
        hearing = self._hearing.get(change.kind)
        if hearing is None:
            hearing = [one for one in self._controllers if _hears_of(one, change.kind)]
            self._hearing[change.kind] = hearing
        for controller in hearing:
            controller.handle(change)


def _hears_of(controller: Controller, kind: str) -> bool:
    kinds: frozenset[str] | None = getattr(controller, "kinds", None)
    return kinds is None or kind in kinds
