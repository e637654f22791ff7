"""What a controller is, and the base of those that work through a queue of keys.

The manager hands every change of the store to `handle`, and calls `step` as long as somebody has something to
do. A controller never waits, never reads a clock and never keeps state that cannot be rebuilt from the store.
"""

import logging
from typing import Protocol

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.workqueue import WorkQueue

logger = logging.getLogger(__name__)


class Controller(Protocol):
    """Something that makes the world match what the objects in the store ask for."""

    def handle(self, change: ObjectChange) -> None:
        """Note what a change gives to do; must not write to the store."""

    def pending(self, now_s: float) -> int:
        """How many pieces of work there are now."""

    def step(self, now_s: float) -> bool:
        """Do one piece of work; False when there is none now."""

    def next_deadline(self) -> float | None:
        """When there will be something to do: 0.0 for at once, None for not before the next change."""


class KeyedController:
    """A controller whose work is a queue of keys, each looked at by `sync`."""

    __slots__ = ("queue",)

    name = "controller"

    def __init__(self) -> None:
        self.queue = WorkQueue()

    def sync(self, key: str, now_s: float) -> None:
        """Make the world match the object of that key; raising StoreError means try again later."""
        raise NotImplementedError

    def pending(self, now_s: float) -> int:
        """How many keys wait to be looked at."""
        return self.queue.ready_count(now_s)

    def step(self, now_s: float) -> bool:
        """Look at the next key."""
        key = self.queue.pop(now_s)
        if key is None:
            return False
        try:
            self.sync(key, now_s)
        except StoreError as error:
            delay_s = self.queue.retry(key, now_s)
            logger.info("%s: %s: %s; trying again in %.3f s", self.name, key, error, delay_s)
        else:
            self.queue.forget(key)
        return True

    def next_deadline(self) -> float | None:
        """When the next key is due."""
        return self.queue.next_deadline()
