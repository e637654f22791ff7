"""Drives the controllers: hands them every change, and lets them work until nobody has anything to do.

The manager subscribes to a store and is then driven from outside with the time: by the live process through an
asyncio pump (`berth_cluster.embedded`), by a simulator or a test in virtual time. It holds no timer and no
thread; `next_deadline` says when to come back.
"""

from collections.abc import Sequence

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import RESOURCE_TYPES, ResourceType
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import Controller
from berth_cluster.controllers.index import ObjectChange, ObjectIndex
from berth_cluster.storage.store import Store

MAX_STEPS = 10_000_000


class ControllerManager:
    """The controllers of one cluster and the index they share."""

    __slots__ = ("_controllers", "_left", "_turn", "client", "index")

    def __init__(self, store: Store) -> None:
        self.index = ObjectIndex()
        self.client = Client(store, self.index)
        self._controllers: list[Controller] = []
        self._turn = -1
        self._left = 0
        for resource in RESOURCE_TYPES:
            for obj in store.objects(resource):
                self.index.apply(ObjectChange("ADDED", resource.kind, obj, None))
        store.subscribe(self._on_change)

    def add(self, controllers: Sequence[Controller]) -> None:
        """Take controllers on, and tell them of everything that is there already."""
        self._controllers.extend(controllers)
        for change in self.index.everything():
            for controller in controllers:
                controller.handle(change)

    def step(self, now_s: float) -> bool:
        """One piece of work; False when all are quiet.

        A controller's turn lasts for what it had to do when the turn began. What comes up meanwhile waits for its
        next turn, so that a burst is taken together and nobody runs ahead of the others.
        """
        for _ in range(len(self._controllers) + 1):
            if self._left > 0 and self._controllers[self._turn].step(now_s):
                self._left -= 1
                return True
            self._turn = (self._turn + 1) % len(self._controllers)
            self._left = self._controllers[self._turn].pending(now_s)
        return False

    def run_until_quiet(self, now_s: float) -> int:
        """Work until nobody has anything to do at this time; returns the number of steps."""
        steps = 0
        while self.step(now_s):
            steps += 1
            if steps >= MAX_STEPS:
                raise RuntimeError(f"the controllers did not come to rest within {MAX_STEPS} steps at one instant")
        return steps

    def next_deadline(self) -> float | None:
        """When somebody will have something to do (0.0: now), or None while nothing changes."""
        deadlines = [controller.next_deadline() for controller in self._controllers]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _on_change(self, change_type: str, resource: ResourceType, obj: Object, old: Object | None) -> None:
        change = ObjectChange(change_type, resource.kind, obj, old)
        self.index.apply(change)
        for controller in self._controllers:
            controller.handle(change)
